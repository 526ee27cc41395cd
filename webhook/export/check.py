"""What an exported rule refuses."""

from __future__ import annotations

from typing import Literal, NamedTuple

Subject = Literal["container", "pod"]


class Check(NamedTuple):
    """What is refused: `bad` is an expression, over container `c` or over the pod."""

    rule: str
    subject: Subject
    bad: str
    wanted: str
    only_warn: bool = False
