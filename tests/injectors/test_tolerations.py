"""Tolerations for the taints of GPU nodes."""

from typing import Any

import pytest

from tests.builders import GPU, TWO_NODES, UNKNOWN, ClusterFacts, case
from tests.controlplane.objects import pod
from tests.devices.dra import gpu
from tests.injectors.applied import applied, unchanged
from webhook.framework.interface import Outcome
from webhook.injectors.tolerations import AllowedTaint, PolicyTaint, Tolerations
from webhook.kube.taints import Taint

OWN = r"/spec/tolerations(/-)?"
EXISTS = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}
AMD = {"key": "amd.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
FOR_NOW = {"key": GPU, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
HONOR = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "nodeTaintsPolicy": "Honor"}


def tainted(*taints: Taint, fresh: bool = True) -> ClusterFacts:
    return ClusterFacts(fresh=fresh, offers={"gpu-a1": {GPU: 8}}, taints=taints)


def schedule(key: str, value: str = "", effect: str = "NoSchedule") -> Taint:
    return Taint(key, value, effect)


def equal(key: str, value: str, effect: str = "NoSchedule") -> dict[str, str]:
    return {"key": key, "operator": "Equal", "value": value, "effect": effect}


@pytest.mark.parametrize(
    "present",
    [
        pytest.param([EXISTS], id="the same toleration"),
        pytest.param([{"key": GPU, "operator": "Exists"}], id="one for all effects"),
        pytest.param([{"operator": "Exists"}], id="a wildcard of the user's"),
        pytest.param([{"operator": "Exists", "effect": "NoSchedule"}], id="a wildcard for one effect"),
        pytest.param([FOR_NOW, EXISTS | {"somethingNew": 1}], id="one with a field that we do not know"),
        pytest.param([{"key": GPU, "operator": "Gt", "value": "5"}], id="whoever names some values is not given all"),
    ],
)
def test_left_alone_where_the_pod_tolerates_the_taint(present: list[dict[str, Any]]) -> None:
    assert unchanged(Tolerations(), case(pod(tolerations=present))) == Outcome("covered")


@pytest.mark.parametrize(
    "vendors",
    [pytest.param(frozenset(), id="none"), pytest.param(frozenset({"gpu.nvidia.com", "gpu.amd.com"}), id="several")],
)
def test_left_alone_where_the_vendor_of_a_claim_is_not_known(vendors: frozenset[str]) -> None:
    made = pod(gpus=0, resourceClaims=[{"name": "c"}])
    assert unchanged(Tolerations(), case(made, other_gpus=vendors)) == Outcome("vendor")


def test_left_alone_where_a_hard_spread_would_count_more_nodes() -> None:
    assert unchanged(Tolerations(), case(pod(topologySpreadConstraints=[HONOR]))) == Outcome("ownSpread")


@pytest.mark.parametrize("more", [{"whenUnsatisfiable": "ScheduleAnyway"}, {"nodeTaintsPolicy": "Ignore"}], ids=str)
def test_added_where_a_spread_loses_nothing(more: dict[str, Any]) -> None:
    made = pod(topologySpreadConstraints=[HONOR | more])
    assert applied(Tolerations(), case(made), own=OWN)[1].result == "added"


@pytest.mark.parametrize(
    ("cluster", "allowed"),
    [
        pytest.param(tainted(schedule("team", "b")), AllowedTaint(key=GPU), id="what the policy does not allow"),
        pytest.param(
            tainted(schedule("dedicated", "db")), AllowedTaint(key="dedicated", value="gpu"), id="another value"
        ),
        pytest.param(tainted(schedule("gpus")), AllowedTaint(key="gpu"), id="a key is no prefix"),
        pytest.param(
            tainted(schedule("sku", "gpu"), fresh=False), AllowedTaint(key="sku"), id="while the state is stale"
        ),
    ],
)
def test_left_alone_where_the_taints_of_nodes_do_not_count(cluster: ClusterFacts, allowed: AllowedTaint) -> None:
    assert unchanged(Tolerations(taints=(), allowed=(allowed,)), case(pod(), cluster=cluster)) == Outcome("covered")


def test_another_vendors_taint_is_not_tolerated() -> None:
    after, _ = applied(Tolerations(), case(pod(gpus=0, limits={"amd.com/gpu": 1})), OWN)
    assert after["spec"]["tolerations"] == [AMD], "the nodes have the taint of another vendor"
    after, _ = applied(Tolerations(), case(pod(limits={"amd.com/gpu": 0}), cluster=UNKNOWN), OWN)
    assert after["spec"]["tolerations"] == [EXISTS], "0 GPUs of a vendor do not count"


@pytest.mark.parametrize("own", [True, False])
def test_a_taint_with_the_name_of_what_the_pod_asks_for_is_tolerated(own: bool) -> None:
    """As by the API server's plugin ExtendedResourceToleration; no other vendor's is."""
    nodes = tainted(schedule("nvidia.com/mig-1g.10gb", "true"), schedule("amd.com/gpu"))
    made = pod(resource="nvidia.com/mig-1g.10gb")
    after, _ = applied(Tolerations(taints=(), allowed=(), own_resources=own), case(made, cluster=nodes), OWN)
    wanted = {"key": "nvidia.com/mig-1g.10gb", "operator": "Exists", "effect": "NoSchedule"}
    assert after["spec"].get("tolerations") == ([wanted] if own else None)


@pytest.mark.parametrize(
    "present",
    [
        pytest.param(None, id="tolerations of null"),
        pytest.param([], id="an empty list"),
        pytest.param([{"key": GPU, "operator": "Exists", "effect": "NoExecute"}], id="another effect"),
        pytest.param([equal(GPU, "present")], id="one value does not cover all values"),
        pytest.param([{"key": "other", "operator": "Gt", "value": "5"}], id="a comparison with another taint"),
    ],
)
def test_the_vendors_taint_is_tolerated_and_others_stay_where_they_are(present: list[dict[str, Any]] | None) -> None:
    after, outcome = applied(Tolerations(), case(pod(tolerations=present), cluster=UNKNOWN), OWN)
    assert after["spec"]["tolerations"] == [*(present or ()), EXISTS]
    assert outcome == Outcome("added", [GPU])


SKUS = [schedule("sku", "a100"), schedule("sku", "h100"), schedule("sku", "cpu")]


@pytest.mark.parametrize(
    ("taints", "allowed", "want"),
    [
        pytest.param(
            [schedule("sku", "gpu")],
            [AllowedTaint(key="sku", value="gpu")],
            [equal("sku", "gpu")],
            id="only the value that is allowed",
        ),
        pytest.param(
            SKUS,
            [AllowedTaint(key="sku", value="a100"), AllowedTaint(key="sku", value="h100")],
            [equal("sku", "a100"), equal("sku", "h100")],
            id="two values of one key, and not a third one",
        ),
        pytest.param(
            SKUS,
            [AllowedTaint(key="sku")],
            [{"key": "sku", "operator": "Exists", "effect": "NoSchedule"}],
            id="several values of one key where any is allowed: the key once",
        ),
        pytest.param(
            [schedule("gpu", effect="NoExecute"), schedule("gpu")],
            [AllowedTaint(key="gpu")],
            [{"key": "gpu", "operator": "Exists"}],
            id="two effects of one key: the key once, for all effects",
        ),
        pytest.param(
            [schedule("gpu", "a", "NoExecute"), schedule("gpu", "a"), schedule("gpu", "a", "PreferNoSchedule")],
            [AllowedTaint(key="gpu", value="a")],
            [{"key": "gpu", "operator": "Equal", "value": "a"}],
            id="three effects of one value",
        ),
        pytest.param(
            [schedule("nvidia.com/mig-strategy", "x")],
            [AllowedTaint(key="nvidia.com/mig*")],
            [{"key": "nvidia.com/mig-strategy", "operator": "Exists", "effect": "NoSchedule"}],
            id="a key by its prefix: the whole key is tolerated, never a pattern",
        ),
    ],
)
def test_taints_that_gpu_nodes_have(
    taints: list[Taint], allowed: list[AllowedTaint], want: list[dict[str, Any]]
) -> None:
    injector = Tolerations(taints=(), allowed=tuple(allowed))
    after, _ = applied(injector, case(pod(), cluster=tainted(*taints)), OWN)
    assert after["spec"]["tolerations"] == want


@pytest.mark.parametrize(
    ("injector", "cluster", "present", "want"),
    [
        pytest.param(Tolerations(), TWO_NODES, [], [EXISTS], id="a live taint that the policy's own covers"),
        pytest.param(
            Tolerations(),
            tainted(schedule(GPU, "present", "NoExecute"), schedule(GPU, "present")),
            [],
            [{"key": GPU, "operator": "Exists"}],
            id="a live taint of another effect widens the one toleration of its key",
        ),
        pytest.param(
            Tolerations(taints=(PolicyTaint(key=GPU, effect="NoExecute"),), allowed=()),
            UNKNOWN,
            [FOR_NOW],
            [{"key": GPU, "operator": "Exists", "effect": "NoExecute"}],
            id="one of some minutes does not cover one without an end",
        ),
        pytest.param(
            Tolerations(taints=(PolicyTaint(key="a"), PolicyTaint(key="a", value="b")), allowed=()),
            UNKNOWN,
            [],
            [{"key": "a", "operator": "Exists", "effect": "NoSchedule"}],
            id="one of the policy's own covers another",
        ),
        pytest.param(
            Tolerations(taints=(PolicyTaint(key="pool", value="gpu", effect="NoExecute"),), allowed=()),
            UNKNOWN,
            [],
            [equal("pool", "gpu", "NoExecute")],
            id="of all vendors, with a value",
        ),
    ],
)
def test_taints_of_the_policy(
    injector: Tolerations, cluster: ClusterFacts, present: list[dict[str, Any]], want: list[dict[str, Any]]
) -> None:
    after, outcome = applied(injector, case(pod(tolerations=present), cluster=cluster), OWN)
    assert after["spec"]["tolerations"] == [*present, *want]
    assert outcome == Outcome("added", [one["key"] for one in want])


def test_the_taints_of_nodes_with_gpus_by_dra_alone_are_tolerated() -> None:
    sku = ClusterFacts(offers={"dra": {}}, taints=(schedule("sku", "gpu"),), devices=(gpu(0),))
    after, outcome = applied(Tolerations(), case(pod(), cluster=sku), OWN)
    assert after["spec"]["tolerations"] == [EXISTS, equal("sku", "gpu")]
    assert outcome == Outcome("added", [GPU, "sku"])


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("", "a toleration without a key tolerates every taint"),
        ("*", "a toleration without a key tolerates every taint"),
        ("nvidia.com/*", "a toleration without a key tolerates every taint"),
        ("node.kubernetes.io/unschedulable", "this would tolerate nodes that are not ready"),
        ("node-role.kubernetes.io/control-plane", "this would tolerate nodes that are not ready"),
        ("not a key", "String should match pattern"),
    ],
)
def test_a_taint_that_must_not_be_tolerated_is_refused_in_a_policy(key: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        PolicyTaint(key=key)


@pytest.mark.parametrize(
    "key",
    [
        *("", "*", "n*", "node*", "node.kubernetes.io/*", "node.kubernetes.io/not*", "node.kubernetes.io/not-ready"),
        *("node-role.kubernetes.io/*", "node-role.kubernetes.io/master", "node.cloudprovider.kubernetes.io/shutdown"),
    ],
)
def test_a_pattern_that_matches_a_taint_of_kubernetes_is_refused_in_a_policy(key: str) -> None:
    with pytest.raises(ValueError, match="this would tolerate nodes that are not ready, or control planes"):
        AllowedTaint(key=key)


@pytest.mark.parametrize("key", ["nvidia.com/*", "node-role.kubernetes.io/gpu", "nodes.example.com/gpu"])
def test_a_pattern_of_gpu_taints_is_accepted_in_a_policy(key: str) -> None:
    assert AllowedTaint(key=key).key == key
