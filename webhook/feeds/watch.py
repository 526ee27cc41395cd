"""Keeps a sink up to date with the API server: list, watch, and list again if events were lost.

    list ──► watch ──► (ends, breaks off, is silent) ──► watch from the last version
      ▲        │
      └────────┘ 410: the version is too old

Source: k8s.io/client-go tools/cache reflector.go; Kubernetes API concepts, "Efficient detection of changes".
"""

import random
from collections.abc import Callable, Hashable, Iterable, Set
from typing import Any, Final

import orjson

from webhook.errors import ApiError
from webhook.feeds.api import Api, Object
from webhook.feeds.tasks import Backoff
from webhook.telemetry.logs import Logger, cause
from webhook.telemetry.metrics import Metrics

WATCH_SECONDS: Final = 30
"""Duration of one watch. Its end and the next start show that the API server is alive, twice as often as its bookmarks (one a
minute). The last bookmark comes just before the end, so no events are lost in between."""
SILENCE_SECONDS: Final = WATCH_SECONDS * 1.5
"""A watch without data for this long is half-open: the API server has lost the connection."""
_LIST_AGAIN = frozenset((400, 410, 504))
"""410: the version is too old. 504 and 400: the version is too new or unknown, because the server was restored from a backup."""
_REFUSED = frozenset((403, 404))
"""The kind is forbidden or not served."""
OPTIONAL_PAUSE: Final = 30.0
"""Seconds before the second attempt to list an optional kind that is refused. Somebody has to grant or install it."""
MAX_OPTIONAL_PAUSE: Final = 600.0
"""Maximum seconds between such attempts."""


class Sink:
    """Receives objects. No method awaits, so the next review sees all objects of a batch."""

    def key(self, obj: Object) -> Any:
        """What identifies an object."""
        return obj["metadata"].get("uid")

    def seen(self, obj: Object, *, listed: bool = False) -> None:
        """The object is new or has changed, or is in a full list."""

    def complete(self, keys: Set[Any]) -> None:
        """A full list has ended. Objects without one of these keys do not exist any more."""

    def gone(self, obj: Object) -> None:
        """The object was deleted."""

    def heard(self) -> None:
        """The API server is alive."""

    def refused(self) -> None:
        """The API server refuses to list or watch the kind. Its objects are unknown from now on."""


class Watches:
    """When the API server last answered each watch: tells a watch that is stuck from an API server that is gone.

    Time in which the API server answers nothing does not count. All replicas lose it at once, and if they were not ready when it
    is back, their Service would have no endpoints, and the first creations would be refused.

    `required`: the watches without which a replica must not decide. `bound`: the longest silence, in seconds of `clock`.
    """

    def __init__(self, required: Iterable[str], bound: float, clock: Callable[[], float]) -> None:
        self._required, self._bound, self._clock = frozenset(required), bound, clock
        self._alive = clock()
        """When the API server last answered anything."""
        self._gone = 0.0
        """Seconds in which it answered nothing."""
        self._answered: dict[str, float] = {}

    def answered(self, name: str, status: int = 200) -> None:
        """The API server answered a list or a watch with this status; 0: it did not answer. If it has too much to do (429, 5xx),
        that is not the fault of the watch."""
        if not status:
            return
        now = self._clock()
        if now - self._alive > self._bound / 2:
            self._gone += now - self._alive
        self._alive = now
        if status < 300 or status == 429 or status >= 500:
            self._answered[name] = now - self._gone

    def stuck(self) -> list[str]:
        """The required watches that are silent for longer than the bound while the API server answers others."""
        oldest = self._alive - self._gone - self._bound
        return sorted(name for name, at in self._answered.items() if name in self._required and at < oldest)


