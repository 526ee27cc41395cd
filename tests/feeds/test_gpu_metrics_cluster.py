"""GPU metrics with a real API server, which finds the exporters by a label selector.

There are no kubelets and no pod network, so 127.0.0.1 is used as the address of a pod.
"""

import asyncio
import io
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.controlplane.api import Api as Administrator
from tests.controlplane.objects import pod
from tests.controlplane.plane import ControlPlane
from tests.feeds.exporters import served
from tests.waiting import until
from webhook.cluster.gpu_metrics import GpuMetricsSettings
from webhook.cluster.utilisation import UNKNOWN, NodeUse, Utilisation
from webhook.feeds.access import Access, from_kubeconfig
from webhook.feeds.api import Api
from webhook.feeds.gpu_metrics import GpuMetrics
from webhook.policy.model import Policy, PolicyFile
from webhook.telemetry import logs
from webhook.telemetry.metrics import Metrics

pytestmark = pytest.mark.controlplane
IDLE = (Path(__file__).parent / "data/dcgm-8-idle.txt").read_text()


def policy(**gpu_metrics: Any) -> Policy:
    return Policy.of(PolicyFile(gpu_metrics=GpuMetricsSettings.model_validate(gpu_metrics)))


async def running(api: Administrator, name: str, namespace: str, node: str, **labels: str) -> None:
    """Create a pod, and report that it runs at 127.0.0.1."""
    await api.create(pod(name, 0, labels=labels, nodeName=node), namespace)
    status = {"phase": "Running", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}
    await api.patch("Pod", name, {"status": status}, namespace, subresource="status")


async def test_exporters_are_found_by_their_label_and_polled_as_the_policy_says(
    control_plane: ControlPlane, api: Administrator, namespace: str
) -> None:
    now = 0.0

    async def page(request: web.BaseRequest) -> web.Response:
        nonlocal now
        now += 200.0
        return web.Response(text=IDLE)

    await running(api, "exporter", namespace, "gpu-a-0", app="nvidia-dcgm-exporter")
    await running(api, "other", namespace, "gpu-a-1")
    reported: dict[str, NodeUse] = {}
    force = [policy()]
    sink, metrics = Utilisation(GpuMetricsSettings()), Metrics()

    async def access() -> Access:
        return await from_kubeconfig(control_plane.kubeconfig)

    async with Api(access) as client, served(page) as port:
        log = logs.configure(io.BytesIO())
        follow = GpuMetrics(lambda: force[0], sink, reported.__setitem__, client, metrics, log, clock=lambda: now)
        task = asyncio.create_task(follow.run())
        await asyncio.sleep(0.1)
        assert reported == {}
        force[0] = policy(source="dcgm", dcgm={"namespace": namespace, "port": port}, interval="1s", staleAfter="600s")
        await until(lambda: reported)
        assert reported == {"gpu-a-0": NodeUse(8, 8, 0.0, 32.0, 0, 0, 0, 0, 8)}
        await running(api, "exporter-2", namespace, "gpu-a-2", app="nvidia-dcgm-exporter")
        await until(lambda: "gpu-a-2" in reported)
        assert 'gpu_admission_gpu_metrics_polls_total{result="succeeded"}' in metrics.text().decode()
        assert "gpu_admission_gpu_metrics_gpus 16.0" in metrics.text().decode()
        await api.delete("Pod", "exporter", namespace, grace=0)
        await until(lambda: reported["gpu-a-0"] == UNKNOWN)
        assert reported["gpu-a-2"].idle == 8
        force[0] = policy()
        await until(lambda: reported["gpu-a-2"] == UNKNOWN)
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
