"""Tries new pods on a snapshot: each is admitted as by the API server and the webhook, then scheduled. Nothing is created.

Pods that wait in the snapshot go first among equal priorities. Not modelled: preemption, queues, gang schedulers, pods that end
meanwhile, and what the model of the scheduler leaves out (`whatif.scheduler`).
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Final

import numpy as np
import orjson

from webhook.admission.pods import mutate
from webhook.errors import BadInput, BadReview
from webhook.framework.as_stored import as_stored
from webhook.kube.gpus import DIVIDED, GPU_KINDS, GpuKind
from webhook.kube.pod import KUEUE, Pod, labels_of, priority_of
from webhook.kube.record import record_of
from webhook.placement.constraints import Mask
from webhook.placement.placer import Placer
from webhook.policy.model import Policy
from webhook.state.gpu_amounts import gpu_number
from webhook.text import bare, plural, quoted
from webhook.whatif import offline
from webhook.whatif.cluster.devices import PodGpus
from webhook.whatif.cluster.snapshot import Snapshot
from webhook.whatif.daemons import as_daemon, eligible
from webhook.whatif.manifests import Planned
from webhook.whatif.scheduler import Scheduler
from webhook.whatif.verdict import Verdict, verdict
from webhook.whatif.waiting.causes import Cause
from webhook.whatif.waiting.diagnosis import Diagnosis, causes_before_filtering
from webhook.whatif.waiting.free_devices import SIMULATED
from webhook.whatif.waiting.gpu_groups import reservations
from webhook.whatif.waiting.notes import sick_words
from webhook.whatif.waiting.quotas import Quotas
from webhook.whatif.waiting.situation import Case, Situation

MAX_PODS: Final = 10_000
"""So many pods of one template are tried at most."""


@dataclass
class Tried:
    """What becomes of the equal pods of one template."""

    plan: Planned
    verdict: Verdict
    gpus: dict[str, int | float]
    """GPUs of one pod, by resource."""
    pods: int
    notes: list[str] = field(default_factory=list)
    bound: Counter[str] = field(default_factory=Counter)
    """Number of pods that would start, by node."""
    waiting: list[Pod] = field(default_factory=list)
    causes: list[Cause] = field(default_factory=list)
    """Why the first pod of `waiting` waits in the end."""
    created: int = 0
    """How many pods the quotas of the namespace let be created."""
    kept: Cause | None = None
    """Why the others are not."""

    @property
    def namespace(self) -> str:
        return self.plan.document.request.namespace

    @property
    def refused(self) -> bool:
        return self.verdict.outcome == "refused"

    @property
    def good(self) -> bool:
        """Whether none of the pods is refused or would wait."""
        return not self.refused and not self.waiting


@dataclass
class Outcome:
    """What becomes of all pods. Amounts are those "before" and "after"."""

    tried: list[Tried]
    gpus: dict[str, dict[str, dict[str, int | float]]]
    """By GPU resource, "free" (GPUs on healthy nodes) and "wholeNodes"."""
    waited: dict[str, int]
    """Pods that waited already, and how many of them still would."""
    errors: list[BadInput]
    """What could not be tried."""


def try_pods(snapshot: Snapshot, policy: Policy, planned: Iterable[Planned], *, asks: bool = True) -> Outcome:
    """Create these pods at one moment, and schedule them, if all nodes and pods are known. `asks`: the webhook is asked where the
    namespace has opted in. The snapshot cannot be used afterwards: its state then has the new pods."""
    snapshot.state.view(snapshot.taken)  # ends the reservations that have expired
    before, situation = Situation(snapshot, policy), Situation(snapshot, policy)
    scheduler, admission = Scheduler(situation), Admission(snapshot, policy, asks=asks)
    places = not snapshot.missing.keys() & {"Node", "Pod"}
    queue: list[tuple[Pod, Tried | None]] = [
        (pod, None) for pod in before.waiting if places and not causes_before_filtering(Case(before, pod))
    ]
    waited = {"before": len(queue), "after": len(queue)}
    found, errors, quotas = list[Tried](), list[BadInput](), Quotas(snapshot)
    for plan in planned:
        try:
            tried = admission.tried(plan)
        except BadInput as error:
            errors.append(error)
            continue
        found.append(tried)
        decided = tried.verdict.mutated
        serves = tried.verdict.asked and policy.spreads(decided.profile, decided.workload)
        if lacks := before.budgets.lacks(tried.verdict.decided, tried.pods, serves=serves):
            tried.notes.append(lacks)
        if not places or tried.refused:
            continue
        if plan.of.startswith("daemonset/"):
            _daemons(situation, tried, admission)
        else:
            queue += [(pod, tried) for pod in _created(situation, tried, admission, quotas)]
    queue.sort(key=lambda queued: -priority_of(queued[0]))  # PrioritySort: by priority, then by age
    for pod, of in queue:
        bound = scheduler.bind(pod)
        admission.scheduled(pod, bound)
        if of is None:
            waited["after"] -= bound is not None
        elif bound is None:
            of.waiting.append(pod)
        else:
            of.bound[bound["spec"]["nodeName"]] += 1
    diagnosis = Diagnosis(situation)
    for each in found:
        unbound = [pod for pod in each.waiting if pod is not each.verdict.decided]
        kept = [pod for pod in each.waiting if pod is each.verdict.decided]
        each.causes = diagnosis.uncreated(kept, [each.kept]).causes if each.kept else []
        each.causes += diagnosis.for_all(unbound, diagnosis.of(unbound[0]).causes) if unbound else []
        on = each.bound.keys() & before.unhealthy
        each.notes += [sick_words(sorted(on))] if on else []
    return Outcome(found, {name: _gpus(before, situation, name) for name in sorted(before.gpus.of)}, waited, errors)


def _gpus(before: Situation, after: Situation, resource: str) -> dict[str, dict[str, int | float]]:
    """What `Outcome.gpus` says of a resource."""
    found: dict[str, dict[str, int | float]] = {
        key: {"before": _free(before, resource, one), "after": _free(after, resource, one)}
        for key, one in zip(FREE, GPU_KINDS, strict=True)
        if one == "whole" or _parts_of(before, resource, one).any()
    }
    found["wholeNodes"] = {"before": len(whole_nodes(before, resource)), "after": len(whole_nodes(after, resource))}
    return found


def whole_nodes(s: Situation, resource: str | None = None) -> list[str]:
    """The healthy nodes that have GPUs, of this resource or of any, and all of them free."""
    return [s.names[row] for row in np.flatnonzero(s.healthy & s.gpus.whole(resource)).tolist()]


def free_by_resource(s: Situation, one: GpuKind) -> dict[str, int | float]:
    """By resource of which some are: the free GPUs on healthy nodes that are this by the labels of their node; "whole" where
    these say nothing."""
    return {name: free for name in s.gpus.of if (free := _free(s, name, one))}


def _free(s: Situation, resource: str, one: GpuKind) -> int | float:
    return gpu_number(float(np.maximum(s.gpus.of[resource].free, 0)[s.healthy & _parts_of(s, resource, one)].sum()))


def _parts_of(s: Situation, resource: str, one: GpuKind) -> Mask:
    """The nodes on which one of a resource is this, by their labels."""
    columns, offered = s.nodes.columns, s.gpus.of[resource].offered
    kinds = columns.one[: len(offered)] if resource in DIVIDED else np.zeros(len(offered), np.int8)
    return np.asarray((kinds == GPU_KINDS.index(one)) & (offered > 0))


FREE: Final = ("free", "freeSlices", "freeShares")
"""How the numbers of free GPUs, slices and shares of one resource are called."""
_UNSCHEDULABLE = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}


class Admission:
    """Admission of new pods as the API server does it: its own plugins, and both hooks of the webhook."""

    def __init__(self, snapshot: Snapshot, policy: Policy, *, asks: bool = True) -> None:
        self._state, self._policy, self._now, self._asks = snapshot.state, policy, snapshot.taken, asks
        self._placer = Placer(snapshot.state)
        self._no_kueue = "KueueWorkload" not in snapshot.missing and not snapshot.of("KueueWorkload")
        self._pod_gpus = PodGpus(snapshot, policy)
        self._numbers = count()

    def tried(self, plan: Planned) -> Tried:
        """The decision on one of these pods. Raises BadInput."""
        request = plan.document.request
        if request.operation != "CREATE" or request.subresource:
            seen = f"{request.operation} {request.subresource}".rstrip()
            raise BadInput(f"{plan.document.where}: saw a review of {seen}, wanted one of the CREATE of a pod")
        policy = self._policy.for_parts() if plan.completed else self._policy
        found = verdict(plan.document, policy, self._state.view(self._now), self._placer, asks=self._asks)
        try:
            gpus = self._pod_gpus.asked(found.brought, request.namespace)
        except BadReview as error:
            raise BadInput(f"{plan.document.where}: {error}") from None
        wanted = 1 if plan.replicas is None else plan.replicas
        return Tried(plan, found, gpus, min(wanted, MAX_PODS), list(self._notes(plan, found, wanted)))

    def _notes(self, plan: Planned, found: Verdict, wanted: int) -> Iterator[str]:
        if not self._asks:
            return
        if not found.asked:
            yield offline.not_opted_in(found.request.namespace)
        elif found.mutated.result == "dryRun":
            yield f"nothing is changed: profile {found.mutated.profile} is in dry run"
        elif found.outcome != "refused" and not record_of(found.decided):
            yield "nothing is changed: it asks for no GPU that the policy names, or no injector for it is enabled"
        if queue := labels_of(found.brought).get(KUEUE):
            yield (
                f"its label {KUEUE}={bare(queue)} does nothing unless Kueue runs here, and there is no Workload of it"
                if self._no_kueue
                else f"Kueue holds it back first, in queue {quoted(queue)}: whether it starts is what Kueue decides"
            )
        if plan.completed:
            yield "its controller completes its pods: only what is written here is judged"
        if plan.replicas is None and not plan.of.startswith("daemonset/"):
            yield "how many pods it makes is not known: this is one"
        if wanted > MAX_PODS:
            yield f"the first {MAX_PODS} of {wanted} pods are tried"

    def admit(self, tried: Tried) -> Pod:
        """One more pod, as the API server stores it. Its node is reserved, and the state has seen the pod."""
        request, view = tried.verdict.request, self._state.view(self._now)
        pod: Pod = orjson.loads(orjson.dumps(tried.verdict.brought))
        metadata, number = pod["metadata"], next(self._numbers)
        metadata["namespace"] = request.namespace
        metadata["name"] = metadata.get("name") or f"{metadata.get('generateName', '')}{number}"
        metadata["uid"] = f"{SIMULATED}{request.namespace}/{tried.plan.of}/{number}"
        pod["status"] = {"phase": "Pending"}
        if self._asks and tried.verdict.asked:
            decision = mutate(request._replace(object=pod), self._policy, view, self._placer)
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


def _created(situation: Situation, tried: Tried, admission: Admission, quotas: Quotas) -> Iterator[Pod]:
    """The pods as they are stored: as many as the quotas of the namespace let be created."""
    decided, of = tried.verdict.decided, tried.plan.of
    for _ in range(tried.pods):
        if (cause := quotas.take(decided, tried.pods - tried.created)) is not None:
            tried.kept = cause
            tried.waiting += [decided] * (tried.pods - tried.created)
            return
        tried.created += 1
        pod = admission.admit(tried)
        if not of.startswith("pod/"):
            situation.names_of.tried[pod["metadata"]["uid"]] = of
        yield pod


def _daemons(situation: Situation, tried: Tried, admission: Admission) -> None:
    """Put a pod of a DaemonSet on each node that is for it by its template: the controller does not know what its pods get."""
    names, _ = eligible(situation, as_daemon(tried.verdict.brought))
    wider, fits = eligible(situation, as_daemon(tried.verdict.decided))
    tried.pods = len(names)
    if more := len(wider) - len(names):
        tried.notes.append(
            f"no pod is made for {plural(more, 'node')} whose taints its pods would tolerate: add their tolerations to the "
            "template, which is all that the controller reads"
        )
    for name in names[:MAX_PODS]:
        each = as_daemon(admission.admit(tried), name)
        if name in fits:
            bound = situation.bind(Case(situation, each), situation.nodes.row_of[name])
            admission.scheduled(each, bound)
            tried.bound[name] += 1
        else:
            tried.waiting.append(each)
