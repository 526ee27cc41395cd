"""Reads the decision record in a pod's annotation, and the nodes that it ranks. `admission.record` writes it, and says what it
means.

Anybody can write an annotation. So one whose parts do not have the types of a record counts as none.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field

from webhook.kube.pod import DECISION, HOSTNAME, PREFERRED, REQUIRED, SCHEDULER, Pod, annotations_of, unmanaged_reason

MAX_RECORD_BYTES: Final = 2048
"""Maximum size of a record. It is small because annotations are part of every list and watch of pods."""
_Count = Annotated[int, Field(ge=0, lt=2**31)]
_Score = Annotated[float, Field(ge=-1e9, le=1e9)]
_Word = Annotated[str, Field(max_length=256)]
_FIRST = Field(union_mode="left_to_right")  # else pydantic tries each: a third of the time to read a record
_Node = Annotated[
    tuple[str, _Count, _Count, _Score] | tuple[str, _Count, _Count, _Score, _Count | None, _Count | None], _FIRST
]
"""Name, free GPUs, peers, score; with GPU metrics two numbers more, which may be unknown."""


class _Record(BaseModel):
    """The types of what a record may have. Defaults are made, since pydantic copies a list in Python."""

    model_config = ConfigDict(strict=True)

    nodes: list[_Node] = Field(default_factory=list)
    rejected: list[tuple[str, _Count]] = Field(default_factory=list)
    by: list[Annotated[_Count | _Word, _FIRST]] = Field(default_factory=list)
    units: dict[str, Any] = Field(default_factory=dict)
    asked: dict[str, Annotated[int, Field(ge=0, lt=2**63)]] = Field(default_factory=dict)
    of: _Count = 0
    read: _Word = ""
    decided: _Word = ""
    left: _Word = ""
    karpenter: Literal["", "none"] | Annotated[str, Field(pattern=r"^[0-9.]{1,16}$")] = ""
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


def outcome_of(record: Mapping[str, Any], injector: str) -> list[Any]:
    """What a record says that an injector did: a word, and what it is about if there is more to say. [] if it says nothing."""
    entry = record.get("units", {}).get(injector)
    return entry[:2] if isinstance(entry, list) else []


def first_node(pod: Pod, record: Mapping[str, Any] | None = None) -> str:
    """The node that admission ranked first for this pod; "" if there is none. `record`: its own, where it was read.

    Anybody can write the annotation. So it counts only if the pod's node affinity agrees: the node must be the first
    preference there, or required. It does not count for pods that admission ranks no nodes for.
    """
    nodes = (record_of(pod) if record is None else record).get("nodes")
    if not nodes or unmanaged_reason(pod):
        return ""
    first: str = nodes[0][0]
    return first if next(_preferred_nodes(pod["spec"]), "") == first or first in required_nodes(pod["spec"]) else ""


def ranked_nodes(pod: Pod) -> tuple[str, ...]:
    """The nodes that admission ranked for this pod, best first, if the first one counts. Only those that its affinity names."""
    record = record_of(pod)
    if not first_node(pod, record):
        return ()
    known = {*_preferred_nodes(pod["spec"]), *required_nodes(pod["spec"])}
    return tuple([name for name, *_ in record["nodes"] if name in known])


def _preferred_nodes(spec: Mapping[str, Any]) -> Iterator[str]:
    """The nodes that a pod's affinity prefers, by falling weight. None for a pod of another scheduler: the policy may let it have
    a node, but as a required one only."""
    if (spec.get("schedulerName") or SCHEDULER) == SCHEDULER:
        terms = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(PREFERRED) or ()
        for term in sorted(terms, key=lambda term: term.get("weight") or 0, reverse=True):
            yield from _names_in(term.get("preference") or {})


def required_nodes(spec: Mapping[str, Any]) -> list[str]:
    """The nodes that a pod's affinity names as required."""
    selector = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED) or {}
    return [name for term in selector.get("nodeSelectorTerms") or () for name in _names_in(term)]


def _names_in(term: Mapping[str, Any]) -> list[str]:
    for part, key in (("matchFields", "metadata.name"), ("matchExpressions", HOSTNAME)):
        for expression in term.get(part) or ():
            if expression.get("key") == key and expression.get("operator") == "In":
                return list(expression.get("values") or ())
    return []
