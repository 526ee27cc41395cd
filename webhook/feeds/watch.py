"""Keeps a sink equal to what the API server has: list, watch, and list again when history is lost.

    list ──► watch ──► (ends, breaks, is silent) ──► watch from the same version
      ▲        │
      └────────┘ 410: the version is too old

Source: k8s.io/client-go tools/cache reflector.go; Kubernetes API concepts, "Efficient detection of changes".
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

import orjson

from webhook.errors import ApiError
from webhook.feeds.api import Api, Object
from webhook.feeds.tasks import Backoff
from webhook.telemetry.logs import Logger, cause
from webhook.telemetry.metrics import Metrics

WATCH_SECONDS: Final = 30
"""How long one watch lasts. Its end and the beginning of the next show that the API server is alive, twice as often as
its bookmarks (one a minute) would; the last bookmark comes just before the end, so nothing is lost in between."""
SILENCE_SECONDS: Final = WATCH_SECONDS * 1.5
"""A watch that was silent for this long and did not end is half-open: the other side has forgotten it."""
_LIST_AGAIN = frozenset((400, 410, 504))
"""410: the version is too old. 504 and 400: it is too new or not one of this server's, which came back from a backup."""
_REFUSED = frozenset((403, 404))
"""The kind is not served, or not to us."""
OPTIONAL_PAUSE: Final = 30.0
MAX_OPTIONAL_PAUSE: Final = 600.0
"""Seconds before the second try, and at most, of an optional kind that is refused. Somebody has to grant or install it."""


class Sink:
    """Receives the objects. Nothing here awaits, so the next review sees all of a batch."""

    def list_begins(self) -> None:
        """A full list follows, object by object."""

    def in_list(self, obj: Object) -> None:
        self.seen(obj)

    def list_ends(self) -> None:
        """Whatever was not in the list is gone."""

    def seen(self, obj: Object) -> None:
        """The object is new, or has changed."""

    def gone(self, obj: Object) -> None: ...

    def heard(self) -> None:
        """The API server is alive."""

    def refused(self) -> None:
        """The API server does not serve the kind, or not to us: what was seen is no longer known."""


class Feed:
    """One kind of object, or some objects of it. `fields`, `labels`: selectors.

    `optional`: a kind that we can do without. Where the API server refuses it, it is seldom asked again, and no error is
    counted.
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
    ) -> None:
        self._api, self._path, self._sink = api, path, sink
        self._name, self._metrics, self._log = name, metrics, log
        selectors = {"fieldSelector": fields, "labelSelector": labels}
        self._query = {name: selector for name, selector in selectors.items() if selector}
        self._page = page
        self._version = ""
        self._failing = False
        self._backoff = Backoff()
        self._optional = optional
        self._optional_backoff = Backoff(OPTIONAL_PAUSE, limit=MAX_OPTIONAL_PAUSE)

    async def run(self) -> None:
        """For ever. Only a bug of ours ends it."""
        self._version = ""
        while True:
            try:
                if not self._version:
                    self._version = await self._list()
                if not await self._watch():  # a server that ends every watch at once must not be asked all the time
                    await self._backoff.pause()
            except ApiError as error:
                if self._optional and error.status in _REFUSED:
                    self._sink.refused()
                    self._version = ""
                    self._warn(error)
                    await self._optional_backoff.pause()
                    continue
                if error.status in _LIST_AGAIN:
                    self._version = ""
                self._metrics.feed_errors.labels(self._name).inc()
                self._warn(error)
                await self._backoff.pause()

    async def _list(self) -> str:
        """The version that the list is of."""
        self._metrics.relists.labels(self._name).inc()
        self._sink.list_begins()
        query = {**self._query, "limit": str(self._page)}
        while True:
            page = await self._api.get(self._path, **query)
            for obj in page.get("items") or ():
                self._give(self._sink.in_list, obj)
            metadata = page.get("metadata") or {}
            if not (continue_token := metadata.get("continue")):
                self._sink.list_ends()
                if not self._optional:  # a missing right to watch is logged once, and not at every list
                    self._works()
                return str(metadata.get("resourceVersion") or "")
            query["continue"] = continue_token

    async def _watch(self) -> bool:
        """Until the API server ends it: whether anything was heard."""
        query = {
            **self._query,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(random.randint(WATCH_SECONDS - 5, WATCH_SECONDS)),  # noqa: S311  replicas out of step
        }
        heard = False
        async with self._api.watch(self._path, SILENCE_SECONDS, query) as bunches:
            self._sink.heard()
            async for lines in bunches:
                for line in lines:
                    if line:
                        self._event(orjson.loads(line))
                self._sink.heard()
                self._works()
                heard = True
        return heard

    def _event(self, event: Any) -> None:
        kind, obj = event["type"], event["object"]
        if kind == "ERROR":
            code = obj.get("code")
            raise ApiError(code if isinstance(code, int) else 410, f"watch {self._path}: {obj.get('message')}")
        if kind in ("ADDED", "MODIFIED"):
            self._give(self._sink.seen, obj)
        elif kind == "DELETED":
            self._give(self._sink.gone, obj)
        self._version = str(obj["metadata"].get("resourceVersion") or self._version)

    def _give(self, receive: Callable[[Object], None], obj: Object) -> None:
        try:
            receive(obj)
        except Exception as error:  # one object that we cannot read must not cost us all others
            self._metrics.feed_errors.labels(self._name).inc()
            self._log.error("object not understood", feed=self._name, uid=_uid(obj), **cause(error))

    def _works(self) -> None:
        self._backoff.reset()
        self._optional_backoff.reset()
        if self._failing:
            self._failing = False
            self._log.info("feed works again", feed=self._name)

    def _warn(self, error: ApiError) -> None:
        if not self._failing:  # once for each outage
            self._failing = True
            self._log.warning("feed failed", feed=self._name, why=str(error))


def _uid(obj: Any) -> str:
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    return str(metadata.get("uid"))[:64] if isinstance(metadata, dict) else ""
