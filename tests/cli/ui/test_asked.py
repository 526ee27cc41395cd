"""What the page answers when it is asked equals what the commands print, in a real Chromium: served, and as a file."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.browser import Tab
from tests.cli.objects import call, document
from tests.cli.ui import world
from tests.cli.ui.opened import opened, served

pytestmark = pytest.mark.asyncio(loop_scope="package")
Json = dict[str, Any]
GPU = "nvidia.com/gpu"
IDLE = [
    ["gpu_admission_idle_gpus", {"namespace": "research", "idle_for": word}, n] for word, n in (("1h", 8), ("1d", 2))
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the metrics of a replica, which tell since when GPUs are idle, and a node whose metrics say which pod has which GPU."""
    replica = {"kind": "ReplicaMetrics", "metadata": {"name": "r-1", "namespace": "gpu-admission"}, "spec": {}}
    file = world.snapshot(tmp_path_factory.mktemp("asked"), {**replica, "status": {"samples": IDLE}})
    found = json.loads(file.read_text())
    for at, (name, percent) in enumerate({"chat-0": 1, "chat-3": 80, "embed-0": 1, "embed-1": 80}.items()):
        sample = ["serve-1", f"gpu{at}", "utilisation", percent, "", f"search/{name}"]
        found["snapshot"]["gpuMetrics"]["samples"].append(sample)
    file.write_text(json.dumps(found))
    return file


@pytest.fixture(scope="module")
def addresses(cluster: Path) -> Iterator[dict[str, str]]:
    """The page as it is served, and as a file."""
    file = cluster.parent / "page.html"
    call("ui", "--from", cluster, "--html", file)
    with served(cluster) as address:
        yield {"served": address, "file": f"file://{file}"}


@pytest_asyncio.fixture(loop_scope="package", params=["served", "file"])
async def shown(request: pytest.FixtureRequest, tab: Tab, addresses: dict[str, str]) -> Tab:
    return await opened(tab, addresses[request.param])


async def asked(tab: Tab, question: str, **fields: str) -> str:
    """Click on the question, fill in its fields, and return the answer."""
    await tab.click(f"[data-question={question}]")
    for name, value in fields.items():
        await tab.value(f"document.querySelector('#form [name={name}]').value = {value!r}")
    if fields:
        await tab.click("#form button")
    text: str = await tab.until(
        f"(text => text && text !== '…' && text)(document.querySelector('[data-answer={question}]')?.innerText)"
    )
    return " ".join(text.replace("Copy kubectl drain", "").replace("Copy", "").split())


async def test_which_node_can_be_drained(shown: Tab, cluster: Path) -> None:
    await asked(shown, "drain")
    wanted = document("drain", "--from", cluster)
    text = await shown.value("document.querySelector('[data-answer=drain]').innerText")
    assert f"serve-3 (4 {GPU}, {world.L4}) after 1 pod" in text
    assert "Cordoned already, and no pod has a GPU there: train-5." in text
    whole = await shown.value("[...document.querySelectorAll('[data-whole]')].map(each => each.dataset.whole)")
    assert whole == wanted["whole"] == ["train-4"]
    assert "Broken, and no pod has a GPU there: batch-4." in text
    moved = await shown.value(
        "[...document.querySelectorAll('[data-suggested]')].map(each => ({node: each.dataset.suggested,"
        " moves: [...each.parentElement.querySelectorAll('.moves li')].map(move => move.innerText)}))"
    )
    assert moved == [
        {"node": each["node"], "moves": [f"{move['pod']} → {move['to']}" for move in each["moves"]]}
        for each in wanted["suggestions"]
    ]
    assert moved


async def test_which_gpus_are_idle_whose_and_since_when(shown: Tab, cluster: Path) -> None:
    await asked(shown, "idle")
    wanted = document("top", "namespaces", "--from", cluster)
    tables = await shown.value(
        "[...document.querySelectorAll('[data-answer=idle] tbody')].map(body =>"
        " [...body.rows].map(row => [...row.cells].map(cell => cell.innerText)))"
    )
    gpus = [", ".join(f"{count} {name}" for name, count in each["gpus"].items()) for each in wanted]
    since = {"research": "2 for 1d, 8 for 1h", "search": "", "team-b": ""}
    assert tables[0] == [
        [each["namespace"], of, str(each["idle"]), since[each["namespace"]]]
        for each, of in zip(wanted, gpus, strict=True)
    ]
    assert call("top", "namespaces", "--from", cluster).stdout.count("2 for 1d, 8 for 1h") == 1
    assert tables[1] == [
        ["serve-1", "2", "gpu0, gpu2", "search/replicaset/chat (1 idle), search/job/embed (1 idle)"],
        ["train-2", "8 at least", ", ".join(f"gpu{at}" for at in range(8)), "research/job/llm"],
    ]
    cells = await shown.value(
        "[...document.querySelectorAll('[data-node=serve-1] .cell')].map(each => [each.getAttribute('aria-label'),"
        " each.classList.contains('idle')])"
    )
    assert [(label.split(", ")[0], label.endswith("idle now"), idle) for label, idle in cells] == [
        (f"held by search/{name}", its, its)
        for name, its in (("chat-0", True), ("chat-3", False), ("embed-0", True), ("embed-1", False))
    ]


