"""Pods of schedulers that do not weigh preferences: the policy may let them have a required node.

Covers cluster.device_sources, framework.node_terms.
"""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tests.cluster.objects import admitted, node, pod, state
from tests.placement.placed import DEFAULTS, affinity, expression, names, placed
from webhook.cluster.device_sources import scheduler_of
from webhook.cluster.node_table import Demand
from webhook.cluster.pods import ranked_nodes, reservation_request
from webhook.cluster.source_hami import HAMI
from webhook.placement.settings import Preference

SETTINGS = DEFAULTS.model_copy(update={"required_for": ("kai-scheduler", "hami-scheduler")})
KAI: dict[str, Any] = {"schedulerName": "kai-scheduler"}


def with_cards(name: str, *memory: int) -> dict[str, Any]:
    """A node with a card of so many MiB each, as HAMi registers them."""
    cards = [
        {"id": f"{name}-{index}", "count": 10, "devmem": size, "devcore": 100, "health": True}
        for index, size in enumerate(memory)
    ]
    made = node(name, None, **{"nvidia.com/gpu": str(10 * len(memory))})
    made["metadata"]["annotations"] = {HAMI.registered: orjson.dumps(cards).decode()}
    return made


def part(name: str, memory: int, **spec: Any) -> dict[str, Any]:
    made = pod(name, 0, asks={"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(memory)}, **spec)
    (container,) = made["spec"]["containers"]
    container["resources"]["limits"] = dict(container["resources"]["requests"])
    return made


CARDS = [with_cards("a", 8192, 8192), with_cards("b", 16384)]


@pytest.mark.parametrize(
    ("made", "settings", "reason"),
    [
        pytest.param(pod("p", **KAI), DEFAULTS, "another scheduler", id="the policy as shipped"),
        pytest.param(pod("p", schedulerName="volcano"), SETTINGS, "another scheduler", id="one that it does not name"),
        pytest.param(part("p", 12000), DEFAULTS, "GPUs that another scheduler serves", id="a part by HAMi, as shipped"),
        pytest.param(pod("p", volumes=[{"csi": {}}], **KAI), SETTINGS, "another scheduler, and volumes", id="volumes"),
        pytest.param(pod("p", schedulingGates=[{"name": "g"}], **KAI), SETTINGS, "scheduling gates", id="a gate"),
        pytest.param(pod("p", schedulingGroup={"podGroupName": "g"}, **KAI), SETTINGS, "pod group", id="a pod group"),
    ],
)  # fmt: skip
def test_left_alone(made: dict[str, Any], settings: Any, reason: str) -> None:
    of = state([node("a"), *CARDS])
    found = placed(of, made, settings=settings)
    assert (found.nodes, found.reason) == ((), reason)


def test_a_pod_of_a_scheduler_that_the_policy_names_gets_a_required_node() -> None:
    of = state([node("a", 4), node("b", 8)])
    found = placed(of, pod("p", 2, **KAI), settings=SETTINGS)
    assert (names(found), found.required) == (["a", "b"], True)
    assert placed(of, pod("p", 2), settings=SETTINGS).required is False


def test_preferences_of_the_policy_are_not_written_where_nobody_weighs_them() -> None:
    zone = Preference.model_validate({"nodes": [{"key": "zone", "values": ["z"]}]})
    of = state([node("a", labels={"zone": "z"})])
    settings = SETTINGS.model_copy(update={"preferences": (zone,)})
    assert placed(of, pod("p"), settings=settings).preferred
    assert placed(of, pod("p", **KAI), settings=settings).preferred == ()


@pytest.mark.parametrize("spec", [{}, {"schedulerName": "hami-scheduler"}], ids=["before its webhook", "after it"])
def test_a_part_by_hami_goes_where_one_card_has_enough_and_is_held_there(spec: dict[str, Any]) -> None:
    of, made = state(CARDS), part("p", 12000, **spec)
    assert scheduler_of(made) == "hami-scheduler"
    found = placed(of, admitted(made), settings=SETTINGS)
    assert (names(found), found.required) == (["b"], True)
    of.reserve(reservation_request(made, Demand(found.asked, found.devices)), found, 0)
    assert placed(of, part("q", 12000), settings=SETTINGS).reason == "no node fits"
    assert names(placed(of, part("q", 4000), settings=SETTINGS)) == ["b", "a"]


def test_a_record_counts_only_if_the_node_is_required() -> None:
    """A preference that nobody weighs says nothing about where the pod goes."""
    preferring = pod("p", ranked=["a"], **KAI)
    assert ranked_nodes(pod("p", ranked=["a"])) == ("a",)
    assert ranked_nodes(preferring) == ()
    preferring["spec"]["affinity"] = affinity(expression("metadata.name", "In", "a", part="matchFields"))
    assert ranked_nodes(preferring) == ("a",)
