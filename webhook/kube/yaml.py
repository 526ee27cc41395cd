"""JSON and YAML documents, as kubectl reads and writes them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import orjson
import yaml

_READER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_WRITER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_MAX_DEPTH = 200


def parse_documents(text: bytes) -> Iterator[Any]:
    """Every document in `text`: JSON values one after another, or YAML. Empty documents are left out.

    Raises ValueError, in one line, where it is neither.
    """
    if text.lstrip()[:1] in (b"{", b"["):
        try:
            yield from _json(text)
            return
        except (ValueError, RecursionError):
            pass  # {a: b} is YAML
    try:
        if problem := unsafe(text, _MAX_DEPTH, aliases=True):
            raise ValueError(problem)
        yield from (document for document in yaml.load_all(text, Loader=_Reader) if document is not None)
    except (yaml.YAMLError, LookupError, AttributeError) as error:
        raise ValueError(" ".join(str(error).split())) from None


def _json(text: bytes) -> list[Any]:
    try:
        return [orjson.loads(text)]
    except orjson.JSONDecodeError:
        content, documents, decoder = text.decode().strip(), [], json.JSONDecoder(parse_constant=_refuse)
    position = 0
    while position < len(content):
        value, end = decoder.raw_decode(content, position)
        documents.append(value)
        position = end + len(content[end:]) - len(content[end:].lstrip())
    return documents


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def unsafe(text: str | bytes, max_depth: int, *, aliases: bool, max_values: int | None = None) -> str | None:
    """Why this YAML must not be loaded: line and reason. Raises yaml.YAMLError where it is none. `max_values`: values.

    The parser's own recursion ends the process where the nesting is deep, and a few nested aliases grow to any size.
    """
    depth = count = 0
    for event in yaml.parse(text, Loader=_READER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        count += isinstance(event, yaml.NodeEvent)
        if max_values is not None and count > max_values:
            return f"line {line_of(event)}: more than {max_values} keys and values are refused"
        if depth > max_depth:
            return f"line {line_of(event)}: more than {max_depth} levels are refused"
        if not aliases and isinstance(event, yaml.AliasEvent):
            return f"line {line_of(event)}: an alias is refused: write it out"
    return None


def line_of(place: yaml.Event | yaml.Node | None) -> int:
    """Counted from 1."""
    mark = place.start_mark if place else None
    return mark.line + 1 if mark else 1


def to_yaml(value: Any) -> str:
    """One document. What kubectl would read as a number or truth value stands in quotes, if it is text."""
    text: str = yaml.dump(value, Dumper=_Writer, sort_keys=False, allow_unicode=True, width=1000)
    return text


# --- where YAML in Python and in Go differ ----------------------------------------------------------------------------
# kubectl (sigs.k8s.io/yaml) knows no dates and no numbers to the base 60, and takes `1e3`, `08` and `y` for what they look like.


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
