"""What the page shows: a picture of a file, or of a cluster that is read again while somebody looks.

It is made as the other commands make their answers, from a snapshot: so page and commands never differ.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import orjson

from webhook.cli.cluster.load import read, read_more
from webhook.cli.reading import policy_of, poll_gpus, use_metrics
from webhook.cli.ui.answers import QUESTIONS
from webhook.cli.ui.picture import Picture
from webhook.errors import GpuAdmissionError
from webhook.text import bare
from webhook.whatif.answers import KINDS, no_progress
from webhook.whatif.cluster.measured import Measured
from webhook.whatif.cluster.snapshot import Snapshot

_EVERY: Final = 5.0
"""Seconds between two readings, as with `-w`."""
_REST: Final = 2.0
"""The least pause after a reading, as a multiple of the time that it took."""
_MAX_HISTORY: Final = 400
_MEASURED_FOR: Final = 30.0
"""Seconds for which GPU metrics are used before they are asked for again."""
_MEASURED_WITHIN: Final = 10.0
"""Seconds that their source has to answer: a picture waits for it."""


class Cluster:
    """A cluster that is read again and again, with the options of the command."""

    def __init__(
        self,
        policy: str | None,
        metrics: str | None,
        kubeconfig: Path | None,
        context: str | None,
        namespace: str | None,
    ) -> None:
        self._policy, self._metrics, self._where, self._namespace = policy, metrics, (kubeconfig, context), namespace
        self._measured: Measured | None = None
        self._asked = float("-inf")

    async def read(self) -> Snapshot:
        """All that a picture is made of. Raises BadInput."""
        snapshot = await read(*self._where, KINDS, self._namespace, needed=("Pod",))
        snapshot.namespace, snapshot.measured = self._namespace or snapshot.namespace, self._measured
        return snapshot

    def picture(self, snapshot: Snapshot, progress: Callable[[int, int], object] = no_progress) -> Picture:
        policy = policy_of(self._policy, snapshot)
        if time.monotonic() - self._asked > _MEASURED_FOR:
            poll_gpus(snapshot, policy, self._metrics, within=_MEASURED_WITHIN)
            self._asked, self._measured = time.monotonic(), snapshot.measured
        use_metrics(snapshot, policy)
        return Picture(snapshot, policy, self._policy, progress)


class Live:
    """Without a `cluster` the picture stays as it is. `source`: where it is from, in words."""

    def __init__(self, picture: Picture, source: str, cluster: Cluster | None = None) -> None:
        self.version = 0
        self._picture, self._source, self._cluster = picture, source, cluster
        self._newer, self._watching, self._history = asyncio.Condition(), 0, list[list[float]]()
        self._thread = ThreadPoolExecutor(1, "picture")  # a snapshot is used by one thread
        self._old: dict[str, Any] | None = None
        self._problem, self._body = "", b""
        self.shown = self._new() or {}

    async def changed(self, version: int) -> None:
        """Wait until there is a newer version than this."""
        async with self._newer:
            self._watching += 1
            self._newer.notify_all()
            try:
                await self._newer.wait_for(lambda: self.version > version)
            finally:
                self._watching -= 1

    async def about(self, namespace: str, name: str) -> dict[str, Any]:
        """What is known of one pod. Raises BadInput."""
        found: dict[str, Any] = await self._in_thread(lambda: self._picture.about(namespace, name))
        return found

    async def answer(self, question: str, given: Mapping[str, str]) -> dict[str, Any]:
        """The answer to a question of `ui.answers`; what no picture needs is read for it. Raises BadInput, and PolicyError if the
        policy does not parse."""
        known = self._picture.snapshot
        snapshot = replace(known, objects={**known.objects}, missing={**known.missing})
        wanted = QUESTIONS[question].reads if question in QUESTIONS else ()
        kinds = [kind for kind in wanted if kind not in {*known.objects, *known.missing}]
        if kinds and snapshot.access:
            await read_more(snapshot, kinds)
        found: dict[str, Any] = await self._in_thread(lambda: self._picture.answer(question, given, snapshot))
        return found

    async def run(self) -> None:
        """Follow the cluster until cancelled. Nothing is read while nobody looks."""
        while True:
            async with self._newer:
                await self._newer.wait_for(lambda: self._cluster and self._watching > 0)
            started = time.monotonic()
            await self.refresh()
            await asyncio.sleep(max(_EVERY, _REST * (time.monotonic() - started)))

    async def refresh(self) -> None:
        """Read the cluster once, and publish what is new."""
        cluster = self._cluster
        assert cluster is not None
        try:
            snapshot = await cluster.read()
            self._old = None
            self._picture, self._problem = await self._in_thread(lambda: cluster.picture(snapshot)), ""
        except GpuAdmissionError as error:
            why = str(error).partition(". ")[0]
            self._old = {"since": self._picture.snapshot.taken, "why": why}
        except Exception as error:  # a bug: without a word the page would show old data as live
            self._problem = f"no new picture could be made: {type(error).__name__}: {bare(str(error))}"
        if shown := self._new():
            self.shown = shown
            async with self._newer:
                self._newer.notify_all()

    def _new(self) -> dict[str, Any] | None:
        """What is shown now, with a new version; None if nothing in it is new."""
        used = self._picture.in_use()
        if self._cluster and (not self._history or used[1:] != self._history[-1][1:]):
            self._history.append(used)
        if len(self._history) > _MAX_HISTORY:
            self._history = [*self._history[:-1:2], self._history[-1]]
        shown = {**self._picture.document, "old": self._old, "problem": self._problem, "history": self._history}
        shown |= {"source": self._source, "live": self._cluster is not None}
        body = orjson.dumps({**shown, "taken": 0})
        if self._body == body:
            return None
        self._body, self.version = body, self.version + 1
        return {**shown, "history": [*self._history], "version": self.version}

    async def _in_thread(self, work: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)
