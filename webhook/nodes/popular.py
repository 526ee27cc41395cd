"""What the running GPU pods request. `pack` keeps free GPUs useful for more pods like these.

A pod counts while it runs, so a tenant has weight only by what it uses. The pods of one namespace weigh at most as much as those
of all others together: half of all.

Also the form of a placement strategy: how it scores nodes by the table and by these.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from webhook.kube.gpus import MODEL_LABELS
from webhook.kube.pod import MAX_NAME, REQUIRED
from webhook.kube.pod_requests import PodRequests
from webhook.nodes.table import Columns, Floats, Rows

_MAX_POPULAR: Final = 64
_EXACT: Final = 16
"""Kinds of pods with up to this many GPUs are told apart by their exact number."""
Models = tuple[str, ...] | None
"""The GPU models that a pod is confined to; None: any."""
_MAX_MODELS: Final = 64
GroupKey = tuple[tuple[tuple[str, int], ...], Models]


class PopularRequests(NamedTuple):
    """A kind of pod that runs. `models`: the GPU models that it is confined to, as numbers in `Columns.model`; None: any."""

    pod_requests: PodRequests
    models: tuple[int, ...] | None
    weight: float
    """Its weight among the GPU pods that run, 0 to 1."""


@dataclass(frozen=True, slots=True)
class View:
    """What strategies know besides the node table. It changes seldom: with a new `version` all scores are computed again,
    between two versions only those of changed rows."""

    version: int
    gpus: tuple[str, ...]
    """The resources that the policy calls GPUs and that some node has, sorted."""
    popular: tuple[PopularRequests, ...] = ()
    """Most frequent first; at most a few dozen."""
    cache: dict[str, Any] = field(default_factory=dict, compare=False)
    """For what strategies derive from this view, such as matrices of `popular`."""


class Strategy(Protocol):
    """Scores nodes for one kind of pod; higher is better. Pure: it keeps no state but in `view.cache` and `columns.cache`.

    The score of a node depends on its own row, the kind of pod and the view, never on other rows. So scores are cached by pod
    signature, and only changed rows are scored again. Rows that are dead or cannot take the pod are scored as well. Their
    scores are ignored, but computing them must not raise or warn. The caller breaks ties by node name.

    `webhook.placement.strategies.STRATEGIES` maps the names in the policy to strategies.
    """

    @property
    def meaning(self) -> str:
        """A phrase that explains the strategy in `manifests/policy.yaml`."""

    @property
    def spreads(self) -> bool:
        """Whether hosts and zones with fewer pods of the same owner rank first, before the score."""

    @property
    def keeps_whole_nodes(self) -> bool:
        """Whether replicas share a node rather than use one of the last whole nodes."""

    def __call__(self, columns: Columns, rows: Rows, pod_requests: PodRequests, view: View) -> Floats: ...

    def score_key(self, view: View) -> object:
        """The part of the view that scores depend on: they stay valid while it is equal."""


class RequestCounts:
    """Counts the kinds of pods of each namespace, with one method for each event of a pod.

    Kinds of pods within a factor of two in CPU, memory and other resources are counted as one, with their mean amounts.
    Workloads differ in such details: a large job that comes in ten variants is still one job that needs whole nodes.
    """

    def __init__(self) -> None:
        self.version = 0
        """Rises when the counts have changed enough to score nodes again: every score depends on it."""
        self._of_pod: dict[int | str, tuple[str, GroupKey, PodRequests]] = {}
        self._groups: dict[str, dict[GroupKey, list[int]]] = {}
        """By namespace and key: the number of pods, then the sum of each resource."""
        self._changes = 0
        """Pods that came and went since the last version."""

    def bound(self, uid: int | str, namespace: str, pod_requests: PodRequests, models: Models) -> None:
        """A pod runs. Pods without GPUs, and those that are known, change nothing."""
        if uid in self._of_pod or (key := _group_key(pod_requests, models)) is None:
            return
        self._of_pod[uid] = namespace, key, pod_requests
        self._count(namespace, key, pod_requests, 1)

    def gone(self, uid: int | str) -> None:
        """A pod was deleted or finished. Does nothing if it was not counted."""
        if uid not in self._of_pod:
            return
        namespace, key, pod_requests = self._of_pod.pop(uid)
        self._count(namespace, key, pod_requests, -1)

    def _count(self, namespace: str, key: GroupKey, pod_requests: PodRequests, sign: int) -> None:
        by_key = self._groups.setdefault(namespace, {})
        sums = by_key.setdefault(key, [0] * (1 + len(key[0])))
        for index, amount in enumerate((1, *[amount for _, amount in pod_requests.requests])):
            sums[index] += sign * amount
        if not sums[0]:
            del by_key[key]
            if not by_key:
                del self._groups[namespace]
        self._changes += 1
        if self._changes >= max(len(self._of_pod) / 2, 1):
            self._changes = 0
            self.version += 1

    def popular(self, models: Mapping[str, int], gpus: Collection[str]) -> tuple[PopularRequests, ...]:
        """The kinds of pods with most weight for one of `gpus`, the heaviest first. `models`: the number of each GPU model."""
        merged: dict[GroupKey, list[float]] = {}
        asking = {
            namespace: found  # in one order, so that sums are the same on every sibling
            for namespace, by_key in sorted(self._groups.items())
            if (found := [(key, sums) for key, sums in by_key.items() if any([name in gpus for name, _ in key[0]])])
        }
        count = {namespace: sum([sums[0] for _, sums in found]) for namespace, found in asking.items()}
        total = sum(count.values())
        for namespace, found in asking.items():
            pods = count[namespace]
            weight = (min(pods, total - pods) or pods) / pods
            for key, sums in found:
                weighed = merged.setdefault(key, [0.0] * len(sums))
                for index, amount in enumerate(sums):
                    weighed[index] += weight * amount
        heaviest = sorted(merged.items(), key=lambda item: (-item[1][0], item[0][0], item[0][1] or ()))
        whole = sum([sums[0] for sums in merged.values()])
        return tuple([_popular(key, sums, whole, models) for key, sums in heaviest[:_MAX_POPULAR]])


def _popular(key: GroupKey, sums: list[float], whole: float, models: Mapping[str, int]) -> PopularRequests:
    means = [max(1, round(amount / sums[0])) for amount in sums[1:]]
    pod_requests = PodRequests(tuple(zip([name for name, _ in key[0]], means, strict=True)))
    numbers = None if key[1] is None else tuple(sorted([models[name] for name in key[1] if name in models]))
    return PopularRequests(pod_requests, numbers, sums[0] / whole)


def _group_key(pod_requests: PodRequests, models: Models) -> GroupKey | None:
    """A key that similar pods share: up to `_EXACT` GPUs exactly, all else to a factor of two. None without GPUs."""
    if not any(["/" in name for name, _ in pod_requests.requests]):
        return None
    amounts = [
        (name, amount if "/" in name and amount <= _EXACT else -amount.bit_length())
        for name, amount in pod_requests.requests
    ]
    return tuple(amounts), models


def pinned_models(spec: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The GPU models that a pod is confined to, by its node selector or by every term of its node affinity; None: any."""
    if selector := spec.get("nodeSelector"):
        for key in MODEL_LABELS:
            if key in selector:
                return (selector[key][:MAX_NAME],)
    affinity = (spec.get("affinity") or {}).get("nodeAffinity")
    if not affinity:
        return None
    required = affinity.get(REQUIRED) or {}
    models: set[str] = set()
    for term in required.get("nodeSelectorTerms") or ():
        allowed = [
            e.get("values") or ()
            for e in term.get("matchExpressions") or ()
            if e.get("key") in MODEL_LABELS and e.get("operator") == "In"
        ]
        if not allowed:
            return None
        models.update([name[:MAX_NAME] for name in allowed[0]])
    return tuple(sorted(models))[:_MAX_MODELS] or None
