"""Reads and writes JSON and YAML documents as kubectl does."""

import json
import re
from collections.abc import Iterator
from itertools import chain
from typing import Any

import orjson
import yaml

_READER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_WRITER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_MAX_DEPTH = 200
_MAX_EXPANDED = 100_000
"""Maximum number of values that the aliases of a file stand for."""
_NO_SPACE = re.compile(r"\S")


def parse_documents(text: bytes) -> Iterator[Any]:
    """All documents in `text`: a sequence of JSON values, or YAML. Empty documents are left out.

    Raises ValueError with a message of one line if `text` is neither.
    """
    if text.lstrip()[:1] in (b"{", b"["):
        try:
            yield from _json(text)
            return
        except (ValueError, RecursionError):
            pass  # it may be YAML: {a: b}
    try:
        if problem := why_unsafe(text, _MAX_DEPTH):
            raise ValueError(problem)
        reader = _Reader(text)
        while reader.check_node():
            node, sizes = reader.get_node(), dict[yaml.Node, int]()
            if _values(node, sizes) - len(sizes) > _MAX_EXPANDED:
                raise ValueError(f"line {line_of(node)}: aliases for more than {_MAX_EXPANDED} values are refused")
            if (document := reader.construct_document(node)) is not None:
                yield document
    except yaml.MarkedYAMLError as error:
        line, problem = mistake_in(error)
        raise ValueError(f"line {line}: {problem}") from None
    except (yaml.YAMLError, LookupError, AttributeError) as error:
        raise ValueError(" ".join(str(error).split())) from None


def items_of(document: Any) -> list[Any]:
    """The objects of a List, or of a typed one as NodeList, whose items have no kind; of anything else the document itself."""
    kind = str(document.get("kind", "")) if isinstance(document, dict) else ""
    if not kind.endswith("List") or not isinstance(document.get("items"), list):
        return [document]
    default = kind.removesuffix("List")
    return [{"kind": default, **item} if default and isinstance(item, dict) else item for item in document["items"]]


def _json(text: bytes) -> list[Any]:
    try:
        return [orjson.loads(text)]
    except orjson.JSONDecodeError:
        content, documents, decoder = text.decode().strip(), [], json.JSONDecoder(parse_constant=_refuse)
    position = 0
    while position < len(content):
        value, end = decoder.raw_decode(content, position)
        documents.append(value)
        following = _NO_SPACE.search(content, end)  # a slice would copy the rest for each document
        position = following.start() if following else len(content)
    return documents


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def why_unsafe(text: str | bytes, max_depth: int, max_values: int | None = None) -> str | None:
    """The line and the reason why this YAML must not be loaded, or None. Raises yaml.YAMLError if it is no YAML.

    `max_values`: maximum number of keys and values; then aliases, which may stand for any number, are refused too.
    Deep nesting would crash the process by the recursion of the parser.
    """
    depth = count = 0
    for event in yaml.parse(text, Loader=_READER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        count += isinstance(event, yaml.NodeEvent)
        if depth > max_depth:
            return f"line {line_of(event)}: more than {max_depth} levels are refused"
        if max_values is not None and count > max_values:
            return f"line {line_of(event)}: more than {max_values} keys and values are refused"
        if max_values is not None and isinstance(event, yaml.AliasEvent):
            return f"line {line_of(event)}: an alias is refused: write it out"
    return None


def _values(node: yaml.Node, sizes: dict[yaml.Node, int]) -> int:
    """The number of values in a node, each alias written out. `sizes`: that of each node so far."""
    if node not in sizes:
        sizes[node] = 1  # of an alias within itself
        parts = chain(*node.value) if isinstance(node, yaml.MappingNode) else node.value
        sizes[node] += sum([_values(part, sizes) for part in parts]) if isinstance(node, yaml.CollectionNode) else 0
    return sizes[node]


def line_of(place: yaml.Event | yaml.Node | None) -> int:
    """The line number of an event or node, from 1."""
    mark = place.start_mark if place else None
    return mark.line + 1 if mark else 1


def mistake_in(error: yaml.MarkedYAMLError) -> tuple[int, str]:
    """The line, and what is wrong there."""
    return error.problem_mark.line + 1 if error.problem_mark else 1, str(error.problem or error.context)


def to_yaml(value: Any) -> str:
    """One document. Strings that kubectl would read as a number or truth value are quoted. If a character is not printable, such
    as U+202E, which turns the text around, all that are not ASCII are escaped."""
    text = _dumped(value, allow_unicode=True)
    return text if text.replace("\n", "").isprintable() else _dumped(value, allow_unicode=False)


def _dumped(value: Any, *, allow_unicode: bool) -> str:
    text: str = yaml.dump(value, Dumper=_Writer, sort_keys=False, allow_unicode=allow_unicode, width=1000)
    return text


# --- differences between YAML in Python and in Go ---------------------------------------------------------------------
# kubectl (sigs.k8s.io/yaml) has no dates and no numbers in base 60. It reads `1e3` and `08` as numbers and `y` as a truth value.


class _Reader(_READER):  # type: ignore[misc]
    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in known if tag.rpartition(":")[2] not in ("timestamp", "int", "float")]
        for first, known in _READER.yaml_implicit_resolvers.items()
    }


_INT = re.compile(r"^[-+]?(0b[01_]+|0o?[0-7_]+|0|[1-9][0-9_]*|0x[0-9a-fA-F_]+)$")
_FLOAT = re.compile(r"^([-+]?([0-9][0-9_]*)(\.[0-9_]*)([eE][-+]?[0-9]+)?|[-+]?\.[0-9]+([eE][-+]?[0-9]+)?)$")
_Reader.add_implicit_resolver("tag:yaml.org,2002:int", _INT, list("-+0123456789"))
_Reader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+.0123456789"))


class _Writer(_WRITER):  # type: ignore[misc]
    pass


_NUMBER = re.compile(
    r"^[-+]?_*(\.[0-9_]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9_]+)?$|^[-+]?_*0_*[bBoOxX][0-9a-fA-F_]+$"
)
_Writer.add_implicit_resolver("tag:yaml.org,2002:float", _NUMBER, list("-+.0123456789"))
_Writer.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^[yYnN]$"), list("yYnN"))


def _text(writer: Any, text: str) -> Any:
    return writer.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Writer.add_representer(str, _text)
