"""Feeds the cluster state with the objects that the API server lists and watches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from webhook.cluster.listing import name_of
from webhook.cluster.state import REQUIRED, ClusterState, Listing, ListKind
from webhook.feeds.api import Api, Object
from webhook.feeds.tasks import Tasks
from webhook.feeds.watch import Feed, Sink, Watches
from webhook.telemetry.logs import Logger
from webhook.telemetry.metrics import Metrics

Clock = Callable[[], float]
OnBound = Callable[[Object], None]


class _Resource(NamedTuple):
    path: str
    page: int
    """Number of objects in one page of a list."""


# A review may wait until one page is read. Pods are large: a page of 250 takes some 10 ms. A slice names every device of a node.
KINDS: Final[Mapping[ListKind, _Resource]] = {
    "nodes": _Resource("/api/v1/nodes", 250),
    "pods": _Resource("/api/v1/pods", 250),
    "namespaces": _Resource("/api/v1/namespaces", 500),
    "priorityclasses": _Resource("/apis/scheduling.k8s.io/v1/priorityclasses", 500),
    "runtimeclasses": _Resource("/apis/node.k8s.io/v1/runtimeclasses", 500),
    "resourceslices": _Resource("/apis/resource.k8s.io/v1/resourceslices", 100),
    "poddisruptionbudgets": _Resource("/apis/policy/v1/poddisruptionbudgets", 500),
    "horizontalpodautoscalers": _Resource("/apis/autoscaling/v2/horizontalpodautoscalers", 500),
    "jobs": _Resource("/apis/batch/v1/jobs", 250),
    "persistentvolumeclaims": _Resource("/api/v1/persistentvolumeclaims", 500),
    "persistentvolumes": _Resource("/api/v1/persistentvolumes", 500),
}


def start(
    tasks: Tasks,
    api: Api,
    state: ClusterState,
    metrics: Metrics,
    log: Logger,
    clock: Clock,
    on_bound: OnBound | None = None,
    watches: Watches | None = None,
) -> None:
    """Feed `state` while `tasks` run. Kinds that it does not require may be missing or forbidden.

    `on_bound` is called once for each pod that becomes bound during a watch.
    """
    for name, kind in KINDS.items():
        sink = PodSink(state, clock, on_bound) if name == "pods" and on_bound else ClusterSink(state, name, clock)
        optional = name not in REQUIRED
        feed = Feed(api, name, kind.path, sink, metrics, log, page=kind.page, optional=optional, watches=watches)
        tasks.start(f"feed {name}", feed.run)


class ClusterSink(Sink):
    """Passes the objects of one kind to the cluster state."""

    def __init__(self, state: ClusterState, name: ListKind, clock: Clock) -> None:
        self._state, self._name, self._clock = state, name, clock
        self._listing = Listing(state, name)

    def list_begins(self) -> None:
        self._listing = Listing(self._state, self._name)

    def in_list(self, obj: Object) -> None:
        self._listing.add((obj,), self._clock())

    def list_ends(self) -> None:
        self._listing.done(self._clock())

    def seen(self, obj: Object) -> None:
        self._state.seen(self._name, obj, self._clock())

    def gone(self, obj: Object) -> None:
        self._state.forget(self._name, name_of(self._name, obj))

    def heard(self) -> None:
        self._state.heard(self._name, self._clock())

    def refused(self) -> None:
        self._state.withdraw(self._name)


class PodSink(ClusterSink):
    """Passes pods to the cluster state, and calls `on_bound` for each that has become bound."""

    def __init__(self, state: ClusterState, clock: Clock, on_bound: OnBound) -> None:
        super().__init__(state, "pods", clock)
        self._on_bound = on_bound

    def seen(self, obj: Object) -> None:
        before = self._state.is_bound(obj)
        super().seen(obj)
        if not before and self._state.is_bound(obj):
            self._on_bound(obj)
