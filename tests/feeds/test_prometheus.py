"""Metrics from a real Prometheus, which scrapes an exporter with pages in the format of DCGM.

Only the clock for the smoothing is simulated, because it takes five minutes.
"""

import asyncio
import io
import os
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.feeds import prometheus_server
from tests.feeds.exporters import DATA, MIG, pod
from tests.feeds.prometheus_server import Exporter, Prometheus
from tests.feeds.test_gpu_metrics import nobody
from webhook.cluster.gpu_metrics import GpuMetricsSettings
from webhook.cluster.utilisation import UNKNOWN, NodeUse, Utilisation
from webhook.feeds.api import Api
from webhook.feeds.exporters import Exporters
from webhook.feeds.gpu_metrics import GpuMetrics
from webhook.feeds.gpu_source import SourceFailed, Wiring, http_session
from webhook.feeds.prometheus import PrometheusSource
from webhook.telemetry import logs
from webhook.telemetry.metrics import Metrics

IDLE = (DATA / "dcgm-8-idle.txt").read_text()
BUSY = (DATA / "dcgm-8-busy.txt").read_text()
NODE = "gpu-a-0"
"""The Hostname in these pages."""


@pytest.fixture(scope="session")
def program() -> str:
    try:
        return prometheus_server.find()
    except prometheus_server.Unavailable as error:
        if os.environ.get("CI", "").lower() in ("true", "1"):
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def shared(program: str) -> Iterator[tuple[Prometheus, Exporter]]:
    with Exporter(IDLE) as exporter:
        with Prometheus(f"127.0.0.1:{exporter.server_address[1]}") as prometheus:
            yield prometheus, exporter
        exporter.shutdown()


@pytest.fixture
def prometheus(shared: tuple[Prometheus, Exporter]) -> Prometheus:
    return shared[0]


@pytest.fixture
def exporter(shared: tuple[Prometheus, Exporter]) -> Exporter:
    shared[1].page = IDLE
    return shared[1]


async def until(prometheus: Prometheus, query: str, count: int) -> None:
    """Wait until Prometheus has scraped the exporter, so that the query has `count` results."""
    deadline = time.monotonic() + 120
    while len(results := await prometheus.ask(query)) != count:
        prometheus.program.check()
        assert time.monotonic() < deadline, f"{query}: {len(results)} results, wanted {count}"
        await asyncio.sleep(0.05)


class Asking:
    """A feed that polls a Prometheus, with a simulated clock."""

    def __init__(self, url: str, **settings: Any) -> None:
        self.settings = GpuMetricsSettings.model_validate({"source": "prometheus", "url": url, **settings})
        self.sink = Utilisation(self.settings)
        self.exporters = Exporters(self.settings.dcgm)
        self.now = 1000.0
        self.reported: dict[str, NodeUse] = {}
        self.feed = GpuMetrics(
            lambda: None,
            self.sink,
            self.reported.__setitem__,
            Api(nobody),
            Metrics(),
            logs.configure(io.BytesIO()),
            clock=lambda: self.now,
        )

    async def poll(self, after: float = 0.0) -> bool:
        self.now += after
        async with http_session() as http:
            source = PrometheusSource(Wiring(self.settings, http, self.exporters, None))
            return await self.feed.poll(self.settings, source)


async def test_idle_then_busy_then_gone_then_stale(prometheus: Prometheus, exporter: Exporter) -> None:
    asking = Asking(prometheus.url)
    await until(prometheus, "DCGM_FI_DEV_GPU_UTIL == 0", 8)
    assert await asking.poll()
    assert asking.reported == {NODE: NodeUse(8, 8, 0.0, 32.0, 0, 0, 0, 0, 8)}

    exporter.page = BUSY
    await until(prometheus, "DCGM_FI_DEV_GPU_UTIL > 90", 8)
    assert await asking.poll(after=30)
    assert (asking.reported[NODE].idle, asking.reported[NODE].hottest) == (0, 68.0)

    exporter.page = None
    await until(prometheus, "DCGM_FI_DEV_GPU_UTIL", 0)
    assert await asking.poll(after=30), "an answer without series is a success"
    assert asking.reported[NODE].idle == 0
    assert asking.sink.status(asking.now).age == 30
    assert await asking.poll(after=151)
    assert asking.reported[NODE] == UNKNOWN
    assert asking.sink.status(asking.now).reason == "GPU metrics are stale"


async def test_mig_instances_are_read_as_they_are_stored(prometheus: Prometheus, exporter: Exporter) -> None:
    exporter.page = (DATA / "dcgm-mig.txt").read_text()
    asking = Asking(prometheus.url)
    await until(prometheus, "DCGM_FI_PROF_GR_ENGINE_ACTIVE", 4)
    assert await asking.poll()
    assert asking.reported == {"gpu-m-0": MIG}


