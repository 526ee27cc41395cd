"""Metrics from a real Prometheus, which scrapes an exporter with pages in the format of DCGM. What its metrics do to placement,
and that they become stale, is in tests/e2e/test_gpu_metrics.py."""

import asyncio
import os
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.feeds import prometheus_server
from tests.feeds.exporters import DATA, MIG, exporter
from tests.feeds.prometheus_server import Exporter, Prometheus
from webhook.feeds.exporters import Exporters
from webhook.feeds.gpu_source import SourceFailed, Wiring, http_session
from webhook.feeds.prometheus import PrometheusSource
from webhook.nodes.gpu_metrics import GpuMetricsSettings
from webhook.nodes.utilisation import Utilisation

PAGE = (DATA / "dcgm-mig.txt").read_text()


@pytest.fixture(scope="session")
def program() -> str:
    try:
        return prometheus_server.find()
    except prometheus_server.Unavailable as error:
        if os.environ.get("CI", "").lower() in ("true", "1"):
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))


async def until(prometheus: Prometheus, query: str, count: int) -> None:
    """Wait until Prometheus has scraped the exporter, so that the query has `count` results."""
    deadline = time.monotonic() + 120
    while len(results := await prometheus.ask(query)) != count:
        prometheus.program.check()
        assert time.monotonic() < deadline, f"{query}: {len(results)} results, wanted {count}"
        await asyncio.sleep(0.05)


@pytest.fixture(scope="module", params=["target", "exporter"])
def prometheus(program: str, request: pytest.FixtureRequest) -> Iterator[Prometheus]:
    """One that keeps its own labels `namespace` and `pod`, and one that keeps those of the exporter (`honor_labels`)."""
    with Exporter(PAGE) as exporter:
        at = (
            f"{{targets: ['127.0.0.1:{exporter.server_address[1]}'], labels: {{namespace: gpu-operator, pod: dcgm-x}}}}"
        )
        # A page that comes too late takes what the last one said: on a busy machine that is not a matter of milliseconds.
        config = f"""
global: {{scrape_interval: 3s, scrape_timeout: 3s}}
scrape_configs: [{{job_name: dcgm, honor_labels: {str(request.param == "exporter").lower()}, static_configs: [{at}]}}]
"""
        with Prometheus("", config=config) as server:
            yield server
        exporter.shutdown()


async def polled(prometheus: Prometheus, **more: Any) -> Utilisation:
    """What one poll says. Raises SourceFailed."""
    await until(prometheus, "DCGM_FI_PROF_GR_ENGINE_ACTIVE", 4)
    settings = GpuMetricsSettings.model_validate({"source": "prometheus", "url": prometheus.url, **more})
    sink, exporters = Utilisation(settings), Exporters(settings.asked)
    exporters.seen(exporter("gpu-z-9", "127.0.0.1"))
    async with http_session() as http:
        await PrometheusSource(Wiring(settings, http, exporters, None)).poll(sink)
    sink.commit(0.0)
    return sink


async def test_instances_and_the_pods_that_have_them_are_read_as_they_are_stored(prometheus: Prometheus) -> None:
    use = (await polled(prometheus)).node("gpu-m-0")
    found = {each.pod: each for each in use.pods}
    assert found.pop("gpu-operator/dcgm-x").gpus == 2, "of GPUs that no pod has: it has no GPUs, so nobody believes it"
    assert use._replace(pods=tuple(found.values())) == MIG


async def test_a_node_is_found_by_the_address_of_its_exporter(prometheus: Prometheus) -> None:
    assert (await polled(prometheus, nodeLabels=["instance"])).nodes() == ["gpu-z-9"]


async def test_a_query_may_be_any_promql(prometheus: Prometheus) -> None:
    highest = "max by (Hostname, UUID) (max_over_time(DCGM_FI_DEV_GPU_UTIL[5m]))"
    found = await polled(prometheus, queries={"utilisation": highest, "engine": "", "xid": ""})
    assert found.node("gpu-m-0").measured == 1


@pytest.mark.parametrize(
    ("query", "says"),
    [
        pytest.param("DCGM_FI_DEV_GPU_UTIL{", "answered 400", id="a malformed query"),
        pytest.param("DCGM_FI_DEV_GPU_UTIL[5m]", "a \"matrix\"; wanted an instant vector", id="a range"),
        pytest.param("1", "a \"scalar\"; wanted an instant vector", id="a number"),
    ],
)  # fmt: skip
async def test_a_query_without_a_vector_is_an_error(prometheus: Prometheus, query: str, says: str) -> None:
    with pytest.raises(SourceFailed) as error:
        await polled(prometheus, queries={"temperature": query})
    assert says in str(error.value)
