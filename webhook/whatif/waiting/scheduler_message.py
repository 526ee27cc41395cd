"""Reads the message of the scheduler about a pod: from the pod's condition, which stays, else from its newest event.

FitError.Error in k8s.io/kubernetes pkg/scheduler/framework/types.go writes it:
«0/N nodes are available: <reason before nodes>. <N reason, N reason>. <what preemption found>».
"""

import re
from typing import Final, NamedTuple

from webhook.kube.pod import Pod, controller_reference
from webhook.text import plural, printable
from webhook.whatif.cluster.snapshot import condition
from webhook.whatif.waiting.causes import Cause
from webhook.whatif.waiting.situation import Situation

_FORM: Final = re.compile(
    r"0/(\d+) nodes are available: (.*?)\.?(?: (?:no new claims|preemption:|pod group).*)?", re.DOTALL
)
_COUNTED: Final = re.compile(r"(\d+) (.+)")
_RESOURCE: Final = re.compile(r"Insufficient (\S+)")
_CAUSES_OF: Final = (
    ("node(s) were unschedulable", ("cordoned",)),
    ("node(s) had untolerated taint", ("untoleratedTaint", "notReady")),
    ("node(s) didn't match Pod's node affinity", ("nodeSelector", "nodeAffinity", "pinnedNode")),
    ("node(s) didn't satisfy plugin", ("pinnedNode", "nodeAffinity", "volumeNodeConflict")),
    ("node(s) didn't have free ports", ("hostPort",)),
    ("Too many pods", ("tooManyPods",)),
    ("Insufficient cpu", ("insufficientCpu", "moreThanAnyNode", "nodesTooSmall")),
    ("Insufficient memory", ("insufficientMemory", "moreThanAnyNode", "nodesTooSmall")),
    ("Insufficient ephemeral-storage", ("insufficientEphemeralStorage", "moreThanAnyNode", "nodesTooSmall")),
    ("node(s) didn't match pod topology spread", ("topologySpread",)),
    ("node(s) didn't match pod affinity", ("podAffinity",)),
    ("node(s) didn't match pod anti-affinity", ("podAntiAffinity",)),
    ("node(s) didn't satisfy existing pods anti-affinity", ("existingAntiAffinity",)),
    ("node(s) exceed max volume count", ("volumeLimit",)),
    ("node(s) didn't match PersistentVolume", ("volumeNodeConflict",)),
    ("node(s) had volume node affinity conflict", ("volumeNodeConflict",)),
    ("node(s) didn't find available persistent volumes", ("volumeNodeConflict",)),
    ("node(s) had no available volume zone", ("volumeNodeConflict",)),
    ("node(s) did not have enough free storage", ("volumeNodeConflict",)),
    ("node(s) unavailable due to one or more pvc(s) bound to non-existent pv", ("volumeClaimLost",)),
    ("node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod", ("volumeInUse",)),
    ("pod has unbound immediate PersistentVolumeClaims", ("volumeClaimUnbound", "storageClassMissing")),
    ("persistentvolumeclaim", ("volumeClaimMissing", "volumeClaimLost", "volumeClaimDeleting")),
    ("storageclass", ("storageClassMissing",)),
    ("cannot allocate all claims", ("noDevice",)),
    ("CEL runtime error", ("noDevice",)),
    ("device class", ("deviceClassMissing",)),
    ("resourceclaim not available on the node", ("claimElsewhere",)),
    ("resourceclaim", ("claimInUse", "noDevice", "claimMissing")),
    ("scheduling gates", ("schedulingGate", "queued")),
    ("waiting for pods's pod group", ("podGroupMissing",)),
    ("minCount", ("gangIncomplete",)),
    ("waiting for the preemption", ("preempting",)),
    ("no nodes available to schedule pods", ("noNodes",)),
)
"""A part of a reason, and the causes that explain it. The first part that a reason contains counts."""
_GPU_CAUSES: Final = (
    *("gpusTaken", "gpusFragmented", "unknownResource", "devicePluginMissing", "moreThanAnyNode", "nodesTooSmall"),
    *("noGpus", "otherGpuResource", "insufficientResource", "nominated"),
)
"""The causes that explain «Insufficient <resource>»."""
_OF_RESOURCES: Final = next(at for at, (part, _) in enumerate(_CAUSES_OF) if part == "Insufficient cpu")
_LOOK: Final = "ask who may list nodes and all pods: he is told which nodes, and what helps"
_TOO_MUCH: Final = "ask for less, or wait until pods there have ended"
_BLIND: Final = {
    **dict.fromkeys(("gpusTaken", "insufficientCpu", "insufficientMemory", "insufficientEphemeralStorage"), _TOO_MUCH),
    "insufficientResource": "see whether its name is right and a node offers it, or ask for less",
    "nodeSelector": "compare spec.nodeSelector and the required affinity with the labels of the nodes that it is for",
    "untoleratedTaint": "add a toleration, if those nodes are for pods as this",
    "topologySpread": "set whenUnsatisfiable: ScheduleAnyway",
    "podAntiAffinity": "make the anti-affinity preferred",
    "podAffinity": "make the affinity preferred, or start the pods that it wants to be near",
}
"""What those can do who may not list nodes: nothing of it can be tried."""
_IN_PART: Final = frozenset(
    ("volumeNodeConflict", "volumeLimit", "volumeClaimUnbound", "podGroupMissing", "gangIncomplete")
)
"""Causes of which the filters know less than the scheduler: capacities of storage, parts of gangs."""


