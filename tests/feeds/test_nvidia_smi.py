"""nvidia-smi through pods/exec. There is no kubelet here that could run it: a server speaks the websocket protocol
v4.channel.k8s.io as the API server does, and says what nvidia-smi would."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import orjson
import pytest
from aiohttp import web

from webhook.cluster.gpu_metrics import GpuMetricsSettings
from webhook.cluster.utilisation import UNKNOWN, Utilisation
from webhook.feeds.access import Access
from webhook.feeds.gpu_source import SourceFailed, http_session
from webhook.feeds.gpu_targets import Target
from webhook.feeds.nvidia_smi import NvidiaSmiSource

DATA = Path(__file__).parent / "data"
IDLE = (DATA / "nvidia-smi-idle.csv").read_bytes()
BUSY = (DATA / "nvidia-smi-busy.csv").read_bytes()
SETTINGS = GpuMetricsSettings.model_validate(
    {"source": "nvidiaSmi", "nvidiaSmi": {"namespaces": ["team-a"]}, "timeout": "2s"}
)
SUCCESS = orjson.dumps({"metadata": {}, "status": "Success"})
NOT_FOUND = orjson.dumps(
    {
        "metadata": {},
        "status": "Failure",
        "message": 'exec: "nvidia-smi": executable file not found in $PATH',
        "reason": "InternalError",
    }
)
Script = Callable[[web.WebSocketResponse], Awaitable[object]]


def says(out: bytes, status: bytes = SUCCESS) -> Script:
    async def script(socket: web.WebSocketResponse) -> None:
        size = 7 if len(out) < 100 else 10_000
        for at in range(0, len(out), size):
            await socket.send_bytes(b"\x01" + out[at : at + size])
        await socket.send_bytes(b"\x01")
        await socket.send_bytes(b"\x03" + status)

    return script


async def endless(socket: web.WebSocketResponse) -> None:
    while True:
        await socket.send_bytes(b"\x01" + b"0, 0, 1, 1\n" * 1000)


async def silent(socket: web.WebSocketResponse) -> None:
    await socket.receive()


async def text_frames(socket: web.WebSocketResponse) -> None:
    await socket.send_str("\x010, 0, 1, 1\n")
    await socket.send_bytes(b"")


class Cluster:
    """An API server whose pods/exec runs the script of the pod."""

    def __init__(self) -> None:
        self.scripts: dict[str, Script] = {}
        self.asked: list[tuple[str, list[str], str]] = []
        self.url = ""

    async def exec(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        assert request.headers["Authorization"] == "Bearer token"
        self.asked.append((name, request.query.getall("command"), request.query["container"]))
        if name not in self.scripts:
            raise web.HTTPForbidden(text='{"kind":"Status","message":"pods \\"x\\" is forbidden"}')
        socket = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
        await socket.prepare(request)
        try:
            await self.scripts[name](socket)
        except ConnectionError:
            return socket
        await socket.close()
        return socket

    def targets(self) -> list[Target]:
        return [Target("a", "team-a", name, f"uid-{name}", "", "main", 2) for name in ("pod-1", "pod-2")]


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    cluster = Cluster()
    app = web.Application()
    app.router.add_get("/api/v1/namespaces/team-a/pods/{name}/exec", cluster.exec)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    cluster.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield cluster
    await runner.cleanup()


@pytest.fixture
async def source(cluster: Cluster) -> AsyncIterator[NvidiaSmiSource]:
    async def access() -> Access:
        return Access(cluster.url, None, "Bearer token", None, 60.0)

    async with http_session() as http:
        yield NvidiaSmiSource(SETTINGS, http, access, cluster.targets)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        pytest.param(None, "403", id="no right to use pods/exec"),
        pytest.param(says(b"", NOT_FOUND), "executable file not found", id="an image without nvidia-smi"),
        pytest.param(says(IDLE, b"{"), "did not succeed", id="a status that is no JSON"),
        pytest.param(says(IDLE, b"[]"), "did not succeed", id="a status that is a list"),
        pytest.param(text_frames, "did not succeed", id="frames of another protocol"),
        pytest.param(says(b"0, 0, 1, 1\n" * 6000), "more than 65536 bytes", id="more output than nvidia-smi writes"),
        pytest.param(endless, "TimeoutError", id="output without an end"),
        pytest.param(silent, "TimeoutError", id="silence"),
    ],
)
async def test_a_pod_that_misbehaves_is_given_up_and_the_others_count(
    cluster: Cluster, source: NvidiaSmiSource, script: Script | None, reason: str
) -> None:
    cluster.scripts = {"pod-2": says(IDLE)} | ({"pod-1": script} if script else {})
    into = Utilisation(SETTINGS)
    await source.poll(into)
    into.commit(0.0)
    assert (source.failed, into.node("a").measured) == (1, 2)
    cluster.scripts = {"pod-1": script, "pod-2": script} if script else {}
    if reason == "TimeoutError":
        source._settings = SETTINGS.model_copy(update={"timeout": 0.1})
    with pytest.raises(SourceFailed) as error:
        await source.poll(Utilisation(SETTINGS))
    assert reason in str(error.value)
    assert "nvidia-smi-rbac.yaml" in str(error.value)


async def test_without_a_pod_that_holds_a_gpu_there_is_nothing_to_ask_and_no_error(
    cluster: Cluster, source: NvidiaSmiSource
) -> None:
    source._targets = list
    into = Utilisation(SETTINGS)
    await source.poll(into)
    into.commit(0.0)
    assert into.node("a") == UNKNOWN
    assert cluster.asked == []


async def test_every_pod_is_asked_in_the_container_that_holds_the_gpus(
    cluster: Cluster, source: NvidiaSmiSource
) -> None:
    cluster.scripts = {"pod-1": says(IDLE), "pod-2": says(BUSY)}
    into = Utilisation(SETTINGS)
    await source.poll(into)
    into.commit(0.0)
    use = into.node("a")
    assert (use.measured, use.idle, use.utilisation, use.hottest) == (4, 2, 0.5, 66.0)
    assert sorted(cluster.asked) == [
        (
            name,
            [
                "nvidia-smi",
                "--query-gpu=utilization.gpu,memory.used,memory.total,temperature.gpu",
                "--format=csv,noheader,nounits",
            ],
            "main",
        )
        for name in ("pod-1", "pod-2")
    ]
