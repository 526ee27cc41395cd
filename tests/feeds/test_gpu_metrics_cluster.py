"""GPU metrics beside a real API server: pods found by its label selectors, rights given by the shipped manifest.

There are no kubelets and no pod network: 127.0.0.1 stands for the address of a pod.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from tests.controlplane.api import Api as Administrator
from tests.controlplane.api import wait_until
from tests.controlplane.objects import pod
from tests.controlplane.plane import ControlPlane
from webhook.cluster.gpu_metrics import GpuMetricsSettings
from webhook.cluster.utilisation import UNKNOWN, NodeUse, Utilisation
from webhook.feeds.access import Access, from_kubeconfig
from webhook.feeds.api import Api
from webhook.feeds.gpu_metrics import GpuMetrics
from webhook.feeds.gpu_source import SourceFailed, http_session
from webhook.feeds.gpu_targets import Target
from webhook.feeds.nvidia_smi import NvidiaSmiSource
from webhook.policy.model import Policy, PolicyFile
from webhook.telemetry import logs
from webhook.telemetry.metrics import Metrics

pytestmark = pytest.mark.controlplane
IDLE = (Path(__file__).parent / "data/dcgm-8-idle.txt").read_text()
RIGHTS = Path(__file__).parents[2] / "manifests/optional/nvidia-smi-rbac.yaml"


def policy(**gpu_metrics: Any) -> Policy:
    return Policy.of(PolicyFile(gpu_metrics=GpuMetricsSettings.model_validate(gpu_metrics)))


async def running(api: Administrator, name: str, namespace: str, node: str, **labels: str) -> None:
    """A pod that some kubelet says runs at 127.0.0.1."""
    await api.create(pod(name, 0, labels=labels, nodeName=node), namespace)
    status = {"phase": "Running", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}
    await api.patch("Pod", name, {"status": status}, namespace, subresource="status")


async def until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not true():  # noqa: ASYNC110  what is waited for has no event
            await asyncio.sleep(0.02)


async def test_exporters_are_found_by_their_label_and_polled_as_the_policy_says(
    control_plane: ControlPlane, api: Administrator, namespace: str
) -> None:
    async def page(request: web.Request) -> web.Response:
        return web.Response(text=IDLE)

    app = web.Application()
    app.router.add_get("/metrics", page)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    await running(api, "exporter", namespace, "gpu-a-0", app="nvidia-dcgm-exporter")
    await running(api, "other", namespace, "gpu-a-1")
    told: dict[str, NodeUse] = {}
    force = [policy()]
    sink, metrics = Utilisation(GpuMetricsSettings()), Metrics()

    async def access() -> Access:
        return await from_kubeconfig(control_plane.kubeconfig)

    async with Api(access) as client:
        log = logs.configure(io.BytesIO())
        follow = GpuMetrics(lambda: force[0], sink, told.__setitem__, client, access, metrics, log)
        task = asyncio.create_task(follow.run())
        await asyncio.sleep(0.1)
        assert told == {}
        port = runner.addresses[0][1]
        force[0] = policy(source="dcgm", dcgm={"namespace": namespace, "port": port}, interval="1s", staleAfter="2s")
        await until(lambda: told)
        assert told == {"gpu-a-0": NodeUse(8, 8, 0.0, 32.0, 0, 0, 0)}
        await running(api, "exporter-2", namespace, "gpu-a-2", app="nvidia-dcgm-exporter")
        await until(lambda: "gpu-a-2" in told)
        assert 'gpu_admission_gpu_metrics_polls_total{result="succeeded"}' in metrics.text().decode()
        assert "gpu_admission_gpu_metrics_gpus 16.0" in metrics.text().decode()
        await api.delete("Pod", "exporter", namespace, grace=0)
        await until(lambda: told["gpu-a-0"] == UNKNOWN)
        assert told["gpu-a-2"].idle == 8
        force[0] = policy()
        await until(lambda: told["gpu-a-2"] == UNKNOWN)
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await runner.cleanup()


async def test_the_shipped_rights_are_those_that_nvidia_smi_needs(
    control_plane: ControlPlane, api: Administrator, namespace: str
) -> None:
    await running(api, "trainer", namespace, "gpu-a-0")
    kubeconfig = await asyncio.to_thread(control_plane.kubeconfig_for, namespace, "default")
    settings = GpuMetricsSettings.model_validate({"source": "nvidiaSmi", "nvidiaSmi": {"namespaces": [namespace]}})

    async def access() -> Access:
        return await from_kubeconfig(kubeconfig)

    async with http_session() as http:
        target = Target("gpu-a-0", namespace, "trainer", "uid", "", "main", 1)
        source = NvidiaSmiSource(settings, http, access, lambda: [target])

        async def answer() -> str:
            with pytest.raises(SourceFailed) as error:
                await source.poll(Utilisation(settings))
            return str(error.value)

        assert "403" in await answer()
        role, binding = yaml.safe_load_all(RIGHTS.read_text())
        binding["metadata"]["namespace"] = namespace
        binding["subjects"] = [{"kind": "ServiceAccount", "name": "default", "namespace": namespace}]
        await asyncio.to_thread(control_plane.kubectl, "apply", "-f", "-", input=yaml.safe_dump_all([role, binding]))

        async def allowed() -> bool:
            return "403" not in await answer()

        try:
            await wait_until(allowed, 30, "the rights to take effect")
            assert "404" in await answer() or "500" in await answer(), "allowed, but there is no kubelet"
        finally:
            await api.delete("ClusterRole", role["metadata"]["name"])
