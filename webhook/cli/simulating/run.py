"""Runs a simulation: new pods are created and scheduled twice on the same cluster, without the webhook and with it."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

import numpy as np
import orjson

from webhook.admission.decision import IGNORED
from webhook.admission.pods import mutate
from webhook.admission.words import finding_line
from webhook.cli import offline
from webhook.cli.cluster.devices import PodGpus
from webhook.cli.cluster.snapshot import Snapshot
from webhook.cli.manifests import Planned
from webhook.cli.simulating.scheduler import Scheduler
from webhook.cli.waiting.causes import Cause
from webhook.cli.waiting.diagnosis import Diagnosis, causes_before_filtering
from webhook.cli.waiting.free_devices import SIMULATED
from webhook.cli.waiting.gpu_groups import reservations
from webhook.cli.waiting.notes import sick_words
from webhook.cli.waiting.situation import Case, Situation
from webhook.errors import BadInput, BadReview
from webhook.framework.as_stored import as_stored
from webhook.kube.pod import PROFILE_LABEL, Pod, priority_of
from webhook.kube.pod_schema import check
from webhook.placement.placer import Placer
from webhook.policy.model import Policy
from webhook.state.gpu_amounts import gpu_number

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
    """The pods of one template, or those of all lines of a trace, that have the same GPUs, and are all refused or none."""

    namespace: str
    name: str
    template: str
    """See `Planned`."""
    gpus: dict[str, int | float]
    """GPUs of one pod, by resource."""
    pods: int = 0
    message: str = ""
    """Why the pods are refused; "" if they are not."""
    notes: list[str] = field(default_factory=list)
    """Warnings of the webhook, and why it is not asked."""
    sides: dict[str, Side] = field(default_factory=lambda: {side: Side() for side in SIDES})

    @property
    def title(self) -> str:
        return f"{self.name} {self.template}".rstrip()

    @property
    def starts(self) -> bool:
        """Whether all pods are bound in the run with the webhook."""
        return not self.sides["with"].refused and not self.sides["with"].waiting

    def document(self) -> dict[str, Any]:
        head = {"namespace": self.namespace, "of": self.name, "pods": self.pods, "gpus": self.gpus}
        head |= {"template": self.template} if self.template else {}
        sides = {name: side.document() for name, side in self.sides.items()}
        return {**head, "starts": self.starts, "message": self.message, "notes": self.notes, **sides}


@dataclass
class Outcome:
    """The result of a simulation. "before", "without" and "with" are keys for the state before it and after each run."""

    workloads: list[Workload]
    gpus: dict[str, dict[str, dict[str, int | float]]]
    """By GPU resource, then "free" (GPUs) and "wholeNodes" (nodes): the numbers "before", "without" and "with"."""
    waited: dict[str, int]
    """Pods that waited before the simulation: their number ("before"), and how many were bound "without" and "with"."""
    nodes: dict[str, dict[str, dict[str, int | float]]]
    """By node and GPU resource: its "total", and the free GPUs "before", "without" and "with"."""
    whole_nodes: int = 0
    """Number of nodes with all GPUs free after the run with the webhook."""

    def document(self) -> dict[str, Any]:
        workloads = [workload.document() for workload in self.workloads]
        starts = all(workload.starts for workload in self.workloads)
        return {"starts": starts, "workloads": workloads, "gpus": self.gpus, "waited": self.waited}


def whole_nodes(s: Situation, resource: str | None = None) -> list[str]:
    """The healthy nodes that have GPUs, of this resource or of any, and all of them free."""
    return [s.names[row] for row in np.flatnonzero(s.healthy & s.gpus.whole(resource)).tolist()]


def free_gpus(s: Situation, resource: str | None = None) -> int | float:
    """The number of free GPUs on healthy nodes, of this resource or of all."""
    of = [each for name, each in s.gpus.of.items() if resource in (None, name)]
    return gpu_number(sum([float(np.maximum(each.free, 0)[s.healthy].sum()) for each in of]))


_UNSCHEDULABLE = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
_OF_A_DAEMONSET: Final = "a DaemonSet: its controller puts one on each node, so there is nothing to choose"
_Queued = tuple[Pod, Workload | None]
"""A pod in the queue of the scheduler. It is of no workload if it waits in the snapshot already."""


def simulate(snapshot: Snapshot, policy: Policy, rounds: Iterable[Sequence[Planned]]) -> Outcome:
    """Create the pods of each round at one moment, and schedule them before the next round.

    Pods that wait in the snapshot are scheduled in the first round, and go first among equal priorities. The snapshot cannot be
    used afterwards: its state then has the new pods. Raises BadInput if a document is not a pod.
    """
    snapshot.state.view(snapshot.taken)  # ends the reservations that have expired
    runs = {side: Situation(snapshot, policy) for side in SIDES}
    before = Situation(snapshot, policy)
    resources = sorted(before.gpus.of)
    schedulers = {side: Scheduler(situation) for side, situation in runs.items()}
    admission = _Admission(snapshot, policy)
    workloads: dict[tuple[Any, ...], Workload] = {}
    tried = [pod for pod in before.waiting if not causes_before_filtering(Case(before, pod))]
    waiting: list[_Queued] = [(pod, None) for pod in tried]
    waited = {"before": len(waiting), **dict.fromkeys(SIDES, 0)}
    for planned in rounds:
        queues = {side: list(waiting) for side in SIDES}
        waiting = []
        for plan in planned:
            _create(plan, admission, workloads, queues)
        for side, queue in queues.items():
            queue.sort(key=lambda queued: -priority_of(queued[0]))  # PrioritySort: by priority, then by age
            for pod, of in queue:
                bound = schedulers[side].bind(pod)
                if side == "with":
                    admission.scheduled(pod, bound)
                if of is None:
                    waited[side] += bound is not None
                elif bound is None:
                    of.sides[side].waiting.append(pod)
                else:
                    of.sides[side].bound[bound["spec"]["nodeName"]] += 1
    for side, situation in runs.items():
        diagnosis = Diagnosis(situation)
        for workload in workloads.values():
            if pods := workload.sides[side].waiting:
                workload.sides[side].causes = diagnosis.of(pods[0]).causes
    for workload in workloads.values():
        on = {node for side in workload.sides.values() for node in side.bound} & before.unhealthy
        workload.notes += [sick_words(sorted(on))] if on else []
    views = {"before": before, **runs}
    gpus: dict[str, dict[str, dict[str, int | float]]] = {
        name: {
            "free": {key: free_gpus(s, name) for key, s in views.items()},
            "wholeNodes": {key: len(whole_nodes(s, name)) for key, s in views.items()},
        }
        for name in resources
    }
    by_node, whole = _by_node(views, resources), len(whole_nodes(runs["with"]))
    return Outcome(list(workloads.values()), gpus, waited, by_node, whole)


def _by_node(views: dict[str, Situation], resources: list[str]) -> dict[str, dict[str, dict[str, int | float]]]:
    """The value of `Outcome.nodes`."""
    s = views["before"]
    by_node: dict[str, dict[str, dict[str, int | float]]] = {}
    for name in resources:
        for row in s.gpus.of[name].offered.nonzero()[0].tolist():
            amounts = {key: gpu_number(view.gpus.of[name].free[row]) for key, view in views.items()}
            total = gpu_number(s.gpus.of[name].offered[row])
            by_node.setdefault(s.names[row], {})[name] = {"total": total, **amounts}
    return dict(sorted(by_node.items()))


class _Admission:
    """Admission of a new pod as the API server does it: its own plugins, and both hooks of the webhook."""

    def __init__(self, snapshot: Snapshot, policy: Policy) -> None:
        self._state, self._policy, self._now = snapshot.state, policy, snapshot.taken
        self._placer = Placer(snapshot.state)
        self._pod_gpus = PodGpus(snapshot, policy)
        self._known: dict[tuple[str, str, str, bytes], tuple[offline.Document, Workload]] = {}
        self._numbers = count()

    def planned(self, plan: Planned) -> tuple[Planned, Workload]:
        """These pods as the API server stores them, and their workload, which has no pods yet: whether they are refused, and what
        is said. Raises BadInput."""
        namespace = plan.document.request.namespace
        key = namespace, plan.of, plan.template, plan.document.original  # lines of a trace are often equal
        if key not in self._known:
            try:
                stored = offline.as_new(plan.document, self._state.view(self._now))
                gpus = self._pod_gpus.asked(check(stored.request.object), namespace)
            except BadReview as error:
                raise BadInput(f"{plan.document.where}: {error}") from None
            workload = Workload(namespace, plan.of, plan.template, gpus)
            self._known[key] = stored, workload
            self._validate(stored, workload)
            if plan.of.startswith("daemonset/"):
                workload.notes.append(_OF_A_DAEMONSET)
            elif plan.replicas is None:
                workload.notes.append("how many pods it makes is not known: this is one")
        stored, workload = self._known[key]
        return plan._replace(document=stored), workload

    def _validate(self, document: offline.Document, workload: Workload) -> None:
        request, view = document.request, self._state.view(self._now)
        asked = offline.opted_in(request.namespace, view)
        decision = offline.run(document, offline.decide_validate, self._policy, self._state, self._now).decision
        warned = [finding_line(unit, finding) for unit, action, finding in decision.findings if action == "warn"]
        workload.notes = [*decision.warnings, *warned]
        if not asked:
            label = f"kubectl label namespace {request.namespace} {PROFILE_LABEL}=default"
            workload.notes = [f"namespace {request.namespace} has not opted in, so the webhook is not asked ({label})"]
        if decision.result == "denied":
            workload.message = decision.message
            workload.sides["with"].refused = True
            beyond = document.refusals or offline.refused_by_limits(request, request.object or {}, view)
            # The mutating hook refuses only pods that the API server would refuse without the webhook too.
            mutated = mutate(request, self._policy, view, self._placer) if asked else IGNORED
            workload.sides["without"].refused = bool(beyond) or mutated.result == "denied"

    def submitted(self, plan: Planned) -> Pod:
        """One more pod, as its client submits it, with a name, a uid and a status."""
        pod: Pod = orjson.loads(plan.document.original)
        metadata, number = pod["metadata"], next(self._numbers)
        metadata["namespace"] = plan.document.request.namespace
        metadata["name"] = metadata.get("name") or f"{metadata.get('generateName', '')}{number}"
        metadata["uid"] = f"{SIMULATED}{metadata['namespace']}/{plan.of}/{number}"
        pod["status"] = {"phase": "Pending"}
        return pod

    def admit(self, plan: Planned, pod: Pod) -> Pod:
        """The pod as the mutating hook changes it. Its node is reserved, and the state has seen the pod."""
        request, view = plan.document.request._replace(object=pod), self._state.view(self._now)
        asked = offline.opted_in(request.namespace, view)
        decision = mutate(request, self._policy, view, self._placer) if asked else IGNORED
        pod = offline.patched(pod, decision)
        if decision.reservation is not None and decision.placement is not None:
            self._state.reserve(decision.reservation, decision.placement, self._now)
        pod, _ = as_stored(pod, request.namespace, view)  # the API server applies its plugins to what the hook changed
        self._state.pod_seen(pod, self._now)
        return pod

    def scheduled(self, pod: Pod, bound: Pod | None) -> None:
        """Tell the state how the pod is bound, or with None that the scheduler found no node."""
        now = bound or {**pod, "status": {**pod["status"], **_UNSCHEDULABLE}}
        for each in (*(reservations(bound) if bound else ()), now):
            self._state.pod_seen(each, self._now)


def _create(
    plan: Planned,
    admission: _Admission,
    workloads: dict[tuple[Any, ...], Workload],
    queues: dict[str, list[_Queued]],
) -> None:
    """Create the pods of one template, and put those that are admitted into the queues. Raises BadInput."""
    plan, found = admission.planned(plan)
    key = found.namespace, found.name, found.template, tuple(sorted(found.gpus.items())), bool(found.message)
    workload = workloads.setdefault(key, found)
    if plan.of.startswith("daemonset/"):
        return
    replicas = 1 if plan.replicas is None else plan.replicas
    workload.pods += replicas
    for _ in range(replicas):
        pod = admission.submitted(plan)
        if not workload.sides["without"].refused:
            queues["without"].append((pod, workload))
        if not workload.sides["with"].refused:
            queues["with"].append((admission.admit(plan, pod), workload))
