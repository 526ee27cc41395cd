"""GPU metrics scraped from DCGM exporters, one per node. For clusters without a Prometheus, up to some thousand nodes.

A page has some hundred lines and about six of interest per GPU: the others are dropped by their name, and the loop is
given back between lines, so that a review never waits for a page.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

import aiohttp
from prometheus_client.parser import text_string_to_metric_families
from yarl import URL

from webhook.cluster.gpu_metrics import GpuMetricsSettings
from webhook.cluster.utilisation import Reading, Utilisation
from webhook.feeds.gpu_source import READINGS, SourceFailed, Wiring, ask_all, get, put, read
from webhook.feeds.gpu_targets import Pods, Target, exporters
from webhook.kube.gpus import Gpus
from webhook.text import plural

MOST_BYTES = 4 << 20
"""16 GPUs of 7 MIG instances with 60 metrics each are 3 MiB."""
_LONGEST_LINE = 4096
_AT_ONCE = 16
_LINES_AT_ONCE = 16
"""Between two turns of the event loop: about 0.7 ms."""

Line = tuple[Mapping[str, str], Reading, float]


def parse_page(page: str, names: Mapping[str, Reading], ignored: Counter[str]) -> Iterator[Line]:
    """The samples of a page in the Prometheus text format that have one of these names: labels, reading, value."""
    for line in page.split("\n"):
        end = line.find("{")
        reading = names.get(line[:end]) if end > 0 else None
        if reading is None:
            if end < 0 and line.partition(" ")[0] in names:
                ignored["no GPU label"] += 1
            continue
        if len(line) > _LONGEST_LINE:
            ignored["line too long"] += 1
            continue
        try:
            [family] = text_string_to_metric_families(line)
            [sample] = family.samples
            yield sample.labels, reading, sample.value
        except (ValueError, IndexError):
            ignored["not in the text format"] += 1


class DcgmSource:
    """`targets` gives the exporters that there are now."""

    def __init__(
        self, settings: GpuMetricsSettings, http: aiohttp.ClientSession, targets: Callable[[], Iterable[Target]]
    ) -> None:
        self._settings = settings
        self._http = http
        self._targets = targets
        self._names = {name: READINGS[key] for key, name in settings.queries if name}
        self.failed = 0
        """Exporters that did not answer in the last poll."""

    async def poll(self, into: Utilisation) -> None:
        """Scrape every exporter, some at a time. Fails only if none answered: nodes grow stale one by one."""
        targets = list(self._targets())
        if not targets:
            at = self._settings.dcgm
            raise SourceFailed(
                f"no running pod with labels {dict(at.selector)} in namespace {at.namespace}; wanted DCGM exporters. "
                "Set gpuMetrics.dcgm.namespace and .selector"
            )

        async def scrape(target: Target) -> None:
            await self._scrape(target, into)

        errors = await ask_all(targets, scrape, _AT_ONCE, self._settings.stale_after / 3)
        self.failed = len(errors)
        if self.failed == len(targets):
            raise SourceFailed(f"none of {plural(self.failed, 'DCGM exporter')} answered; the first: {errors[0]}")

    async def _scrape(self, target: Target, into: Utilisation) -> None:
        url = URL.build(scheme="http", host=target.address, port=self._settings.dcgm.port, path="/metrics")
        # An idle connection would be closed before the next poll anyway, and there may be thousands.
        async with get(self._http, str(url), self._settings.timeout, headers={"Connection": "close"}) as response:
            page = (await read(response, MOST_BYTES)).decode(errors="replace")
        for number, (labels, reading, value) in enumerate(parse_page(page, self._names, into.ignored), 1):
            put(into, target.node, labels, reading, value, xids=self._settings.sick.xids)
            if not number % _LINES_AT_ONCE:
                await asyncio.sleep(0)


def pods(settings: GpuMetricsSettings, gpus: Gpus) -> Pods:
    return exporters(settings)


def source(wiring: Wiring) -> DcgmSource:
    return DcgmSource(wiring.settings, wiring.http, lambda: wiring.targets)
