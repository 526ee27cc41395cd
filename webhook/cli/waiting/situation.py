"""The cluster as the scheduler sees it, and the words for parts of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from webhook.cli.cluster.report import has_gpu_labels, pool_of
from webhook.cli.cluster.snapshot import FINISHED, Object, Snapshot, has_anti_affinity, seconds
from webhook.cli.waiting.cause import Cause
from webhook.cluster.node_table import Demand, Integers
from webhook.cluster.pods import counted_demand
from webhook.kube.pod import Pod, labels_of, owner
from webhook.placement.constraints import Constraints, Mask, compiled
from webhook.policy.model import Policy
from webhook.text import bare, plural
from webhook.text import nearest as alike

_MAX_NAMED = 3
_CLASS = "deviceclass.resource.kubernetes.io/"
_BYTES = ("memory", "ephemeral-storage")


class Situation:
    """The cluster of one snapshot. Rows are those of the webhook's node table."""

    def __init__(self, snapshot: Snapshot, policy: Policy) -> None:
        self.snapshot, self.policy = snapshot, policy
        self.nodes = snapshot.state.nodes
        columns = self.nodes.columns
        self.names, self.alive = columns.name, columns.alive[: columns.rows].copy()
        self.capacity = {name: array[: columns.rows] for name, array in columns.capacity.items()}
        self.free: dict[str, Integers] = {name: array[: columns.rows].copy() for name, array in columns.free.items()}
        """As the scheduler counts: it does not know our reservations."""
        self.domains: dict[str, list[str]] = {}
        """By label key: its value on each row. Filled as keys are asked for."""
        self._named: dict[bytes, tuple[str, ...]] = {}
        self._where: dict[bytes, str] = {}
        self._held: dict[tuple[int, str], Counter[str]] = {}
        self.pods_on = {name: list(pods) for name, pods in snapshot.pods_on.items()}
        """The pods that hold something of a node, by its name. Changed by `bind`, which leaves the snapshot as it is."""
        for row, kind in snapshot.state.ledger.holders():
            for name, amount in kind.demand.requests:
                if name in self.free:
                    self.free[name][row] += amount

    @cached_property
    def bound(self) -> list[tuple[int, Pod]]:
        """Every pod that is on a node, with its row."""
        row_of = self.nodes.row_of
        return [(row_of[name], pod) for name, pods in self.pods_on.items() if name in row_of for pod in pods]

    @cached_property
    def with_anti_affinity(self) -> list[tuple[int, Pod]]:
        """Those of them with pod anti-affinity, first those of the snapshot."""
        row_of = self.nodes.row_of
        return [(row_of[name], pod) for name, pod in self.snapshot.with_anti_affinity if name in row_of]

    @cached_property
    def gpus_at(self) -> list[tuple[str, ...] | None]:
        """By row: the GPU resources that a node offers; None where it has GPUs by its labels, and offers none."""
        offered = {name: self.capacity[name].tolist() for name in self.policy.gpus.among(self.capacity)}
        by_row: list[tuple[str, ...] | None] = []
        for row, name in enumerate(self.names):
            names = tuple([resource for resource, amounts in sorted(offered.items()) if amounts[row]])
            node = self.snapshot.nodes.get(name)
            by_row.append(None if not names and node is not None and has_gpu_labels(node) else names)
        return by_row

    @cached_property
    def waiting(self) -> list[Pod]:
        """Every pod that waits for a node, oldest first."""
        pods = [pod for pod in self.snapshot.of("Pod") if not pod["spec"].get("nodeName")]
        pods = [
            pod
            for pod in pods
            if pod["status"].get("phase") not in FINISHED and not pod["metadata"].get("deletionTimestamp")
        ]
        return sorted(pods, key=lambda pod: (pod["metadata"].get("creationTimestamp") or "", pod["metadata"]["name"]))

    @cached_property
    def nominated(self) -> list[tuple[int, Pod]]:
        """Pods that wait for the victims of their preemption, with the row that is kept for them."""
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
            events.sort(key=_when, reverse=True)
        return by_object

    def events_of(self, kind: str, obj: Mapping[str, Any]) -> list[Object]:
        """Newest first."""
        return self._events.get((kind, obj["metadata"].get("namespace") or "", obj["metadata"]["name"]), [])

    def labels(self, row: int) -> Mapping[str, str]:
        return self.nodes.labels.get(row)

    def named(self, mask: Mask) -> tuple[str, ...]:
        """The names of these nodes, sorted. Kept, and the same for equal masks: most shapes of pods meet the same nodes."""
        key = mask.tobytes()
        names = self._named.get(key)
        if names is None:
            names = self._named[key] = tuple(sorted([self.names[row] for row in np.flatnonzero(mask).tolist()]))
        return names

    def where(self, mask: Mask) -> str:
        """These nodes in words: "node gpu-a", "5 nodes (training 3, spot 2)"."""
        key = mask.tobytes()
        text = self._where.get(key)
        if text is None:
            text = self._where[key] = self._nodes_text(self.named(mask))
        return text

    def _nodes_text(self, names: tuple[str, ...]) -> str:
        if 0 < len(names) <= _MAX_NAMED:
            return f"node{'s' if len(names) > 1 else ''} {', '.join(names)}"
        nodes = self.snapshot.nodes
        pools = Counter(filter(None, [pool_of(nodes[name]) for name in names if name in nodes]))
        by_pool = ", ".join(f"{bare(pool)} {count}" for pool, count in pools.most_common(_MAX_NAMED))
        return plural(len(names), "node") + (
            f" ({by_pool}{', …' if len(pools) > _MAX_NAMED else ''})" if by_pool else ""
        )

    def cause(self, word: str, text: str, fix: str, mask: Mask, alone: Mask) -> Cause:
        """What keeps the pod from these nodes. `alone`: where nothing else does."""
        return Cause(word, text, fix, self.named(mask), int(np.count_nonzero(mask & alone)))

    def held(self, row: int, resource: str) -> Mapping[str, int]:
        """How much of a resource the workloads on a node have: «job/train in team-a»."""
        amounts = self._held.get((row, resource))
        if amounts is None:
            amounts = self._held[row, resource] = Counter()
            for pod in self.snapshot.pods_on.get(self.names[row], ()):
                amounts[f"{holder(pod)} in {pod['metadata']['namespace']}"] += counted_demand(pod).amount(resource)
        return amounts

    def bind(self, pod: Pod, demand: Demand, row: int) -> None:
        """One pod more on a node, as if the scheduler had bound it."""
        for name, amount in demand.requests:
            if name in self.free:
                self.free[name][row] -= amount
        self.bound.append((row, pod))  # before `pods_on`, which it is read from
        self.pods_on.setdefault(self.names[row], []).append(pod)
        if has_anti_affinity(pod):
            self.with_anti_affinity.append((row, pod))

    def priority(self, pod: Pod) -> int:
        return int(pod["spec"].get("priority") or 0)


