"""The cluster as the scheduler sees it, one waiting pod in it, and how messages name its nodes and workloads."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from webhook.devices.source_kai import KAI
from webhook.devices.sources import SOURCES
from webhook.devices.types import PUBLISHED, DeviceClaim
from webhook.kube.gangs import gang_name
from webhook.kube.gates import GATES, KUEUE_ADMISSION
from webhook.kube.gpus import GPU_KINDS, PARTS
from webhook.kube.kinds import KINDS
from webhook.kube.owners import queue_of
from webhook.kube.pod import Pod, controller_reference, priority_of
from webhook.kube.pod_requests import PodRequests, counted_requests
from webhook.kube.schedulers import queueing
from webhook.nodes.table import Integers
from webhook.placement.constraints import Constraints, Mask, Term, compiled, matches_any
from webhook.placement.feasible import SCHEDULER, Check, Feasible, for_any_pod, free_amounts
from webhook.policy.model import Policy
from webhook.text import bare, listed, nearest, plural, quoted
from webhook.whatif.cluster.devices import PodGpus
from webhook.whatif.cluster.report import gpus_of, has_gpus, health_of, healths, pool_of
from webhook.whatif.cluster.snapshot import Object, Snapshot, created, creation_timestamp, seconds
from webhook.whatif.commands import kubectl
from webhook.whatif.disruption import Budgets
from webhook.whatif.names import Names
from webhook.whatif.waiting.causes import Cause, Fix
from webhook.whatif.waiting.free_devices import FreeDevices, Wants
from webhook.whatif.waiting.free_gpus import FreeGpus
from webhook.whatif.waiting.gpu_groups import GpuGroups, as_bound

_MAX_NAMED: Final = 3
_ADMITS_AFTER: Final = 60.0
"""Seconds after which Kueue, if it runs, has made the Workload of what is new."""
UNREAD: Final = Constraints((), (), (), frozenset())
"""Of a pod that states more constraints than this program reads: no node matches them."""


class Situation:
    """The cluster of one snapshot, in which pods can be bound. Arrays have the rows of the webhook's node table."""

    def __init__(self, snapshot: Snapshot, policy: Policy) -> None:
        self.snapshot, self.policy = snapshot, policy
        self.nodes = snapshot.state.nodes
        columns = self.nodes.columns
        self.rows = slice(0, columns.rows)
        self.names, self.alive = columns.name, columns.alive[: columns.rows].copy()
        self.capacity = {
            name: array[: columns.rows] for name, array in columns.capacity.items() if not name.startswith(PUBLISHED)
        }
        self.free: dict[str, Integers] = free_amounts(snapshot.state, SCHEDULER)
        """As the scheduler counts: without our reservations."""
        self.devices = FreeDevices(snapshot.state)
        self.groups = GpuGroups(snapshot.state, self.devices)
        self.pods_on = {name: list(pods) for name, pods in snapshot.pods_on.items()}
        """As `Snapshot.pods_on`, which `bind` does not change."""
        self.gpus = FreeGpus(snapshot.state, policy.gpus, self.free)

    @cached_property
    def names_of(self) -> Names:
        """The names of its workloads."""
        return Names(self.snapshot)

    @cached_property
    def budgets(self) -> Budgets:
        """Its PodDisruptionBudgets."""
        return Budgets(self.snapshot)

    @cached_property
    def bound(self) -> list[tuple[int, Pod]]:
        """The pods of `pods_on`, each with the row of its node."""
        row_of = self.nodes.row_of
        return [(row_of[name], pod) for name, pods in self.pods_on.items() if name in row_of for pod in pods]

    @cached_property
    def with_anti_affinity(self) -> list[tuple[int, Pod]]:
        """The pods of `bound` with pod anti-affinity."""
        return [(row, pod) for row, pod in self.bound if _has_anti_affinity(pod)]

    @cached_property
    def lowest(self) -> Integers:
        """By row: the lowest priority of a pod on the node; the largest number if it has none."""
        found = np.full(len(self.alive), np.iinfo(np.int64).max)
        np.minimum.at(found, [row for row, _ in self.bound], [priority_of(pod) for _, pod in self.bound])
        return found

    @cached_property
    def gpus_at(self) -> list[tuple[str, ...] | None]:
        """By row: the GPU resources that the node offers; None if it has GPUs, by its labels or its capacity, but offers none."""
        offered = {name: self.capacity[name].tolist() for name in self.policy.gpus.among(self.capacity)}
        by_row: list[tuple[str, ...] | None] = []
        for row, name in enumerate(self.names):
            names = tuple([resource for resource, amounts in sorted(offered.items()) if amounts[row]])
            node = self.snapshot.nodes.get(name)
            by_row.append(None if not names and node is not None and has_gpus(node, self.policy.gpus) else names)
        return by_row

    @cached_property
    def waiting(self) -> list[Pod]:
        """The pods that wait for a node, oldest first."""
        pods = [pod for pod in self._pending if not pod["spec"].get("nodeName")]
        return sorted(pods, key=lambda pod: (creation_timestamp(pod), pod["metadata"]["name"]))

    @cached_property
    def first_in_line(self) -> list[Pod]:
        """Those of `waiting` with GPUs, by their priority: the scheduler tries the first first. Schedulers with queues have
        an order of their own."""
        pods = [pod for pod in self.waiting if not queueing(pod) and gpus_of(pod, self.policy)]
        return sorted(pods, key=lambda pod: -priority_of(pod))

    @cached_property
    def astray(self) -> list[Pod]:
        """The pods whose `spec.nodeName` names no node, and that have not started."""
        known = self.snapshot.nodes
        return [pod for pod in self._pending if known and (pod["spec"].get("nodeName") or "") not in {"", *known}]

    @cached_property
    def _pending(self) -> list[Pod]:
        """The pods that have not started and are not being deleted."""
        pods = [pod for pod in self.snapshot.of("Pod") if pod["status"].get("phase") in (None, "Pending")]
        return [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]

    @cached_property
    def gangs(self) -> Mapping[tuple[str, str], list[Pod]]:
        """The pods of each gang, bound or not, by namespace and name."""
        found = defaultdict[tuple[str, str], list[Pod]](list)
        for pod in self.snapshot.of("Pod"):
            if name := gang_name(pod):
                found[pod["metadata"]["namespace"], name].append(pod)
        return found

    @cached_property
    def for_any_pod(self) -> Feasible:
        """What is wrong with nodes for any pod, by `placement.health` of the default profile."""
        return for_any_pod(health_of(self.policy))

    @cached_property
    def cordoned(self) -> Mask:
        return self.for_any_pod.cordoned(self.nodes, self.rows)

    @cached_property
    def unhealthy(self) -> frozenset[str]:
        """The names of the nodes that the policy calls unhealthy."""
        return frozenset(self.named(self.for_any_pod.sick(self.nodes, self.rows)))

    @cached_property
    def healthy(self) -> Mask:
        """The rows of the nodes that `top` calls healthy."""
        words = healths(self.snapshot, self.policy, [*self.snapshot.nodes])
        healthy: Mask = self.alive & np.array([words.get(name) == "healthy" for name in self.names], bool)
        return healthy

    @cached_property
    def nominated(self) -> list[tuple[int, Pod]]:
        """The pods that wait until their preemption victims have ended, each with the row of its nominated node."""
        nominations = [(pod["status"].get("nominatedNodeName"), pod) for pod in self.waiting]
        return [(self.nodes.row_of[name], pod) for name, pod in nominations if name in self.nodes.row_of]

    @cached_property
    def _events(self) -> Mapping[tuple[str, str, str], list[Object]]:
        by_object: dict[tuple[str, str, str], list[Object]] = {}
        for event in self.snapshot.of("Event"):
            about = event.get("involvedObject") or {}
            key = (str(about.get("kind")), str(about.get("namespace") or ""), str(about.get("name")))
            by_object.setdefault(key, []).append(event)
        for events in by_object.values():
            events.sort(key=last_seen, reverse=True)
        return by_object

    def events_of(self, kind: str, obj: Mapping[str, Any]) -> list[Object]:
        """The events about an object, newest first, as `kubectl describe` finds them."""
        named = self._events.get((kind, obj["metadata"].get("namespace") or "", obj["metadata"]["name"]), [])
        return [event for event in named if is_about(event, obj)]

    @cached_property
    def _known_to_kueue(self) -> Mapping[str, set[str]]:
        """What Kueue has made Workloads of, as `job/train`, by namespace."""
        known: dict[str, set[str]] = {}
        for each in self.snapshot.of("KueueWorkload"):
            owners = each["metadata"].get("ownerReferences") or ()
            known.setdefault(each["metadata"]["namespace"], set()).update(
                [f"{of['kind'].lower()}/{of['name']}" for of in owners]
            )
        return known

    def unknown_to_kueue(self, obj: Object) -> bool:
        """Whether there is no Workload of an object, nor of what made it: Kueue is not installed, does not run or does not manage
        it. False if it is not known."""
        here = obj["metadata"]["namespace"]
        if self.snapshot.lacks("KueueWorkload", here):
            return False
        late = self.snapshot.taken - created(obj) > _ADMITS_AFTER or not self._known_to_kueue
        return late and self._known_to_kueue.get(here, set()).isdisjoint(self.names_of.of(obj))

    def domains(self, key: str) -> tuple[NDArray[np.int32], list[str]]:
        """The topology domain of each row: a number for each value of this node label, 0 without it; and the values by their
        numbers."""
        column, rows = self.nodes.labels.column(key), len(self.alive)
        return (np.zeros(rows, np.int32), [""]) if column is None else (column.padded(rows)[:rows], column.values)

    def named(self, mask: Mask) -> tuple[str, ...]:
        """The names of these nodes, sorted."""
        return tuple(sorted([self.names[row] for row in np.flatnonzero(mask).tolist()]))

    @cached_property
    def _pools(self) -> Mapping[str, str]:
        return {name: pool_of(node) for name, node in self.snapshot.nodes.items()}

    def where(self, mask: Mask) -> str:
        """These nodes in words: "node gpu-a", or with their pools "5 nodes (training 3, spot 2)"."""
        names = self.named(mask)
        if 0 < len(names) <= _MAX_NAMED:
            return f"node{'s' if len(names) > 1 else ''} {', '.join(names)}"
        pools = Counter(filter(None, map(self._pools.get, names)))
        by_pool = ", ".join(f"{bare(pool)} {count}" for pool, count in pools.most_common(_MAX_NAMED))
        return plural(len(names), "node") + (
            f" ({by_pool}{', …' if len(pools) > _MAX_NAMED else ''})" if by_pool else ""
        )

    def models(self, mask: Mask) -> str:
        """The GPU models of these nodes, and whether their GPUs are divided: "NVIDIA-L4, Tesla-T4, shared by several pods"."""
        columns, rows = self.nodes.columns, np.flatnonzero(mask)
        names = sorted({bare(columns.models[number]) for number in columns.model[rows].tolist()} - {""})
        ones = {GPU_KINDS[one] for one in columns.one[rows].tolist()}
        how = "" if "whole" in ones else "in slices" if ones == {"slice"} else "shared by several pods"
        return listed([*names, *([how] if len(rows) and how else [])], 4)

    def parts(self, mask: Mask, resource: str) -> str:
        """What several of a resource are on these nodes, if they are no whole GPUs on any: "shares of GPUs"; else ""."""
        kind = self.policy.gpus.kind(resource)
        offer = mask & (self.capacity.get(resource, np.zeros_like(mask)) > 0)
        ones = {self.nodes.one_of(name, resource).kind if kind == "whole" else kind for name in self.named(offer)}
        return " or ".join([words for one, words in PARTS.items() if one in ones]) if ones <= PARTS.keys() else ""

    def matching(self, terms: Iterable[Term]) -> Mask:
        """The rows whose nodes match one of these terms of a node selector, whether they are alive or not."""
        return matches_any(terms, self.nodes, self.rows)

    def by_status(self, values: Sequence[Any]) -> NDArray[Any]:
        """The value of each row's status. `values` has one for each of `nodes.statuses`."""
        return np.array(values)[self.nodes.columns.status[: len(self.alive)]]

    def cause(self, word: str, text: str, mask: Mask, alone: Mask, *fixes: Fix | str) -> Cause:
        """The cause that excludes the nodes of `mask`. `alone` are the nodes that no other cause excludes."""
        return Cause.of(word, text, *fixes, nodes=self.named(mask), alone=int(np.count_nonzero(mask & alone)))

    def without(self, pods: Collection[Pod]) -> Situation:
        """The same once these pods have ended."""
        found = copy(self)
        for name in ("bound", "lowest"):
            found.__dict__.pop(name, None)
        ended = {*map(id, pods)}
        found.with_anti_affinity = [each for each in self.with_anti_affinity if id(each[1]) not in ended]
        found.free, found.pods_on = {name: amounts.copy() for name, amounts in self.free.items()}, {**self.pods_on}
        found.devices, found.groups, found.gpus = copy(self.devices), copy(self.groups), copy(self.gpus)
        for pod in pods:
            row = self.nodes.row_of[name := pod["spec"]["nodeName"]]
            found.pods_on[name] = [each for each in found.pods_on[name] if each is not pod]
            for resource, amount in counted_requests(pod).requests:
                if resource in found.free:
                    found.free[resource][row] += amount
            found.devices.release(row, {*self._holding.holders(pod)})
            found.gpus.count(row, found.free, found.devices, found.groups)
        return found

    @cached_property
    def _holding(self) -> PodGpus:
        return PodGpus(self.snapshot, self.policy)

    def users(self, row: int, resource: str) -> Mapping[str, tuple[list[Pod], int]]:
        """The pods of each workload («job/train in team-a») on a node that request a resource, and how much of it."""
        found: dict[str, tuple[list[Pod], int]] = {}
        for pod in self.pods_on.get(self.names[row], ()):
            if amount := counted_requests(pod).amount(resource):
                pods, used = found.get(of := self.names_of.top(pod), ([], 0))
                found[of] = [*pods, pod], used + amount
        return found

    def bind(self, case: Case, row: int) -> Pod:
        """Put a pod on a node, as if the scheduler had bound it. Returns the pod as it is then."""
        status = {name: value for name, value in case.pod["status"].items() if name != "conditions"}
        pod = {**with_spec(case.pod, nodeName=self.names[row]), "status": {**status, "phase": "Running"}}
        if case.part is not None:
            groups, opened = self.groups.take(case.part, row)
            self.free[KAI.whole][row] -= opened
            pod = as_bound(pod, groups)
        self.devices.bind(case.wants, row)
        for name, amount in case.pod_requests.requests:
            if name in self.free:
                self.free[name][row] -= amount
        self.gpus.count(row, self.free, self.devices, self.groups)
        self.pods_on[self.names[row]] = [*self.pods_on.get(self.names[row], ()), pod]
        self.__dict__.pop("lowest", None)
        for name in ("bound", "with_anti_affinity"):  # which are made of `pods_on`
            if name in self.__dict__ and (name == "bound" or _has_anti_affinity(pod)):
                self.__dict__[name].append((row, pod))
        return pod


