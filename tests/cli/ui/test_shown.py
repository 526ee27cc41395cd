"""The page in a real Chromium: it shows what the commands say, by mouse and by keyboard, and runs nothing that tenants write.

It also makes the pictures of the documentation: `PICTURES=1 pytest tests/cli/ui/test_shown.py -k picture`.

Covers cli.ui.command.
"""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.browser import Tab
from tests.cli.objects import TAKEN, call, document, placed, unschedulable
from tests.cli.ui import world
from tests.cli.ui.opened import opened, search, served
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from webhook.cli.terminal import age
from webhook.cli.ui import picture
from webhook.whatif.cluster.snapshot import seconds

pytestmark = pytest.mark.asyncio(loop_scope="package")

DOCS = Path(__file__).parents[3] / "docs"
MAX_PICTURE = 150_000
Json = dict[str, Any]


def hostile() -> list[Json]:
    """What tenants can write that is shown: owners, labels, annotations, events, messages."""
    waits = placed(pod("waits", 1), None, **unschedulable(world.HOSTILE))
    owner = {"kind": world.HOSTILE, "name": world.HOSTILE, "uid": "x", "controller": True}
    waits["metadata"] |= {"ownerReferences": [owner], "labels": {"workload-type": world.HOSTILE}}
    held = placed(pod("holds", 1), "odd")
    record = {"class": world.HOSTILE, "profile": world.HOSTILE, "units": {world.HOSTILE: [world.HOSTILE]}}
    held["metadata"] |= {"annotations": {"gpu-admission.io/decision": json.dumps(record)}, "ownerReferences": [owner]}
    odd = node("odd", 8, labels={"node-pool": world.HOSTILE})
    return [odd, waits, held]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return world.snapshot(tmp_path_factory.mktemp("ui"), *hostile())


@pytest.fixture(scope="module")
def address(cluster: Path) -> Iterator[str]:
    with served(cluster) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="package")
async def shown(tab: Tab, address: str) -> Tab:
    return await opened(tab, address)


async def chosen(tab: Tab, of: str) -> None:
    """Click on a waiting pod, and wait for its answer."""
    await tab.click(f'[data-pod="{of}"] > button')
    await tab.until(f"!!document.querySelector('[data-pod=\"{of}\"] .cause')")


async def test_the_page_equals_the_commands(shown: Tab, cluster: Path) -> None:
    nodes = document("top", "--from", cluster)
    found = await shown.value(
        "[...document.querySelectorAll('.node')].map(row => ({name: row.dataset.node, allocated: row.querySelectorAll('.held').length,"
        " promised: row.querySelectorAll('.promised').length, all: row.querySelectorAll('.cell').length}))"
    )
    wanted = {
        each["name"]: (
            sum(gpus["allocated"] for gpus in each["gpus"].values()),
            sum(gpus["promised"] for gpus in each["gpus"].values()),
        )
        for each in nodes
    }
    assert {each["name"]: (each["allocated"], each["promised"]) for each in found} == wanted
    sums = await shown.value(
        "[...document.querySelectorAll('tr[data-kind]')].map(row => [row.dataset.model ?? null, row.dataset.kind,"
        " ...[...row.querySelectorAll('[data-part]')].map(cell => Number(cell.innerText))])"
    )
    for _, kind, total, *parts in sums:
        assert total == sum(parts)
        assert kind in ("whole", "slice")
    whole = next(each for each in sums if each[:2] == [None, "whole"])
    assert whole[2] == sum(each["all"] for each in found) - 14  # the slices

    waiting = document("why", "--from", cluster)
    rows = await shown.value("[...document.querySelectorAll('.row')].map(row => row.dataset.pod)")
    assert {f"{each['namespace']}/{each['name']}" for each in waiting} >= set(rows)
    for answer in waiting:
        of = f"{answer['namespace']}/{answer['name']}"
        if of not in rows:
            continue
        await chosen(shown, of)
        causes = await shown.value("[...document.querySelectorAll('.cause')].map(each => each.dataset.cause)")
        assert causes == [cause["cause"] for cause in answer["causes"]]
        text = " ".join((await shown.value("document.querySelector('.detail').innerText")).split())
        for cause in answer["causes"]:
            assert " ".join(cause["text"].split()) in text
            assert all(" ".join(fix["text"].split()) in text for fix in cause["fixes"])
        out = await shown.value("[...document.querySelectorAll('.node.out')].map(row => row.dataset.node)")
        excluded = {name for cause in answer["causes"] if cause["cause"] != "fitsNow" for name in cause["nodes"]}
        assert set(out) == excluded & set(wanted)


