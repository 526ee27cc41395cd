"""Reads the decision record in a pod's annotation, and the nodes that it ranks. `admission.record` writes it, and says what it
means.

Anybody can write an annotation. So one whose parts do not have the types of a record counts as none.
"""

from collections.abc import Mapping
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
    """The types of what a record may have."""

    model_config = ConfigDict(strict=True)

    nodes: list[_Node] = []
    rejected: list[tuple[str, _Count]] = []
    by: list[Annotated[_Count | _Word, _FIRST]] = []
    units: dict[str, Any] = {}
    asked: dict[str, Annotated[int, Field(ge=0, lt=2**63)]] = {}
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


def ranked_nodes(pod: Pod, record: Mapping[str, Any] | None = None) -> tuple[str, ...]:
    """The nodes that admission ranked for this pod, best first; () if there are none. `record`: its own, where it was read.

    Anybody can write the annotation. So it counts only if the pod's node affinity agrees: the first node must be the
    first preference there, or required, and only nodes that the affinity names count. It does not count for pods that
    admission ranks no nodes for.
    """
    names = [entry[0] for entry in (record_of(pod) if record is None else record).get("nodes", ())]
    if not names or unmanaged_reason(pod):
        return ()
    preferred, required = named_nodes(pod["spec"])
    if (pod["spec"].get("schedulerName") or SCHEDULER) != SCHEDULER:
        preferred = []  # the policy may let such pods have a node, but as a required one only
    if not ((preferred and preferred[0] == names[0]) or names[0] in required):
        return ()
    known = {*preferred, *required}
    return tuple([name for name in names if name in known])


def named_nodes(spec: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The nodes that a pod's affinity names: the preferred ones by falling weight, and the required ones."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    weighed = sorted(affinity.get(PREFERRED) or (), key=lambda term: term.get("weight") or 0, reverse=True)
    preferred = [name for term in weighed for name in _names_in(term.get("preference") or {})]
    selector = affinity.get(REQUIRED) or {}
    required = [name for term in selector.get("nodeSelectorTerms") or () for name in _names_in(term)]
    return preferred, required


def _names_in(term: Mapping[str, Any]) -> list[str]:
    for part, key in (("matchFields", "metadata.name"), ("matchExpressions", HOSTNAME)):
        for expression in term.get(part) or ():
            if expression.get("key") == key and expression.get("operator") == "In":
                return list(expression.get("values") or ())
    return []
