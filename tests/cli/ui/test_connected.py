"""What the page says while the connection is lost and when it is back, of answers that come late, and of data that are old."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from tests.browser import Tab
from tests.cli.ui import world
from tests.cli.ui.opened import opened
from webhook.cli.ui.live import Live
from webhook.cli.ui.server import ADDRESS, app
from webhook.errors import BadInput

pytestmark = pytest.mark.asyncio(loop_scope="package")
TOKEN = "the-token"
LATE = """(() => { const real = window.fetch; window.late = new Promise(done => { window.letGo = done; });
window.fetch = async (path, more) => { if (!path.includes(PART)) return real(path, more); await window.late; return new Response('{"error": "too late"}', {status: 404}); }; })()"""


@pytest.fixture
def cluster(tmp_path: Path) -> world.Cluster:
    return world.Cluster(tmp_path, *world.world())


@pytest.fixture
def live(cluster: world.Cluster) -> Live:
    return Live(cluster.picture(cluster.snapshot()), "somewhere", cluster)


@asynccontextmanager
async def serving(live: Live, port: int = 0) -> AsyncIterator[int]:
    """The server of the page, for as long as the block lasts; its port."""
    runner = web.AppRunner(app(live, TOKEN), shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, ADDRESS, port).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def connected(tab: Tab, port: int, more: str = "") -> None:
    await opened(tab, f"http://{ADDRESS}:{port}/#token={TOKEN}{more}")


async def changed(live: Live, cluster: world.Cluster, name: str) -> None:
    """A pod is deleted, and the page is told."""
    cluster.objects = [each for each in cluster.objects if each["metadata"]["name"] != name]
    await live.refresh()


async def test_a_lost_connection_is_said_until_it_is_back(tab: Tab, live: Live) -> None:
    fresh = "document.getElementById('fresh').innerText"
    async with serving(live) as port:
        await connected(tab, port)
        await tab.until(f"{fresh} === 'live'")
    await tab.until("document.getElementById('banner').innerText.includes('does not answer')")
    await tab.click("#by button:nth-child(2)")
    await tab.value("document.getElementById('search').dispatchEvent(new Event('input'))")
    said = await tab.value("document.getElementById('banner').innerText")
    assert "gpu-admission ui does not answer" in said, "whatever is clicked meanwhile"
    assert "What you see is of " in said
    assert await tab.value(fresh) == "not connected"
    await tab.click("[data-question=drain]")
    await tab.until("document.getElementById('answer').innerText.includes('gpu-admission ui does not answer')")
    async with serving(live, port):
        await tab.until(f"{fresh} === 'live'")
        assert await tab.value("document.getElementById('banner').hidden")
        await tab.click("#answer .command button:last-child")
        await tab.until("!!document.querySelector('[data-answer=drain]')")


async def test_a_server_that_has_stopped_is_not_called_live(tab: Tab, live: Live, cluster: world.Cluster) -> None:
    async with serving(live) as port:
        await connected(tab, port)
        await tab.value("AbortSignal.timeout = (wait => () => wait.call(AbortSignal, 300))(AbortSignal.timeout); 0")
        await changed(live, cluster, "rank-1")  # the next question has that limit
        await tab.until("document.getElementById('fresh').innerText === 'not connected'")


@pytest.mark.parametrize(
    ("part", "first", "then", "found"),
    [
        ("name=huge-1", '[data-pod="team-b/huge-1"] > button', '[data-pod="search/rank-1"] > button', ".cause"),
        ("question=drain", "[data-question=drain]", "[data-question=preempt]", "[data-answer=preempt]"),
    ],
    ids=["about a pod", "to a question"],
)
async def test_an_answer_that_comes_late_does_not_replace_that_to_what_was_asked_since(
    tab: Tab, live: Live, part: str, first: str, then: str, found: str
) -> None:
    async with serving(live) as port:
        await connected(tab, port)
        await tab.value(LATE.replace("PART", f"'{part}'"))
        await tab.click(first)
        await tab.click(then)
        await tab.until(f"!!document.querySelector('{found}')")
        await tab.value("(async () => { window.letGo(); await new Promise(done => setTimeout(done)); })()")
        assert "too late" not in await tab.value("document.body.innerText")
        assert await tab.value(f"document.querySelectorAll('{found}').length") > 0


async def test_an_answer_is_as_old_as_its_data(tab: Tab, live: Live, cluster: world.Cluster) -> None:
    """The API server has not answered for two days: what is asked now is of then."""
    async with serving(live) as port:
        await connected(tab, port)
        cluster.error = BadInput("the API server cannot be asked: nobody is there. Is it the right --context?")
        await live.refresh()
        await tab.until("document.getElementById('fresh').innerText === 'old'")
        await tab.value("Date.now = (real => () => real() + 2 * 86400000)(Date.now); 0")
        await tab.click("[data-question=drain]")
        said = await tab.until("document.querySelector('#answer .command .label')?.innerText")
        assert str(time.localtime(cluster.taken).tm_year) in said, "with its day"
        assert said.removeprefix("as of ") in await tab.value("document.getElementById('banner').innerText")


async def test_ages_go_on_while_nothing_changes(tab: Tab, live: Live) -> None:
    async with serving(live) as port:
        await connected(tab, port)
        before = await tab.texts(".holder")
        assert "oldest " in before[0]
        await tab.value("Date.now = (real => () => real() + 900 * 86400000)(Date.now); 0")
        await tab.until(f"document.querySelector('.holder').innerText.trim() !== {before[0].strip()!r}")


async def test_the_address_of_another_server_at_the_same_port_is_taken(tab: Tab, live: Live) -> None:
    async with serving(live) as port:
        await tab.open(f"http://{ADDRESS}:{port}/#token=wrong")
        await tab.until("document.getElementById('banner')?.innerText.includes('the token is missing or wrong')")
        await tab.value(f"location.hash = '#token={TOKEN}'; 0")
        await tab.until("!!document.querySelector('.node')")


async def test_what_a_link_says_wrongly_is_left_out(tab: Tab, live: Live) -> None:
    async with serving(live) as port:
        await connected(tab, port, "&by=toString&ask=question%3Dconstructor")
        await tab.until("!!document.querySelector('.holder')")
        assert await tab.value("document.getElementById('banner').hidden")
        assert await tab.value("document.querySelector('#by [aria-pressed=true]').innerText") == "namespace"


async def test_a_fault_of_the_page_is_not_called_a_lost_connection(
    tab: Tab, live: Live, cluster: world.Cluster
) -> None:
    async with serving(live) as port:
        await connected(tab, port)
        await tab.value("document.getElementById('legend').remove()")
        await changed(live, cluster, "chat-1")
        said = await tab.until("document.getElementById('banner').innerText")
        assert said.startswith("This page has a fault, and shows something wrong: ")
    assert tab.errors
    tab.errors.clear()
