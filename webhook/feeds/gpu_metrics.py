"""The loop that polls a source of GPU metrics. It never ends by an error, and nothing waits for it.

Where the source does not answer, samples grow stale and are taken back: nodes are then ranked by allocation alone, and
the status says so.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import aiohttp
import structlog
from kubernetes_asyncio.client.rest import ApiException
from kubernetes_asyncio.stream import WsApiClient

from webhook.cluster.gpu_metrics import GpuMetricsSettings
from webhook.cluster.utilisation import NodeUse, Utilisation
from webhook.feeds.dcgm import DcgmSource
from webhook.feeds.gpu_source import Source, SourceFailed
from webhook.feeds.gpu_targets import Targets
from webhook.feeds.nvidia_smi import NvidiaSmiSource
from webhook.feeds.prometheus import PrometheusSource
from webhook.logs import Logger, cause

_TOLD_AT_ONCE = 200
"""Between two turns of the event loop."""


def open_source(
    settings: GpuMetricsSettings,
    http: aiohttp.ClientSession,
    targets: Targets,
    client: WsApiClient | None = None,
    token_file: Path | None = None,
) -> Source | None:
    """The source that the policy names; None if it is off. `targets`: see `gpu_targets.watched`.

    `token_file`: a bearer token for Prometheus. `client`: for `nvidia-smi`, with the right to use pods/exec.
    """
    if settings.source == "prometheus":
        token = (lambda: token_file.read_text().strip()) if token_file else None
        return PrometheusSource(settings, http, targets.nodes, token)
    if settings.source == "dcgm":
        return DcgmSource(settings, http, lambda: targets)
    if settings.source == "nvidiaSmi":
        if client is None:
            raise ValueError("source nvidiaSmi needs a WsApiClient")
        return NvidiaSmiSource(settings, client, lambda: targets)
    return None


class GpuMetricsFeed:
    """Polls for ever. `tell` gets each node whose numbers changed, UNKNOWN for one that is gone or stale.

    Not told: how GPUs are allocated. Use `idle_gpus` with what the cluster state knows.
    """

    def __init__(
        self,
        settings: GpuMetricsSettings,
        source: Source | None,
        sink: Utilisation,
        tell: Callable[[str, NodeUse], None],
        *,
        log: Logger | None = None,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._settings = settings
        self._source = source
        self._sink = sink
        self._tell = tell
        self._log: Logger = log or structlog.get_logger()
        self._clock = clock
        self._pause = pause
        self._jitter = jitter
        self._complaint = ""
        self.polls = 0
        self.failures = 0
        """Polls that failed, of all polls."""

    @property
    def age(self) -> float:
        """Seconds since the newest sample; NaN while there is none."""
        age = self._sink.status(self._clock()).age
        return float("nan") if age is None else age

    @property
    def ignored(self) -> Mapping[str, int]:
        """Numbers that were not used, by a constant reason."""
        return self._sink.ignored

    async def run(self) -> None:
        """Poll, wait, and poll again. After a failure it waits a second, then twice as long, up to the interval.

        Without a source it takes back what an earlier one said, and waits to be cancelled.
        """
        if self._source is None:
            await self._publish()
            await asyncio.Event().wait()
        interval = self._settings.interval
        in_a_row = 0
        while True:
            in_a_row = 0 if await self.poll() else in_a_row + 1
            # The jitter: replicas that started together must not ask together for ever.
            if in_a_row:
                await self._pause(min(interval, 2.0 ** min(in_a_row - 1, 20)) * self._jitter(0.5, 1.0))
            else:
                await self._pause(interval * self._jitter(0.9, 1.1))

    async def poll(self) -> bool:
        """One poll; whether it succeeded."""
        assert self._source is not None
        self.polls += 1
        self._sink.discard()  # of a poll that failed, or was cancelled
        try:
            async with asyncio.timeout(self._settings.stale_after):
                await self._source.poll(self._sink)
            self._sink.commit(self._clock())
            complaint = ""
        except (SourceFailed, TimeoutError, aiohttp.ClientError, ApiException, OSError) as error:
            complaint = f"{type(error).__name__}: {error}"[:500]
            self._failed()
        except Exception as error:  # a bug of ours must not leave old numbers standing for ever
            complaint = f"a bug: {type(error).__name__}"
            self._log.error("GPU metrics", **cause(error))
            self._failed()
        self._report(complaint)
        await self._publish()
        return not complaint

    def _failed(self) -> None:
        self.failures += 1
        self._sink.refresh(self._clock())

    def _report(self, complaint: str) -> None:
        """One line when it breaks or breaks otherwise, one when it works again; not one for each poll."""
        if complaint and complaint != self._complaint:
            self._log.warning(
                "GPU metrics cannot be read; nodes are ranked by allocation once they are stale",
                seen=complaint,
                source=self._settings.source,
            )
        elif self._complaint and not complaint:
            self._log.info("GPU metrics are read again", source=self._settings.source)
        self._complaint = complaint

    async def _publish(self) -> None:
        for number, (name, use) in enumerate(self._sink.changes(), 1):
            self._tell(name, use)
            if not number % _TOLD_AT_ONCE:
                await asyncio.sleep(0)
