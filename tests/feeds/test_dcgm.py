"""Scraping exporters over real HTTP. Each has a loopback address in place of the address of a pod."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from tests.feeds.exporters import Handler, exporters_of, pod, served
from tests.waiting import time_passes, until
from webhook.cluster.gpu_metrics import GpuMetricsSettings
from webhook.cluster.utilisation import UNKNOWN, NodeUse, PodUse, Reading, Utilisation
from webhook.feeds import dcgm
from webhook.feeds.dcgm import DcgmSource
from webhook.feeds.exporters import Exporter
from webhook.feeds.gpu_source import AT_ONCE, READINGS, Round, SourceFailed, Wiring, add_sample, http_session

DATA = Path(__file__).parent / "data"
IDLE = (DATA / "dcgm-8-idle.txt").read_text()
BUSY = (DATA / "dcgm-8-busy.txt").read_text()


def page(text: str, **more: object) -> Handler:
    async def handler(request: web.BaseRequest) -> web.Response:
        return web.Response(text=text, **more)  # type: ignore[arg-type]

    return handler


async def endless(request: web.BaseRequest) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    try:
        while True:
            await response.write(b"# nothing but comments\n" * 10_000)
    except ConnectionError:
        return response


async def silent(request: web.BaseRequest) -> web.StreamResponse:
    await asyncio.sleep(60)
    return web.Response()


BOMB = gzip.compress(b"#" * (8 << 20), 1)


async def zipped(request: web.BaseRequest) -> web.StreamResponse:
    return web.Response(body=BOMB, headers={"Content-Encoding": "gzip"})


async def zipped_error(request: web.BaseRequest) -> web.StreamResponse:
    return web.Response(status=500, body=BOMB, headers={"Content-Encoding": "gzip"})


async def elsewhere(request: web.BaseRequest) -> web.StreamResponse:
    if request.path == "/good":
        return web.Response(text=BUSY)
    raise web.HTTPFound("/good")


class Counting(DcgmSource):
    done = 0
    """Pages that were read to their end."""

    async def _scrape(self, exporter: Exporter, into: Round) -> None:
        await super()._scrape(exporter, into)
        self.done += 1


@asynccontextmanager
async def exporters(*handlers: Handler, limit: str = "5s") -> AsyncIterator[Counting]:
    """One exporter per handler, on node-1 at 127.0.0.1, on node-2 at 127.0.0.2, …, all with the same port."""
    pods, port = [], 0
    async with AsyncExitStack() as stack:
        for number, handler in enumerate(handlers, 1):
            port = await stack.enter_async_context(served(handler, f"127.0.0.{number}", port))
            pods.append(pod(f"node-{number}", f"127.0.0.{number}"))
        settings = GpuMetricsSettings.model_validate(
            {"source": "dcgm", "dcgm": {"port": port or 9400}, "timeout": limit}
        )
        http = await stack.enter_async_context(http_session())
        yield Counting(Wiring(settings, http, exporters_of(settings, *pods), None))


@pytest.mark.parametrize(
    ("handler", "says"),
    [
        pytest.param(page("gone", status=503), 'answered 503 "gone"; wanted 200', id="an error"),
        pytest.param(page("x\n\x1b[2J" * 400, status=500), "\\\\n\\\\x1b[2J", id="an error with terminal codes"),
        pytest.param(elsewhere, "answered 302", id="a redirect"),
        pytest.param(endless, f"more than {dcgm.MAX_BYTES} bytes", id="a page without an end"),
        pytest.param(zipped, "answered compressed though asked not to", id="8 MiB compressed to 40 KiB"),
        pytest.param(zipped_error, 'answered 500 "\\x1f', id="a compressed error"),
        pytest.param(silent, "TimeoutError", id="no answer"),
    ],
)  # fmt: skip
async def test_an_exporter_that_misbehaves_fails_and_the_others_count(handler: Handler, says: str) -> None:
    async with exporters(handler, page(IDLE), limit="120s") as source:
        into = Utilisation(source.wiring.settings)
        poll = asyncio.create_task(source.poll(into))
        await until(lambda: source.done == 1)
        if handler is silent:
            time_passes(120)
        errors = await poll
        into.commit(0.0)
        assert errors.keys() == {"node-1"}
        assert into.node("node-1").measured == 0
        assert into.node("node-2").idle == 8
    async with exporters(handler, limit="100ms" if handler is silent else "120s") as source:
        with pytest.raises(SourceFailed) as error:
            await source.poll(Utilisation(source.wiring.settings))
    assert says.replace("\\\\", "\\") in str(error.value)


async def test_no_exporter_is_an_error_with_the_namespace_and_the_labels() -> None:
    async with exporters() as source:
        with pytest.raises(
            SourceFailed, match=r"nvidia-dcgm-exporter.* in namespace gpu-operator; wanted DCGM exporters"
        ):
            await source.poll(Utilisation(source.wiring.settings))


async def test_an_exporter_that_does_not_listen_is_an_error() -> None:
    settings = GpuMetricsSettings.model_validate({"source": "dcgm", "dcgm": {"port": 1}})
    async with http_session() as http:
        source = DcgmSource(Wiring(settings, http, exporters_of(settings, pod("a", "127.0.0.1")), None))
        with pytest.raises(SourceFailed, match="no answer from any of 1 node; the first, a: "):
            await source.poll(Utilisation(source.wiring.settings))


async def test_the_node_is_that_of_the_pod_and_not_the_one_in_the_page() -> None:
    async with exporters(page(BUSY), page(IDLE)) as source:
        into = Utilisation(source.wiring.settings)
        await source.poll(into)
        into.commit(0.0)
    assert (into.node("node-1").idle, into.node("node-2").idle, into.node("gpu-a-0").measured) == (0, 8, 0)


async def test_the_number_of_exporters_scraped_at_once_is_bounded() -> None:
    current, highest, full = 0, 0, asyncio.Event()

    async def counted(request: web.BaseRequest) -> web.Response:
        nonlocal current, highest
        current += 1
        highest = max(highest, current)
        if current == AT_ONCE:
            full.set()
        await full.wait()
        await asyncio.sleep(0.02)  # for one more, if there were room
        current -= 1
        return web.Response(text=IDLE)

    async with exporters(*[counted] * 40) as source:
        into = Utilisation(source.wiring.settings)
        await source.poll(into)
    assert into.gpus == 320
    assert highest == AT_ONCE


async def test_exporters_that_use_up_the_time_fail_and_the_others_count() -> None:
    async with exporters(*[silent] * 10, *[page(IDLE)] * 20, limit="300s") as source:
        settings = source.wiring.settings.model_copy(update={"stale_after": 360.0})
        source.wiring = source.wiring._replace(settings=settings)
        into = Utilisation(settings)
        poll = asyncio.create_task(source.poll(into))
        await until(lambda: source.done == 20)
        time_passes(120)
        assert len(await poll) == 10


async def test_a_missing_ca_file_is_an_error_at_once() -> None:
    with pytest.raises(OSError, match="No such file"):
        http_session("/nowhere/ca.crt")


async def test_a_poll_that_is_cancelled_ends() -> None:
    async with exporters(silent, limit="60s") as source:
        poll = asyncio.create_task(source.poll(Utilisation(source.wiring.settings)))
        await asyncio.sleep(0.05)
        poll.cancel()
        with pytest.raises(asyncio.CancelledError):
            await poll


async def test_the_session_uses_no_proxy_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    async with exporters(page(IDLE)) as source:
        await source.poll(Utilisation(source.wiring.settings))
        assert isinstance(source.wiring.http, aiohttp.ClientSession)


# --- pages ------------------------------------------------------------------------------------------------------------

SETTINGS = GpuMetricsSettings(source="dcgm")
NAMES = {name: READINGS[key] for key, name in SETTINGS.queries}


MIG = NodeUse(
    *(4, 2, 0.46, 61.0, 0, 0, 0, 2, 4),
    pods=(PodUse("chat/vllm-0", 1, 0, (0, 0, 0)), PodUse("research/llm-0", 1, 0, (0, 0, 0))),
)
"""What dcgm-mig.txt says: pods have two of its four GPUs and instances."""


BUSY_USE = NodeUse(
    *(8, 0, 0.99, 68.0, 0, 0, 0, 8, 8), pods=(PodUse("research/llm-pretrain-worker-0", 8, 0, (0, 0, 0)),)
)


def read(page: str, node: str = "a") -> Utilisation:
    """Read a page of an exporter as one poll."""
    into = Utilisation(SETTINGS)
    for labels, reading, value in dcgm.parse_page(page, NAMES, into.ignored):
        add_sample(into, node, labels, reading, value, xids=SETTINGS.sick.xids)
    into.commit(0.0)
    return into


@pytest.mark.parametrize(
    ("page", "ignored"),
    [
        pytest.param("", {}, id="an empty page"),
        pytest.param("<html><body>404</body></html>", {}, id="a page of another program"),
        pytest.param('node_cpu_seconds_total{cpu="0"} 7\n', {}, id="other metrics"),
        pytest.param("# TYPE DCGM_FI_DEV_GPU_UTIL gauge\n", {}, id="a metric without a sample"),
        pytest.param("DCGM_FI_DEV_GPU_UTIL 7\n", {"no GPU label": 1}, id="no labels at all"),
        pytest.param('DCGM_FI_DEV_GPU_UTIL{Hostname="a"} 7\n', {"no GPU label": 1}, id="no label for the GPU"),
        pytest.param('DCGM_FI_DEV_GPU_UTIL{UUID=""} 7\n', {"no GPU label": 1}, id="an empty UUID"),
        pytest.param(f'DCGM_FI_DEV_GPU_UTIL{{UUID="{"x" * 200}"}} 7\n', {"no GPU label": 1}, id="an endless UUID"),
        pytest.param('DCGM_FI_DEV_GPU_UTIL{UUID="x"} NaN\n', {"not a number": 1}, id="NaN"),
        pytest.param('DCGM_FI_DEV_GPU_UTIL{UUID="x"} +Inf\n', {"out of range": 1}, id="infinity"),
        pytest.param(
            'DCGM_FI_DEV_GPU_UTIL{UUID="x"} 9223372036854775794\n', {"out of range": 1}, id="a blank value of DCGM"
        ),
        pytest.param(f'DCGM_FI_DEV_GPU_UTIL{{UUID="x"}} 1{"0" * 400}\n', {"out of range": 1}, id="a giant integer"),
        pytest.param('DCGM_FI_DEV_GPU_UTIL{UUID="x"} busy\n', {"not in the text format": 1}, id="a word for a number"),
        pytest.param('DCGM_FI_DEV_GPU_UTIL{UUID="x"}\n', {"not in the text format": 1}, id="no number"),
        pytest.param('DCGM_FI_DEV_GPU_UTIL{UUID="x 7\n', {"not in the text format": 1}, id="a quote without an end"),
        pytest.param('DCGM_FI_DEV_GPU_UTIL{UUID=x} 7\n', {"not in the text format": 1}, id="a value without quotes"),
        pytest.param(
            'DCGM_FI_DEV_GPU_UTIL{UUID="x",UUID="y"} 7\n', {"not in the text format": 1}, id="a label given twice"
        ),
        pytest.param(
            f'DCGM_FI_DEV_GPU_UTIL{{UUID="x",a="{"x" * 5000}"}} 7\n', {"line too long": 1}, id="an endless line"
        ),
        pytest.param('DCGM_FI_DEV_XID_ERRORS{UUID="x"} NaN\n', {"not a number": 1}, id="an Xid that is NaN"),
    ],
)  # fmt: skip
def test_a_sample_without_a_gpu_is_counted_and_changes_nothing(page: str, ignored: dict[str, int]) -> None:
    into = read(page)
    assert into.ignored == ignored
    assert into.node("a") == UNKNOWN


def test_a_malformed_line_does_not_affect_the_others() -> None:
    page = (DATA / "dcgm-8-busy.txt").read_text().replace("DCGM_FI_DEV_GPU_UTIL{gpu=", "DCGM_FI_DEV_GPU_UTIL{gpu==", 1)
    assert read(page).ignored == {"not in the text format": 1}
    assert read(page).node("a").measured == 8, "the engine reading replaces the utilisation"


@given(st.text(st.sampled_from('DCGM_FI_DEV_GPU_UTIL{}=",\\ 07.e-#\nuUID'), max_size=300))
def test_any_page_is_read_without_an_error(text: str) -> None:
    read(f"DCGM_FI_DEV_GPU_UTIL{{{text}")


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        pytest.param("dcgm-8-idle.txt", NodeUse(8, 8, 0.0, 32.0, 0, 0, 0, 0, 8), id="eight idle GPUs"),
        pytest.param("dcgm-8-busy.txt", BUSY_USE, id="eight busy GPUs"),
        pytest.param("dcgm-mig.txt", MIG, id="a whole GPU and one split in three"),
    ],
)
def test_a_page_is_read(file: str, expected: NodeUse) -> None:
    into = read((DATA / file).read_text())
    assert into.node("a") == expected
    assert not into.ignored


def test_an_xid_that_needs_a_repair_makes_a_gpu_sick_and_one_of_an_application_does_not() -> None:
    page = (
        'DCGM_FI_DEV_XID_ERRORS{UUID="x"} 79\nDCGM_FI_DEV_XID_ERRORS{UUID="y"} 31\nDCGM_FI_DEV_XID_ERRORS{UUID="z"} 0'
    )
    assert read(page).node("a").sick == 1


# --- Which pod has a GPU ----------------------------------------------------------------------------------------------

SERVED = {"namespace": "gpu-operator", "pod": "nvidia-dcgm-exporter-x"}
"""The labels of a Prometheus for the pod that it scrapes."""


def exported(namespace: object, pod: object) -> dict[str, object]:
    return {"exported_namespace": namespace, "exported_pod": pod}


@pytest.mark.parametrize(
    ("labels", "pod"),
    [
        pytest.param({}, "", id="no labels"),
        pytest.param({"namespace": "", "pod": "", "container": ""}, "", id="empty ones, as of a free GPU"),
        pytest.param({"pod": "train"}, "", id="no namespace"),
        pytest.param({"namespace": "team"}, "", id="no pod"),
        pytest.param({"namespace": 7, "pod": ["train"]}, "", id="no strings"),
        pytest.param({"namespace": "team", "pod": "x" * 254}, "", id="longer than a name can be"),
        pytest.param({"namespace": "te\u202eam", "pod": "train"}, "", id="what no name has"),
        pytest.param({"namespace": "team", "pod": "a/b"}, "", id="two names in one"),
        pytest.param({"namespace": "team", "pod": "train\n"}, "", id="a line break"),
        pytest.param(exported("team", "x" * 254) | SERVED, "", id="exported, longer than a name can be"),
        pytest.param({"namespace": "team", "pod": "train", "container": "main"}, "team/train", id="of an exporter"),
        pytest.param(exported("team", "train") | SERVED, "team/train", id="where Prometheus has labels of its own"),
        pytest.param({"exported_pod": "train", "namespace": "team", "pod": "x"}, "team/train", id="of its own for pods"),
        pytest.param(SERVED, "gpu-operator/nvidia-dcgm-exporter-x", id="only its own: a pod without GPUs"),
    ],
)  # fmt: skip
def test_the_pod_of_a_series_is_found_by_its_labels(labels: dict[str, object], pod: str) -> None:
    into = Utilisation(SETTINGS)
    add_sample(into, "a", {"UUID": "x", **labels}, Reading.UTILISATION, 1.0, xids=())
    into.commit(0.0)
    assert [each.pod for each in into.node("a").pods] == [pod][: bool(pod)]
