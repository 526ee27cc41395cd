"""Causes of waiting: their words, and the order in which a person looks at them.

To add one: a word here, a function that finds it, a row in docs/waiting.md, and a case with its fix on the real scheduler in
`tests/e2e/pending/`. A `Fix` is words, a command as a list of arguments, and, if it can be tried, the pod with the change or the
pods that end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from webhook.kube.pod import Pod
from webhook.placement.constraints import Mask
from webhook.whatif.commands import Command, with_command


class Fix(NamedTuple):
    """One thing that a person can do, as an imperative. What of it can be tried stands in `pod` and `ends`: see `Diagnosis`."""

    words: str
    command: Command = ()
    """What to run for it."""
    pod: Pod | None = None
    """The pod with it, as its author would write it."""
    ends: tuple[Pod, ...] = ()
    """The pods that have ended with it."""
    on: str = ""
    """The node that it changes: the pod is judged for this one, and `pod` tolerates what goes there."""
    helps: int = 0
    """How many nodes would take the pod with it alone; 0: none, or it was not tried."""

    @property
    def line(self) -> str:
        return with_command(self.words, self.command)


class Cause(NamedTuple):
    """One reason why a pod waits. `cause` is one of CAUSES."""

    cause: str
    text: str
    fixes: tuple[Fix, ...]
    """Any one of them; the first one first."""
    nodes: tuple[str, ...] = ()
    """The names of the nodes that it excludes, without those that an earlier check of the scheduler excludes."""
    alone: int = 0
    """How many of them nothing else excludes."""
    then: str = ""
    """What the pod would wait for with the first fix, if that was tried and is not enough."""
    elsewhere: bool = False
    """None of its nodes is for the pod, by selector, affinity, tolerations or size, and others are."""

    @classmethod
    def of(cls, cause: str, text: str, *fixes: Fix | str, **more: Any) -> Cause:
        """A cause with these fixes, those that cannot be tried as words."""
        return cls(cause, text, tuple([Fix(fix) if isinstance(fix, str) else fix for fix in fixes]), **more)

    @property
    def helps(self) -> int:
        """How many nodes would take the pod with the first fix alone."""
        return self.fixes[0].helps

    @property
    def fix(self) -> str:
        """All fixes on one line."""
        not_enough = f". That is not enough: then {self.then}" if self.then else ""
        return ", or ".join([fix.line for fix in self.fixes]) + not_enough

    def untried(self, but: int = 0) -> Cause:
        """The cause where that many nodes may not take the pod whatever is done about it."""
        return self._replace(
            fixes=tuple([fix._replace(helps=max(0, fix.helps - but) if but else 0) for fix in self.fixes])
        )

    def document(self) -> dict[str, Any]:
        """The JSON form, described in docs/documents.md."""
        fixes = [
            {"text": fix.words, **({"command": fix.command} if fix.command else {}), "enough": fix.helps > 0}
            for fix in self.fixes
        ]
        said = {"cause": self.cause, "nodes": self.nodes, "text": self.text, "fixes": fixes}
        return {**said, "then": self.then, "elsewhere": self.elsewhere}


ROLLOUT: Final = Fix("let the old ones go first: strategy Recreate or maxSurge 0")


class NodeCheck(NamedTuple):
    """The result of one filter of the scheduler: the nodes that it excludes, by row. See `placement.feasible`."""

    fails: Mask
    explain: Callable[[Mask, Mask], Iterator[Cause]]
    """Yields the causes. Takes two parts of `fails`: what no earlier check excludes, and of that what no other check does."""


CAUSES: Final = (
    # the scheduler looks at no node
    *("bound", "schedulingGate", "queued", "unknownScheduler"),
    *("suspended", "refused", "quotaExceeded", "limitRange"),
    *("serviceAccountMissing", "priorityClassMissing", "runtimeClassMissing", "notCreated", "noPods"),
    *("claimMissing", "claimTemplateMissing", "deviceClassMissing", "claimInUse"),
    *("volumeClaimMissing", "volumeClaimUnbound", "storageClassMissing", "volumeClaimLost", "volumeClaimDeleting"),
    *("podGroupMissing", "gangIncomplete", "preempting", "oldRevision"),
    # all others: most exclude nodes
    *("unknownResource", "devicePluginMissing", "moreThanAnyNode", "nodesTooSmall", "otherGpuResource"),
    *("nodeSelector", "nodeAffinity", "pinnedNode", "hostPort"),
    *("podAffinity", "podAntiAffinity", "existingAntiAffinity", "topologySpread"),
    *("untoleratedTaint", "insufficientCpu", "insufficientMemory", "insufficientEphemeralStorage"),
    *("insufficientResource", "tooManyPods", "gpusFragmented", "gpusTaken", "noDevice", "claimElsewhere"),
    *("volumeNodeConflict", "volumeLimit", "volumeInUse", "nominated"),
    *("preemptionNever", "cordoned", "notReady", "noNodes", "noGpus", "schedulerOther", "fitsNow"),
)
"""All words for causes, documented in docs/waiting.md, in the order in which a person would look at them."""
_RANK: Final = {word: at for at, word in enumerate(CAUSES)}


def ordered(causes: list[Cause]) -> list[Cause]:
    """First the causes for which the scheduler looks at no node, then those of nodes that are for the pod; among these first
    the causes but for which a node would take it."""
    first = _RANK["unknownResource"]

    def key(cause: Cause) -> tuple[bool, bool, bool, bool, bool, int, int]:
        rank = _RANK[cause.cause]
        return (
            rank >= first,
            cause.cause != "unknownResource",  # whatever is done about others
            cause.elsewhere,
            not (cause.helps or (cause.alone and not cause.then)),
            not cause.nodes,
            rank,
            -cause.alone,
        )

    return sorted(causes, key=key)