class Feed:
    """Lists and watches the objects of one kind for a sink. `fields`, `labels`: selectors. `watches`: is told of each answer.

    `optional`: the kind is not necessary. If the API server refuses it, it is asked again only rarely, and no error is counted.
    """

    def __init__(
        self,
        api: Api,
        name: str,
        path: str,
        sink: Sink,
        metrics: Metrics,
        log: Logger,
        *,
        fields: str = "",
        labels: str = "",
        page: int = 500,
        optional: bool = False,
        watches: Watches | None = None,
    ) -> None:
        self._api, self._path, self._sink = api, path, sink
        self._name, self._metrics, self._log = name, metrics, log
        metrics.feed_errors.labels(name)  # 0 from now on, as in `Tasks.start`
        selectors = {"fieldSelector": fields, "labelSelector": labels}
        self._query = {name: selector for name, selector in selectors.items() if selector}
        self._page, self._watches = page, watches
        self._version = ""
        self._failing = False
        self._backoff = Backoff()
        self._optional = optional
        self._optional_backoff = Backoff(OPTIONAL_PAUSE, limit=MAX_OPTIONAL_PAUSE)

    async def run(self) -> None:
        """List and watch until cancelled. Only a bug ends it."""
        self._version = ""
        while True:
            try:
                if not self._version:
                    self._version = await self._list()
                if not await self._watch():  # the server ended the watch at once: do not ask again without a pause
                    await self._backoff.pause()
            except ApiError as error:
                self._answered(error.status)
                if self._optional and error.status in _REFUSED:
                    self._sink.refused()
                    self._version = ""
                    self._failed(error)
                    await self._optional_backoff.pause()
                    continue
                if error.status in _LIST_AGAIN:
                    self._version = ""
                self._metrics.feed_errors.labels(self._name).inc()
                self._failed(error)
                await self._backoff.pause()

    async def _list(self) -> str:
        """List all objects. Returns the resourceVersion of the list."""
        self._metrics.relists.labels(self._name).inc()
        version, keys = "", set[Hashable]()

        def listed(obj: Object) -> None:
            keys.add(self._sink.key(obj))
            self._sink.seen(obj, listed=True)

        async for page in self._api.pages(self._path, self._page, **self._query):
            self._answered()
            for obj in page.get("items") or ():
                self._deliver(listed, obj)
            version = str((page.get("metadata") or {}).get("resourceVersion") or "")
        self._sink.complete(keys)
        if not self._optional:  # otherwise a missing permission to watch would be logged after every list
            self._succeeded()
        return version

    async def _watch(self) -> bool:
        """Watch until the API server ends it. Returns whether any data came."""
        query = {
            **self._query,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(random.randint(WATCH_SECONDS - 5, WATCH_SECONDS)),  # noqa: S311  replicas out of step
        }
        heard = False
        async with self._api.watch(self._path, SILENCE_SECONDS, query) as batches:
            self._sink.heard()
            self._answered()
            async for lines in batches:
                for line in lines:
                    if line:
                        self._event(orjson.loads(line))
                self._sink.heard()
                self._answered()
                self._succeeded()
                heard = True
        return heard

    def _event(self, event: Any) -> None:
        kind, obj = event["type"], event["object"]
        if kind == "ERROR":
            code = obj.get("code")
            raise ApiError(code if isinstance(code, int) else 410, f"watch {self._path}: {obj.get('message')}")
        if kind in ("ADDED", "MODIFIED"):
            self._deliver(self._sink.seen, obj)
        elif kind == "DELETED":
            self._deliver(self._sink.gone, obj)
        self._version = str(obj["metadata"].get("resourceVersion") or self._version)

    def _deliver(self, receive: Callable[[Object], None], obj: Object) -> None:
        try:
            receive(obj)
        except Exception as error:  # one malformed object must not stop the others
            self._metrics.feed_errors.labels(self._name).inc()
            self._log.error("object not understood", feed=self._name, uid=_uid(obj), **cause(error))

    def _answered(self, status: int = 200) -> None:
        if self._watches is not None:
            self._watches.answered(self._name, status)

    def _succeeded(self) -> None:
        self._backoff.reset()
        self._optional_backoff.reset()
        if self._failing:
            self._failing = False
            self._log.info("feed works again", feed=self._name)

    def _failed(self, error: ApiError) -> None:
        if not self._failing:  # one line per outage
            self._failing = True
            self._log.warning("feed failed", feed=self._name, why=str(error))


def _uid(obj: Any) -> str:
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    return str(metadata.get("uid"))[:64] if isinstance(metadata, dict) else ""
