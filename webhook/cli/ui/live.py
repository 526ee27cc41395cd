"""Keeps the picture of a cluster up to date: the watches of the webhook's server fill a copy of its objects, and the picture is
made anew when one of them has changed.

It is made as the other commands make their answers, from a snapshot: so page and commands never differ.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import orjson

from webhook.cli.cluster.load import FORBIDDEN, read_more
from webhook.cli.ui.answers import QUESTIONS
from webhook.cli.ui.picture import Picture
from webhook.errors import GpuAdmissionError
from webhook.feeds.api import Api
from webhook.feeds.tasks import Tasks
from webhook.feeds.watch import Feed, Sink, Watches
from webhook.kube.kinds import KINDS
from webhook.telemetry.logs import Logger
from webhook.telemetry.metrics import Metrics
from webhook.text import bare
from webhook.whatif.cluster.snapshot import NEEDED, Object, Snapshot, complete, key_of

Make = Callable[[Snapshot], Picture]
_QUIET: Final = ("Lease",)
"""Kinds that change all the time and say little: a change of theirs is seen with the next one of another kind."""
_GATHER: Final = 0.3
"""Seconds that changes are gathered for before a picture is made."""
_REST: Final = 2.0
"""Pause after a picture, as a multiple of the time that it took: making pictures takes a third of a CPU at most."""
_AT_LEAST_EVERY: Final = 15.0
"""Seconds after which a picture is made even if nothing has changed: reservations expire."""
_OLD: Final = 5.0
"""Seconds of failure after which the data count as old."""
_MAX_HISTORY: Final = 400


class Kept(Sink):
    """The objects of one kind. `why`: what is wrong with it, "" if nothing."""

    def __init__(self, name: str, listed: Iterable[Object], changed: Callable[[], None]) -> None:
        self.objects = {key_of(obj): obj for obj in listed}
        self.why = ""
        self._name, self._changed = name, changed

    def key(self, obj: Object) -> tuple[str, str]:
        return key_of(obj)

    def seen(self, obj: Object, *, listed: bool = False) -> None:
        obj["metadata"].pop("managedFields", None)
        self.objects[key_of(obj)] = complete(self._name, obj)
        if not listed:
            self._tell()

    def complete(self, keys: Set[Any]) -> None:
        self.objects = {key: obj for key, obj in self.objects.items() if key in keys}
        self._changed()

    def gone(self, obj: Object) -> None:
        self.objects.pop(key_of(obj), None)
        self._tell()

    def heard(self) -> None:
        self.why = ""

    def refused(self) -> None:
        """Without the right to watch it is listed again from time to time."""
        self.why = f"no right to watch {KINDS[self._name].plural}"

    def _tell(self) -> None:
        if self._name not in _QUIET:
            self._changed()


class Heard(Watches):
    """When the API server last answered for each kind, and since when it does not."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__((), 0.0, clock)
        self._time, self._good, self._failing = clock, dict[str, float](), dict[str, float]()

    def answered(self, name: str, status: int = 200) -> None:
        if 0 < status < 300 or status == 410:
            self._good[name] = self._time()
            self._failing.pop(name, None)
        else:
            self._failing.setdefault(name, self._time())

    def old(self, sinks: Mapping[str, Kept], opened: float) -> dict[str, Any] | None:
        """Since when the data may be out of date, and why; None if they are not."""
        late = [name for name in NEEDED if self._time() - self._failing.get(name, self._time()) >= _OLD]
        if not late:
            return None
        why = next((sinks[name].why for name in late if sinks[name].why), "the API server does not answer")
        return {"since": min(self._good.get(name, opened) for name in late), "why": why}


