"""The output of a command, and a pod that answers wrongly. A real API server runs it in tests/e2e/test_nvidia_smi.py; here a
server speaks its WebSocket protocol, v5.channel.k8s.io."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import orjson
import pytest
import yaml
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from tests.feeds.exporters import exporter, exporters_of, served
from tests.installed import ROOT
from tests.waiting import time_passes, until
from webhook.feeds.access import Access
from webhook.feeds.api import Api
from webhook.feeds.command import _MAX_GPUS, _POLLS_WITHOUT, MAX_BYTES, CommandSource, parse_output
from webhook.feeds.gpu_source import SourceFailed, Wiring, http_session
from webhook.nodes.gpu_metrics import PODS, GpuMetricsSettings
from webhook.nodes.utilisation import UNKNOWN, NodeUse, Reading, Utilisation
from webhook.vendors.model import Command

COMMAND = PODS["nvidiaSmi"].command
assert COMMAND is not None
SETTINGS = GpuMetricsSettings.model_validate({"source": "nvidiaSmi", "timeout": "60s"})
A, B = (f"GPU-{letter * 8}-1111-2222-3333-444444444444" for letter in "ab")
IDLE = f"{A}, 0, 4, 81559, 29\n{B}, 0, 4, 81559, 31\n"


def read(text: str) -> Utilisation:
    into = Utilisation(SETTINGS)
    for gpu, reading, value in parse_output(COMMAND, text, into.ignored):
        into.add("a", gpu, reading, value)
    into.commit(0.0)
    return into


@pytest.mark.parametrize(
    ("text", "ignored"),
    [
        pytest.param("", {}, id="nothing"),
        pytest.param("NVIDIA-SMI has failed because it couldn't communicate", {"not nvidia-smi": 1}, id="no driver"),
        pytest.param(f"{A}, 0, 4, 81559\n", {"not nvidia-smi": 1}, id="too few fields"),
        pytest.param(f"{A}, 0, 4, 81559, 29, 0\n", {"not nvidia-smi": 1}, id="too many fields"),
        pytest.param(f"{A}, [N/A], 4, [N/A], [N/A]\n", {}, id="used memory of an unknown size"),
        pytest.param("0, 0, 4, 81559, 29\n", {"not nvidia-smi": 1}, id="no UUID"),
        pytest.param(f"{A}{'0' * 99}, 0, 4, 81559, 29\n", {"not nvidia-smi": 1}, id="an endless UUID"),
        pytest.param(f"{A}, a, b, c, d\n", {"not nvidia-smi": 1}, id="words"),
        pytest.param(f"{A}, ٣, -1, 1e3, {'9' * 10}\n", {"not nvidia-smi": 1}, id="numbers that it does not write"),
        pytest.param(f"{A}, 101, 4, 3, 999\n", {"out of range": 3}, id="numbers that cannot be"),
        pytest.param(f"{A}, [N/A], [Not Supported], [N/A], N/A\n", {}, id="nothing known"),
    ],
)
def test_output_that_says_nothing_is_counted_and_gives_no_utilisation(text: str, ignored: dict[str, int]) -> None:
    into = read(text)
    assert {reason: count for reason, count in into.ignored.items() if count} == ignored
    assert into.node("a")[:6] == pytest.approx(UNKNOWN[:6], nan_ok=True)


@given(st.text(st.sampled_from('GPU-0aA, [N/A]1e٣"\n\r\x00\x1b'), max_size=200))
def test_any_output_is_read_without_an_error(text: str) -> None:
    read(f"{A}, {text}")


def test_the_number_of_gpus_is_bounded() -> None:
    text = "".join(f"GPU-{n:08}, 0, 4, 81559, 29\n" for n in range(1000))
    found = parse_output(COMMAND, text, Counter())
    assert len({gpu for gpu, *_ in found}) == _MAX_GPUS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(IDLE, NodeUse(2, 2, 0.0, 31.0, 0, 0, 0, 0, 2), id="two idle GPUs"),
        pytest.param(
            f"{A}, 100, 73797, 81559, 66\n{B}, 0, 73797, 81559, 64\n",
            NodeUse(2, 0, 0.5, 66.0, 0, 0, 0, 2, 2),
            id="a busy one, and one with full memory",
        ),
        pytest.param(
            f"{A}, 100, 73797, 81559, 71\n{', '.join(['[GPU is lost]'] * 5)}\n",
            NodeUse(1, 0, 1.0, 71.0, 0, 1, 1, 1, 2),
            id="one of two fell off the bus",
        ),
        pytest.param(
            f"{A}, [GPU requires reset], 4, 81559, 29",
            UNKNOWN._replace(hottest=29.0, sick=1, avoid=1, known=1),
            id="broken",
        ),
        pytest.param(
            f"{A}, [N/A], [Insufficient Permissions], 81559, 47\n",
            UNKNOWN._replace(hottest=47.0, known=1),
            id="a GPU in MIG instances: its utilisation is not known",
        ),
    ],
)
def test_output_is_read(text: str, expected: NodeUse) -> None:
    into = read(text)
    assert into.node("a")[:10] == pytest.approx(expected[:10], nan_ok=True)
    assert not into.ignored


def test_another_vendor_says_its_command_in_one_fact() -> None:
    toy = Command("toy-smi --csv", "T[0-9]", ("-",), ("dead",))
    found = [
        *parse_output(toy, "T0, 5, -, -, 40\nT1, dead, dead, dead, dead\nGPU-0, 0, 4, 8, 29", ignored := Counter())
    ]
    assert {gpu for gpu, *_ in found} == {"T0", "T1"}
    assert ("T0", Reading.UTILISATION, 5.0) in found
    assert ("T1", Reading.XID, 1.0) in found
    assert ignored == {"not toy-smi": 1}


def test_the_guard_of_the_component_allows_this_command() -> None:
    guard, binding = yaml.safe_load_all((ROOT / "manifests/components/nvidia-smi/guard.yaml").read_text())
    assert binding["spec"] == {"policyName": guard["metadata"]["name"], "validationActions": ["Deny"]}
    (rule,) = guard["spec"]["validations"]
    assert "".join(rule["expression"].split()).endswith(
        f"object.command=={orjson.dumps(COMMAND.line.split()).decode()}"
    )


# --- over a WebSocket -------------------------------------------------------------------------------------------------

Script = Callable[[web.WebSocketResponse], Awaitable[object]]
SUCCESS = orjson.dumps({"metadata": {}, "status": "Success"})
NOT_FOUND = orjson.dumps({"status": "Failure", "message": 'exec: "nvidia-smi": executable file not found in $PATH'})


def says(out: bytes, status: bytes = SUCCESS) -> Script:
    async def script(socket: web.WebSocketResponse) -> None:
        for at in range(0, len(out), 10_000):
            await socket.send_bytes(b"\x01" + out[at : at + 10_000])
        await socket.send_bytes(b"\x01")
        await socket.send_bytes(b"\x02a warning")
        await socket.send_bytes(b"\x03" + status)

    return script


async def one_giant_message(socket: web.WebSocketResponse) -> None:
    await socket.send_bytes(b"\x01" + b"0" * 2 * MAX_BYTES)


async def silent(socket: web.WebSocketResponse) -> None:
    await socket.receive()


async def cut(socket: web.WebSocketResponse) -> None:
    await socket.send_bytes(b"\x01" + IDLE.encode())


async def text_frames(socket: web.WebSocketResponse) -> None:
    await socket.send_str("\x01" + IDLE)
    await socket.send_bytes(b"")


class Runs:
    """An API server that runs the script of a pod, and a source that has two pods, on the nodes a and b."""

    def __init__(self, *scripts: Script) -> None:
        self.scripts = dict(zip(("exporter-a", "exporter-b"), scripts, strict=False))
        self.asked: list[tuple[str, list[str], str]] = []

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        name = request.path.removeprefix("/api/v1/namespaces/gpu-operator/pods/").removesuffix("/exec")
        assert request.headers["Authorization"] == "Bearer token"
        self.asked.append((name, request.query.getall("command"), request.query["container"]))
        script = self.scripts[name]
        socket = web.WebSocketResponse(protocols=("v5.channel.k8s.io",))
        await socket.prepare(request)
        try:
            await script(socket)
            await socket.close()
        except ConnectionError:
            pass
        return socket

    @asynccontextmanager
    async def source(self, settings: GpuMetricsSettings = SETTINGS) -> AsyncIterator[CommandSource]:
        async with AsyncExitStack() as stack:
            port = await stack.enter_async_context(served(self.handle))
            access = Access(f"http://127.0.0.1:{port}", None, "Bearer token", None, 60.0)

            async def given() -> Access:
                return access

            api = await stack.enter_async_context(Api(given))
            http = await stack.enter_async_context(http_session())
            names = [name.removeprefix("exporter-") for name in self.scripts]
            pods = exporters_of(settings, *[exporter(name, app="nvidia-device-plugin-daemonset") for name in names])
            yield CommandSource(Wiring(settings, http, pods, None, api=api))


@pytest.mark.parametrize(
    ("script", "why"),
    [
        pytest.param(says(b"", NOT_FOUND), "executable file not found", id="an image without nvidia-smi"),
        pytest.param(says(b"a\x1b[2J", NOT_FOUND), 'it wrote "a\\x1b[2J"', id="terminal codes"),
        pytest.param(says(IDLE.encode(), b"{"), "without a status", id="a status that is no JSON"),
        pytest.param(cut, "without a status", id="a connection that ends before the command"),
        pytest.param(text_frames, "without a status", id="frames of another protocol"),
        pytest.param(says(b"NVIDIA"), 'answered "NVIDIA"; wanted the output of nvidia-smi', id="another program"),
        pytest.param(one_giant_message, f"more than {MAX_BYTES} bytes", id="a giant message"),
    ],
)
async def test_a_pod_that_misbehaves_is_named_with_its_node_and_the_others_count(script: Script, why: str) -> None:
    async with Runs(script, says(IDLE.encode())).source() as source:
        into = Utilisation(SETTINGS)
        errors = await source.poll(into)
        into.commit(0.0)
    assert errors.keys() == {"a"}
    assert "in pod exporter-a" in errors["a"] or "pod exporter-a answered" in errors["a"]
    assert why in errors["a"]
    assert "Apply" not in errors["a"], "it has the right"
    assert (into.node("a").measured, into.node("b").measured) == (0, 2)
    async with Runs(script).source() as source:
        with pytest.raises(SourceFailed, match="no answer from any of 1 node; the first, a: "):
            await source.poll(Utilisation(SETTINGS))


async def test_the_command_is_run_in_the_first_container_of_each_pod() -> None:
    runs = Runs(says(IDLE.encode()), says(IDLE.replace(A, B.replace("b", "c")).encode()))
    async with runs.source() as source:
        into = Utilisation(SETTINGS)
        assert await source.poll(into) == {}
    assert sorted(runs.asked) == [(f"exporter-{node}", COMMAND.line.split(), "first") for node in "ab"]
    assert into.gpus == 4


async def test_a_pod_in_which_the_command_hangs_is_asked_again_after_many_polls() -> None:
    runs = Runs(silent, says(IDLE.encode()))
    async with runs.source(SETTINGS.model_copy(update={"stale_after": 6 * SETTINGS.timeout})) as source:
        for number in range(_POLLS_WITHOUT):
            into = Utilisation(SETTINGS)
            poll = asyncio.create_task(source.poll(into))
            await until(lambda into=into: into.gpus == 2)  # type: ignore[misc]
            if not number:
                time_passes(SETTINGS.timeout)
            assert "no answer" in (await poll)["a"]
        assert [name for name, *_ in runs.asked].count("exporter-a") == 1
        runs.scripts["exporter-a"] = says(IDLE.encode())
        assert await source.poll(Utilisation(SETTINGS)) == {}