class Case:
    """One waiting pod, with its requests and constraints."""

    def __init__(self, situation: Situation, pod: Pod) -> None:
        self.situation, self.pod = situation, pod
        self.pod_requests, self.constraints = counted_requests(pod), compiled(pod["spec"]) or UNREAD

    @property
    def namespace(self) -> str:
        return str(self.pod["metadata"]["namespace"])

    @cached_property
    def daemon(self) -> bool:
        """Whether it is a pod of a DaemonSet: it is for one node, and each other node has one of its own."""
        return (controller_reference(self.pod) or {}).get("kind") == "DaemonSet"

    @cached_property
    def nodes(self) -> Mask:
        """The nodes among which the scheduler may choose: for a pod of a DaemonSet its own, if there is one."""
        s = self.situation
        own = s.alive & ~failing(s, self.judgement.pinned(s.nodes, s.rows))
        return own if self.daemon and own.any() else s.alive

    @cached_property
    def wants(self) -> Wants:
        """The devices that the pod needs."""
        return self.situation.devices.wants(self.pod, self.pod_requests)

    @cached_property
    def judgement(self) -> Feasible:
        """As the scheduler judges nodes. Memory and cores of parts of GPUs are left out: `claims.devices` looks at these."""
        parts = {claim.source for claim in self.wants.claims} - {""}
        others = {name for source in SOURCES if source.name in parts for name in source.part_resources}
        counted = PodRequests(tuple([each for each in self.pod_requests.requests if each[0] not in others]))
        return Feasible(self.constraints, counted, SCHEDULER, claimed=self.wants.extended)

    @cached_property
    def part(self) -> DeviceClaim | None:
        """The part of a GPU that KAI gives the pod; None if it asks for none."""
        return KAI.claim(self.pod)

    @property
    def whole_gpus(self) -> Integers:
        """How many of the GPUs of which KAI gives parts are free on each node, whole ones."""
        return self.situation.free.get(KAI.whole, np.zeros(len(self.situation.alive), np.int64))

    def absent(
        self, word: str, kind: str, name: str, of: str = "", named: Callable[[str], Pod] | None = None
    ) -> Iterator[Cause]:
        """The cause that an object does not exist, if its kind could be read. `named` makes the pod that names another one."""
        if not self.situation.snapshot.lacks(kind, self.namespace):
            yield absent(self.situation, self.namespace, word, kind, name, of=of, named=named)


