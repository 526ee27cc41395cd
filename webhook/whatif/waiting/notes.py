"""What a person asks next about a pod that waits: who is ahead of it, whom it could preempt, and whether a node will come."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from webhook.kube.leader_worker_set import INDEX, SET, SIZE
from webhook.kube.owners import queue_of
from webhook.kube.pod import KUEUE, Pod, annotations_of, labels_of, priority_of
from webhook.kube.schedulers import queueing
from webhook.kube.stores import full_name
from webhook.placement.constraints import Mask
from webhook.text import bare, listed, number_of, plural
from webhook.whatif.cluster.report import gpus_of
from webhook.whatif.cluster.snapshot import Object
from webhook.whatif.waiting import resources
from webhook.whatif.waiting.causes import Cause
from webhook.whatif.waiting.situation import Case, Situation

_AUTOSCALERS: Final = {
    "TriggeredScaleUp": "a node will come",
    "NotTriggerScaleUp": "no node will come",
    "FailedScaleUp": "no node came",
    "FailedToScaleUpGroup": "no node came",
}
"""What the Events of the cluster autoscaler about a pod mean, by their reason (cluster-autoscaler/processors/status)."""
_KARPENTER: Final = {"Nominated": "a node will come", "FailedScheduling": "no node will come"}
"""The same of Karpenter (pkg/controllers/provisioning/scheduling/events)."""
_FULL: Final = ("gpusFragmented", "gpusTaken")
"""Causes after which people ask whether a node will come."""
_TOO_LITTLE: Final = (
    *_FULL,
    *("moreThanAnyNode", "nodesTooSmall", "insufficientCpu", "insufficientMemory", "insufficientEphemeralStorage"),
)
"""Causes after which people ask who wrote these requests."""
_MAX_NAMED: Final = 3
_MAX_MESSAGE: Final = 1000
"""Karpenter names each NodePool before it says why it takes none."""


def ahead(case: Case) -> Iterator[str]:
    """The waiting pods with GPUs that the scheduler tries first, by their priority."""
    s, own = case.situation, priority_of(case.pod)
    before = 0 if queueing(case.pod) else bisect_left(s.first_in_line, -own, key=lambda pod: -priority_of(pod))
    if before and gpus_of(case.pod, s.policy):
        names = [full_name(pod) for pod in s.first_in_line[: _MAX_NAMED + 1]][:before]
        more = f" and {before - _MAX_NAMED} more" if before > _MAX_NAMED else ""
        yield f"ahead of it by priority: {plural(before, 'pod')} with GPUs ({', '.join(names[:_MAX_NAMED])}{more})"


def label_of_kueue(case: Case) -> Iterator[str]:
    """That the label of a queue does nothing."""
    s = case.situation
    if (queue := queue_of(case.pod, s.names_of.find(case.namespace))) and s.unknown_to_kueue(case.pod):
        yield f"its label {KUEUE}={bare(queue)} does nothing here: Kueue has made no Workload of it"


def half_groups(case: Case) -> Iterator[str]:
    """Of a LeaderWorkerSet that groups hold GPUs, and that none is whole: then they wait for each other for ever."""
    s, name, bound = case.situation, labels_of(case.pod).get(SET), Counter[str]()
    size = number_of(annotations_of(case.pod).get(SIZE)) or 0
    for _, pod in s.bound if name else ():
        if labels_of(pod).get(SET) == name and pod["metadata"]["namespace"] == case.namespace:
            bound[labels_of(pod).get(INDEX) or ""] += 1
    if len(bound) > 1 and max(bound.values()) < size:
        groups = listed([f"{bare(group)} ({count})" for group, count in sorted(bound.items())])
        text = f"its groups {groups} hold GPUs, and none has the {size} pods of a group"
        yield f"{text}: with one replica less (replicas: {len(bound) - 1}) what that one holds is for the others"


def preemption(case: Case, only_full: Mask) -> Iterator[str]:
    """Which pods the scheduler may evict for this one, or why none. `only_full`: nodes that nothing but their pods excludes.

    Source: pkg/scheduler/framework/plugins/defaultpreemption (SelectVictimsOnNode: pods of higher priority are kept first) and
    pkg/scheduler/framework/preemption (pickOneNodeForPreemption: the fewest violated PodDisruptionBudgets, then the lowest
    priority of the highest victim). The scheduler may violate a budget where no other node is left.
    """
    s, own = case.situation, priority_of(case.pod)
    if not only_full.any():
        return
    if name := queueing(case.pod):
        yield f"who goes first and who is preempted for it is up to the queues of {name}"
        return
    if case.pod["spec"].get("preemptionPolicy") == "Never":
        if not any(resources.victims(case, only_full)):  # else a cause says so
            of = case.pod["spec"].get("priorityClassName")
            yield f"it preempts nobody: preemptionPolicy Never{f' of priority class {bare(of)}' if of else ''}"
        return
    if (first := victims(case, only_full)) is None:
        lower = (only_full & (s.lowest < own)).any()
        why = (
            f"pods of a priority below {own} hold too little"
            if lower
            else f"no pod has a priority below its own, {own},"
        )
        yield f"it can preempt nobody: {why} on {s.where(only_full)}"
        return
    names = listed([f"{full_name(pod)} (priority {priority_of(pod)}{_kept(s, pod)})" for pod in first.pods], _MAX_NAMED)
    yield f"by its priority {own} it may preempt {plural(len(first.pods), 'pod')} on node {s.names[first.row]}: {names}"


class Victims(NamedTuple):
    """Pods that the scheduler would evict for another, and the row of their node."""

    pods: list[Pod]
    row: int


def victims(case: Case, only_full: Mask) -> Victims | None:
    """Whom the scheduler would evict first for the pod. `only_full`: see `preemption`. None if it would evict nobody, or has
    queues of its own."""
    if queueing(case.pod) or case.pod["spec"].get("preemptionPolicy") == "Never":
        return None
    s, on = case.situation, [Victims(found, row) for row, found in resources.victims(case, only_full)]
    return min(on, key=lambda each: (resources.costs(s, each.pods), s.names[each.row]), default=None)


def _kept(s: Situation, pod: Pod) -> str:
    names = s.budgets.spent(pod)
    return f", though PodDisruptionBudget {listed(map(bare, names))} allows none" if names else ""


def unhealthy(case: Case, only_full: Mask) -> Iterator[str]:
    """The nodes that nothing but their pods excludes, and that the policy calls unhealthy: a fix may send the pod there."""
    s = case.situation
    if gpus_of(case.pod, s.policy) and (names := [name for name in s.named(only_full) if name in s.unhealthy]):
        yield sick_words(names)


def sick_words(names: list[str]) -> str:
    """What is said of unhealthy nodes that a pod may go to."""
    are, them = ("are", "them") if len(names) > 1 else ("is", "it")
    return f"{listed(names, _MAX_NAMED)} {are} unhealthy, so the webhook never chooses {them}; the scheduler may"


def ending(case: Case, only_full: Mask) -> Iterator[str]:
    """The pods that are being deleted on nodes that nothing but their pods excludes, and hold GPUs until then."""
    s = case.situation
    there = [pod for name in s.named(only_full) for pod in s.pods_on.get(name, ())]
    leaving = [pod for pod in there if pod["metadata"].get("deletionTimestamp")]
    if names := [full_name(pod) for pod in leaving if gpus_of(pod, s.policy)]:
        yield f"being deleted there, and has its GPUs until it has ended: {listed(names, _MAX_NAMED)}"


def limit_range(pod: Pod, causes: Iterable[Cause]) -> Iterator[str]:
    """What a LimitRange wrote into a pod for which nodes have too little: its author does not see it in his manifest."""
    said = str(annotations_of(pod).get("kubernetes.io/limit-ranger") or "").partition("plugin set: ")[2]
    if said and any(cause.cause in _TOO_LITTLE for cause in causes):
        yield f"not its manifest but a LimitRange of the namespace set: {bare(said[:_MAX_MESSAGE])}"


def autoscaler(situation: Situation, pod: Pod, causes: Iterable[Cause]) -> Iterator[str]:
    """What an autoscaler said last about the pod; that none said anything, if a new node would help."""
    for event in situation.events_of("Pod", pod):
        if meaning := _meaning(event):
            message = " ".join(str(event.get("message") or "").split())[:_MAX_MESSAGE]
            yield f"{meaning}, says {bare(_reporter(event))}: {message}"
            return
    full = any(cause.cause in _FULL for cause in causes)
    if full and not situation.snapshot.lacks("Event", pod["metadata"]["namespace"]):
        yield "whether a node will come is not known: no autoscaler has written an Event about it"


def _meaning(event: Object) -> str | None:
    known = _KARPENTER if "karpenter" in _reporter(event) else _AUTOSCALERS
    return known.get(str(event.get("reason")))


def _reporter(event: Object) -> str:
    return str(event.get("reportingComponent") or (event.get("source") or {}).get("component") or "cluster-autoscaler")
