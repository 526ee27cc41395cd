"""The page follows the cluster: it is read again while somebody looks, a new picture is published only if it shows something
new, and data that may be old are called old. A real API server is followed in tests/e2e/test_ui.py."""

import asyncio
from pathlib import Path

import orjson
import pytest

from tests.cli.ui import world
from tests.controlplane.nodes import node
from webhook.cli.ui.live import Live
from webhook.errors import BadInput


def following(folder: Path) -> tuple[world.Cluster, Live]:
    cluster = world.Cluster(folder, node("a", 4), world.held("one", "a", 1))
    return cluster, Live(cluster.picture(cluster.snapshot()), "somewhere", cluster)


async def test_only_what_is_new_is_published(tmp_path: Path) -> None:
    cluster, live = following(tmp_path)
    assert live.version == 1
    await live.refresh()
    assert live.version == 1, "the same objects a moment later"
    cluster.taken += 1_000
    cluster.objects.append(world.held("two", "a", 2))
    waiting = asyncio.create_task(live.changed(1))
    await live.refresh()
    await waiting
    assert (live.shown["version"], live.shown["live"], live.shown["old"]) == (2, True, None)
    assert [each[1:] for each in live.shown["history"]] == [[1, 0, 3, 0], [3, 0, 1, 0]]
    assert (await live.about("research", "two"))["decision"]["boundTo"] == "a"


async def test_data_that_cannot_be_read_again_are_old(tmp_path: Path) -> None:
    cluster, live = following(tmp_path)
    cluster.error = BadInput("the API server cannot be asked: nobody is there. Is it the right --context?")
    await live.refresh()
    old = {"since": cluster.taken, "why": "the API server cannot be asked: nobody is there"}
    assert (live.version, live.shown["old"], len(live.shown["nodes"])) == (2, old, 1)
    cluster.error = ValueError("a bug")
    await live.refresh()
    assert live.shown["problem"] == "no new picture could be made: ValueError: a bug"
    cluster.error = None
    await live.refresh()
    assert (live.shown["old"], live.shown["problem"]) == (None, "")


async def test_it_is_read_while_somebody_looks(tmp_path: Path) -> None:
    cluster, live = following(tmp_path)
    cluster.objects.append(world.held("two", "a", 2))
    running = asyncio.create_task(live.run())
    await asyncio.sleep(0)
    assert live.version == 1
    async with asyncio.timeout(120):
        await live.changed(1)
    running.cancel()
    assert orjson.dumps(live.shown).count(b"two")


async def test_questions_about_one_picture_do_not_disturb_each_other(tmp_path: Path) -> None:
    _, live = following(tmp_path)
    asked = [live.answer("drain", {}), live.answer("audit", {"namespace": "research"})]
    assert (await asyncio.gather(*asked))[0]["drain"]["whole"] == []


async def test_a_file_does_not_change(tmp_path: Path) -> None:
    cluster, _ = following(tmp_path)
    fixed = Live(cluster.picture(cluster.snapshot()), "a file")
    await fixed.changed(0)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(fixed.changed(1), 0.01)
