"""The page for those who search, use the keyboard or a screen reader, or see colours otherwise; and with text that misleads."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import pytest_asyncio

from tests.browser import Tab
from tests.cli.objects import placed, unschedulable
from tests.cli.ui import world
from tests.cli.ui.opened import opened, search, served
from tests.controlplane.nodes import PRODUCTS
from tests.controlplane.objects import made, pod

pytestmark = pytest.mark.asyncio(loop_scope="package")
Json = dict[str, Any]
TURNED = "\u202egpj.exe"
CONTRASTS = """(() => {
  const light = text => { const [r, g, b] = text.match(/[\\d.]+/g).map(Number).map(each => each / 255).map(each => each <= .04045 ? each / 12.92 : ((each + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b; };
  return [...document.querySelectorAll('.cell.held')].filter(each => each.textContent).map(each => { const look = getComputedStyle(each), [a, b] = [light(look.color), light(look.backgroundColor)].sort((x, y) => y - x);
    return [each.className, (a + .05) / (b + .05)]; }); })()"""


def refused(name: str, message: str) -> list[Json]:
    """A ReplicaSet whose pods cannot be created, and the Event that says so. Anybody may write one."""
    uid = f"uid-{name}"
    workload = {**made("ReplicaSet", name), "spec": {"replicas": 1}, "status": {"replicas": 0}}
    workload["metadata"] |= {"namespace": "team-b", "uid": uid}
    event = made("Event", f"e-{name}", reason="FailedCreate", message=message, lastTimestamp="2026-11-18T10:40:00Z")
    event["involvedObject"] = {"kind": "ReplicaSet", "name": name, "namespace": "team-b", "uid": uid}
    event["metadata"]["namespace"] = "team-b"
    return [workload, event]


def more() -> list[Json]:
    waits = placed(pod("turned", 1), None, **unschedulable(f"see {TURNED}"))
    waits["metadata"] |= {"ownerReferences": [{"kind": TURNED, "name": TURNED, "uid": "x", "controller": True}]}
    early = world.held("finetune-0", "batch-1", 1)
    early["metadata"]["annotations"] = {"gpu-admission.io/decision": json.dumps({"class": "training", "units": {}})}
    early["metadata"]["creationTimestamp"] = "2026-11-02T10:00:00Z"
    return [
        waits,
        early,
        *refused("hooked", 'failed calling webhook "x.example": no answer'),
        *refused("quoted", "exceeded quota: q`id`, requested: pods=1, used: pods=1, limited: pods=1"),
        *refused("classless", "no PriorityClass with name high was found"),
    ]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(world.snapshot(tmp_path_factory.mktemp("looked"), *more())) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="package")
async def tab(tab: Tab, address: str) -> Tab:
    return await opened(tab, address)


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        pytest.param("l4", ["serve-1", "serve-2", "serve-3"], id="a model"),
        pytest.param("allocated", [], id="a word that only the data have"),
        pytest.param("research/vision-1", ["train-3"], id="a pod as the page writes it"),
        pytest.param("research/job/vision", ["train-3"], id="an owner as the page writes it"),
        pytest.param("not ready", ["batch-4"], id="a state"),
        pytest.param("mig-1g", ["sliced-1"], id="a resource"),
    ],
)
async def test_a_search_finds_what_stands_on_the_page(tab: Tab, text: str, nodes: list[str]) -> None:
    assert await search(tab, text) == nodes
    note = await tab.value("document.getElementById('map-note').innerText")
    assert note == f"{len(nodes)} of 13 nodes with “{text}”"


async def test_a_search_hides_no_pod_that_waits(tab: Tab) -> None:
    """Whoever looks for H100s sees first who waits for them, by its selector."""
    before = await tab.value("document.querySelectorAll('.row').length")
    await search(tab, "h100")
    rows = await tab.value(
        "[...document.querySelectorAll('.row')].map(each => [each.dataset.pod, each.classList.contains('other')])"
    )
    assert len(rows) == before
    hits = [name for name, other in rows if not other]
    assert sorted(hits) == ["research/pretrain-0", "search/rank-1"], "the second one's fix names them"
    assert [name for name, _ in rows][:2] == hits
    assert (await tab.texts("#rows > .empty")) == [f"2 of {before} rows with “h100”, then the others"]
    await search(tab, "nothing has this")
    assert await tab.value("document.querySelectorAll('.row').length") == before


async def test_the_keyboard_reaches_what_a_search_leaves(tab: Tab) -> None:
    await tab.value("document.querySelector('#map [tabindex=\"0\"]').focus()")
    await search(tab, "serve-2")
    assert await tab.value("document.querySelector('.node:not([hidden]) [tabindex=\"0\"]')?.textContent") == "serve-2"
    assert await tab.value("document.querySelectorAll('#map [tabindex=\"0\"]').length") == 1


async def test_the_reason_beside_a_node_is_reached_and_is_that_of_the_chosen_pod(tab: Tab) -> None:
    for name in ("research/pretrain-0", "team-b/huge-1"):
        await tab.click(f'[data-pod="{name}"] > button')
        await tab.until(f"!!document.querySelector('[data-pod=\"{name}\"] .cause')")
        causes = await tab.value("[...document.querySelectorAll('.cause')].map(each => each.innerText)")
        await tab.value("document.querySelector('[data-node=\"train-1\"] .name').focus()")
        await tab.press("End")
        (said, *text) = (await tab.value("document.activeElement.getAttribute('aria-label')")).split(", ")
        assert said == await tab.value("document.querySelector('[data-node=\"train-1\"] .say').textContent")
        assert any(", ".join(text) in each for each in causes), name
        assert (await tab.value("document.getElementById('tip').innerText")).split("\n")[0] == said


async def test_space_chooses_a_gpu_as_enter_does(tab: Tab) -> None:
    await tab.value("document.querySelector('[data-node=\"train-1\"] .cell').focus()")
    await tab.press(" ")
    await tab.until("!document.getElementById('pod').hidden")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_letters_of_cells_can_be_read(tab: Tab, dark: bool) -> None:
    await tab.look(dark=dark)
    found = await tab.value(CONTRASTS)
    assert len({name for name, _ in found}) >= 4
    assert [each for each in found if each[1] < 4.5] == []


async def test_what_is_ruled_out_or_not_searched_for_can_be_read_all_the_same(tab: Tab) -> None:
    await tab.click('[data-pod="team-b/huge-1"] > button')
    await tab.until("!!document.querySelector('.out .name')")
    await search(tab, "train-")
    for selector in (".out .name", ".row.other .who"):
        seen = f"(each => {{ let all = 1; for (; each; each = each.parentElement) all *= getComputedStyle(each).opacity; return all; }})(document.querySelector('{selector}'))"
        assert await tab.value(seen) == 1, selector


async def test_no_text_turns_the_direction_of_what_follows(tab: Tab) -> None:
    await tab.click("#by button:nth-child(2)")
    await tab.click('[data-pod="team/turned"] > button')
    await tab.until("document.querySelector('.says')?.innerText.includes('gpj.exe')")
    assert not await tab.value("/[\\u202a-\\u202e\\u2066-\\u2069]/.test(document.body.innerText)")


async def test_only_whole_commands_without_a_trap_can_be_copied(tab: Tab) -> None:
    copied = {}
    for name in ("hooked", "quoted", "classless"):
        await tab.click(f'[data-pod="team-b/replicaset/{name}"] > button')
        await tab.until(f"!!document.querySelector('[data-pod$=\"{name}\"] .cause')")
        copied[name] = await tab.value(
            "[...document.querySelectorAll('.cause button')].map(each => each.getAttribute('aria-label'))"
        )
    assert copied == {
        "hooked": ["Copy: kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations"],
        "quoted": ["Copy: kubectl get pods -n team-b", "Copy: kubectl edit quota 'q`id`' -n team-b"],
        "classless": [],
    }


async def test_a_decision_of_another_day_has_its_day(tab: Tab) -> None:
    (early,) = [each for each in await tab.texts(".decision") if "finetune-0" in each]
    assert "2026" in early
    (late,) = [each for each in await tab.texts(".decision") if "finetune-1" in each]
    assert "2026" not in late


async def test_the_question_about_a_pod_follows_the_choice(tab: Tab) -> None:
    await tab.click("[data-question=pod]")
    await tab.value("document.querySelector('#form [name=pod]').value = 'research/finetune-1'")
    await tab.click("#form button")
    await tab.until("!!document.querySelector('[data-answer=pod] .units')")
    await tab.click('[data-pod="team-b/huge-1"] > button')
    await tab.until("!!document.querySelector('[data-answer=pod] [data-cause=moreThanAnyNode]')")
    assert await tab.value("document.querySelector('#form [name=pod]').value") == "team-b/huge-1"


async def test_what_a_search_does_not_find_is_not_called_nobody(tab: Tab) -> None:
    await search(tab, "b200")
    assert await tab.texts("#holders") == ["Nobody with “b200”."]
    assert await tab.texts("#decisions") == ["None with “b200”."]


async def test_a_browser_that_forbids_to_copy_is_told_of(tab: Tab) -> None:
    await tab.value("navigator.clipboard.writeText = () => Promise.reject(new Error('no')); 0")
    await tab.click("#link")
    await tab.until("document.getElementById('link').innerText === 'The browser forbids it'")


async def test_the_pods_of_a_workload_are_compared_and_reached(tab: Tab) -> None:
    await tab.click("[data-question=pod]")
    await tab.value("document.querySelector('#form [name=pod]').value = 'research/finetune'")
    await tab.click("#form button")
    await tab.until("!!document.querySelector('[data-answer=pod] .groups')")
    said = await tab.value("document.querySelector('[data-answer=pod]').innerText")
    assert "3 pods of job/finetune: on batch-2 (1), batch-1 (1); 1 without a node; chosen for them: " in said
    groups = await tab.texts(".groups p")
    assert groups[0] == "this one"
    assert any("finetune-0" in each for each in await tab.texts(".groups li"))
    assert any("on another node of its ranking" in each for each in groups)
    assert "kubectl describe pod -n research finetune-2" in said, "the pod that is shown, and not a pod of that name"
    await tab.click('[data-focus="pod finetune-1"]')
    await tab.until("document.querySelector('[data-answer=pod] .on')?.innerText.startsWith('On batch-2')")
    assert await tab.value("document.querySelector('#form [name=pod]').value") == "research/finetune-1"


async def test_the_beginning_of_an_answer_is_read_out_and_not_all_of_it(tab: Tab) -> None:
    await tab.click("[data-question=health]")
    await tab.until("!!document.querySelector('[data-answer=health]')")
    heard = await tab.value(
        "[...document.querySelectorAll('#ask [aria-live], #ask [role=status]')].map(each => each.innerText)"
    )
    assert [each.startswith("The webhook: ") for each in heard] == [True]
    assert len(heard[0]) <= 200 < len(await tab.value("document.getElementById('answer').innerText"))


LONG = "gke-prod-ml-a100-80gb-spot-pool-c386bbc4-2phv"
CUT = "[...document.querySelectorAll('.node .name')].filter(each => each.scrollWidth > each.clientWidth || getComputedStyle(each).textOverflow == 'ellipsis').length"
BOXES = "[...document.querySelectorAll('body *')].filter(each => /auto|scroll/.test(getComputedStyle(each).overflowY) && each.scrollHeight > each.clientHeight + 2).map(each => each.id || each.className)"


@pytest.fixture(scope="module")
def long_names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    nodes = [world.node(f"{LONG[:-1]}{at}", 8, world.A100, labels={"node-pool": "spot"}) for at in range(3)]
    models = [world.node(f"other-{model}", 2, model, labels={"node-pool": "other"}) for model in PRODUCTS]
    held = world.held("llm-1", f"{LONG[:-1]}0", 8)
    waits = world.held("huge-1", None, 16)
    with served(world.write(tmp_path_factory.mktemp("long"), *nodes, *models, held, waits)) as found:
        yield found


@pytest.mark.parametrize("width", [390, 1280])
async def test_names_of_nodes_are_whole(tab: Tab, long_names: str, width: int) -> None:
    await tab.look(width=width)
    await opened(tab, long_names)
    assert await tab.value(CUT) == 0


async def test_a_phone_scrolls_the_page_and_nothing_in_it(tab: Tab, long_names: str) -> None:
    await tab.look(width=390, height=844)
    await opened(tab, long_names)
    assert await tab.value(BOXES) == []


async def test_a_pool_can_be_folded_and_a_search_opens_it(tab: Tab, long_names: str) -> None:
    await opened(tab, long_names)
    await tab.click("[data-pool=spot] h3 button")
    assert [each[:5] for each in await search(tab, "")] == ["other"] * len(PRODUCTS)
    assert await tab.value("document.querySelector('[data-pool=spot]').innerText.includes('3 nodes')")
    assert await search(tab, f"{LONG[:-1]}2") == [f"{LONG[:-1]}2"]
    await search(tab, "")
    await tab.click("[data-pool=spot] h3 button")
    assert f"{LONG[:-1]}0" in await search(tab, "")


async def test_only_nodes_with_free_gpus(tab: Tab, long_names: str) -> None:
    await opened(tab, long_names)
    await tab.click("[data-focus='only free']")
    left = await search(tab, "")
    assert len(left) == 2 + len(PRODUCTS)
    assert f"{LONG[:-1]}0" not in left
