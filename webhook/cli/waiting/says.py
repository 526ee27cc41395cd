"""What the scheduler itself says: read from the pod's condition, which stays, else from its last event.

The form is that of FitError.Error in k8s.io/kubernetes pkg/scheduler/framework/types.go:
«0/N nodes are available: <reason before nodes>. <N reason, N reason>. <what preemption found>».
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from webhook.cli.waiting.cause import Cause
from webhook.cli.waiting.situation import Situation
from webhook.kube.pod import Pod
from webhook.text import bare

_FORM: Final = re.compile(
    r"0/(\d+) nodes are available: (.*?)\.?(?: (?:no new claims|preemption:|pod group).*)?", re.DOTALL
)
_COUNTED: Final = re.compile(r"(\d+) (.+)")
_RESOURCE: Final = re.compile(r"Insufficient (\S+)")
_WORDS: Final = (
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
    ("node(s) unavailable due to one or more pvc(s) bound to non-existent pv", ("volumeClaimLost",)),
    ("node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod", ("volumeInUse",)),
    ("pod has unbound immediate PersistentVolumeClaims", ("volumeClaimUnbound", "storageClassMissing")),
    ("persistentvolumeclaim", ("volumeClaimMissing", "volumeClaimLost", "volumeClaimDeleting")),
    ("storageclass", ("storageClassMissing",)),
    ("cannot allocate all claims", ("noDevice",)),
    ("device class", ("deviceClassMissing",)),
    ("resourceclaim not available on the node", ("claimElsewhere",)),
    ("resourceclaim", ("claimInUse", "noDevice", "claimMissing")),
    ("scheduling gates", ("schedulingGate", "queued")),
    ("waiting for pods's pod group", ("podGroupMissing",)),
    ("waiting for minCount pods", ("gangIncomplete",)),
    ("minCount", ("gangIncomplete",)),
    ("waiting for the preemption", ("preempting",)),
    ("no nodes available to schedule pods", ("noNodes",)),
)
_OF_GPUS: Final = (
    *(
        "gpusTaken",
        "gpusFragmented",
        "unknownResource",
        "devicePluginMissing",
        "moreThanAnyNode",
        "nodesTooSmall",
        "noGpus",
    ),
    *("otherGpuResource", "insufficientResource", "nominated"),
)


class Reason(NamedTuple):
    """`nodes`: how many it keeps away; 0 where it is about no node. `means`: the CAUSES that stand for it."""

    text: str
    nodes: int
    means: tuple[str, ...]


def said(situation: Situation, pod: Pod) -> str:
    """The scheduler's own words; "" where it has not spoken."""
    for condition in pod["status"].get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False" and condition.get("message"):
            return str(condition["message"])
    for event in situation.events_of("Pod", pod):
        if event.get("reason") == "FailedScheduling":
            return str(event.get("message") or "")
    return ""


def reasons(message: str) -> list[Reason]:
    """Each reason in such a message."""
    match = _FORM.fullmatch(message)
    if match is None:
        return [Reason(message, 0, _means(message))] if message else []
    total, result = int(match[1]), []
    for part in re.split(r"[,.] (?=\d+ |no |0/)|, (?=node)", match[2]):
        counted = _COUNTED.fullmatch(part)
        text, count = (counted[2], int(counted[1])) if counted else (part, total)
        result.append(Reason(text, count, _means(text)))
    return result


def unexplained(message: str, causes: list[Cause]) -> list[Cause]:
    """Reasons of the scheduler that none of the causes stands for. None while it preempts: its message is then out of date."""
    known = {cause.cause for cause in causes}
    if "preempting" in known:
        return []
    return [
        Cause(
            "schedulerOther",
            f"the scheduler also says: {bare(reason.text)}",
            "see the documentation of that scheduler or plugin",
        )
        for reason in reasons(message)
        if known.isdisjoint(reason.means)
    ]


def _means(text: str) -> tuple[str, ...]:
    for start, words in _WORDS:
        if start in text:
            return words
    return _OF_GPUS if _RESOURCE.match(text) else ()
