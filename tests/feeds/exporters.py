"""Pods that tell about the GPUs of their nodes, and small HTTP servers in their place."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.controlplane.objects import pod
from tests.waiting import stop_accepting
from webhook.feeds.exporters import Exporters
from webhook.nodes.gpu_metrics import GpuMetricsSettings
from webhook.nodes.utilisation import NodeUse, PodUse

DATA = Path(__file__).parent / "data"
"""Pages of exporters."""
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
_MUTE = logging.Logger("served", logging.CRITICAL + 1)


def exporter(
    node: str = "gpu-a-1",
    address: str = "10.0.0.7",
    *,
    app: str | None = "nvidia-dcgm-exporter",
    phase: str = "Running",
    **metadata: Any,
) -> dict[str, Any]:
    """A pod that is an exporter, unless the arguments say otherwise."""
    name = metadata.pop("name", f"exporter-{node}")
    containers = [{"name": "first"}, {"name": "second"}]
    made = pod(name, containers=containers, namespace="gpu-operator", labels={"app": app}, nodeName=node)
    made["metadata"] |= {"uid": f"uid-of-{name}", **metadata}
    return made | {"status": {"phase": phase, "podIP": address}}


def exporters_of(settings: GpuMetricsSettings, *pods: dict[str, Any]) -> Exporters:
    """The exporters after a list of these pods."""
    exporters = Exporters(settings.asked)
    for each in pods:
        exporters.seen(each)
    exporters.listed.set()
    return exporters


@asynccontextmanager
async def served(handle: Handler, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[int]:
    """Answers every request by `handle`. Gives the port."""
    server = web.Server(handle, access_log=None, logger=_MUTE)
    listening = await asyncio.get_running_loop().create_server(server, host, port)
    try:
        yield listening.sockets[0].getsockname()[1]
    finally:
        await stop_accepting(listening)
        await server.shutdown(0.1)


MIG = NodeUse(
    *(4, 2, 0.46, 61.0, 0, 0, 0, 2, 4),
    pods=(PodUse("chat/vllm-0", 1, 0, (0, 0, 0)), PodUse("research/llm-0", 1, 0, (0, 0, 0))),
)
"""What dcgm-mig.txt says: pods have two of its four GPUs and instances."""
