"""The result of a simulation and its document, described in docs/cli.md."""

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
"""Every simulation runs twice: without the webhook and with it."""


@dataclass
class Side:
    """What happened to the pods of one workload in one of the two runs."""

    bound: Counter[str] = field(default_factory=Counter)
    """Number of bound pods by node."""
    waiting: list[Pod] = field(default_factory=list)
    causes: list[Cause] = field(default_factory=list)
    """Why the first pod of `waiting` waits at the end of the run."""
    refused: bool = False

    def document(self) -> dict[str, Any]:
        causes = [cause.document() for cause in self.causes]
        bound = dict(sorted(self.bound.items()))
        return {"refused": self.refused, "bound": bound, "waiting": len(self.waiting), "causes": causes}


@dataclass
class Workload:
    """The pods of one manifest, or of all lines of a trace, that have the same GPUs."""

    namespace: str
    name: str
    gpus: dict[str, int]
    """GPUs of one pod, by resource."""
    pods: int = 0
    message: str = ""
    """Why the pods are refused; "" if they are not."""
    notes: list[str] = field(default_factory=list)
    """Warnings of the webhook, and why it is not asked."""
    sides: dict[str, Side] = field(default_factory=lambda: {side: Side() for side in SIDES})

    @property
    def starts(self) -> bool:
        """Whether all pods are bound in the run with the webhook."""
        return not self.sides["with"].refused and not self.sides["with"].waiting

    def document(self) -> dict[str, Any]:
        head = {"namespace": self.namespace, "of": self.name, "pods": self.pods, "gpus": self.gpus}
        sides = {name: side.document() for name, side in self.sides.items()}
        return {**head, "starts": self.starts, "message": self.message, "notes": self.notes, **sides}


@dataclass
class Outcome:
    """The result of a simulation. "before", "without" and "with" are keys for the state before it and after each run."""

    workloads: list[Workload]
    gpus: dict[str, dict[str, dict[str, int]]]
    """By GPU resource, then "free" (GPUs) and "wholeNodes" (nodes): the numbers "before", "without" and "with"."""
    waited: dict[str, int]
    """Pods that waited before the simulation: their number ("before"), and how many were bound "without" and "with"."""
    nodes: dict[str, dict[str, dict[str, int]]]
    """By node and GPU resource: its "total", and the free GPUs "before", "without" and "with"."""
    whole_nodes: int = 0
    """Number of nodes with all GPUs free after the run with the webhook."""

    def document(self) -> dict[str, Any]:
        workloads = [workload.document() for workload in self.workloads]
        starts = all(workload.starts for workload in self.workloads)
        return {"starts": starts, "workloads": workloads, "gpus": self.gpus, "waited": self.waited}


def usable(s: Situation) -> Mask:
    """The rows of nodes that are ready and not cordoned."""
    good = [("Ready", "True") in status.conditions and not status.cordoned for status in s.nodes.statuses]
    mask: Mask = s.alive & np.array(good)[s.nodes.columns.status[: len(s.alive)]]
    return mask


def whole_nodes(s: Situation, resources: Sequence[str]) -> int:
    """The number of usable nodes that have GPUs of these resources, and all of them free."""
    if not resources:
        return 0
    has = np.any([s.capacity[name] > 0 for name in resources], axis=0)
    untouched = np.all([s.free[name] == s.capacity[name] for name in resources], axis=0)
    return int(np.count_nonzero(usable(s) & has & untouched))


def free_gpus(s: Situation, resources: Sequence[str]) -> int:
    """The number of free GPUs of these resources on usable nodes."""
    return sum(int(np.maximum(s.free[name], 0)[usable(s)].sum()) for name in resources)