@pytest.mark.parametrize("keeps", ["target", "exporter"])
async def test_the_pod_that_has_a_gpu_is_the_one_of_the_exporter(program: str, keeps: str) -> None:
    """Whether the Prometheus keeps its own labels `namespace` and `pod`, or with `honor_labels` those of the exporter."""
    with Exporter((DATA / "dcgm-mig.txt").read_text()) as exporter:
        target = (
            f"{{targets: ['127.0.0.1:{exporter.server_address[1]}'], labels: {{namespace: gpu-operator, pod: dcgm-x}}}}"
        )
        config = f"""
global: {{scrape_interval: 200ms, scrape_timeout: 200ms}}
scrape_configs: [{{job_name: dcgm, honor_labels: {str(keeps == "exporter").lower()}, static_configs: [{target}]}}]
"""
        with Prometheus("", config=config) as prometheus:
            await until(prometheus, "DCGM_FI_PROF_GR_ENGINE_ACTIVE", 4)
            asking = Asking(prometheus.url)
            assert await asking.poll()
        exporter.shutdown()
    pods = {each.pod: each.gpus for each in asking.reported["gpu-m-0"].pods}
    assert pods.pop("gpu-operator/dcgm-x") == 2, "of GPUs that no pod has: it has no GPUs, so nobody believes it"
    assert pods == {"chat/vllm-0": 1, "research/llm-0": 1}


async def test_a_node_is_found_by_the_address_of_its_exporter(prometheus: Prometheus, exporter: Exporter) -> None:
    asking = Asking(prometheus.url, nodeLabels=["instance"])
    asking.exporters.seen(pod("gpu-z-9", "127.0.0.1"))
    await until(prometheus, "DCGM_FI_DEV_FB_USED", 8)
    assert await asking.poll()
    assert list(asking.reported) == ["gpu-z-9"]


async def test_a_query_may_be_any_promql(prometheus: Prometheus, exporter: Exporter) -> None:
    exporter.page = BUSY
    await until(prometheus, "DCGM_FI_DEV_GPU_UTIL > 90", 8)
    exporter.page = IDLE
    await until(prometheus, "DCGM_FI_DEV_GPU_UTIL == 0", 8)
    by = "Hostname, UUID"
    asking = Asking(
        prometheus.url, queries={"utilisation": f"max by ({by}) (max_over_time(DCGM_FI_DEV_GPU_UTIL[5m]))", "xid": ""}
    )
    assert await asking.poll()
    assert asking.reported[NODE].idle == 0, "the query reads samples from before the start of the feed"


@pytest.mark.parametrize(
    ("query", "says"),
    [
        pytest.param("DCGM_FI_DEV_GPU_UTIL{", "answered 400", id="a malformed query"),
        pytest.param("DCGM_FI_DEV_GPU_UTIL[5m]", "a \"matrix\"; wanted an instant vector", id="a range"),
        pytest.param("1", "a \"scalar\"; wanted an instant vector", id="a number"),
    ],
)  # fmt: skip
async def test_a_query_without_a_vector_is_an_error(
    prometheus: Prometheus, exporter: Exporter, query: str, says: str
) -> None:
    await until(prometheus, "DCGM_FI_DEV_GPU_UTIL == 0", 8)
    asking = Asking(prometheus.url, queries={"temperature": query})
    async with http_session() as http:
        with pytest.raises(SourceFailed) as error:
            await PrometheusSource(Wiring(asking.settings, http, asking.exporters, None)).poll(asking.sink)
    assert says in str(error.value)
    assert not await asking.poll()
    assert asking.reported == {}, "the samples of a failed poll are not used"


async def test_when_prometheus_stops_the_metrics_stay_until_they_are_stale(
    prometheus: Prometheus, exporter: Exporter
) -> None:
    """It must be the last test: samples from before the crash can be queried for five minutes, the look-back of Prometheus."""
    asking = Asking(prometheus.url)
    await until(prometheus, "DCGM_FI_DEV_GPU_UTIL == 0", 8)
    assert await asking.poll()
    prometheus.program.stop(patience=0)
    assert not await asking.poll(after=30)
    assert asking.reported[NODE].idle == 8
    assert not await asking.poll(after=151)
    assert asking.reported[NODE] == UNKNOWN
    prometheus.program.start()
    await until(prometheus, "DCGM_FI_DEV_FB_USED", 8)
    assert await asking.poll(after=30)
    assert asking.reported[NODE].idle == 8