class Reason(NamedTuple):
    """One reason of the scheduler. `nodes` is how many nodes it excludes, 0 if it is about no node.

    `causes` are the words of CAUSES that explain it.
    """

    text: str
    nodes: int
    causes: tuple[str, ...]

    @property
    def rank(self) -> int:
        """The place of its filter among those of the scheduler."""
        return next((at for at, (part, _) in enumerate(_CAUSES_OF) if part in self.text), _OF_RESOURCES)

    @property
    def is_unknown(self) -> bool:
        """Whether no filter of `why` sees all that the scheduler means by it."""
        return not self.causes or not _IN_PART.isdisjoint(self.causes)


def scheduler_message(situation: Situation, pod: Pod) -> str:
    """What the scheduler wrote about the pod; "" if nothing."""
    scheduled = condition(pod, "PodScheduled")
    if scheduled.get("status") == "False" and scheduled.get("message"):
        return str(scheduled["message"])
    for event in situation.events_of("Pod", pod):
        if event.get("reason") == "FailedScheduling":
            return str(event.get("message") or "")
    return ""


def reasons(message: str) -> list[Reason]:
    match = _FORM.fullmatch(message)
    if match is None:
        return [Reason(message, 0, _causes_of(message))] if message else []
    total, result = int(match[1]), []
    for part in re.split(r"[,.] (?=\d+ |no |0/)|, (?=node)", match[2]):
        counted = _COUNTED.fullmatch(part)
        text, count = (counted[2], int(counted[1])) if counted else (part, total)
        result.append(Reason(text, count, _causes_of(text)))
    return result


def unexplained(pod: Pod | None, message: str, causes: list[Cause]) -> list[tuple[Reason, Cause]]:
    """Each reason of the scheduler that none of `causes` explains, with a cause for it.

    There is none while the pod preempts others: then the message is out of date. That a pod of a DaemonSet is for one node needs
    no word.
    """
    of_one_node = pod is not None and (controller_reference(pod) or {}).get("kind") == "DaemonSet"
    fix = "see the documentation of that scheduler or plugin"
    return [
        (reason, Cause.of("schedulerOther", f"the scheduler also says: {printable(reason.text)}", fix))
        for reason in _not_among(causes, message)
        if all(cause.cause != "preempting" for cause in causes) and not (of_one_node and "pinnedNode" in reason.causes)
    ]


def by_message(s: Situation, message: str, causes: list[Cause]) -> list[Cause]:
    """A cause in the scheduler's own words for each of its reasons that none of `causes` explains, since nodes or the pods on
    them could not be read. Its filters have an order: nodes that a later one rules out are nearer to the pod, and come first."""
    result = []
    for reason in sorted(_not_among(causes, message), key=lambda reason: -reason.rank):
        where = f"{plural(reason.nodes, 'node')}: " if reason.nodes else ""
        word = reason.causes[0] if reason.causes else "schedulerOther"
        of = _RESOURCE.match(reason.text)
        if of and word == _GPU_CAUSES[0] and s.policy.gpus.kind(of[1]) is None:
            word = "insufficientResource"
        text = f"{where}{printable(reason.text)}, says the scheduler"
        result.append(Cause.of(word, text, _BLIND.get(word, _LOOK)))
    return result


def _not_among(causes: list[Cause], message: str) -> list[Reason]:
    known = {cause.cause for cause in causes}
    return [reason for reason in reasons(message) if known.isdisjoint(reason.causes)]


def _causes_of(text: str) -> tuple[str, ...]:
    for part, causes in _CAUSES_OF:
        if part in text:
            return causes
    return _GPU_CAUSES if _RESOURCE.match(text) else ()