def absent(
    s: Situation,
    namespace: str,
    word: str,
    kind: str,
    name: str,
    *,
    of: str = "",
    lacks: str = "",
    named: Callable[[str], Pod] | None = None,
) -> Cause:
    """The cause that an object does not exist. `lacks` begins its text; `of` says who refers to it."""
    known = sorted([each for where, each in s.snapshot.named(kind) if where in ("", namespace)])
    near, within = nearest(name, known), namespace if KINDS[kind].namespaced else ""
    hint = f"; nearest: {bare(near)}" if near else f"; there are {listed(map(bare, known))}" if known else ""
    create: Fix | str = "create it"
    if kind == "ServiceAccount":
        create = Fix(
            "create it",
            kubectl("create", "serviceaccount", name, namespace=namespace),
            pod=named and named(name),  # nothing else of it counts
        )
    fixes = [create]
    if near:
        fixes.insert(0, Fix(f"name {bare(near)} in place of {bare(name)}", pod=named and named(near)))
    text = f"{lacks}{kind} {quoted(name)} does not exist{f' in {within}' if within else ''}{of}{hint}"
    return Cause.of(word, text, *fixes)


def is_about(event: Object, obj: Mapping[str, Any]) -> bool:
    """Whether an event that names an object is about it, and not about one that had the name before."""
    uid = (event.get("involvedObject") or {}).get("uid")
    return not uid or uid == obj["metadata"].get("uid", uid)


