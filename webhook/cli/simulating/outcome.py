"""What a simulation found, and the document of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from webhook.cli.waiting.cause import Cause
from webhook.cli.waiting.situation import Situation
from webhook.kube.pod import Pod
from webhook.placement.constraints import Mask

SIDES: Final = ("without", "with")
"""The webhook."""


@dataclass
class Side:
    """What became of one workload."""

    bound: Counter[str] = field(default_factory=Counter)
    """Pods by node."""
    waiting: list[Pod] = field(default_factory=list)
    causes: list[Cause] = field(default_factory=list)
    """Why the first of `waiting` does, in the end."""
    refused: bool = False

    def document(self) -> dict[str, Any]:
        causes = [cause.document() for cause in self.causes]
        bound = dict(sorted(self.bound.items()))
        return {"refused": self.refused, "bound": bound, "waiting": len(self.waiting), "causes": causes}


@dataclass
class Workload:
    """Equal pods that arrived together, or line by line of a trace. `gpus`: of one of them. `message`: why they are
    refused. `notes`: what else is to be known."""

    namespace: str
    name: str
    gpus: dict[str, int]
    pods: int = 0
    message: str = ""
    notes: list[str] = field(default_factory=list)
    sides: dict[str, Side] = field(default_factory=lambda: {side: Side() for side in SIDES})

    @property
    def starts(self) -> bool:
        """Whether all of its pods are bound with the webhook."""
        return not self.sides["with"].refused and not self.sides["with"].waiting

    def document(self) -> dict[str, Any]:
        head = {"namespace": self.namespace, "of": self.name, "pods": self.pods, "gpus": self.gpus}
        sides = {name: side.document() for name, side in self.sides.items()}
        return {**head, "starts": self.starts, "message": self.message, "notes": self.notes, **sides}


@dataclass
class Outcome:
    """`gpus`: by resource, "free" and "wholeNodes" of before, without, with. `before`: what was free on each node."""

    workloads: list[Workload]
    gpus: dict[str, dict[str, dict[str, int]]]
    waited: dict[str, int]
    """Pods that waited already: how many ("before"), and how many of them were bound without and with."""
    nodes: dict[str, dict[str, dict[str, int]]]
    """By node: its "total" of each GPU resource, and what is free of it before, without and with."""
    whole_nodes: int = 0
    """All of whose GPUs are free in the end, with the webhook."""

    def document(self) -> dict[str, Any]:
        workloads = [workload.document() for workload in self.workloads]
        starts = all(workload.starts for workload in self.workloads)
        return {"starts": starts, "workloads": workloads, "gpus": self.gpus, "waited": self.waited}


def usable(s: Situation) -> Mask:
    """Nodes that are ready and not cordoned."""
    good = [("Ready", "True") in status.conditions and not status.cordoned for status in s.nodes.statuses]
    mask: Mask = s.alive & np.array(good)[s.nodes.columns.status[: len(s.alive)]]
    return mask


def whole_nodes(s: Situation, resources: Sequence[str]) -> int:
    """Usable nodes that have some of these, all of it free."""
    if not resources:
        return 0
    has = np.any([s.capacity[name] > 0 for name in resources], axis=0)
    untouched = np.all([s.free[name] == s.capacity[name] for name in resources], axis=0)
    return int(np.count_nonzero(usable(s) & has & untouched))


def free_gpus(s: Situation, resources: Sequence[str]) -> int:
    """On usable nodes."""
    return sum(int(np.maximum(s.free[name], 0)[usable(s)].sum()) for name in resources)
