"""Pods of schedulers that do not weigh preferences: the policy may let them have a required node.

Covers devices.sources, framework.node_terms.
"""

from typing import Any

import orjson
import pytest

from tests.builders import GPUS
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from tests.devices import kai
from tests.placement.placed import DEFAULTS, affinity, expression, names, placed
from tests.state.objects import admitted, free, state, stored
from webhook.devices.source_vgpu import VGPUS
from webhook.devices.sources import scheduler_of
from webhook.kube.asked import AskedPod
from webhook.kube.other_gpus import other_gpus
from webhook.kube.record import ranked_nodes
from webhook.placement.settings import Preference

HAMI = VGPUS[0]

SETTINGS = DEFAULTS.model_copy(update={"required_for": ("kai-scheduler", "hami-scheduler")})
KAI: dict[str, Any] = {"schedulerName": "kai-scheduler"}


def with_cards(name: str, *memory: int) -> dict[str, Any]:
    """A node with a card of so many MiB each, as HAMi registers them."""
    cards = [
        {"id": f"{name}-{index}", "count": 10, "devmem": size, "devcore": 100, "health": True}
        for index, size in enumerate(memory)
    ]
    notes = {HAMI.said.registered: orjson.dumps(cards).decode()}
    return node(name, 0, resources={"nvidia.com/gpu": str(10 * len(memory))}, annotations=notes)


def part(name: str, memory: int, **spec: Any) -> dict[str, Any]:
    return stored(name, 1, limits={"nvidia.com/gpumem": str(memory)}, **spec)


CARDS = [with_cards("a", 8192, 8192), with_cards("b", 16384)]


@pytest.mark.parametrize(
    ("made", "settings", "reason"),
    [
        pytest.param(stored("p", **KAI), DEFAULTS, "another scheduler", id="the policy as shipped"),
        pytest.param(pod("p", schedulerName="volcano"), SETTINGS, "another scheduler", id="one that it does not name"),
        pytest.param(part("p", 12000), DEFAULTS, "GPUs that another scheduler serves", id="a part by HAMi, as shipped"),
        pytest.param(
            stored("p", volumes=[{"csi": {}}], **KAI), SETTINGS, "another scheduler, and volumes", id="volumes"
        ),
        pytest.param(stored("p", schedulingGates=[{"name": "g"}], **KAI), SETTINGS, "scheduling gates", id="a gate"),
        pytest.param(
            stored("p", schedulingGroup={"podGroupName": "g"}, **KAI), SETTINGS, "pod group", id="a pod group"
        ),
    ],
)
def test_left_alone(made: dict[str, Any], settings: Any, reason: str) -> None:
    of = state([node("a"), *CARDS])
    found = placed(of, made, settings=settings)
    assert (found.nodes, found.reason) == ((), reason)


def test_a_pod_of_a_scheduler_that_the_policy_names_gets_a_required_node() -> None:
    of = state([node("a", 4), node("b", 8)])
    found = placed(of, stored("p", 2, **KAI), settings=SETTINGS)
    assert (names(found), found.required) == (["a", "b"], True)
    assert placed(of, pod("p", 2), settings=SETTINGS).required is False


def test_preferences_of_the_policy_are_not_written_where_nobody_weighs_them() -> None:
    zone = Preference.model_validate({"nodes": [{"key": "zone", "values": ["z"]}]})
    of = state([node("a", labels={"zone": "z"})])
    settings = SETTINGS.model_copy(update={"preferences": (zone,)})
    assert placed(of, pod("p"), settings=settings).preferred
    assert placed(of, stored("p", **KAI), settings=settings).preferred == ()


@pytest.mark.parametrize(
    "spec",
    [pytest.param({}, id="before its webhook"), pytest.param({"schedulerName": "hami-scheduler"}, id="after it")],
)
def test_a_part_by_hami_goes_where_one_card_has_enough_and_is_held_there(spec: dict[str, Any]) -> None:
    of, made = state(CARDS), part("p", 12000, **spec)
    assert scheduler_of(made, other_gpus(made)) == "hami-scheduler"
    found = placed(of, admitted(made), settings=SETTINGS)
    assert (names(found), found.required) == (["b"], True)
    of.reserve(AskedPod(made, GPUS), found, 0)
    assert placed(of, part("q", 12000), settings=SETTINGS).reason == "no node fits"
    assert names(placed(of, part("q", 4000), settings=SETTINGS)) == ["b", "a"]


HALF = kai.part("half")
GROUPS = [
    *(kai.reservation("g", "a"), kai.part("first", "0.7", "g", on="a")),
    *(kai.reservation("h", "b"), kai.part("second", "0.4", "h", on="b")),
]
UNTOLD: dict[str, str | None] = {"nvidia.com/gpu.memory": None}
OF_KAI = [*(node(name, gpus, labels=UNTOLD) for name, gpus in (("a", 2), ("b", 1), ("c", 4))), node("cpu", 0)]
TO_KAI = "GPUs that another scheduler serves"