@dataclass
class Case:
    """One waiting pod, with its demand and constraints."""

    situation: Situation
    pod: Pod
    demand: Demand
    constraints: Constraints

    @classmethod
    def of(cls, situation: Situation, pod: Pod) -> Case | None:
        """None where its constraints are more than this program compiles."""
        constraints = compiled(pod["spec"])
        return None if constraints is None else cls(situation, pod, counted_demand(pod), constraints)

    @property
    def namespace(self) -> str:
        return str(self.pod["metadata"]["namespace"])

    @cached_property
    def demand_of_devices(self) -> Mapping[str, str]:
        """The device class of each extended resource that one stands for (KEP-5004): the scheduler makes a claim for it on nodes
        whose device plugin does not offer it."""
        known = {name: obj for (_, name), obj in self.situation.snapshot.named("DeviceClass").items()}
        by_name = {f"{_CLASS}{name}": name for name in known}
        by_name |= {each: name for name, obj in known.items() if (each := obj["spec"].get("extendedResourceName"))}
        return {name: by_name[name] for name, _ in self.demand.requests if name in by_name}


def _when(event: Object) -> float:
    series = event.get("series") or {}
    times = (event.get("lastTimestamp"), event.get("eventTime"), series.get("lastObservedTime"))
    return max(seconds(time) for time in (*times, event["metadata"].get("creationTimestamp")))


def nearest(word: str, known: Sequence[str]) -> str | None:
    """Of labels: one that begins with the word, or holds it; else the most alike."""
    low = word.lower()
    begins = [each for each in known if low and (each.lower().startswith(low) or low.startswith(each.lower()))]
    holds = [each for each in known if low and low in each.lower()]
    return next(iter([*begins, *holds]), None) or alike(word, known)


def amount_text(resource: str, amount: int) -> str:
    """As it is written in a manifest: 500m, 12, 64Gi."""
    if resource == "cpu":
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if resource in _BYTES or resource.startswith("hugepages-"):
        for unit, size in (("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)):
            if (amount >= size and amount * 10 % size == 0) or amount >= 16 * size:
                return f"{amount / size:.1f}".removesuffix(".0") + unit
    return str(amount)


def holder(pod: Pod) -> str:
    """Whose pod it is, as kubectl names it: job/train, deployment/chat, pod/one."""
    controller, labels = owner(pod), labels_of(pod)
    if controller is None:
        return f"pod/{pod['metadata']['name']}"
    suffix = labels.get("pod-template-hash")
    if controller.kind == "ReplicaSet" and suffix and controller.name.endswith(f"-{suffix}"):
        return f"deployment/{controller.name.removesuffix(f'-{suffix}')}"
    return f"{controller.kind.lower()}/{controller.name}"
