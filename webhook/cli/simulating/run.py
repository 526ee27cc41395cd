"""Runs pods through the engine and the scheduler: once as if the webhook were not there, and once with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import orjson

from webhook.admission.context import PROFILE_LABEL
from webhook.admission.pods import mutate
from webhook.admission.words import finding_line
from webhook.cli import offline
from webhook.cli.cluster.report import gpus_of
from webhook.cli.cluster.snapshot import Object, Snapshot
from webhook.cli.manifests import Planned
from webhook.cli.simulating.outcome import SIDES, Outcome, Workload, free_gpus, whole_nodes
from webhook.cli.simulating.scheduler import Scheduler
from webhook.cli.waiting.diagnosis import Diagnosis, causes_before_filtering
from webhook.cli.waiting.situation import Case, Situation, priority_of
from webhook.errors import BadInput, BadReview
from webhook.kube.json_patch import apply
from webhook.kube.pod import Pod
from webhook.kube.pod_schema import check
from webhook.placement.placer import Placer
from webhook.policy.model import Policy

_UNSCHEDULABLE = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}


class _Queued(NamedTuple):
    pod: Pod
    workload: Workload | None
    """None of a pod that waited already."""


def simulate(snapshot: Snapshot, policy: Policy, rounds: Iterable[Sequence[Planned]]) -> Outcome:
    """What becomes of the pods of each round, all of which are created at one moment; a later round comes when those of
    the one before are bound, or wait. Pods that wait in the snapshot go first among equal priorities.

    `snapshot` is used up: its state has the pods afterwards. Raises BadInput where a document is no pod.
    """
    snapshot.state.view(snapshot.taken)  # ends the reservations that have expired
    runs = {side: Situation(snapshot, policy) for side in SIDES}
    before = Situation(snapshot, policy)
    resources = [name for name in before.capacity if policy.gpus.kind(name) is not None and before.capacity[name].any()]
    schedulers = {side: Scheduler(situation) for side, situation in runs.items()}
    webhook = _Webhook(snapshot, policy)
    workloads: dict[tuple[Any, ...], Workload] = {}
    old = [_Queued(pod, None) for pod in before.waiting if _tried(before, pod)]
    waited = {"before": len(old), **dict.fromkeys(SIDES, 0)}
    for number, planned in enumerate(rounds):
        queues = {side: list(old) if number == 0 else [] for side in SIDES}
        for plan in planned:
            _admit(plan, policy, webhook, workloads, queues)
        for side, queue in queues.items():
            queue.sort(key=lambda queued: -priority_of(queued.pod))  # stable: PrioritySort, then the time
            for queued in queue:
                node = schedulers[side].bind(queued.pod)
                if side == "with":
                    webhook.seen(queued.pod, node)
                if queued.workload is None:
                    waited[side] += node is not None
                elif node is None:
                    queued.workload.sides[side].waiting.append(queued.pod)
                else:
                    queued.workload.sides[side].bound[node] += 1
    for side, situation in runs.items():
        diagnosis = Diagnosis(situation)
        for workload in workloads.values():
            if waiting := workload.sides[side].waiting:
                workload.sides[side].causes = diagnosis.of(waiting[0])[0]
    views = {"before": before, **runs}
    gpus = {
        name: {
            "free": {key: free_gpus(s, [name]) for key, s in views.items()},
            "wholeNodes": {key: whole_nodes(s, [name]) for key, s in views.items()},
        }
        for name in sorted(resources)
    }
    by_node, whole = _by_node(views, sorted(resources)), whole_nodes(runs["with"], resources)
    return Outcome(list(workloads.values()), gpus, waited, by_node, whole)


def _admit(
    plan: Planned,
    policy: Policy,
    webhook: _Webhook,
    workloads: dict[tuple[Any, ...], Workload],
    queues: dict[str, list[_Queued]],
) -> None:
    """The pods of one template are created."""
    body = _checked(plan)
    gpus = gpus_of(body, policy)
    namespace = plan.document.request.namespace
    key = (namespace, plan.of, tuple(sorted(gpus.items())))
    workload = workloads.setdefault(key, Workload(namespace, plan.of, gpus))
    first = workload.pods
    if not first:
        webhook.judge(plan, workload)
    if plan.of.startswith("daemonset/"):
        workload.notes = ["a DaemonSet: its controller puts one on each node, so there is nothing to choose"]
        return
    workload.pods += plan.replicas
    for number in range(first, first + plan.replicas):
        plain = webhook.created(plan, number)
        if not workload.sides["without"].refused:
            queues["without"].append(_Queued(webhook.prioritised(plain), workload))
        if not workload.sides["with"].refused:
            queues["with"].append(_Queued(webhook.prioritised(webhook.admitted(plan, plain)), workload))


def _checked(plan: Planned) -> Pod:
    """Raises BadInput."""
    try:
        return check(plan.document.request.object)
    except BadReview as error:
        raise BadInput(f"{plan.document.where}: {error}") from None


def _tried(s: Situation, pod: Pod) -> bool:
    """Whether the scheduler looks at nodes for a waiting pod at all."""
    case = Case.of(s, pod)
    return case is not None and not causes_before_filtering(case)


def _by_node(views: dict[str, Situation], resources: list[str]) -> dict[str, dict[str, dict[str, int]]]:
    s = views["before"]
    by_node: dict[str, dict[str, dict[str, int]]] = {}
    for name in resources:
        for row in s.capacity[name].nonzero()[0].tolist():
            amounts = {key: int(view.free[name][row]) for key, view in views.items()}
            by_node.setdefault(s.names[row], {})[name] = {"total": int(s.capacity[name][row]), **amounts}
    return dict(sorted(by_node.items()))


class _Webhook:
    """What the API server and the webhook do with a pod that is created, on the state of the snapshot."""

    def __init__(self, snapshot: Snapshot, policy: Policy) -> None:
        self._state, self._policy, self._now = snapshot.state, policy, snapshot.taken
        self._placer = Placer(snapshot.state)
        classes = snapshot.of("PriorityClass")
        self._classes: dict[str, Object] = {each["metadata"]["name"]: each for each in classes}
        self._default = next((each for each in classes if each.get("globalDefault")), None)

    def judge(self, plan: Planned, workload: Workload) -> None:
        """Whether its pods are refused, by whom, and what else is to be said. Raises BadInput."""
        namespace, view = plan.document.request.namespace, self._state.view(self._now)
        labels = view.namespace_labels(namespace)
        if labels is not None and PROFILE_LABEL not in labels:
            label = f"kubectl label namespace {namespace} {PROFILE_LABEL}=default"
            workload.notes = [f"namespace {namespace} has not opted in, so the webhook is not asked ({label})"]
            return
        decision = offline.run(plan.document, offline.decide_validate, self._policy, self._state, self._now).decision
        warned = [finding_line(unit, finding) for unit, action, finding in decision.findings if action == "warn"]
        workload.notes = [*decision.warnings, *warned]
        if decision.result == "denied":
            workload.message = decision.message
            workload.sides["with"].refused = True
            # what the mutating hook refuses, the API server would refuse itself
            first = mutate(plan.document.request, self._policy, view, self._placer)
            workload.sides["without"].refused = first.result == "denied"

    def created(self, plan: Planned, number: int) -> Pod:
        """The pod of that number, as its author wrote it."""
        pod: Pod = orjson.loads(plan.document.original)
        metadata = pod["metadata"]
        metadata["namespace"] = plan.document.request.namespace
        metadata["name"] = metadata.get("name") or f"{metadata.get('generateName', '')}{number}"
        metadata["uid"] = f"simulated/{metadata['namespace']}/{plan.of}/{number}"
        pod["status"] = {"phase": "Pending"}
        return pod

    def admitted(self, plan: Planned, pod: Pod) -> Pod:
        """As the webhook stores it, with its reservation."""
        request = plan.document.request._replace(object=pod)
        decision = mutate(request, self._policy, self._state.view(self._now), self._placer)
        if decision.patch is not None:
            pod = apply(orjson.loads(decision.patch), pod)
        if decision.reservation is not None and decision.placement is not None:
            self._state.reserve(decision.reservation, decision.placement, self._now)
        self._state.pod_seen(pod, self._now)
        return pod

    def seen(self, pod: Pod, node: str | None) -> None:
        """The scheduler bound it, or said that it fits nowhere."""
        change = (
            {"spec": {**pod["spec"], "nodeName": node}} if node else {"status": {**pod["status"], **_UNSCHEDULABLE}}
        )
        self._state.pod_seen({**pod, **change}, self._now)

    def prioritised(self, pod: Pod) -> Pod:
        """With the priority of its class, as the API server fills it in (plugin/pkg/admission/priority)."""
        priority_class = self._classes.get(pod["spec"].get("priorityClassName") or "", self._default)
        if priority_class is None or "priority" in pod["spec"]:
            return pod
        more = {"priority": int(priority_class.get("value") or 0)}
        return {**pod, "spec": {**pod["spec"], **more, "preemptionPolicy": priority_class.get("preemptionPolicy")}}


def readable(planned: Iterable[Planned | BadInput]) -> Iterator[Planned]:
    """Those that could be read. Raises the first that could not."""
    for plan in planned:
        if isinstance(plan, BadInput):
            raise plan
        yield plan
