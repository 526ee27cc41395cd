"""Names of Kubernetes objects: which ones the API server takes, and the nearest that it would.

Source: IsDNS1123Label and IsDNS1123Subdomain, k8s.io/apimachinery pkg/util/validation/validation.go.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_LABEL = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"


class Form(NamedTuple):
    """What a name must look like. Every name that comes in is a tenant's: the patterns take linear time."""

    words: str
    longest: int
    dots: bool
    pattern: re.Pattern[str]

    def holds(self, name: str) -> bool:
        return len(name) <= self.longest and self.pattern.fullmatch(name) is not None

    def fix(self, name: str, end: str = "") -> str:
        """What to do about a name that does not hold, with the nearest that does, where there is something to make one of.

        `end` is kept at its end: what is generated is added after a dash.
        """
        if _is_placeholder(name):
            return _FILL_IN
        start = name[: self.longest].lower()
        parts = start.split(".") if self.dots else [start]
        better = ".".join(
            filter(None, [re.sub(r"[^a-z0-9-]+", "-", part, flags=re.ASCII).strip("-") for part in parts])
        )
        return f"Rename it, as {better}{end}" if better else "Rename it"


LABEL: Final = Form(
    "lower case letters, digits and -, with a letter or digit at both ends, at most 63",
    63,
    False,
    re.compile(_LABEL, re.ASCII),
)
SUBDOMAIN: Final = Form(
    "lower case letters, digits, - and ., with a letter or digit at both ends, at most 253",
    253,
    True,
    re.compile(rf"{_LABEL}(?:\.{_LABEL})*", re.ASCII),
)
_MOST_GENERATED = 58
_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?", re.ASCII)


def generates(prefix: str) -> bool:
    """Whether names that begin with this are taken: the API server makes up five letters and digits after the first 58."""
    return SUBDOMAIN.holds(prefix[:_MOST_GENERATED] + "x")


VALUE_WORDS: Final = "letters, digits, -, _ and ., with a letter or digit at both ends, at most 63; or nothing"


def is_label_value(value: str) -> bool:
    """IsValidLabelValue: the empty one is."""
    return len(value) <= LABEL.longest and _VALUE.fullmatch(value) is not None


def fix_of_value(value: str) -> str:
    """What to do about a value of a label that is none."""
    return _FILL_IN if _is_placeholder(value) else "Shorten or respell it; what is only to be read can be an annotation"


_FILL_IN: Final = "Fill in the placeholder"


def _is_placeholder(text: str) -> bool:
    return any(c in "$<>{}" for c in text[: SUBDOMAIN.longest])
