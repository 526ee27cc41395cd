"""Polling GPU metrics from where the command runs: which way is taken, and the error if none works."""

import asyncio
import json
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from aiohttp import web

from tests.cli.objects import call, kubeconfig, placed, with_metrics, write
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from tests.feeds.exporters import DATA, served
from webhook.cli.cluster.metrics import way_to, with_url
from webhook.errors import BadInput
from webhook.feeds.access import Access
from webhook.nodes.gpu_metrics import GpuMetricsSettings

BUSY = (DATA / "dcgm-8-busy.txt").read_text()
NODE = "gpu-a-0"
"""The Hostname in that page."""
API = Access("https://api:6443", None, "Bearer t", None, 60.0)
THROUGH = "https://api:6443/api/v1/namespaces"


def prometheus(url: str) -> GpuMetricsSettings:
    return GpuMetricsSettings(source="prometheus", url=url)


@pytest.mark.parametrize(
    ("url", "first"),
    [
        pytest.param("http://prometheus.monitoring:9090", f"{THROUGH}/monitoring/services/http:prometheus:9090/proxy", id="a Service"),
        pytest.param("http://prometheus.monitoring.svc.cluster.local:9090/prefix/", f"{THROUGH}/monitoring/services/http:prometheus:9090/proxy/prefix", id="by its full name, with a prefix"),
        pytest.param("https://thanos.monitoring.svc", f"{THROUGH}/monitoring/services/https:thanos:443/proxy", id="no port"),
        pytest.param("http://prometheus:9090", f"{THROUGH}/gpu-admission/services/http:prometheus:9090/proxy", id="in the webhook's own namespace"),
        pytest.param("https://metrics.eu.example.com", "https://metrics.eu.example.com", id="a host elsewhere"),
        pytest.param("http://10.0.0.7:9090", "http://10.0.0.7:9090", id="an address"),
        pytest.param("http://localhost:9090", "http://localhost:9090", id="this machine"),
    ],
)  # fmt: skip
def test_a_service_is_asked_through_the_api_server(url: str, first: str) -> None:
    assert way_to(prometheus(url), API, in_pod=False).settings.url == first


def test_in_a_pod_or_with_a_file_the_address_itself_is_asked() -> None:
    url = "http://prometheus.monitoring:9090"
    assert way_to(prometheus(url), API, in_pod=True).settings.url == url
    assert way_to(prometheus(url), None, in_pod=False).settings.url == url
    assert way_to(GpuMetricsSettings(source="dcgm"), API, in_pod=False).access == API


@pytest.mark.parametrize("url", ["", "localhost:9090", "ftp://x", "http://me:secret@x", "http://x?query=1"])
def test_a_malformed_address_is_refused(url: str) -> None:
    with pytest.raises(BadInput, match=r"^--metrics: saw .*, wanted the base of a Prometheus"):
        with_url(url, GpuMetricsSettings())


# --- over HTTP --------------------------------------------------------------------------------------------------------


class Api:
    """An API server with one node, one pod and the policy; it passes requests on to the exporter's page, if it may."""

    def __init__(self, **gpu_metrics: Any) -> None:
        self.policy = {"gpuMetrics": gpu_metrics, "profiles": {"default": {}}}
        self.proxied: list[tuple[str, str]] = []
        self.answer: tuple[int, str] = 200, BUSY

    async def handle(self, request: web.BaseRequest) -> web.Response:
        path = request.path
        if "/proxy" in path:
            self.proxied.append((path, request.query.get("query", "")))
            return web.Response(status=self.answer[0], text=self.answer[1])
        items = {
            "/api/v1/nodes": [node(NODE)],
            "/api/v1/pods": [placed(pod("trainer", 8), NODE), self._exporter()],
            "/api/v1/namespaces/gpu-admission/configmaps": [
                {
                    "metadata": {"name": "gpu-admission-policy", "namespace": "gpu-admission"},
                    "data": {"policy.yaml": yaml.safe_dump(self.policy)},
                }
            ],
        }
        return web.json_response({"kind": "List", "metadata": {}, "items": items.get(path, [])})

    @staticmethod
    def _exporter() -> dict[str, Any]:
        made = placed(pod("exporter", 0, labels={"app": "nvidia-dcgm-exporter"}), NODE, podIP="127.0.0.1")
        made["metadata"]["namespace"] = "gpu-operator"
        return made


async def shown(api: Api, folder: Path, *arguments: Any) -> tuple[Any, str]:
    """The document of the node, and stderr."""
    async with served(api.handle) as port:
        given = ["top", "--kubeconfig", kubeconfig(folder, f"http://127.0.0.1:{port}"), "-o", "json", *arguments]
        result = await asyncio.to_thread(call, *given)
    assert result.exit_code == 0
    return json.loads(result.stdout)["items"][0], result.stderr


async def test_exporters_are_asked_through_the_api_server(tmp_path: Path) -> None:
    api = Api(source="dcgm")
    found, said = await shown(api, tmp_path)
    assert said == ""
    assert (found["utilisation"], found["idle"], found["temperature"]) == (99, 0, 68)
    assert found["memory"] == {"used": f"{8 * 73797}Mi", "total": f"{8 * 81011}Mi"}
    assert api.proxied == [("/api/v1/namespaces/gpu-operator/pods/http:exporter:9400/proxy/metrics", "")]


