"""Causes of waiting: their words, and the order in which a person looks at them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from webhook.kube.gates import GATES, KUEUE_ADMISSION
from webhook.kube.pod import Pod
from webhook.placement.constraints import Mask
from webhook.text import quoted


class Cause(NamedTuple):
    """One reason why a pod waits. `cause` is one of CAUSES, `fix` what a person can do, as an imperative."""

    cause: str
    text: str
    fix: str
    nodes: tuple[str, ...] = ()
    """The names of the nodes that it excludes, without those that an earlier check of the scheduler excludes."""
    helps: int = 0
    """How many nodes would take the pod now if only this cause were corrected."""
    fixed: Pod | None = None
    """The pod with the first fix, if that changes the pod: it is filtered again before anybody is told that it helps."""
    elsewhere: bool = False
    """None of its nodes is for the pod, by selector, affinity, tolerations or size, and others are."""

    def document(self) -> dict[str, Any]:
        """The JSON form, described in docs/cli.md."""
        said = {"cause": self.cause, "nodes": self.nodes, "text": self.text, "fix": self.fix}
        return {**said, "enough": self.helps > 0, "elsewhere": self.elsewhere}


class NodeCheck(NamedTuple):
    """The result of one filter of the scheduler: the nodes that it excludes, by row. See `placement.feasible`."""

    fails: Mask
    explain: Callable[[Mask, Mask], Iterator[Cause]]
    """Yields the causes. Takes two parts of `fails`: what no earlier check excludes, and of that what no other check does."""


CAUSES: Final = (
    # the scheduler looks at no node
    *("bound", "schedulingGate", "queued", "unknownScheduler"),
    *("suspended", "refused", "quotaExceeded", "limitRange"),
    *("serviceAccountMissing", "priorityClassMissing", "runtimeClassMissing", "notCreated"),
    *("claimMissing", "claimTemplateMissing", "deviceClassMissing", "claimInUse"),
    *("volumeClaimMissing", "volumeClaimUnbound", "storageClassMissing", "volumeClaimLost", "volumeClaimDeleting"),
    *("podGroupMissing", "gangIncomplete", "preempting"),
    # all others: most exclude nodes
    *("unknownResource", "devicePluginMissing", "moreThanAnyNode", "nodesTooSmall", "otherGpuResource"),
    *("nodeSelector", "nodeAffinity", "pinnedNode", "hostPort"),
    *("podAffinity", "podAntiAffinity", "existingAntiAffinity", "topologySpread"),
    *("untoleratedTaint", "insufficientCpu", "insufficientMemory", "insufficientEphemeralStorage"),
    *("insufficientResource", "tooManyPods", "gpusFragmented", "gpusTaken", "noDevice", "claimElsewhere"),
    *("volumeNodeConflict", "volumeLimit", "volumeInUse", "nominated"),
    *("preemptionNever", "cordoned", "notReady", "noNodes", "noGpus", "schedulerOther", "fitsNow"),
)
"""All words for causes, documented in docs/cli.md, in the order in which a person would look at them."""
_RANK: Final = {word: at for at, word in enumerate(CAUSES)}


def queued(queue: str, namespace: str) -> Cause:
    """The cause for a pod or workload that Kueue holds back."""
    fix = f"see what its Workload waits for: kubectl describe {GATES[KUEUE_ADMISSION].seen} -n {namespace}"
    return Cause("queued", f"Kueue has not admitted it{f' from queue {quoted(queue)}' if queue else ''}", fix)


def ordered(causes: list[Cause]) -> list[Cause]:
    """First the causes for which the scheduler looks at no node, then those of nodes that are for the pod; among these first
    the causes whose fix alone would help."""
    first = _RANK["unknownResource"]

    def key(cause: Cause) -> tuple[bool, bool, bool, bool, int, int]:
        rank = _RANK[cause.cause]
        return rank >= first, cause.elsewhere, not cause.helps, not cause.nodes, rank, -cause.helps

    return sorted(causes, key=key)
