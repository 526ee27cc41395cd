"""Polls GPU metrics from the source that the policy names, while the program runs.

Nothing waits for them. If the source does not answer, the samples become stale and are withdrawn. Nodes are then ranked by
allocation alone, and the status says so.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path

import aiohttp

from webhook.errors import GpuAdmissionError
from webhook.feeds.api import Api
from webhook.feeds.exporters import Exporters
from webhook.feeds.gpu_source import Source, Wiring, http_session, source_of
from webhook.feeds.tasks import Backoff
from webhook.feeds.watch import Feed
from webhook.nodes.gpu_metrics import GpuMetricsSettings
from webhook.nodes.utilisation import NodeUse, Utilisation
from webhook.policy.model import Policy
from webhook.telemetry.logs import Logger, cause
from webhook.telemetry.metrics import Metrics

ReportUse = Callable[[str, NodeUse], None]
_NODES_PER_TURN = 50
"""Nodes looked at between two turns of the event loop. They take about a millisecond."""
_NAMED = 10
"""Nodes named in a log line."""
_POLICY_SECONDS = 1.0
"""Time between two checks for a changed policy."""


class GpuMetrics:
    """Polls the source that the policy in force names.

    `report_use` is called for each node whose metrics changed, with UNKNOWN for a lost or stale node. `ca_file` and `token_file`
    are for Prometheus. The token is read again at each poll.
    """

    def __init__(
        self,
        current: Callable[[], Policy | None],
        sink: Utilisation,
        report_use: ReportUse,
        api: Api,
        metrics: Metrics,
        log: Logger,
        *,
        ca_file: Path | None = None,
        token_file: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._current, self._sink, self._report_use = current, sink, report_use
        self._api, self._metrics, self._log = api, metrics, log
        self._ca_file, self._token_file = ca_file, token_file
        self._clock, self._pause = clock, pause
        self._failure = ""
        self._silent: Mapping[str, str] = {}
        self._polls = {"succeeded": 0, "failed": 0}
        metrics.gauge("gpu_metrics_age_seconds", "Seconds since the newest sample of a GPU; NaN: none.", self._age)
        metrics.gauge("gpu_metrics_gpus", "Known GPUs and MIG instances.", lambda: sink.gpus)
        metrics.counters("gpu_metrics_polls", "Polls of the source.", "result", lambda: self._polls)
        metrics.counters("gpu_metrics_ignored", "Samples that were not used.", "reason", lambda: sink.ignored)

    def _age(self) -> float:
        age = self._sink.status(self._clock()).age
        return float("nan") if age is None else age

    async def run(self) -> None:
        """Poll until cancelled, and another source when the policy changes. Only a bug ends it."""
        async with http_session(str(self._ca_file) if self._ca_file else None) as http:
            while True:
                settings = self._settings()
                self._sink.configure(settings)
                work = asyncio.create_task(self._follow(settings, http))
                try:
                    while self._settings() == settings and not work.done():  # noqa: ASYNC110  a change of policy has no event
                        await asyncio.sleep(_POLICY_SECONDS)
                finally:
                    work.cancel()
                    with suppress(asyncio.CancelledError):
                        await work

    def _settings(self) -> GpuMetricsSettings:
        policy = self._current()
        return policy.file.gpu_metrics if policy else GpuMetricsSettings()

    async def _follow(self, settings: GpuMetricsSettings, http: aiohttp.ClientSession) -> None:
        """Watch the exporters and poll the source of these settings until cancelled."""
        file, exporters = self._token_file, Exporters(settings.asked)
        token = (lambda: file.read_text().strip()) if file else None
        source = source_of(Wiring(settings, http, exporters, token, api=self._api))
        watch = Feed(
            self._api, "exporters", exporters.path, exporters, self._metrics, self._log, labels=exporters.labels
        )
        self._failure, self._silent = "", {}
        await self._publish()  # an earlier source may have left metrics
        if source is None:
            await asyncio.Event().wait()
        else:
            async with asyncio.TaskGroup() as group:
                group.create_task(watch.run())
                await self.keep_polling(settings, source)

    async def keep_polling(self, settings: GpuMetricsSettings, source: Source) -> None:
        """Poll, wait, and poll again. After a failure it waits a second, then twice as long, up to the interval."""
        backoff = Backoff(1.0, limit=settings.interval)
        while True:
            if await self.poll(settings, source):
                backoff.reset()
                # Replicas that started together do not poll together.
                await self._pause(settings.interval * random.uniform(0.9, 1.1))  # noqa: S311  not a secret
            else:
                await self._pause(backoff.next())

    async def poll(self, settings: GpuMetricsSettings, source: Source) -> bool:
        """Poll once. Returns whether it succeeded."""
        self._sink.discard()  # samples of a poll that was cancelled
        try:
            async with asyncio.timeout(settings.stale_after):
                silent = await source.poll(self._sink)
            self._report_silent(silent, settings.source)
            failure = ""
        except (GpuAdmissionError, TimeoutError, aiohttp.ClientError, OSError) as error:
            failure = f"{type(error).__name__}: {error}"[:500]
        except Exception as error:  # even after a bug, old samples must become stale
            failure = f"a bug: {type(error).__name__}"
            self._log.error("GPU metrics", **cause(error))
        if failure:
            self._sink.discard()
        self._sink.commit(self._clock())
        self._polls["failed" if failure else "succeeded"] += 1
        self._report(failure, settings.source)
        await self._publish()
        return not failure

    def _report(self, failure: str, source: str) -> None:
        """Log a failure that is new or has changed, and a recovery, but not every poll."""
        if failure and failure != self._failure:
            self._log.warning(
                "GPU metrics cannot be read; nodes are ranked by allocation once they are stale",
                why=failure,
                source=source,
            )
        elif self._failure and not failure:
            self._log.info("GPU metrics are read again", source=source)
        self._failure = failure

    def _report_silent(self, silent: Mapping[str, str], source: str) -> None:
        """Log nodes without an answer that had one in the last poll."""
        if fewer := sorted(silent.keys() - self._silent.keys()):
            self._log.warning(
                "some nodes gave no GPU metrics; they are ranked by allocation once theirs are stale",
                nodes=fewer[:_NAMED],
                count=len(fewer),
                why=silent[fewer[0]],
                source=source,
            )
        self._silent = silent

    async def _publish(self) -> None:
        for number, name in enumerate(self._sink.nodes(), 1):
            if (use := self._sink.changed(name)) is not None:
                self._report_use(name, use)
            if not number % _NODES_PER_TURN:
                await asyncio.sleep(0)