ASKED = {"source": "prometheus", "url": "http://prometheus.monitoring:9090"}
FORBIDDEN = orjson.dumps({"kind": "Status", "message": 'services "http:p:9090" is forbidden'}).decode()


@pytest.mark.parametrize(
    ("settings", "answer", "said"),
    [
        pytest.param(
            ASKED,
            (403, FORBIDDEN),
            "through the API server: no right to get services/proxy in namespace monitoring",
            id="no right to services/proxy, and the name is not known here",
        ),
        pytest.param(
            ASKED,
            (503, orjson.dumps({"kind": "Status", "message": "no endpoints available for service"}).decode()),
            'answered 503 "no endpoints available for service"; wanted 200',
            id="a Service without endpoints",
        ),
        pytest.param(ASKED, (200, "<html>"), "through the API server: an answer that is no JSON: ", id="not a Prometheus"),
        pytest.param(
            ASKED,
            (
                200,
                '{"status":"success","data":{"resultType":"vector","result":['
                '{"metric":{"node":"other","gpu":"0"},"value":[1,"5"]},{"metric":{"gpu":"0"},"value":[1,"5"]}]}}',
            ),
            "through the API server: no number of a node here (no node label: 6, of another node: 6)",
            id="a Prometheus of another cluster",
        ),
        pytest.param(
            {"source": "dcgm", "pods": {"port": 1}},
            (403, FORBIDDEN),
            "through the API server: no right to get pods/proxy in namespace gpu-operator",
            id="no right to pods/proxy",
        ),
        pytest.param({"source": "dcgm", "pods": {"namespace": "elsewhere"}}, (200, ""), "no running pod with labels {'app': 'nvidia-dcgm-exporter'} in namespace elsewhere", id="no exporter"),
    ],
)  # fmt: skip
async def test_if_metrics_cannot_be_read_one_line_says_why_and_the_rest_is_shown(
    tmp_path: Path, settings: dict[str, Any], answer: tuple[int, str], said: str
) -> None:
    api = Api(**settings)
    api.answer = answer
    found, stderr = await shown(api, tmp_path)
    assert "utilisation" not in found
    assert found["gpus"]["nvidia.com/gpu"]["allocated"] == 8
    assert said in stderr
    assert stderr.startswith("warning: GPU metrics cannot be read: ")
    assert stderr.endswith("Give --metrics URL, or --metrics off\n")
    assert stderr.count("\n") == 1


async def test_off_asks_nobody(tmp_path: Path) -> None:
    api = Api(source="dcgm")
    found, said = await shown(api, tmp_path, "--metrics", "off")
    assert ("utilisation" in found, said, api.proxied) == (False, "", [])


# --- the table --------------------------------------------------------------------------------------------------------

TABLE = """\
NODE      POOL       MODEL                   HEALTH    RESOURCE         TOTAL   ALLOCATED   PROMISED   FREE   USED       IDLE   UTILISATION      MEMORY        HOTTEST
gpu-a-0   training   NVIDIA-A100-SXM4-80GB   healthy   nvidia.com/gpu       8           6          0      2   ██████░░      0   ████████  99 %   577/633 GiB   68 °C
gpu-b-0   training   NVIDIA-A100-SXM4-80GB   healthy   nvidia.com/gpu       8           8          0      0   ████████      8   ░░░░░░░░   0 %   0/633 GiB     32 °C

POOL       NODES   RESOURCE         TOTAL   ALLOCATED   PROMISED   FREE   USED       IDLE   UTILISATION      MEMORY         HOTTEST
training       2   nvidia.com/gpu      16          14          0      2   ███████░      8   ████░░░░  50 %   577/1266 GiB   68 °C

largest job that could start now: 1 node × 2 GPUs of NVIDIA-A100-SXM4-80GB, with no tolerations but the webhook's
"""


def test_the_table(tmp_path: Path) -> None:
    """Against a real Prometheus: tests/e2e/test_top.py."""
    nodes = [node(name, labels={"node-pool": "training"}) for name in (NODE, "gpu-b-0")]
    file = write(tmp_path, *nodes, placed(pod("trainer", 6), NODE), placed(pod("sleeper", 8), "gpu-b-0"))
    readings = {NODE: (99, 73797, 7214, 68), "gpu-b-0": (0, 1, 81010, 32)}
    names = ("utilisation", "memory_used", "memory_free", "temperature")
    samples = [
        [of, str(gpu), name, value - (gpu if name == "temperature" else 0), ""]
        for of, values in readings.items()
        for gpu in range(8)
        for name, value in zip(names, values, strict=True)
    ]
    result = call("top", "--from", with_metrics(file, samples))
    said = "whose the idle GPUs are, and for how long: gpu-admission top namespaces\n"
    assert (result.exit_code, result.stderr) == (0, said)
    assert result.stdout == TABLE