class Live:
    """A picture that follows the cluster. `make` makes one of a snapshot; `first` is what was read at the start."""

    def __init__(self, first: Snapshot, make: Make, source: str, clock: Callable[[], float] = time.time) -> None:
        self.version = 0
        self._first, self._make, self._clock, self._source = first, make, clock, source
        self._dirty, self._newer = asyncio.Event(), asyncio.Condition()
        self._sinks = {
            name: Kept(name, first.objects[name], self._dirty.set) for name in first.objects if name in KINDS
        }
        self._heard, self._history = Heard(clock), list[list[float]]()
        self._thread = ThreadPoolExecutor(1, "picture")  # a snapshot is used by one thread
        self._api: Api | None = None
        self._picture, self._body, self._shown, self._problem = make(first), b"", b"", ""
        self._publish(self._picture)

    async def changed(self, version: int) -> None:
        async with self._newer:
            await self._newer.wait_for(lambda: self.version > version)

    def state(self) -> bytes:
        return self._shown

    async def about(self, namespace: str, name: str) -> dict[str, Any]:
        found: dict[str, Any] = await self._in_thread(lambda: self._picture.about(namespace, name))
        return found

    async def answer(self, question: str, given: Mapping[str, str]) -> dict[str, Any]:
        """The answer to a question about the cluster as it is now. What is not watched is read for it."""
        snapshot = self._now()
        wanted = QUESTIONS[question].reads if question in QUESTIONS else ()
        if self._api and (kinds := [kind for kind in wanted if kind not in self._sinks]):
            await read_more(self._api, snapshot, kinds)
        found: dict[str, Any] = await self._in_thread(lambda: self._picture.answer(question, given, snapshot))
        return found

    async def run(self, api: Api, metrics: Metrics, log: Logger) -> None:
        """Follow the cluster until cancelled."""
        self._api = api
        async with Tasks(metrics, log) as tasks:
            for name, sink in self._sinks.items():
                feed = Feed(api, name, self._path(name), sink, metrics, log, optional=True, watches=self._heard)
                tasks.start(f"watch of {name}", feed.run)
            while True:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._dirty.wait(), _OLD if self._late() else _AT_LEAST_EVERY)
                await asyncio.sleep(_GATHER)
                await asyncio.sleep(_REST * await self._made())

    def _path(self, name: str) -> str:
        """Where the kind is watched: in the namespace in which it could be listed."""
        elsewhere = self._first.missing.get(name, "").startswith(FORBIDDEN)
        return KINDS[name].path(self._first.only_in(name) or (self._first.namespace if elsewhere else None))

    def _late(self) -> bool:
        return self._heard.old(self._sinks, self._first.taken) is not None

    def _now(self) -> Snapshot:
        """The objects as the watches know them."""
        objects = {**self._first.objects, **{name: list(sink.objects.values()) for name, sink in self._sinks.items()}}
        missing = dict(self._first.missing)
        return replace(self._first, objects=objects, missing=missing, taken=self._clock(), measured=None)

    async def _made(self) -> float:
        """Make a picture. Returns the seconds that it took."""
        self._dirty.clear()
        started, snapshot = time.monotonic(), self._now()
        try:
            self._picture = await self._in_thread(lambda: self._make(snapshot))
            self._problem = ""
        except GpuAdmissionError as error:  # such as a policy that does not parse: the last good picture stays
            self._problem = str(error)
        except Exception as error:  # a bug: without a word the page would show old data as live
            self._problem = f"no new picture could be made: {type(error).__name__}: {bare(str(error))}"
        if self._publish(self._picture):
            async with self._newer:
                self._newer.notify_all()
        return time.monotonic() - started

    def _publish(self, picture: Picture) -> bool:
        """Make a picture the one that is shown. Returns whether anything in it is new."""
        used = picture.in_use()
        if not self._history or used[1:] != self._history[-1][1:]:
            self._history.append(used)
        if len(self._history) > _MAX_HISTORY:
            self._history = [*self._history[:-1:2], self._history[-1]]
        more: dict[str, Any] = {"old": self._heard.old(self._sinks, self._first.taken), "problem": self._problem}
        more |= {"source": self._source, "live": True, "history": self._history}
        body = orjson.dumps({**picture.document, **more, "taken": 0})
        if self._body == body:
            return False
        self._body, self.version = body, self.version + 1
        self._shown = orjson.dumps({**picture.document, **more, "version": self.version})
        return True

    async def _in_thread(self, work: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


class Fixed:
    """The picture of a file, which does not change."""

    version = 1

    def __init__(self, picture: Picture, source: str) -> None:
        self._picture = picture
        self.shown = {
            **picture.document,
            "version": 1,
            "source": source,
            "live": False,
            "old": None,
            "problem": "",
            "history": [],
        }

    async def changed(self, version: int) -> None:
        if version >= self.version:
            await asyncio.Event().wait()

    def state(self) -> bytes:
        return orjson.dumps(self.shown)

    async def about(self, namespace: str, name: str) -> dict[str, Any]:
        return self._picture.about(namespace, name)

    async def answer(self, question: str, given: Mapping[str, str]) -> dict[str, Any]:
        return self._picture.answer(question, given)
