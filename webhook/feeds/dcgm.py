"""Scrapes GPU metrics from DCGM exporters, one per node. For clusters without Prometheus, with up to some thousand nodes.

A page has some hundred lines, of which about six per GPU are used. The other lines are dropped by their name, and the event loop
runs between lines, so that no review waits for a whole page.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping

from prometheus_client.parser import text_string_to_metric_families
from yarl import URL

from webhook.feeds.exporters import Exporter
from webhook.feeds.gpu_source import Round, Wiring, add_sample, ask_each, get
from webhook.nodes.utilisation import Reading

MAX_BYTES = 4 << 20
"""Maximum size of a page. 16 GPUs of 7 MIG instances with 60 metrics each give 3 MiB."""
_MAX_LINE = 4096
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
        self.wiring = wiring
        self._names = {name: Reading[key.upper()] for key, name in wiring.settings.queries if name}

    async def poll(self, into: Round) -> Mapping[str, str]:
        return await ask_each(self.wiring, lambda exporter: self._scrape(exporter, into))

    async def _scrape(self, exporter: Exporter, into: Round) -> None:
        settings, http, exporters, _, through, _ = self.wiring
        port = settings.pods.port
        url = str(URL.build(scheme="http", host=exporter.address, port=port, path="/metrics"))
        if through:
            url = f"{through}{exporters.path}/http:{exporter.name}:{port}/proxy/metrics"
        # There may be thousands of connections, and each would be closed as idle before the next poll.
        headers = {"Connection": "close"}
        page = (await get(http, url, settings.timeout, MAX_BYTES, headers=headers)).decode(errors="replace")
        for number, (labels, reading, value) in enumerate(parse_page(page, self._names, into.ignored), 1):
            add_sample(into, exporter.node, labels, reading, value, xids=settings.sick.xids)
            if not number % _LINES_AT_ONCE:
                await asyncio.sleep(0)


source = DcgmSource
