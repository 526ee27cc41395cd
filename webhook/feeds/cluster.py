"""Feeds the cluster state with the objects that the API server lists and watches."""

from collections.abc import Callable, Mapping, Set
from typing import Final

from webhook.feeds.api import Api, Object
from webhook.feeds.tasks import Tasks
from webhook.feeds.watch import Feed, Sink, Watches
from webhook.kube.kinds import KINDS
from webhook.state.objects import REQUIRED, STATE_KINDS, ListKind, name_of
from webhook.state.state import ClusterState
from webhook.telemetry.logs import Logger
from webhook.telemetry.metrics import Metrics

Clock = Callable[[], float]
OnBound = Callable[[Object], None]


PATHS: Final[Mapping[ListKind, str]] = {plural: KINDS[name].path() for name, plural in STATE_KINDS.items()}
# A review may wait until one page is read. Pods are large: a page of 250 takes some 10 ms. A slice names every device of a node.
_PAGE: Final = 500
_PAGES: Final[Mapping[ListKind, int]] = {"nodes": 250, "pods": 250, "jobs": 250, "resourceslices": 100}
"""Number of objects in one page of a list, where it is not _PAGE."""


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
    for name, path in PATHS.items():
        sink = ClusterSink(state, name, clock, on_bound if name == "pods" else None)
        optional = name not in REQUIRED
        page = _PAGES.get(name, _PAGE)
        feed = Feed(api, name, path, sink, metrics, log, page=page, optional=optional, watches=watches)
        tasks.start(f"feed {name}", feed.run)


class ClusterSink(Sink):
    """Passes the objects of one kind to the cluster state. `on_bound` is called for each pod that has become bound."""

    def __init__(self, state: ClusterState, name: ListKind, clock: Clock, on_bound: OnBound | None = None) -> None:
        self._state, self._name, self._clock, self._on_bound = state, name, clock, on_bound

    def key(self, obj: Object) -> int | str:
        return name_of(self._name, obj)

    def seen(self, obj: Object, *, listed: bool = False) -> None:
        was_bound = listed or self._on_bound is None or self._state.is_bound(obj)
        self._state.seen(self._name, obj, self._clock())
        if self._on_bound is not None and not was_bound and self._state.is_bound(obj):
            self._on_bound(obj)

    def complete(self, keys: Set[int | str]) -> None:
        self._state.complete(self._name, keys, self._clock())

    def gone(self, obj: Object) -> None:
        self._state.forget(self._name, self.key(obj))

    def heard(self) -> None:
        self._state.freshness.heard(self._name, self._clock())

    def refused(self) -> None:
        self._state.withdraw(self._name)