def queued(s: Situation, obj: Object, resume: Fix | str) -> Cause:
    """The cause for a pod or workload that Kueue is to start. `resume`: what starts it where Kueue does not."""
    namespace = obj["metadata"]["namespace"]
    queue = queue_of(obj, s.names_of.find(namespace))
    queue = f" from queue {quoted(queue)}" if queue else ""
    if s.unknown_to_kueue(obj):
        text = f"nobody starts it: Kueue is to admit it{queue}, and has made no Workload of it"
        return Cause.of("queued", text, resume, "install Kueue, or see whether it runs and manages the namespace")
    look = Fix("see what its Workload waits for", kubectl("describe", GATES[KUEUE_ADMISSION].seen, namespace=namespace))
    return Cause.of("queued", f"Kueue has not admitted it{queue}", look)


def failing(s: Situation, checks: Iterable[Check]) -> Mask:
    """The nodes that one of these checks excludes."""
    fails = np.zeros_like(s.alive)
    for check in checks:
        fails |= ~check.passes
    return s.alive & fails


def with_spec(pod: Pod, **fields: Any) -> Pod:
    """A copy of the pod with these fields of its spec."""
    return {**pod, "spec": {**pod["spec"], **fields}}


def without_affinity(pod: Pod, kind: str) -> Pod:
    affinity = {name: terms for name, terms in (pod["spec"].get("affinity") or {}).items() if name != kind}
    return with_spec(pod, affinity=affinity)


def _has_anti_affinity(pod: Pod) -> bool:
    return bool((pod["spec"].get("affinity") or {}).get("podAntiAffinity"))


def last_seen(event: Object) -> float:
    """When an event happened last, in seconds since 1970."""
    series = event.get("series") or {}
    times = (event.get("lastTimestamp"), event.get("eventTime"), series.get("lastObservedTime"))
    return max(seconds(time) for time in (*times, event["metadata"].get("creationTimestamp")))
