"""Label selectors: as kubectl takes them, `a=b,c!=d,e in (f,g),!h` (k8s.io/apimachinery pkg/labels/selector.go), and as
objects have them (LabelSelector)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from webhook.errors import BadInput
from webhook.kube import selectors
from webhook.text import quoted

_PART: Final = re.compile(r"(?:[^,(]|\([^)]*\))+")
_SET: Final = re.compile(r"([\w./-]+)\s+(in|notin)\s+\(([^)]*)\)")
_EQUAL: Final = re.compile(r"([\w./-]+)\s*(==|=|!=)\s*([\w.-]*)")
_EXISTS: Final = re.compile(r"(!?)\s*([\w./-]+)")
Labels = Mapping[str, str]


def selector(text: str | None) -> Callable[[Labels], bool]:
    """A function that says whether labels match the selector `text`; None matches all. Raises BadInput."""
    tests = [_test(part.strip()) for part in _PART.findall(text or "")]
    return lambda labels: all(test(labels) for test in tests)


def _test(part: str) -> Callable[[Labels], bool]:
    if match := _SET.fullmatch(part):
        key, wanted, values = match[1], match[2] == "in", {value.strip() for value in match[3].split(",")}
        return lambda labels: (labels.get(key) in values) == wanted
    if match := _EQUAL.fullmatch(part):
        key, equal, value = match[1], match[2] != "!=", match[3]
        return lambda labels: (labels.get(key) == value) == equal
    if match := _EXISTS.fullmatch(part):
        key, exists = match[2], not match[1]
        return lambda labels: (key in labels) == exists
    raise BadInput(f"-l: saw {quoted(part)}, wanted labels as a=b, a!=b, a in (b,c), a or !a, with commas between")


def selects(label_selector: Any, labels: Labels) -> bool:
    """Whether a LabelSelector of an object matches these labels; one that is malformed or too large matches nothing."""
    try:
        return bool(selectors.selects(selectors.compiled(label_selector), labels))
    except (ValueError, TypeError, LookupError):
        return False