async def test_what_would_let_a_pod_start(shown: Tab, cluster: Path, tmp_path: Path) -> None:
    text = await asked(shown, "start", gpus="8", resource=GPU)
    manifest = json.loads(await shown.value("document.querySelector('[data-answer=start] pre').textContent"))
    assert manifest["spec"]["containers"][0]["resources"] == {"limits": {GPU: "8"}}
    file = tmp_path / "pod.json"
    file.write_text(json.dumps(manifest))
    (wanted,) = document("try", "-f", file, "--from", cluster)["items"]
    assert text.startswith("It would wait.")
    causes = await shown.value(
        "[...document.querySelectorAll('[data-answer=start] [data-cause]')].map(each => each.dataset.cause)"
    )
    assert causes == [each["cause"] for each in wanted["causes"]]
    for each in wanted["causes"]:
        assert " ".join(each["text"].split()) in text
        assert all(" ".join(fix["text"].split()) in text for fix in each["fixes"])
    assert "after 1 pod" not in text, "the nodes that can be drained are another question"
    drained = await shown.value("[...document.querySelectorAll('[data-answer=start] button')].at(-1).innerText")
    assert drained == "Which node can I drain?"
    await shown.value("document.querySelector('#form [name=gpus]').dispatchEvent(new Event('input', {bubbles: true}))")
    assert await shown.value("document.querySelector('#answer').classList.contains('stale')"), "of another question"
    await shown.click("#form button")
    assert not await shown.value("document.querySelector('#answer').classList.contains('stale')")


@pytest.mark.parametrize("question", ["health", "preempt"])
async def test_the_checks(shown: Tab, cluster: Path, question: str) -> None:
    text = await asked(shown, question)
    found = await shown.value(
        "[...document.querySelectorAll('.check')].map(each => [each.dataset.check, each.dataset.state])"
    )
    every = document("doctor", "--from", cluster)
    for line in call("doctor", "--from", cluster).stderr.splitlines() if question == "health" else ():
        assert f"{line[0].upper()}{line[1:]}" in text
    wanted = [
        each for each in every if question == "health" or each["check"] in ("guards", "preemption", "priorityClasses")
    ]
    assert sorted(found) == sorted([each["check"], each["state"]] for each in wanted)
    for each in wanted:
        assert " ".join(each["text"].split()) in text
        assert " ".join(each["next"].split()) in text


async def test_what_opting_in_would_change(shown: Tab, cluster: Path) -> None:
    text = await asked(shown, "audit", namespace="team-b")
    wanted = document("policy", "diff", "-n", "team-b", "--from", cluster)
    found = await shown.value(
        "[...document.querySelectorAll('.check')].map(each => [each.dataset.of, each.dataset.outcome])"
    )
    assert found == [[each["workload"], each["change"]] for each in wanted]
    assert {each["change"] for each in wanted} == {"refused", "changed", "found"}
    for each in wanted:
        for part in [*[one["text"] for one in each["findings"]], *each["changes"]]:
            assert " ".join(part.split()) in text


async def test_why_a_pod_is_on_its_node(shown: Tab, cluster: Path) -> None:
    text = await asked(shown, "pod", pod="research/finetune-1")
    wanted = document("why", "-n", "research", "finetune-1", "--from", cluster)[0]["decision"]
    assert f"On {wanted['boundTo']}: 2 {GPU}, training, job/finetune" in text
    ranking = await shown.value(
        "[...document.querySelectorAll('[data-answer=pod] .ranking tbody tr')].map(row => row.cells[0].innerText)"
    )
    assert ranking == [f"{at}. {each['name']}" for at, each in enumerate(wanted["nodes"], 1)]
    for part in (wanted["decided"], wanted["text"], *[each["text"] for each in wanted["units"]]):
        assert " ".join(part.split()) in text


async def test_a_click_on_a_gpu_shows_its_pod(shown: Tab) -> None:
    await shown.click('[data-node="batch-2"] .cell:nth-child(6)')
    await shown.until("!document.getElementById('pod').hidden && !!document.querySelector('#pod .on, #pod p')")
    title = await shown.value("document.getElementById('pod-title').innerText")
    assert title.startswith("research/")
    assert "On batch-2: " in await shown.value("document.getElementById('pod').innerText")
    assert await shown.value("document.querySelectorAll('.cell.chosen').length") > 0
    await shown.click("#pod .close")
    assert await shown.value("document.getElementById('pod').hidden")


async def test_a_link_keeps_the_question(shown: Tab) -> None:
    await asked(shown, "audit", namespace="team-b")
    link = await shown.value("location.href")
    await shown.send("Page.navigate", url="about:blank")
    await shown.open(link)
    await shown.until("document.querySelector('[data-answer=audit]')?.innerText.includes('job/huge')")
    assert await shown.value("document.querySelector('[name=namespace]').value") == "team-b"
