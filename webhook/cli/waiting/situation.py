"""The cluster as the scheduler sees it, and the words for parts of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from webhook.cli.cluster.report import has_gpu_labels, pool_of
from webhook.cli.cluster.snapshot import FINISHED, Object, Snapshot, keeps_away, seconds
from webhook.cli.waiting.cause import Cause
from webhook.cluster.node_table import Demand, Integers
from webhook.cluster.pods import counted_demand
from webhook.kube.pod import Pod, labels_of, owner
from webhook.placement.constraints import Constraints, Mask, compiled
from webhook.policy.model import Policy
from webhook.text import bare, plural
from webhook.text import nearest as alike

_NAMED = 3
_CLASS = "deviceclass.resource.kubernetes.io/"
_BYTES = ("memory", "ephemeral-storage")


class Situation:
    """Of one snapshot. Rows are those of the state of the webhook."""

    def __init__(self, snapshot: Snapshot, policy: Policy) -> None:
        self.snapshot, self.policy = snapshot, policy
        self.nodes = snapshot.state.nodes
        columns = self.nodes.columns
        self.names, self.alive = columns.name, columns.alive[: columns.rows].copy()
        self.capacity = {name: array[: columns.rows] for name, array in columns.capacity.items()}
        self.free: dict[str, Integers] = {name: array[: columns.rows].copy() for name, array in columns.free.items()}
        """As the scheduler counts: it does not know our reservations."""
        self.domains: dict[str, list[str]] = {}
        """The values of labels by row, for those that were asked for."""
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
    def keeping_away(self) -> list[tuple[int, Pod]]:
        """Those of them that say which pods they do not want near them, first those of the snapshot."""
        row_of = self.nodes.row_of
        return [(row_of[name], pod) for name, pod in self.snapshot.keeping_away if name in row_of]

    @cached_property
    def gpus_at(self) -> list[tuple[str, ...] | None]:
        """By row: the GPU resources that a node offers; None where it has GPUs by its labels, and offers none."""
        offered = {name: self.capacity[name].tolist() for name in self.policy.gpus.among(self.capacity)}
        found: list[tuple[str, ...] | None] = []
        for row, name in enumerate(self.names):
            names = tuple([resource for resource, amounts in sorted(offered.items()) if amounts[row]])
            node = self.snapshot.nodes.get(name)
            found.append(None if not names and node is not None and has_gpu_labels(node) else names)
        return found

    @cached_property
    def waiting(self) -> list[Pod]:
        """Every pod that no node was found for, oldest first."""
        found = [pod for pod in self.snapshot.of("Pod") if not pod["spec"].get("nodeName")]
        found = [
            pod
            for pod in found
            if pod["status"].get("phase") not in FINISHED and not pod["metadata"].get("deletionTimestamp")
        ]
        return sorted(found, key=lambda pod: (pod["metadata"].get("creationTimestamp") or "", pod["metadata"]["name"]))

    @cached_property
    def nominated(self) -> list[tuple[int, Pod]]:
        """Pods that wait for the victims of their preemption, with the row that is kept for them."""
        found = [(pod["status"].get("nominatedNodeName"), pod) for pod in self.waiting]
        return [(self.nodes.row_of[name], pod) for name, pod in found if name in self.nodes.row_of]

    @cached_property
    def _events(self) -> Mapping[tuple[str, str, str], list[Object]]:
        found: dict[tuple[str, str, str], list[Object]] = {}
        for event in self.snapshot.of("Event"):
            about = event.get("involvedObject") or {}
            key = (str(about.get("kind")), str(about.get("namespace") or ""), str(about.get("name")))
            found.setdefault(key, []).append(event)
        for events in found.values():
            events.sort(key=_when, reverse=True)
        return found

    def events_of(self, kind: str, obj: Mapping[str, Any]) -> list[Object]:
        """Newest first."""
        return self._events.get((kind, obj["metadata"].get("namespace") or "", obj["metadata"]["name"]), [])

    def labels(self, row: int) -> Mapping[str, str]:
        return self.nodes.labels.get(row)

    def named(self, mask: Mask) -> tuple[str, ...]:
        """The names of these nodes, sorted. Kept, and the same for equal masks: most shapes of pods meet the same nodes."""
        key = mask.tobytes()
        found = self._named.get(key)
        if found is None:
            found = self._named[key] = tuple(sorted([self.names[row] for row in np.flatnonzero(mask).tolist()]))
        return found

    def where(self, mask: Mask) -> str:
        """These nodes in words: "node gpu-a", "5 nodes (training 3, spot 2)"."""
        key = mask.tobytes()
        found = self._where.get(key)
        if found is None:
            found = self._where[key] = self._told(self.named(mask))
        return found

    def _told(self, names: tuple[str, ...]) -> str:
        if 0 < len(names) <= _NAMED:
            return f"node{'s' if len(names) > 1 else ''} {', '.join(names)}"
        nodes = self.snapshot.nodes
        pools = Counter(filter(None, [pool_of(nodes[name]) for name in names if name in nodes]))
        told = ", ".join(f"{bare(pool)} {count}" for pool, count in pools.most_common(_NAMED))
        return plural(len(names), "node") + (f" ({told}{', …' if len(pools) > _NAMED else ''})" if told else "")

    def cause(self, word: str, text: str, fix: str, mask: Mask, alone: Mask) -> Cause:
        """What keeps the pod from these nodes. `alone`: where nothing else does."""
        return Cause(word, text, fix, self.named(mask), int(np.count_nonzero(mask & alone)))

    def held(self, row: int, resource: str) -> Mapping[str, int]:
        """How much of a resource the workloads on a node have: «job/train in team-a»."""
        found = self._held.get((row, resource))
        if found is None:
            found = self._held[row, resource] = Counter()
            for pod in self.snapshot.pods_on.get(self.names[row], ()):
                found[f"{holder(pod)} in {pod['metadata']['namespace']}"] += counted_demand(pod).amount(resource)
        return found

    def bind(self, pod: Pod, demand: Demand, row: int) -> None:
        """One pod more on a node, as if the scheduler had bound it."""
        for name, amount in demand.requests:
            if name in self.free:
                self.free[name][row] -= amount
        self.bound.append((row, pod))  # before `pods_on`, which it is read from
        self.pods_on.setdefault(self.names[row], []).append(pod)
        if keeps_away(pod):
            self.keeping_away.append((row, pod))

    def priority(self, pod: Pod) -> int:
        return int(pod["spec"].get("priority") or 0)


@dataclass
class Case:
    """One waiting pod, and what was read of it."""

    situation: Situation
    pod: Pod
    demand: Demand
    constraints: Constraints

    @classmethod
    def of(cls, situation: Situation, pod: Pod) -> Case | None:
        """None where it states more about nodes than can be looked at."""
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
    found, labels = owner(pod), labels_of(pod)
    if found is None:
        return f"pod/{pod['metadata']['name']}"
    suffix = labels.get("pod-template-hash")
    if found.kind == "ReplicaSet" and suffix and found.name.endswith(f"-{suffix}"):
        return f"deployment/{found.name.removesuffix(f'-{suffix}')}"
    return f"{found.kind.lower()}/{found.name}"
