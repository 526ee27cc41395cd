"""Reads the decision record in a pod's annotation. `admission.record` writes it, and says what it means.

Anybody can write an annotation. So one whose parts do not have the types of a record counts as none.
"""

from collections.abc import Callable
from typing import Any, Final

import orjson

from webhook.kube.pod import DECISION, Pod, annotations_of

MAX_RECORD_BYTES: Final = 2048
"""Maximum size of a record. It is small because annotations are part of every list and watch of pods."""
_MAX_SCORE: Final = 1e9
_MAX_COUNT: Final = 2**31
_MAX_WORD: Final = 256
"""Characters of a word in a record."""


def record_of(pod: Pod) -> dict[str, Any]:
    """The decision record of a pod; {} if there is none."""
    text = annotations_of(pod).get(DECISION)
    if not text or len(text) > MAX_RECORD_BYTES:
        return {}
    try:
        record = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    if not isinstance(record, dict):
        return {}
    return record if all([check(record[key]) for key, check in _PARTS.items() if key in record]) else {}


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < _MAX_COUNT


def _is_node(entry: Any) -> bool:
    """Name, free GPUs, peers, score; with GPU metrics two numbers more, which may be unknown."""
    if not isinstance(entry, list) or len(entry) not in (4, 6):
        return False
    name, free, peers, score, *use = entry
    if not isinstance(name, str) or type(score) not in (int, float) or abs(score) > _MAX_SCORE:
        return False
    if type(free) is not int or type(peers) is not int or min(free, peers) < 0 or max(free, peers) >= _MAX_COUNT:
        return False
    return not use or all([number is None or _is_count(number) for number in use])


def _is_reason(entry: Any) -> bool:
    return isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], str) and _is_count(entry[1])


def _is_source(part: Any) -> bool:
    return _is_count(part) or (isinstance(part, str) and len(part) <= _MAX_WORD)


def _are(each: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(each, value))


def _are_amounts(value: Any) -> bool:
    return isinstance(value, dict) and all([type(amount) is int and 0 <= amount < 2**63 for amount in value.values()])


_PARTS: Final[dict[str, Callable[[Any], bool]]] = {
    "nodes": _are(_is_node),
    "rejected": _are(_is_reason),
    "by": _are(_is_source),
    "units": lambda value: isinstance(value, dict),
    "asked": _are_amounts,
    "of": _is_count,
    "decided": lambda value: isinstance(value, str) and len(value) <= _MAX_WORD,
    "class": lambda value: isinstance(value, str),
}
"""By key: whether its value has the type of a record."""