async def test_a_search_for_a_model_shows_who_has_it(shown: Tab, cluster: Path) -> None:
    await shown.click("#by button:nth-child(2)")
    await search(shown, "h100")
    wanted = [
        f"{each['workload']}\n{each['gpus']['nvidia.com/gpu']} nvidia.com/gpu, {each['pods']} pods, oldest {age(seconds(each['since']), TAKEN)}"
        for each in document("top", "workloads", "--model", "H100", "--from", cluster)
    ]
    assert len(wanted) == 2
    assert sorted(each.strip() for each in await shown.texts(".holder")) == sorted(wanted)


async def test_everything_is_reached_by_keyboard(shown: Tab) -> None:
    await shown.value("document.body.focus()")
    await shown.press("Tab", "Enter")
    assert await shown.value("document.activeElement.id") == "waiting"
    await shown.value("document.querySelector('[data-pod=\"research/pretrain-0\"] > button').focus()")
    await shown.press("Enter")
    await shown.until("!!document.querySelector('.cause')")
    assert await shown.value("document.activeElement.getAttribute('aria-expanded')") == "true"
    await shown.press("Escape")
    assert await shown.value("document.querySelectorAll('.cause').length") == 0

    await shown.value("document.querySelector('#map [tabindex=\"0\"]').focus()")
    await shown.press("ArrowDown", "ArrowRight")
    assert await shown.value("document.activeElement.getAttribute('role')") == "gridcell"
    assert "batch-2" in await shown.value("document.getElementById('tip').innerText")
    assert "held by research/sweep-" in await shown.value("document.activeElement.getAttribute('aria-label')")
    assert await shown.value("document.querySelectorAll('#map [tabindex=\"0\"]').length") == 1

    tree = (await shown.send("Accessibility.getFullAXTree"))["nodes"]
    nameless = [
        each["role"]["value"]
        for each in tree
        if each.get("role", {}).get("value") in ("button", "searchbox", "grid", "gridcell", "rowheader", "textbox")
        and not each.get("name", {}).get("value")
        and not each.get("ignored")
    ]
    assert nameless == []


async def test_what_tenants_write_is_text(shown: Tab) -> None:
    await chosen(shown, "team/waits")
    await shown.value("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    await shown.click("#by button:nth-child(2)")
    await shown.until(f"document.getElementById('holders').innerText.includes({world.HOSTILE!r})")
    assert world.HOSTILE in await shown.value("document.querySelector('.says').innerText")
    assert world.HOSTILE in await shown.value("document.getElementById('decisions').innerText")
    assert world.HOSTILE in await shown.value("document.getElementById('map').innerText")
    assert await shown.value("document.querySelectorAll('body img, main script').length") == 0


async def test_the_file_shows_the_same_and_says_when_it_has_no_more(tab: Tab, cluster: Path, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    call("ui", "--from", cluster, "--html", file)
    await tab.look()
    await tab.open(f"file://{file}#pod=team-b%2Fhuge-1")
    await tab.until("!!document.querySelector('.cause')")
    assert await tab.value("document.querySelector('.cause').dataset.cause") == "moreThanAnyNode"
    await tab.value("location.hash = '#pod=team-b/nobody'")
    await tab.until("document.getElementById('map-note').innerText.includes('no more about it')")


async def test_a_file_has_a_bound_and_says_what_is_left_out(
    tab: Tab, cluster: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(picture, "MAX_ABOUT", 9_000)
    file = tmp_path / "page.html"
    result = call("ui", "--from", cluster, "--html", file)
    assert "left out, as the file would be too large: what helps " in result.stderr
    await tab.open(f"file://{file}")
    await tab.until("document.getElementById('banner')?.hidden === false")
    said = await tab.value("document.getElementById('banner').innerText")
    (left, rows) = re.fullmatch(r"Left out, .*: what helps (\d+) of (\d+) waiting rows\.", said).groups()  # type: ignore[union-attr]
    assert 0 < int(left) < int(rows)
    await tab.click(".row:last-child > button")
    await tab.until("document.querySelector('.detail')?.innerText.includes('gpu-admission why -n ')")
    await tab.click(".row:first-child > button")
    await tab.until("!!document.querySelector('.cause')")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_the_pictures_of_the_documentation(tab: Tab, tmp_path: Path, dark: bool) -> None:
    """They are written to docs/ when asked for, and are there, and are small."""
    file = tmp_path / "page.html"
    call("ui", "--from", world.snapshot(tmp_path), "--html", file)
    await tab.look(dark=dark, width=1200, height=740)
    await tab.open(f"file://{file}{'#pod=research/pretrain-0' if dark else ''}")
    await tab.until(f"!!document.querySelector('{'.cause' if dark else '.row'}')")
    await tab.value("document.getElementById('source').textContent = 'https://prod.example:6443'")
    picture = await tab.picture()
    path = DOCS / f"ui-{'dark' if dark else 'light'}.png"
    if os.environ.get("PICTURES"):
        path.write_bytes(picture)
    assert 10_000 < len(picture) < MAX_PICTURE
    assert path.stat().st_size < MAX_PICTURE
