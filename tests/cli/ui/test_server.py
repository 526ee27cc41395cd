"""Who may read the page: those who know the token, at the name of this machine, and nobody writes.

Covers cli.ui.server, cli.ui.page.
"""

import json
import re
import socket
from base64 import b64encode
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.cli.objects import call
from tests.cli.ui import world
from webhook.cli.cluster.load import read_snapshot
from webhook.cli.ui import command, picture, server
from webhook.cli.ui.live import Live
from webhook.cli.ui.page import page
from webhook.cli.ui.picture import Picture
from webhook.whatif.offline import load_policy

TOKEN = "the-token"
KNOWN = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def fixed(tmp_path_factory: pytest.TempPathFactory) -> Live:
    file = world.snapshot(tmp_path_factory.mktemp("ui"))
    return Live(Picture(read_snapshot(file), load_policy()), "a file")


@pytest.fixture
async def url(fixed: Live) -> AsyncIterator[str]:
    runner = web.AppRunner(server.app(fixed, TOKEN, "first"), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, server.ADDRESS, 0).start()
    yield f"http://{server.ADDRESS}:{runner.addresses[0][1]}"
    await runner.cleanup()


async def ask(url: str, headers: dict[str, str] | None = None, method: str = "GET") -> tuple[int, Any, Any]:
    async with aiohttp.ClientSession() as http, http.request(method, url, headers=headers or {}) as answer:
        return answer.status, await answer.text(), answer.headers


async def test_the_page_says_nothing_and_the_state_all(url: str) -> None:
    status, text, _ = await ask(url + "/")
    assert status == 200
    assert "research" not in text
    status, text, _ = await ask(url + "/state", KNOWN)
    assert status == 200
    assert "research" in text


async def test_the_token_is_given_once_to_a_browser_whose_arguments_others_see(url: str) -> None:
    async with aiohttp.ClientSession() as http:
        for once, status, to in (
            ("x", 200, None),
            ("", 200, None),
            ("first", 302, f"/#token={TOKEN}"),
            ("first", 200, None),
        ):
            async with http.get(f"{url}/?once={once}", allow_redirects=False) as answer:
                assert (answer.status, answer.headers.get("Location")) == (status, to)
                assert TOKEN not in await answer.text()


@pytest.mark.parametrize(
    ("path", "headers", "method", "status"),
    [
        pytest.param("/state", {}, "GET", 401, id="no token"),
        pytest.param("/state", {"Authorization": "Bearer another"}, "GET", 401, id="a wrong token"),
        pytest.param("/answer?question=drain", {}, "GET", 401, id="a question without a token"),
        pytest.param("/answer?question=delete", KNOWN, "GET", 404, id="no such question"),
        pytest.param("/answer?question=audit&namespace=research", KNOWN, "GET", 200, id="a question"),
        pytest.param("/state?token=the-token", {}, "GET", 401, id="a token where logs would keep it"),
        pytest.param("/", {"Host": "evil.example"}, "GET", 421, id="a name that leads here"),
        pytest.param("/state", KNOWN | {"Host": "evil.example:80"}, "GET", 421, id="such a name with the token"),
        pytest.param("/state", KNOWN, "POST", 405, id="a write"),
        pytest.param("/state", KNOWN, "OPTIONS", 405, id="a browser that asks for another site"),
        pytest.param("/pod?namespace=research&name=nobody", KNOWN, "GET", 404, id="no such pod"),
        pytest.param("/other", KNOWN, "GET", 404, id="no such path"),
        pytest.param("/state", KNOWN | {"Host": "localhost:1234"}, "GET", 200, id="a forwarded port"),
    ],
)
async def test_who_is_refused(url: str, path: str, headers: dict[str, str], method: str, status: int) -> None:
    found, text, given = await ask(url + path, headers, method)
    assert (found, "research" in text and status != 404) == (status, status == 200)
    assert given["Content-Security-Policy"].startswith("default-src 'none'")
    assert "Access-Control-Allow-Origin" not in given


async def test_a_bug_is_told_in_words(url: str, fixed: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fixed._picture, "about", None)
    status, text, given = await ask(url + "/pod?namespace=research&name=llm-1", KNOWN)
    assert (status, json.loads(text)["error"].partition(": ")[0]) == (500, "this could not be answered")
    assert given["Content-Security-Policy"].startswith("default-src 'none'")


async def test_a_question_for_something_newer_waits(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HOLD_SECONDS", 0.05)
    assert (await ask(url + "/state?after=1", KNOWN))[0] == 204
    assert (await ask(url + "/state?after=0", KNOWN))[0] == 200
    assert (await ask(url + "/state?after=x", KNOWN))[0] == 200


async def test_only_its_own_script_and_style_are_allowed(url: str) -> None:
    _, text, given = await ask(url + "/")
    for tag, kind in (("script", "script-src"), ("style", "style-src")):
        (inside,) = re.findall(rf"<{tag}(?: type=\"module\")?>(.+?)</{tag}>", text, re.DOTALL)
        allowed = f"{kind} 'sha256-{b64encode(sha256(inside.encode()).digest()).decode()}'"
        assert allowed in given["Content-Security-Policy"].split("; ")
    assert "unsafe" not in given["Content-Security-Policy"]


def test_no_text_of_the_state_ends_its_element() -> None:
    text = page({"name": world.HOSTILE})
    assert world.HOSTILE not in text
    assert text.count("</script>") == 2


def test_the_file_loads_nothing_and_says_what_it_is(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    result = call("ui", "--from", world.snapshot(tmp_path), "--html", file)
    assert (result.exit_code, result.stderr) == (0, f"{file}: 13 nodes, 5 waiting\n")
    text = file.read_text()
    assert "connect-src" not in text.partition("</head>")[0].partition("<style>")[0]
    assert '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'' in text
    assert not re.findall(r"(?:src|href)=\"(?!data:|#)", text)


def test_of_many_pods_without_a_decision_a_file_does_not_say_what_opting_in_would_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(picture, "MAX_AUDITED", 1)
    monkeypatch.setattr(command, "MAX_AUDITED", 1)
    file = tmp_path / "page.html"
    result = call("ui", "--from", world.snapshot(tmp_path), "--html", file)
    assert "left out: what opting in would change, as " in result.stderr
    assert "question=audit" not in file.read_text()


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind((server.ADDRESS, 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = call("ui", "--from", world.snapshot(tmp_path), "--port", port)
    assert result.exit_code == 2
    assert f"error: --port {port}: " in result.stderr
    assert "0 for a free one" in result.stderr
