"""What a pod waits for that has its node: for the kubelet, which pulls images, mounts volumes and runs init containers; or for
the end of a node that has gone away. What one does that does not wait."""

from collections.abc import Iterator
from typing import Any, Final

from webhook.kube.pod import FINISHED, Pod, owner
from webhook.text import bare, listed, nearest, plural, printable, quoted
from webhook.whatif.cluster.snapshot import Object, Snapshot, condition, created, seconds
from webhook.whatif.commands import kubectl, with_command
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
            if _is_lost(s, pod) and is_late(s.snapshot, pod):
                yield pod
        elif pod["status"].get("phase") == "Pending":
            since = seconds(condition(pod, "PodScheduled").get("lastTransitionTime")) or created(pod)
            if not now or not since or now - since > _USUAL:
                yield pod


def is_late(snapshot: Snapshot, pod: Pod) -> bool:
    """Whether a pod that is being deleted should have ended: its grace period has, a while ago."""
    return snapshot.taken - seconds(pod["metadata"].get("deletionTimestamp")) > _USUAL


def _is_lost(s: Situation, pod: Pod) -> bool:
    node = s.snapshot.nodes.get(pod["spec"].get("nodeName") or "")
    return node is not None and not _is_up(node)


def _is_up(node: Object) -> bool:
    return bool(condition(node, "Ready").get("status") == "True")


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
    said = [*_waits_for(s, pod)]
    text = f"it has its node, {bare(node)}, and waits there: {'; '.join(said) or 'see the kubelet'}"
    look = kubectl("describe", "pod", name, namespace=pod["metadata"]["namespace"])
    of = f" of {said[0]}" if said and not said[0].startswith(_NO_REASON[1:]) else ""
    return Cause.of("bound", text, Fix(f"see what its kubelet says{of}", look), nodes=(node,))


def _waits_for(s: Situation, pod: Pod) -> Iterator[str]:
    """What containers wait for, those before the others first, and what was said last about mounts and images."""
    states = [(status.get("state") or {}).get("waiting") for status in _statuses(pod)]
    reasons = dict.fromkeys([state.get("reason") or "" for state in states if state])
    told = [reason for reason in reasons if reason not in _NO_REASON]
    if shown := told or [reason for reason in reasons if reason]:
        yield listed(map(bare, shown))
    messages = [_line(state.get("message")) for state in states if state and state.get("reason") in told]
    warned = [_line(each.get("message")) for each in s.events_of("Pod", pod) if each.get("reason") in _WARNINGS]
    yield from list(dict.fromkeys(filter(None, [*messages, *warned])))[:2]


def state_of(snapshot: Snapshot, pod: Pod) -> str:
    """What a pod does that does not wait, and what is wrong with it; "" for one that waits."""
    phase, on = str(pod["status"].get("phase") or "Pending"), pod["spec"].get("nodeName")
    if pod["metadata"].get("deletionTimestamp"):
        phase, more = "being deleted", [*_keeps(snapshot, pod)]
    elif phase == "Pending":
        return ""
    else:
        more = [*(_ended(pod) if phase in FINISHED else _ails(pod))]
    said = f": {'; '.join(more)}" if more else ""
    return f"it does not wait: it is {phase}{f' on {bare(on)}' if on else ''}{said}"


def _keeps(snapshot: Snapshot, pod: Pod) -> Iterator[str]:
    """What keeps a pod from being gone."""
    if is_late(snapshot, pod):
        yield f"its grace period ended at {bare(pod['metadata']['deletionTimestamp'])}"
        if (node := snapshot.nodes.get(pod["spec"].get("nodeName") or "")) and not _is_up(node):
            yield "its node does not answer"
        if names := pod["metadata"].get("finalizers"):
            yield f"a finalizer keeps it: {listed(map(bare, names))}"


def _ended(pod: Pod) -> Iterator[str]:
    """Why a pod has failed."""
    yield from filter(None, map(_line, (pod["status"].get("reason"), pod["status"].get("message"))))
    for status in _statuses(pod):
        if why := _exit(status.get("state")):
            yield f"container {quoted(status.get('name'))} ended: {why}"
    if pod["status"]["phase"] == "Failed" and owner(pod) is None:
        yield "it never runs again, and nobody makes another: create it again"


def _ails(pod: Pod) -> Iterator[str]:
    """What is wrong with the containers of a pod that runs."""
    metadata = pod["metadata"]
    for status in _statuses(pod):
        name, state = status.get("name"), status.get("state") or {}
        if reason := (state.get("waiting") or {}).get("reason"):
            restarts = plural(int(status.get("restartCount") or 0), "restart")
            yield f"container {quoted(name)} does not run: {bare(reason)}, {restarts}"
            if why := _exit(status.get("lastState")):
                logs = kubectl("logs", metadata["name"], "-c", str(name), "--previous", namespace=metadata["namespace"])
                yield f"it ended last: {why}"
                yield with_command("its last output", logs)
        elif "running" in state and not status.get("ready"):
            yield f"container {quoted(name)} is not ready"


def _exit(state: Object | None) -> str:
    """`OOMKilled, exit code 137` for a container that ended with an error."""
    ended = (state or {}).get("terminated") or {}
    return (
        f"{bare(ended.get('reason') or 'Error')}, exit code {int(ended['exitCode'])}" if ended.get("exitCode") else ""
    )


def _statuses(pod: Pod) -> list[Object]:
    """Of its containers, those of init containers first."""
    status = pod["status"]
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def _line(message: Any) -> str:
    return printable(" ".join(str(message or "").split()))[:_MAX_MESSAGE]
