"""The page follows the cluster: what watches tell is kept, a new picture is published only if it shows something new, and data
that may be old are called old. The watches themselves are tested on a real API server, in tests/e2e/test_ui.py."""

import asyncio
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.cli.objects import snapshot as read
from tests.cli.ui import world
from tests.controlplane.nodes import node
from webhook.cli.ui.command import Making
from webhook.cli.ui.live import Fixed, Heard, Kept, Live
from webhook.cli.ui.picture import Picture
from webhook.errors import PolicyError
from webhook.whatif.cluster.snapshot import Snapshot
from webhook.whatif.offline import load_policy

Json = dict[str, Any]
POLICY = load_policy()


def named(name: str, **more: Any) -> Json:
    return {"metadata": {"name": name, "managedFields": []}, **more}


def test_what_a_watch_tells_is_kept() -> None:
    told: list[int] = []
    kept = Kept("Node", [named("old")], lambda: told.append(1))
    kept.seen(named("a"), listed=True)
    assert ([name for _, name in kept.objects], told) == (["old", "a"], [])  # the list is not complete
    kept.complete({("", "a")})
    kept.seen(named("b", status={"x": 1}))
    kept.gone(named("a"))
    assert kept.objects == {
        ("", "b"): {"apiVersion": "v1", "kind": "Node", "spec": {}, "status": {"x": 1}, "metadata": {"name": "b"}}
    }
    assert len(told) == 3


def test_a_lease_makes_no_new_picture() -> None:
    told: list[int] = []
    Kept("Lease", [], lambda: told.append(1)).seen(named("a"))
    assert told == []


@pytest.mark.parametrize(
    ("answers", "wanted"),
    [
        pytest.param([], None, id="nothing yet"),
        pytest.param([(1, "Pod", 200), (5, "Pod", 0)], None, id="for a moment"),
        pytest.param([(1, "Pod", 200), (2, "Pod", 0), (3, "Pod", 0)], (1, "the API server does not answer"), id="gone"),
        pytest.param([(1, "Pod", 0), (3, "Pod", 200)], None, id="back again"),
        pytest.param([(1, "Pod", 200), (2, "Pod", 410)], None, id="a version that is too old is an answer"),
        pytest.param([(1, "Pod", 200), (2, "Event", 0)], None, id="of a kind that is not needed"),
        pytest.param([(1, "Pod", 200), (2, "Pod", 403)], (1, "no right to watch pods"), id="refused"),
    ],
)
def test_when_data_are_old(answers: list[tuple[float, str, int]], wanted: tuple[float, str] | None) -> None:
    now = [0.0]
    heard, sinks = Heard(lambda: now[0]), {name: Kept(name, [], lambda: None) for name in ("Node", "Pod", "Event")}
    for at, name, status in answers:
        now[0] = at
        heard.answered(name, status)
        if status == 403:
            sinks[name].refused()
    now[0] = 8.0
    assert heard.old(sinks, 0.0) == (wanted and {"since": wanted[0], "why": wanted[1]})


async def test_only_what_is_new_is_published(tmp_path: Path) -> None:
    first, failing = read(tmp_path, node("a", 4), world.held("one", "a", 1)), list[Exception]()

    def make(snapshot: Snapshot) -> Picture:
        if failing:
            raise failing[0]
        return Picture(snapshot, POLICY)

    time = [1_000.0]
    live = Live(first, make, "somewhere", lambda: time[0])
    assert live.version == 1
    await live._made()
    assert live.version == 1, "the same objects a moment later"
    time[0] = 2_000.0
    live._sinks["Pod"].seen(world.held("two", "a", 2))
    waiting = asyncio.create_task(live.changed(1))
    await live._made()
    await waiting
    state = orjson.loads(live.state())
    assert (state["version"], state["live"], state["old"]) == (2, True, None)
    assert [each[1:] for each in state["history"]] == [[1, 0, 3, 0], [3, 0, 1, 0]]
    assert (await live.about("research", "two"))["decision"]["boundTo"] == "a"

    for error, said in (
        (PolicyError(["gpus: wrong"]), "gpus: wrong"),
        (ValueError("a bug"), "no new picture could be made: ValueError: a bug"),
    ):
        failing[:] = [error]
        await live._made()
        state = orjson.loads(live.state())
        assert (state["problem"], len(state["nodes"])) == (said, 1)


async def test_a_question_is_answered_of_the_objects_as_they_are_now(tmp_path: Path) -> None:
    live = Live(read(tmp_path, node("a"), world.held("one", "a", 1)), lambda each: Picture(each, POLICY), "somewhere")
    assert (await live.answer("drain", {}))["drain"]["whole"] == []
    live._sinks["Pod"].gone(world.held("one", "a", 1))
    asked = [live.answer("drain", {}), live.answer("audit", {"namespace": "research"})]
    assert (await asyncio.gather(*asked))[0]["drain"]["whole"] == ["a"], "no picture was made since"


async def test_a_file_does_not_change(tmp_path: Path) -> None:
    fixed = Fixed(Picture(read(tmp_path, node("a", 4)), POLICY), "a file")
    await fixed.changed(0)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(fixed.changed(1), 0.01)


@pytest.fixture
def slow() -> Iterator[tuple[str, threading.Event, threading.Event]]:
    """A Prometheus that answers only when it may: its address, whether it was asked, and whether it may."""
    asked, may = threading.Event(), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.set()
            may.wait(120)
            sample = {"metric": {"node": "gpu-a", "gpu": "0"}, "value": [1, "42"]}
            body = orjson.dumps({"status": "success", "data": {"resultType": "vector", "result": [sample]}})
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *unused: object) -> None:
            """Nothing is printed."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_address[1]}", asked, may
        may.set()
        server.shutdown()


def test_no_picture_waits_for_gpu_metrics(tmp_path: Path, slow: tuple[str, threading.Event, threading.Event]) -> None:
    url, asked, may = slow
    making = Making(None, url, live=True)
    try:
        (shown,) = making(read(tmp_path, node("gpu-a"))).document["nodes"]
        assert "utilisation" not in shown, "the picture is there, and the source has not answered"
        assert asked.wait(120)
        may.set()
        end = time.monotonic() + 120
        while "utilisation" not in shown and time.monotonic() < end:
            (shown,) = making(read(tmp_path, node("gpu-a"))).document["nodes"]
        assert shown["utilisation"] == 42
    finally:
        may.set()
        making.close()
