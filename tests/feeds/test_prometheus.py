"""Metrics from a real Prometheus, which scrapes an exporter with pages in the format of DCGM.

Only the clock for the smoothing is simulated, because it takes five minutes.
"""

import asyncio
import io
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.feeds import prometheus_server
from tests.feeds.exporters import pod
from tests.feeds.prometheus_server import Exporter, Prometheus
from tests.feeds.test_dcgm import MIG
from tests.feeds.test_gpu_metrics import nobody
from webhook.cluster.gpu_metrics import GpuMetricsSettings
from webhook.cluster.utilisation import UNKNOWN, NodeUse, Utilisation
from webhook.feeds.api import Api
from webhook.feeds.exporters import Exporters
from webhook.feeds.gpu_metrics import GpuMetrics
from webhook.feeds.gpu_source import SourceFailed, Wiring, http_session
from webhook.feeds.prometheus import PrometheusSource, node_of, series, vector
from webhook.telemetry import logs
from webhook.telemetry.metrics import Metrics

DATA = Path(__file__).parent / "data"
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


# --- Nodes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "node"),
    [
        pytest.param({}, None, id="no label"),
        pytest.param({"Hostname": ""}, None, id="an empty one"),
        pytest.param({"Hostname": 7}, None, id="a number"),
        pytest.param({"Hostname": "Node A"}, None, id="no valid node name"),
        pytest.param({"Hostname": "x" * 400}, None, id="a very long name"),
        pytest.param({"Hostname": "a\nb"}, None, id="a name with a line break"),
        pytest.param({"Hostname": "gpu-a-0"}, "gpu-a-0", id="Hostname of a newer exporter"),
        pytest.param({"hostname": "gpu-a-0"}, "gpu-a-0", id="the label in lower case"),
        pytest.param({"Hostname": "nvidia-dcgm-exporter-cwbcm"}, "gpu-a-1", id="the pod's name, of an older exporter"),
        pytest.param({"node": "gpu-a-2", "Hostname": "x"}, "gpu-a-2", id="the label `node` before Hostname"),
        pytest.param({"instance": "10.0.0.7:9400"}, "gpu-a-1", id="the address of the exporter"),
        pytest.param({"instance": "[fd00::7]:9400"}, "gpu-a-3", id="its IPv6 address"),
        pytest.param({"instance": "gpu-a-4:9400"}, "gpu-a-4", id="a host name with a port"),
        pytest.param({"instance": "10.9.9.9:9400"}, "10.9.9.9", id="a node that is named by its address"),
    ],
)
def test_the_node_of_a_series_is_found_by_its_labels(labels: dict[str, Any], node: str | None) -> None:
    exporters = {"nvidia-dcgm-exporter-cwbcm": "gpu-a-1", "10.0.0.7": "gpu-a-1", "fd00::7": "gpu-a-3"}
    assert node_of(labels, GpuMetricsSettings(), exporters) == node


# --- Prometheus -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "element",
    [
        pytest.param(None, id="null"),
        pytest.param([], id="a list"),
        pytest.param({"metric": {"gpu": "0"}}, id="no value"),
        pytest.param({"metric": {}, "histogram": [1, {"count": "5"}]}, id="a histogram"),
        pytest.param({"metric": "x", "value": [1, "5"]}, id="labels that are a string"),
        pytest.param({"metric": {}, "value": [1, 5]}, id="a number that is not a string"),
        pytest.param({"metric": {}, "value": [1]}, id="no number"),
        pytest.param({"metric": {}, "value": [1, "5", "6"]}, id="two numbers"),
        pytest.param({"metric": {}, "value": "15"}, id="a string of two characters"),
        pytest.param({"metric": {}, "value": [1, "many"]}, id="a word"),
        pytest.param({"metric": {}, "value": [1, "1_0"]}, id="a number that only Python accepts"),
        pytest.param({"metric": {}, "value": [1, "1" * 100]}, id="an endless number"),
    ],
)
def test_an_element_that_is_no_sample_is_left_out(element: Any) -> None:
    assert series(element) is None


def test_a_sample_is_read() -> None:
    assert series({"metric": {"gpu": "0"}, "value": [1763726000.123, "97.5"]}) == ({"gpu": "0"}, 97.5)


def answer(elements: list[Any], **more: Any) -> bytes:
    """An answer as Prometheus writes it."""
    return orjson.dumps({"status": "success", "data": {"resultType": "vector", "result": elements}, **more})


def in_parts(body: bytes, size: int) -> list[Any]:
    return [element for part in vector(body, size) for element in part]


LABELS = st.dictionaries(
    st.text(max_size=5), st.text(st.sampled_from('},{"metric":\\u0022[]ab😀\n'), max_size=30), max_size=3
)
ELEMENTS = st.lists(
    st.fixed_dictionaries({"metric": LABELS, "value": st.tuples(st.integers(0, 2**33), st.text(max_size=3))})
)


@given(ELEMENTS, st.integers(1, 60), st.booleans())
def test_the_parts_of_an_answer_are_the_answer(elements: list[Any], size: int, warns: bool) -> None:
    """Tenants write labels, and may choose them to look like JSON."""
    body = answer(elements, **({"warnings": ['},{"metric":{}']} if warns else {}))
    assert in_parts(body, size) == orjson.loads(body)["data"]["result"]


@given(ELEMENTS, st.integers(1, 60))
def test_an_answer_in_another_format_is_read_too(elements: list[Any], size: int) -> None:
    document = {"data": {"result": elements, "resultType": "vector"}, "status": "success"}
    body = orjson.dumps(document, option=orjson.OPT_INDENT_2)
    assert in_parts(body, size) == orjson.loads(body)["data"]["result"]


def test_an_answer_is_parsed_in_parts() -> None:
    body = answer([{"metric": {}, "value": [1, "2"]}] * 100)
    assert max(map(len, vector(body, 100))) <= 4


@pytest.mark.parametrize(
    ("body", "says"),
    [
        pytest.param(b"", "no JSON", id="nothing"),
        pytest.param(b"<html>", "no JSON", id="a login page"),
        pytest.param(b"[]", "without status success", id="another API"),
        pytest.param(b'{"status":"success","data":[]}', "without status success", id="another query of it"),
        pytest.param(
            b'{"status":"error","errorType":"timeout","error":"x"}', "without status success", id="an error with 200"
        ),
        pytest.param(
            b'{"status":"error","data":{"resultType":"vector","result":[]},"errorType":"timeout","error":"x"}',
            "without status success",
            id="an error with a part of the data",
        ),
        pytest.param(
            b'{"status":"success","data":{"resultType":"matrix","result":[]}}',
            'a "matrix"; wanted an instant vector',
            id="a range",
        ),
        pytest.param(answer([{"metric": {}, "value": [1, "2"]}] * 3)[:-1], "no JSON", id="cut short at the end"),
        pytest.param(answer([{"metric": {}, "value": [1, "2"]}] * 3)[:-40], "no JSON", id="cut short in a series"),
        pytest.param(
            b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{},{"metric":', "no JSON", id="junk"
        ),
        pytest.param(
            b'{"status":"success","data":{"resultType":"vector","result":{"metric":1}}}', "wanted a list", id="no list"
        ),
    ],
)
def test_no_part_of_a_wrong_answer_is_used(body: bytes, says: str) -> None:
    for size in (7, 10_000):
        with pytest.raises(SourceFailed) as error:
            in_parts(body, size)
        assert says in str(error.value)
