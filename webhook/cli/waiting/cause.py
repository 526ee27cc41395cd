"""One reason why a pod waits, and the order in which a person would look at them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from webhook.placement.constraints import Mask


class Cause(NamedTuple):
    """`cause`: a constant word, one of CAUSES. `fix`: what a person can do, as an imperative."""

    cause: str
    text: str
    fix: str
    nodes: tuple[str, ...] = ()
    """The nodes that it keeps away, and no earlier check of the scheduler does."""
    helps: int = 0
    """How many of them would take the pod if this alone were mended."""

    def document(self) -> dict[str, Any]:
        """As docs/cli.md describes it."""
        return {"cause": self.cause, "nodes": self.nodes, "text": self.text, "fix": self.fix}


class Check(NamedTuple):
    """One thing that the scheduler looks at on every node. `fails`: the nodes that it keeps away."""

    fails: Mask
    explain: Callable[[Mask, Mask], Iterator[Cause]]
    """Takes the nodes that no earlier check keeps away, and those that no other check does."""


CAUSES: Final = (
    # what the pod itself waits for: no node is looked at
    *("bound", "schedulingGate", "queued", "unknownScheduler"),
    *("suspended", "refused", "quotaExceeded", "limitRange"),
    *("serviceAccountMissing", "priorityClassMissing", "runtimeClassMissing", "notCreated"),
    *("claimMissing", "claimTemplateMissing", "deviceClassMissing", "claimInUse"),
    *("volumeClaimMissing", "volumeClaimUnbound", "storageClassMissing", "volumeClaimLost", "volumeClaimDeleting"),
    *("podGroupMissing", "gangIncomplete", "preempting"),
    # what the pod asks for that no node has: the manifest is wrong, or the cluster is
    *("unknownResource", "devicePluginMissing", "moreThanAnyNode", "nodesTooSmall", "otherGpuResource"),
    *("nodeSelector", "nodeAffinity", "pinnedNode", "hostPort"),
    *("podAffinity", "podAntiAffinity", "existingAntiAffinity", "topologySpread"),
    *("untoleratedTaint", "insufficientCpu", "insufficientMemory", "insufficientEphemeralStorage"),
    *("insufficientResource", "tooManyPods", "gpusFragmented", "gpusTaken", "noDevice", "claimElsewhere"),
    *("volumeNodeConflict", "volumeLimit", "volumeInUse", "nominated"),
    *("preemptionNever", "cordoned", "notReady", "noNodes", "noGpus", "schedulerOther", "fitsNow"),
)
"""Every word, in the order in which a person would try: documented in docs/cli.md."""
_RANK: Final = {word: at for at, word in enumerate(CAUSES)}


def ordered(causes: list[Cause]) -> list[Cause]:
    """What needs no node first; then what would help alone; then the rest."""
    first = _RANK["unknownResource"]
    return sorted(
        causes, key=lambda c: (_RANK[c.cause] >= first, not c.helps and bool(c.nodes), _RANK[c.cause], -c.helps)
    )
