"""What a pod waits for that has its node: for the kubelet, which pulls images, mounts volumes and runs init containers; or for
the end of a node that has gone away."""

from collections.abc import Iterator
from typing import Any, Final

from webhook.kube.pod import FINISHED, Pod
from webhook.text import bare, listed, nearest, printable
from webhook.whatif.cluster.snapshot import condition, created, seconds
from webhook.whatif.commands import kubectl
from webhook.whatif.waiting.causes import Cause, Fix
from webhook.whatif.waiting.situation import Situation

_USUAL: Final = 60.0
"""Seconds that a pod may take to start, or to end after its grace period, before it counts as one that waits."""
_WARNINGS: Final = ("FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox", "Failed", "BackOff")
_NO_REASON: Final = ("", "PodInitializing", "ContainerCreating")
"""Reasons that say nothing by themselves."""
_MAX_MESSAGE: Final = 300


def started_late(s: Situation) -> Iterator[Pod]:
    """The pods that have had their node for a while and do not run, and those that do not end since their node is lost."""
    for pod in s.snapshot.of("Pod"):
        on, now = pod["spec"].get("nodeName"), s.snapshot.taken
        if not on or on not in s.snapshot.nodes or pod["status"].get("phase") in FINISHED:
            continue
        if pod["metadata"].get("deletionTimestamp"):
            if _is_lost(s, pod) and now - seconds(pod["metadata"]["deletionTimestamp"]) > _USUAL:
                yield pod
        elif pod["status"].get("phase") == "Pending":
            since = seconds(condition(pod, "PodScheduled").get("lastTransitionTime")) or created(pod)
            if not now or not since or now - since > _USUAL:
                yield pod


def _is_lost(s: Situation, pod: Pod) -> bool:
    node = s.snapshot.nodes.get(pod["spec"].get("nodeName") or "")
    return node is not None and condition(node, "Ready").get("status") != "True"


def bound(s: Situation, pod: Pod) -> Cause:
    """The cause for a pod that has its node. Nothing about it was tried: the scheduler has done its part."""
    node, name = pod["spec"]["nodeName"], pod["metadata"]["name"]
    if pod in s.astray:
        near = nearest(node, list(s.snapshot.nodes))
        text = (
            f"spec.nodeName is {bare(node)}, and no node is called so: nothing starts the pod, and it is deleted soon"
        )
        other = [f"name {bare(near)}, if it is to be there"] if near else []
        return Cause.of("pinnedNode", text, "create it without spec.nodeName: the scheduler then finds a node", *other)
    if pod["metadata"].get("deletionTimestamp") and _is_lost(s, pod):
        text = f"it is being deleted, and its node, {bare(node)}, does not answer: its GPUs stay taken until then"
        words = "see whether the node comes back: its pods go when the node is deleted"
        return Cause.of("bound", text, Fix(words, kubectl("describe", "node", node)), nodes=(node,))
    said = "; ".join(_waits_for(s, pod))
    text = f"it has its node, {bare(node)}, and waits there{f': {said}' if said else ': see the kubelet'}"
    look = kubectl("describe", "pod", name, namespace=pod["metadata"]["namespace"])
    return Cause.of("bound", text, Fix("see what its kubelet says", look), nodes=(node,))


def _waits_for(s: Situation, pod: Pod) -> Iterator[str]:
    """What containers wait for, those before the others first, and what was said last about mounts and images."""
    statuses = [*(pod["status"].get("initContainerStatuses") or ()), *(pod["status"].get("containerStatuses") or ())]
    states = [(status.get("state") or {}).get("waiting") for status in statuses]
    reasons = dict.fromkeys([state.get("reason") or "" for state in states if state])
    told = [reason for reason in reasons if reason not in _NO_REASON]
    if shown := told or [reason for reason in reasons if reason]:
        yield listed(map(bare, shown))
    messages = [_line(state.get("message")) for state in states if state and state.get("reason") in told]
    warned = [_line(each.get("message")) for each in s.events_of("Pod", pod) if each.get("reason") in _WARNINGS]
    yield from list(dict.fromkeys(filter(None, [*messages, *warned])))[:2]


def _line(message: Any) -> str:
    return printable(" ".join(str(message or "").split()))[:_MAX_MESSAGE]
