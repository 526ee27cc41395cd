"""Anti-affinity, spread and host ports: where the pod can go beside its peers comes first."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import GPUS
from tests.cluster.objects import admitted, node, placer, pod, state
from webhook.cluster.pods import reservation_request
from webhook.cluster.state import ClusterState
from webhook.placement.peer_rules import NO_PEER_RULES, Apart, PeerRules, peer_rules_of
from webhook.placement.settings import PlacementSettings

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
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
SIDECAR = [PORT[0] | {"restartPolicy": "Always"}]


def chat(name: str = "p", gpus: int = 1, **made: Any) -> dict[str, Any]:
    found = pod(name, gpus, owner="chat", **made)
    found["metadata"]["labels"] = {"app": "chat"}
    return found


_ONE_HOST = PeerRules((Apart(HOST),), one_per_host=True)


@pytest.mark.parametrize(
    ("spec", "peer_rules"),
    [
        pytest.param({}, NO_PEER_RULES, id="nothing"),
        pytest.param({"affinity": {"nodeAffinity": {}}}, NO_PEER_RULES, id="affinity to nodes"),
        pytest.param({"affinity": {"podAffinity": {}}}, NO_PEER_RULES, id="affinity to no pods"),
        pytest.param(away(term()), _ONE_HOST, id="never on one host"),
        pytest.param(away(term(namespaces=["team-a"])), _ONE_HOST, id="its own namespace, named"),
        pytest.param(away(term(namespaceSelector={})), _ONE_HOST, id="all namespaces, its own among them"),
        pytest.param(away(term(matchLabelKeys=["app"])), _ONE_HOST, id="never beside those with its own value"),
        pytest.param(away(term(mismatchLabelKeys=["app"])), PeerRules(), id="never beside those with another value"),
        pytest.param(away(term(mismatchLabelKeys=["no"])), _ONE_HOST, id="a label that it does not have"),
        pytest.param(away(term(selector=OTHERS)), PeerRules(), id="away from others, of whom nothing is known"),
        pytest.param(away(term(ZONE)), PeerRules((Apart(ZONE),)), id="a zone each"),
        pytest.param(away(weighed(term()), kind=PREFERRED), PeerRules((Apart(HOST),)), id="preferred anti-affinity"),
        pytest.param(spread(ZONE, skew=2), PeerRules((Apart(ZONE, 2, True),)), id="spread over zones"),
        pytest.param(
            spread(when="ScheduleAnyway", skew=3), PeerRules((Apart(HOST, 3, True),)), id="soft spread over hosts"
        ),
        pytest.param(
            {key: [*spread(ZONE, "ScheduleAnyway")[key], *spread()[key]] for key in spread()},
            PeerRules((Apart(HOST, 1, True), Apart(ZONE, 1, True))),
            id="a hard spread before a soft one",
        ),
        pytest.param(spread(selector=OTHERS), PeerRules(), id="spread of others"),
        pytest.param(spread(selector=None), PeerRules(), id="spread without a selector"),
        pytest.param({"containers": PORT}, _ONE_HOST, id="a port of the host"),
        pytest.param({"initContainers": SIDECAR}, _ONE_HOST, id="a port of the host, of a sidecar"),
        pytest.param({"initContainers": PORT}, NO_PEER_RULES, id="a port of the host, of a container that ends"),
    ],
)
def test_what_a_pod_states_about_its_peers(spec: dict[str, Any], peer_rules: PeerRules) -> None:
    assert peer_rules_of(chat(**spec)) == peer_rules


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        pytest.param(towards(term()), "pod affinity", id="to its own"),
        pytest.param(towards(term(selector=OTHERS)), "pod affinity", id="to others"),
        pytest.param(towards(weighed(term()), kind=PREFERRED), "pod affinity", id="preferred, to its own"),
        pytest.param(
            away(weighed(term(selector=OTHERS)), kind=PREFERRED),
            "preferred anti-affinity to other pods",
            id="preferred, away from others",
        ),
        pytest.param(
            away(weighed(term()), weighed(term(selector=OTHERS)), kind=PREFERRED),
            "preferred anti-affinity to other pods",
            id="preferred, away from its own and from others",
        ),
    ],
)
def test_what_few_pods_state_is_left_to_the_scheduler(spec: dict[str, Any], why: str) -> None:
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


@pytest.mark.parametrize("spec", [away(term()), {"containers": [], "initContainers": SIDECAR}], ids=["anti", "port"])
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
    for spec in (away(term("no/such")), spread("no/such")):
        assert run(of, chat(**spec)) == "a"


def test_nodes_outside_of_every_domain_of_a_spread_come_last() -> None:
    """The scheduler takes none of them for a hard constraint, and any for anti-affinity."""
    of = state([node("a"), node("b", labels={ZONE: "y"}), node("c", labels={ZONE: "z"})], [pod("x", 4, on="a")])
    assert several(of, 3, spread(ZONE)) == ["b", "c", "b"]
    of = state([node("a"), node("b", labels={ZONE: "y"})], [pod("x", 4, on="a")])
    assert several(of, 3, away(term(ZONE))) == ["a", "a", "a"]


def test_a_cluster_without_nodes_gives_a_reason() -> None:
    of = state()
    found = placer(of).place(chat(**away(term())), of.view(0), PlacementSettings(), "pack", GPUS)
    assert found.reason == "no node fits"
