"""Scrapes GPU metrics from DCGM exporters, one per node. For clusters without Prometheus, with up to some thousand nodes.

A page has some hundred lines, of which about six per GPU are used. The other lines are dropped by their name, and the event loop
runs between lines, so that no review waits for a whole page.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping

from prometheus_client.parser import text_string_to_metric_families
from yarl import URL

from webhook.cluster.utilisation import Reading
from webhook.feeds.exporters import Exporter
from webhook.feeds.gpu_source import READINGS, Round, SourceFailed, Wiring, add_sample, ask_each, get

MAX_BYTES = 4 << 20
"""Maximum size of a page. 16 GPUs of 7 MIG instances with 60 metrics each give 3 MiB."""
_MAX_LINE = 4096
_AT_ONCE = 16
"""Maximum number of exporters that are scraped at the same time."""
_LINES_AT_ONCE = 16
"""Samples between two turns of the event loop. They take about 0.7 ms."""

Line = tuple[Mapping[str, str], Reading, float]


def parse_page(page: str, names: Mapping[str, Reading], ignored: Counter[str]) -> Iterator[Line]:
    """The samples with these names in a page of the Prometheus text format, as labels, reading and value.

    Malformed lines are counted in `ignored`.
    """
    for line in page.split("\n"):
        end = line.find("{")
        reading = names.get(line[:end]) if end > 0 else None
        if reading is None:
            if end < 0 and line.partition(" ")[0] in names:
                ignored["no GPU label"] += 1
            continue
        if len(line) > _MAX_LINE:
            ignored["line too long"] += 1
            continue
        try:
            [family] = text_string_to_metric_families(line)
            [sample] = family.samples
            yield sample.labels, reading, sample.value
        except (ValueError, IndexError):
            ignored["not in the text format"] += 1


class DcgmSource:
    """Scrapes the exporters that the watch has found."""

    def __init__(self, wiring: Wiring) -> None:
        self._settings, self._http, self._exporters, _, self._through, _ = wiring
        self._names = {name: READINGS[key] for key, name in self._settings.queries if name}

    async def poll(self, into: Round) -> Mapping[str, str]:
        """Scrape every exporter, some at a time."""
        await self._exporters.listed.wait()
        if not len(self._exporters):
            at = self._settings.dcgm
            raise SourceFailed(
                f"no running pod with labels {dict(at.selector)} in namespace {at.namespace}; wanted DCGM exporters. "
                "Set gpuMetrics.dcgm.namespace and .selector"
            )
        seconds = self._settings.stale_after / 3
        return await ask_each(self._exporters, lambda exporter: self._scrape(exporter, into), _AT_ONCE, seconds)

    async def _scrape(self, exporter: Exporter, into: Round) -> None:
        port = self._settings.dcgm.port
        url = str(URL.build(scheme="http", host=exporter.address, port=port, path="/metrics"))
        if self._through:
            pods = f"{self._through}{self._exporters.path}"
            url = f"{pods}/http:{exporter.name}:{port}/proxy/metrics"
        # There may be thousands of connections, and each would be closed as idle before the next poll.
        headers = {"Connection": "close"}
        page = (await get(self._http, url, self._settings.timeout, MAX_BYTES, headers=headers)).decode(errors="replace")
        for number, (labels, reading, value) in enumerate(parse_page(page, self._names, into.ignored), 1):
            add_sample(into, exporter.node, labels, reading, value, xids=self._settings.sick.xids)
            if not number % _LINES_AT_ONCE:
                await asyncio.sleep(0)


source = DcgmSource
