"""Anti-affinity, spread and host ports: where the pod can go beside its peers comes first."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.builders import GPUS
from tests.controlplane.nodes import node
from tests.state.objects import admitted, placer, state, stored
from webhook.kube.asked import AskedPod
from webhook.placement.peer_rules import NO_PEER_RULES, PeerRule, PeerRules, peer_rules_of
from webhook.placement.settings import PlacementSettings
from webhook.state.state import ClusterState

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
REQUIRED, PREFERRED = (f"{kind}DuringSchedulingIgnoredDuringExecution" for kind in ("required", "preferred"))
KEY = "topologySpreadConstraints"
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
    found = stored(name, gpus, owner="chat", **made)
    found["metadata"]["labels"] = {"app": "chat"}
    return found


_ONE_HOST = PeerRules((PeerRule(HOST, required=True),), one_per_host=True)


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
        pytest.param(away(term(ZONE)), PeerRules((PeerRule(ZONE, required=True),)), id="a zone each"),
        pytest.param(away(weighed(term()), kind=PREFERRED), PeerRules((PeerRule(HOST),)), id="preferred anti-affinity"),
        pytest.param(spread(ZONE, skew=2), PeerRules((PeerRule(ZONE, 2, True, True),)), id="spread over zones"),
        pytest.param(
            {
                KEY: [
                    spread(ZONE)[KEY][0]
                    | {"minDomains": 2, "nodeTaintsPolicy": "Honor", "nodeAffinityPolicy": "Ignore"}
                ]
            },
            PeerRules((PeerRule(ZONE, 1, True, True, 2, True, True),)),
            id="all that a hard spread may state",
        ),
        pytest.param(
            spread(when="ScheduleAnyway", skew=3), PeerRules((PeerRule(HOST, 3, True),)), id="soft spread over hosts"
        ),
        pytest.param(
            {key: [*spread(ZONE, "ScheduleAnyway")[key], *spread()[key]] for key in spread()},
            PeerRules((PeerRule(HOST, 1, True, True), PeerRule(ZONE, 1, True))),
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
    found = placer(of).place(AskedPod(chat(**spec), GPUS), of.view(0), PlacementSettings(), "pack")
    assert (found.nodes, found.reason) == ((), why)


# --- on nodes ---------------------------------------------------------------------------------------------------------


def run(of: ClusterState, made: dict[str, Any], strategy: str = "pack") -> str:
    """Admit a pod, and return its first node."""
    placement = placer(of).place(AskedPod(admitted(made), GPUS), of.view(0), PlacementSettings(), strategy)
    of.reserve(AskedPod(admitted(made), GPUS), placement, 0)
    return placement.nodes[0].node


def several(of: ClusterState, count: int, spec: dict[str, Any], gpus: int = 1, strategy: str = "pack") -> list[str]:
    return [run(of, chat(f"p{n}", gpus, **spec), strategy) for n in range(count)]


@pytest.mark.parametrize(
    "spec",
    [pytest.param(away(term()), id="anti"), pytest.param({"containers": [], "initContainers": SIDECAR}, id="port")],
)
def test_pods_that_must_not_share_a_host_do_not(spec: dict[str, Any]) -> None:
    spec = {key: value for key, value in spec.items() if key != "containers"}
    of = state([node("a"), node("b"), node("c")], [stored("x", 4, on="a")])
    assert sorted(several(of, 3, spec)) == ["a", "b", "c"]


def test_a_hard_spread_is_kept_and_otherwise_used_nodes_come_first() -> None:
    of = state([node("a"), node("b")], [stored("x", 2, on="a")])
    assert several(of, 4, spread(skew=2)) == ["a", "a", "b", "b"]


def test_a_soft_spread_is_followed() -> None:
    of = state([node("a"), node("b")], [stored("x", 2, on="a")])
    assert sorted(several(of, 4, spread(when="ScheduleAnyway"))) == ["a", "a", "b", "b"]


def test_a_topology_key_that_no_node_has() -> None:
    for spec in (away(term("no/such")), spread("no/such", "ScheduleAnyway")):
        assert run(state([node("a")]), chat(**spec)) == "a"
    assert refused(state([node("a")]), chat(**spread("no/such"))) == (("its rules about pods of its owner", 1),)


def test_nodes_outside_of_every_domain_of_a_spread_come_last() -> None:
    """The scheduler takes none of them for a hard constraint, and any for anti-affinity."""
    nodes = [node("a", labels={ZONE: None}), node("b", labels={ZONE: "y"}), node("c", labels={ZONE: "z"})]
    assert several(state(nodes, [stored("x", 4, on="a")]), 3, spread(ZONE)) == ["b", "c", "b"]
    soft = spread(ZONE, "ScheduleAnyway")
    assert several(state(nodes, [stored("x", 4, on="a")]), 3, soft) == ["b", "c", "b"]
    of = state([node("a", labels={ZONE: None}), node("b", labels={ZONE: "y"})], [stored("x", 4, on="a")])
    assert several(of, 3, away(term(ZONE))) == ["a", "a", "a"]


def test_a_cluster_without_nodes_gives_a_reason() -> None:
    of = state()
    found = placer(of).place(AskedPod(chat(**away(term())), GPUS), of.view(0), PlacementSettings(), "pack")
    assert found.reason == "no node fits"


def refused(of: ClusterState, made: dict[str, Any]) -> tuple[tuple[str, int], ...]:
    placement = placer(of).place(AskedPod(admitted(made), GPUS), of.view(0), PlacementSettings(), "pack")
    assert not placement.nodes
    return placement.rejected


ZONES = {"a": "y", "b": "y", "c": "z"}


def in_zones(*taken: dict[str, Any], gpus: int = 8, **zones: str) -> ClusterState:
    return state([node(name, gpus, labels={ZONE: zone}) for name, zone in (zones or ZONES).items()], list(taken))


@pytest.mark.parametrize(
    ("of", "spec", "names"),
    [
        pytest.param(in_zones(), spread(ZONE), ["a", "c", "a", "c"], id="zones by turns"),
        pytest.param(
            in_zones(stored("x", 8, on="c")), spread(ZONE), ["a", ""], id="no second one beside a full zone without any"
        ),
        pytest.param(
            in_zones(stored("x", 8, on="c")), spread(ZONE, skew=2), ["a", "a", ""], id="as many more as maxSkew says"
        ),
        pytest.param(
            in_zones(stored("x", 8, on="c")),
            spread(ZONE) | {"nodeSelector": {ZONE: "y"}},
            ["a", "a", "a"],
            id="a zone that it does not select is no domain",
        ),
        pytest.param(
            in_zones(),
            {KEY: [spread(ZONE)[KEY][0] | {"minDomains": 3}]},
            ["a", "c", ""],
            id="fewer domains than minDomains",
        ),
        pytest.param(in_zones(), away(term(ZONE)), ["a", "c", ""], id="anti-affinity: one in each zone"),
        pytest.param(in_zones(), away(term()), ["a", "b", "c", ""], id="anti-affinity: one on each host"),
    ],
)
def test_only_nodes_that_a_hard_rule_allows_are_chosen(
    of: ClusterState, spec: dict[str, Any], names: list[str]
) -> None:
    for number, name in enumerate(names):
        if name:
            assert run(of, chat(f"p{number}", **spec)) == name
        else:
            refused(of, chat(f"p{number}", **spec))


def test_replicas_go_to_both_zones_although_one_has_the_partly_used_nodes() -> None:
    zones = {f"{zone}{number}": zone for zone in "ab" for number in range(1, 5)}
    of = in_zones(*[stored(f"x{number}", 1, on=f"a{number}") for number in range(1, 5)], **zones)
    first = several(of, 4, {}, strategy="apart")
    assert sorted(name[0] for name in first) == ["a", "a", "b", "b"]
    assert len(set(first)) == 4


@given(
    zones=st.lists(st.sampled_from("xyz"), min_size=1, max_size=8),
    taken=st.lists(st.integers(0, 4), min_size=8, max_size=8),
    replicas=st.integers(2, 8),
    strategy=st.sampled_from(["apart", "spread"]),
)
@example(zones=list("xxxxyy"), taken=[0] * 8, replicas=8, strategy="apart")
def test_replicas_are_spread_as_evenly_as_the_nodes_allow(
    zones: list[str], taken: list[int], replicas: int, strategy: str
) -> None:
    """On nodes that all have room: over hosts exactly, and over zones as far as their hosts allow it."""
    names = {f"n{number}": zone for number, zone in enumerate(zones)}
    others = [stored(f"x{name}", gpus, on=name) for name, gpus in zip(names, taken, strict=False) if gpus]
    hosts = Counter(dict.fromkeys(names, 0))
    hosts.update(several(in_zones(*others, gpus=16, **names), replicas, {}, strategy=strategy))
    assert max(hosts.values()) - min(hosts.values()) <= 1
    over_zones = Counter(names[name] for name in hosts.elements())
    rounds = replicas // len(names)
    there = Counter(zones)
    fuller = [over_zones[zone] for zone in there if over_zones[zone] > rounds * there[zone]]
    emptier = [over_zones[zone] for zone in there if over_zones[zone] < (rounds + 1) * there[zone]]
    assert max(fuller, default=0) <= min(emptier, default=replicas) + 1