@pytest.mark.parametrize(
    ("made", "settings", "reason"),
    [
        pytest.param(HALF, DEFAULTS, "another scheduler", id="the policy as shipped"),
        pytest.param(kai.part("p", schedulerName="default-scheduler"), SETTINGS, TO_KAI, id="for nobody"),
        pytest.param(kai.part("p", "0.8"), SETTINGS, TO_KAI, id="no shared GPU has enough: KAI reserves a whole one"),
        pytest.param(kai.part("p", "0.2", "x", "y"), SETTINGS, TO_KAI, id="of two GPUs of one node"),
        pytest.param(kai.part("p", "110", key="gpu-memory"), SETTINGS, TO_KAI, id="more than all of its memory"),
    ],
)
def test_a_part_by_kai_is_left_alone(made: dict[str, Any], settings: Any, reason: str) -> None:
    of = state([*OF_KAI, with_cards("cards", 8192)], GROUPS)
    found = placed(of, admitted(made), settings=settings)
    assert (found.nodes, found.reason, found.required) == ((), reason, found.required)
    assert placed(state([node("a", 2)]), made, settings=settings).reason in (reason, TO_KAI)


@pytest.mark.parametrize(
    ("made", "nodes"),
    [
        pytest.param(kai.part("p", "0.3"), ["a", "b"], id="the fullest GPU that has enough"),
        pytest.param(kai.part("p", "0.5"), ["b"], id="one has enough"),
        pytest.param(kai.part("p", "60", key="gpu-memory"), ["b"], id="MiB, of the 100 that KAI takes it for"),
    ],
)
def test_a_part_by_kai_goes_where_a_shared_gpu_has_room(made: dict[str, Any], nodes: list[str]) -> None:
    found = placed(state(OF_KAI, GROUPS), admitted(made), settings=SETTINGS)
    assert (names(found), found.required) == (nodes, True)


def test_a_part_by_kai_is_held_until_it_is_bound() -> None:
    of = state([node("a", 2), node("b", 1)], GROUPS)
    found = placed(of, admitted(HALF), settings=SETTINGS)
    of.reserve(AskedPod(HALF, GPUS), found, 0)
    assert placed(of, kai.part("q"), settings=SETTINGS).reason == TO_KAI
    seen = kai.part("half", "0.5", ranked=["b"])
    seen["spec"]["affinity"] = affinity(expression("metadata.name", "In", "b", part="matchFields"))
    of.pod_seen(seen, 0)
    assert (of.ledger.counts, placed(of, kai.part("q"), settings=SETTINGS).reason) == ((0, 1), TO_KAI)
    of.pod_seen(kai.part("half", "0.5", "h", on="b", ranked=["b"]), 0)
    assert of.ledger.counts == (0, 0)
    assert names(placed(of, kai.part("q", "0.1"), settings=SETTINGS)) == ["b", "a"]


def test_a_group_that_a_tenant_made_up_takes_nothing_of_others() -> None:
    """Neither does a part of a group that is full already: KAI counts it too, and it is no more than all of that GPU."""
    forged = [kai.part(f"forged-{number}", "1.0", "h", "x", on="b") for number in range(50)]
    of = state([node("a", 2), node("b", 2)], [*GROUPS, *forged])
    assert names(placed(of, kai.part("p", "0.3"), settings=SETTINGS)) == ["a"]
    assert (free(of, "a"), free(of, "b")) == (1, 1)


def test_refused_parts_by_kai_of_one_namespace_leave_others_shared_gpus() -> None:
    """Of 64 nodes 16 have shared GPUs: what nobody can confirm takes two of these from others, and not eight."""
    shared = [f"gpu-{number:02}" for number in range(16)]
    of = state([*map(node, shared), *[node(f"cpu-{n}", 0) for n in range(48)]], [kai.reservation(n, n) for n in shared])
    for number in range(16):
        made = admitted(kai.part(f"p-{number}", "1.0"))
        found = placed(of, made, settings=SETTINGS)
        of.reserve(AskedPod(made, GPUS), found, 0)
    other = kai.part("p", "1.0")
    other["metadata"]["namespace"] = "other"
    assert placed(of, other, settings=SETTINGS).reason == ""
    of.usage.seen_from("other")
    full = [
        name
        for name in shared
        if of.nodes.devices.find(of.nodes.devices.states.without_private(of.nodes.row_of[name]), found.devices) is None
    ]
    assert len(full) == 2


def test_a_record_counts_only_if_the_node_is_required() -> None:
    """A preference that nobody weighs says nothing about where the pod goes."""
    preferring = stored("p", ranked=["a"], **KAI)
    assert ranked_nodes(stored("p", ranked=["a"])) == ("a",)
    assert ranked_nodes(preferring) == ()
    preferring["spec"]["affinity"] = affinity(expression("metadata.name", "In", "a", part="matchFields"))
    assert ranked_nodes(preferring) == ("a",)
