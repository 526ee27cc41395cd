"""The templates of `-o jsonpath=`, as kubectl takes them (k8s.io/client-go util/jsonpath).

`{.items[*].name}`, `{range .items[*]}{.name}{"\\n"}{end}`, `{['a b']}`, `{[0]}`, `{[-1:]}`, `{..name}`, `{.items[?(@.n>1)]}`:
text as it stands, and paths in braces. What a path finds has spaces between. A field that is not there is nothing.
"""

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import orjson

from webhook.errors import BadInput
from webhook.text import printable, quoted

_QUOTED: Final = r'"(?:\\.|[^"\\])*"' + "|" + r"'(?:\\.|[^'\\])*'"
_PART: Final = re.compile(rf"(?P<text>[^{{]+)|{{(?P<item>(?:{_QUOTED}|[^{{}}\"'])*)}}")
_STEP: Final = re.compile(
    rf"(?P<deep>\.\.)?\.?(?P<name>\*|(?:\\.|[\w/:-])+)|(?P<nest>\.\.)?\[(?:(?P<all>\*)|(?P<names>(?:{_QUOTED})(?:,(?:{_QUOTED}))*)"
    r"|(?P<slice>-?\d{0,9}:-?\d{0,9}(?::(?:[1-9]\d{0,8})?)?)|(?P<numbers>-?\d{1,9}(?:,-?\d{1,9})*)|\?\((?P<filter>.*?)\))\]"
)
_OPERAND: Final = rf"(?:{_QUOTED}|@[^=!<>\s]*|[^@=!<>\s\"']+)"
_FILTER: Final = re.compile(rf"\s*(@[^=!<>\s]*|{_OPERAND})\s*(?:(==|!=|<=|>=|<|>)\s*({_OPERAND})\s*)?")
_COMPARED: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_WANTED: Final = (
    'a template of kubectl, for example {.items[*].name} or {range .items[*]}{.name}{"\\n"}{end}; '
    "filters compare two values"
)


class _Range(NamedTuple):
    over: str
    inside: list[Any]


def jsonpath(template: str, document: Any) -> str:
    """What the template says of a document, as kubectl prints it. Raises BadInput for one that is not understood."""
    return "".join(_filled(_parsed(template), document))


def _parsed(template: str) -> list[Any]:
    """The template as a list of texts, paths (a tuple of one) and ranges."""
    if "{" not in template:
        raise _wrong(template)
    stack: list[list[Any]] = [[]]
    at = 0
    while at < len(template):
        match = _PART.match(template, at)
        if match is None:
            raise _wrong(template[at:])
        at, item = match.end(), (match["item"] or "").strip()
        if match["text"]:
            stack[-1].append(match["text"])
        elif item == "end" and len(stack) > 1:
            stack.pop()
        elif item.startswith("range "):
            stack[-1].append(found := _Range(item.removeprefix("range ").strip(), []))
            stack.append(found.inside)
        elif item and item != "end":
            stack[-1].append(_unquoted(item) if re.fullmatch(_QUOTED, item) else (item,))
        else:
            raise _wrong(match[0])
    if len(stack) > 1:
        raise BadInput("jsonpath: saw {range …} without its end, wanted {end} after it")
    return stack[0]


def _filled(parts: Iterable[Any], value: Any) -> Iterator[str]:
    for part in parts:
        if isinstance(part, str):
            yield part
        elif isinstance(part, _Range):
            for each in _found(part.over, value):
                yield from _filled(part.inside, each)
        else:
            yield " ".join(map(_printed, _found(part[0], value)))


def _found(path: str, value: Any) -> list[Any]:
    """All that a path finds in a value."""
    found, at = [value], len(path) - len(path.lstrip("$@"))
    if at > 1 or not (path[at:] == "" or path[at] in ".[" or at == 0):
        raise _wrong(path)
    while at < len(path) and path[at:] != ".":
        match = _STEP.match(path, at)
        if match is None or (at == 0 and path[0] not in ".["):
            raise _wrong(path[at:])
        if match["deep"] or match["nest"]:
            found = [deeper for each in found for deeper in _everywhere(each)]
        found, at = [one for each in found for one in _step(match, each)], match.end()
    return found


def _step(match: re.Match[str], value: Any) -> list[Any]:
    if match["all"] or match["name"] == "*":
        return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    if match["name"] or match["names"]:
        names = (
            [re.sub(r"\\(.)", r"\1", match["name"])]
            if match["name"]
            else map(_unquoted, re.findall(_QUOTED, match["names"]))
        )
        return [value[name] for name in names if isinstance(value, dict) and name in value]
    if not isinstance(value, list):
        return []
    if match["slice"]:
        return value[slice(*[int(each) if each else None for each in match["slice"].split(":")])]
    if match["numbers"]:
        return [value[at] for at in map(int, match["numbers"].split(",")) if -len(value) <= at < len(value)]
    return [each for each in value if _holds(match["filter"], each)]


def _holds(test: str, value: Any) -> bool:
    match = _FILTER.fullmatch(test)
    if match is None:
        raise _wrong(test)
    left = _operand(match[1], value)
    if not match[2]:
        return bool(left)
    right = _operand(match[3], value)
    try:
        return any(_COMPARED[match[2]](a, b) for a in left for b in right)
    except TypeError:  # a number with a text
        return False


def _operand(text: str, value: Any) -> list[Any]:
    if text.startswith("@"):
        return _found(text, value)
    if re.fullmatch(_QUOTED, text):
        return [_unquoted(text)]
    try:
        return [orjson.loads(text)]
    except orjson.JSONDecodeError:
        raise _wrong(text) from None


def _everywhere(value: Any) -> Iterator[Any]:
    yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _everywhere(each)


def _unquoted(text: str) -> str:
    known = {"n": "\n", "t": "\t", "r": "\r"}
    return re.sub(r"\\(.)", lambda match: known.get(match[1], match[1]), text[1:-1])


def _printed(value: Any) -> str:
    """A value on one line: tenants write parts of it."""
    return printable(value if isinstance(value, str) else orjson.dumps(value).decode())


def _wrong(seen: str) -> BadInput:
    return BadInput(f"jsonpath: saw {quoted(seen)}, wanted {_WANTED}")
