"""Reads the decision record in a pod's annotation. `admission.record` writes it, and says what it means.

Anybody can write an annotation. So one whose parts do not have the types of a record counts as none.
"""

from typing import Annotated, Any, Final

import orjson
from pydantic import BaseModel, ConfigDict, Field

from webhook.kube.pod import DECISION, Pod, annotations_of

MAX_RECORD_BYTES: Final = 2048
"""Maximum size of a record. It is small because annotations are part of every list and watch of pods."""
_Count = Annotated[int, Field(ge=0, lt=2**31)]
_Score = Annotated[float, Field(ge=-1e9, le=1e9)]
_Word = Annotated[str, Field(max_length=256)]
_Node = tuple[str, _Count, _Count, _Score] | tuple[str, _Count, _Count, _Score, _Count | None, _Count | None]
"""Name, free GPUs, peers, score; with GPU metrics two numbers more, which may be unknown."""


class _Record(BaseModel):
    """The types of what a record may have."""

    model_config = ConfigDict(strict=True)

    nodes: list[_Node] = []
    rejected: list[tuple[str, _Count]] = []
    by: list[_Count | _Word] = []
    units: dict[str, Any] = {}
    asked: dict[str, Annotated[int, Field(ge=0, lt=2**63)]] = {}
    of: _Count = 0
    decided: _Word = ""
    workload: str = Field("", alias="class")


def record_of(pod: Pod) -> dict[str, Any]:
    """The decision record of a pod; {} if there is none."""
    text = annotations_of(pod).get(DECISION)
    if not text or len(text) > MAX_RECORD_BYTES:
        return {}
    try:
        _Record.model_validate_json(text)
        record: dict[str, Any] = orjson.loads(text)
    except ValueError:
        return {}
    return record
