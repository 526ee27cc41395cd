"""Pod affinity, spread and host ports: where the pod can go comes first, with room for its peers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import GPUS
from tests.cluster.objects import admitted, node, placer, pod, state
from webhook.cluster.pods import reservation_request
from webhook.cluster.state import ClusterState
from webhook.placement.peer_rules import NO_PEER_RULES, PeerRules, peer_rules_of
from webhook.placement.settings import PlacementSettings

HOST, ZONE, RACK = "kubernetes.io/hostname", "topology.kubernetes.io/zone", "topology.kubernetes.io/rack"
REQUIRED, PREFERRED = (f"{kind}DuringSchedulingIgnoredDuringExecution" for kind in ("required", "preferred"))
OWN = {"matchLabels": {"app": "chat"}}
OTHERS = {"matchLabels": {"app": "cache"}}


def term(key: str = HOST, selector: Any = OWN, **more: Any) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": selector, **more}


def weighed(found: dict[str, Any], weight: int = 100) -> dict[str, Any]:
    return {"weight": weight, "podAffinityTerm": found}


def towards(*terms: dict[str, Any], kind: str = REQUIRED) -> dict[str, Any]:
    return {"affinity": {"podAffinity": {kind: list(terms)}}}


def away(*terms: dict[str, Any], kind: str = REQUIRED) -> dict[str, Any]:
    return {"affinity": {"podAntiAffinity": {kind: list(terms)}}}


def spread(key: str = HOST, when: str = "DoNotSchedule", skew: int = 1, selector: Any = OWN) -> dict[str, Any]:
    constraint = {"topologyKey": key, "whenUnsatisfiable": when, "maxSkew": skew, "labelSelector": selector}
    return {"topologySpreadConstraints": [constraint]}


PORT = [{"name": "main", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}]}]


def chat(name: str = "p", gpus: int = 1, **made: Any) -> dict[str, Any]:
    found = pod(name, gpus, owner="chat", **made)
    found["metadata"]["labels"] = {"app": "chat"}
    return found


@pytest.mark.parametrize(
    ("spec", "peer_rules"),
    [
        pytest.param({}, NO_PEER_RULES, id="nothing"),
        pytest.param({"affinity": {"nodeAffinity": {}}}, NO_PEER_RULES, id="affinity to nodes"),
        pytest.param(towards(term(ZONE)), PeerRules(affinity=(ZONE,)), id="in one zone"),
        pytest.param(towards(term(namespaces=["team-a"])), PeerRules(affinity=(HOST,)), id="its own namespace, named"),
        pytest.param(
            towards(term(namespaceSelector={})), PeerRules(affinity=(HOST,)), id="all namespaces, its own among them"
        ),
        pytest.param(away(term()), PeerRules(anti_affinity=(HOST,)), id="never on one host"),
        pytest.param(
            away(term(matchLabelKeys=["app"])),
            PeerRules(anti_affinity=(HOST,)),
            id="never beside those with its own value",
        ),
        pytest.param(
            away(term(mismatchLabelKeys=["app"])), PeerRules(), id="never beside those with another value of a label"
        ),
        pytest.param(
            away(term(mismatchLabelKeys=["no"])), PeerRules(anti_affinity=(HOST,)), id="a label that it does not have"
        ),
        pytest.param(away(term(selector=OTHERS)), PeerRules(), id="away from others, of whom nothing is known"),
        pytest.param(
            away(weighed(term()), kind=PREFERRED), PeerRules(soft_spread=((HOST, 1),)), id="preferred anti-affinity"
        ),
        pytest.param(
            towards(weighed(term(ZONE), 1), weighed(term(), 9), kind=PREFERRED),
            PeerRules(preferred_affinity=((HOST, 9), (ZONE, 1))),
            id="preferred affinity to one host, else to one zone",
        ),
        pytest.param(spread(ZONE, skew=2), PeerRules(hard_spread=((ZONE, 2),)), id="spread over zones"),
        pytest.param(spread(when="ScheduleAnyway", skew=3), PeerRules(soft_spread=((HOST, 3),)), id="soft spread"),
        pytest.param(spread(selector=OTHERS), PeerRules(), id="spread of others"),
        pytest.param(spread(selector=None), PeerRules(), id="spread without a selector"),
        pytest.param({"containers": PORT}, PeerRules(anti_affinity=(HOST,)), id="a port of the host"),
        pytest.param({"initContainers": PORT}, PeerRules(anti_affinity=(HOST,)), id="a port of the host, of a sidecar"),
    ],
)
def test_what_a_pod_states_about_its_peers(spec: dict[str, Any], peer_rules: PeerRules) -> None:
    assert peer_rules_of(chat(**spec)) == peer_rules


REQUIRED_OTHERS = "required affinity to other pods"
PREFERRED_OTHERS = "preferred affinity to other pods"


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        pytest.param(towards(term(selector=OTHERS)), REQUIRED_OTHERS, id="to others"),
        pytest.param(towards(term(), term(selector=OTHERS)), REQUIRED_OTHERS, id="to its own and to others"),
        pytest.param(towards(term(namespaces=["team-b"])), REQUIRED_OTHERS, id="in another namespace"),
        pytest.param(
            towards(term(namespaceSelector={"matchLabels": {"a": "b"}})),
            REQUIRED_OTHERS,
            id="in namespaces with a label",
        ),
        pytest.param(
            towards(term(mismatchLabelKeys=["app"])), REQUIRED_OTHERS, id="to those with another value of a label"
        ),
        pytest.param(
            towards(weighed(term(selector=OTHERS)), kind=PREFERRED), PREFERRED_OTHERS, id="preferred, to others"
        ),
        pytest.param(
            towards(weighed(term(), 1), weighed(term(selector=OTHERS)), kind=PREFERRED),
            PREFERRED_OTHERS,
            id="preferred, to its own and to others",
        ),
        pytest.param(
            away(weighed(term(selector=OTHERS)), kind=PREFERRED), PREFERRED_OTHERS, id="preferred, away from others"
        ),
    ],
)
def test_rules_about_other_pods_are_left_to_the_scheduler(spec: dict[str, Any], why: str) -> None:
    of = state([node("a")])
    found = placer(of).place(chat(**spec), of.view(0), PlacementSettings(), "pack", GPUS)
    assert (found.nodes, found.reason) == ((), why)


# --- on nodes ---------------------------------------------------------------------------------------------------------


def run(of: ClusterState, made: dict[str, Any], strategy: str = "pack") -> str:
    """Admit a pod, and return its first node."""
    placement = placer(of).place(admitted(made), of.view(0), PlacementSettings(), strategy, GPUS)
    of.reserve(reservation_request(admitted(made)), placement, 0)
    return placement.nodes[0].node


def several(of: ClusterState, count: int, spec: dict[str, Any], gpus: int = 1, strategy: str = "pack") -> list[str]:
    return [run(of, chat(f"p{n}", gpus, **spec), strategy) for n in range(count)]


@pytest.mark.parametrize("strategy", ["pack", "apart", "spread"])
def test_pods_that_must_share_a_host_start_where_most_room_is(strategy: str) -> None:
    of = state([node("a"), node("b")], [pod("x", 6, on="a")])
    assert several(of, 3, towards(term()), strategy=strategy) == ["b", "b", "b"]


def test_pods_that_must_share_a_zone_start_in_the_one_with_most_room() -> None:
    of = state([node("a", labels={ZONE: "x"}), node("b", labels={ZONE: "y"}), node("c", labels={ZONE: "y"})])
    assert set(several(of, 2, towards(term(ZONE)), 8)) == {"b", "c"}


@pytest.mark.parametrize(
    "beside",
    [away(term()), spread(), {"containers": PORT}, away(term(RACK))],
    ids=["a host each", "spread over hosts", "a port of the host", "a rack each"],
)
def test_room_in_a_zone_is_counted_under_their_other_rules(beside: dict[str, Any]) -> None:
    """Zone x has more room than y, but on one host."""
    of = state(
        [node("a", labels={ZONE: "x", RACK: "1"}), *[node(name, 1, labels={ZONE: "y", RACK: name}) for name in "cd"]]
    )
    spec = {**beside, "affinity": towards(term(ZONE))["affinity"] | beside.get("affinity", {})}
    if "containers" in spec:
        spec["initContainers"] = spec.pop("containers")
    assert sorted(several(of, 2, spec)) == ["c", "d"]


def test_pods_that_prefer_to_share_a_zone_start_in_one_that_holds_all_and_stay_there() -> None:
    of = state([node("a", 8, labels={ZONE: "x"}), *[node(name, labels={ZONE: "y"}) for name in "bc"]])
    metadata = {"name": "chat", "namespace": "team-a", "uid": "chat"}
    of.replace("jobs", [{"metadata": metadata, "spec": {"parallelism": 2}}], 0)
    assert several(of, 2, towards(weighed(term(ZONE)), kind=PREFERRED), 8) == ["b", "c"]


@pytest.mark.parametrize("strategy", ["pack", "apart", "spread"])
def test_pods_that_prefer_to_share_a_host_follow_the_first_while_there_is_room(strategy: str) -> None:
    of = state([node("a", 3), node("b"), node("c")], [pod("x", 1, on="a")])
    of.pod_seen(chat("first", on="a"), 0)
    assert several(of, 2, towards(weighed(term()), kind=PREFERRED), strategy=strategy)[0] == "a"


def test_a_node_outside_of_every_zone_comes_last() -> None:
    of = state([node("a", 8), node("b", 2, labels={ZONE: "y"})])
    assert run(of, chat(**towards(term(ZONE)))) == "b"


def test_a_gang_of_known_size_gets_a_host_that_holds_all_of_it() -> None:
    of = state([node("a"), node("b")], [pod("x", 5, on="a"), pod("y", 4, on="b")])
    metadata = {"name": "chat", "namespace": "team-a", "uid": "chat"}
    of.replace("jobs", [{"metadata": metadata, "spec": {"parallelism": 4}}], 0)
    assert several(of, 4, towards(term())) == ["b"] * 4


@pytest.mark.parametrize("spec", [away(term()), {"containers": [], "initContainers": PORT}], ids=["anti", "port"])
def test_pods_that_must_not_share_a_host_do_not(spec: dict[str, Any]) -> None:
    spec = {key: value for key, value in spec.items() if key != "containers"}
    of = state([node("a"), node("b"), node("c")], [pod("x", 4, on="a")])
    assert sorted(several(of, 3, spec)) == ["a", "b", "c"]


def test_a_hard_spread_is_kept_and_otherwise_used_nodes_come_first() -> None:
    of = state([node("a"), node("b")], [pod("x", 2, on="a")])
    assert several(of, 4, spread(skew=2)) == ["a", "a", "b", "b"]


def test_a_soft_spread_is_followed() -> None:
    of = state([node("a"), node("b")], [pod("x", 2, on="a")])
    assert sorted(several(of, 4, spread(when="ScheduleAnyway"))) == ["a", "a", "b", "b"]


def test_a_topology_key_that_no_node_has_changes_nothing() -> None:
    of = state([node("a")])
    for spec in (towards(term("no/such")), away(term("no/such")), spread("no/such")):
        assert run(of, chat(**spec)) == "a"


def test_a_cluster_without_nodes_gives_a_reason() -> None:
    of = state()
    found = placer(of).place(chat(**towards(term())), of.view(0), PlacementSettings(), "pack", GPUS)
    assert found.reason == "no node fits"
