"""Tolerations for the taints of GPU nodes."""

from typing import Any

import pytest

from tests.builders import GPU, TWO_NODES, UNKNOWN, ClusterFacts, case, container, pod
from tests.injectors.applied import applied, unchanged
from webhook.framework.cluster_view import Taint
from webhook.framework.interface import Outcome
from webhook.framework.taints import AllowedTaint, PolicyTaint
from webhook.injectors.tolerations import Tolerations

OWN = r"/spec/tolerations(/-)?"
EXISTS = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}
AMD = {"key": "amd.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
NOT_READY = {
    "key": "node.kubernetes.io/not-ready",
    "operator": "Exists",
    "effect": "NoExecute",
    "tolerationSeconds": 300,
}


def tainted(*taints: Taint, fresh: bool = True) -> ClusterFacts:
    return ClusterFacts(fresh=fresh, taints=taints)


@pytest.mark.parametrize(
    "present",
    [
        pytest.param([EXISTS], id="the same toleration"),
        pytest.param([{"key": GPU, "operator": "Exists"}], id="one for all effects"),
        pytest.param([{"operator": "Exists"}], id="a wildcard of the user's"),
        pytest.param([{"operator": "Exists", "effect": "NoSchedule"}], id="a wildcard for one effect"),
        pytest.param([NOT_READY, EXISTS | {"somethingNew": 1}], id="one with a field that we do not know"),
    ],
)
def test_left_alone_where_the_pod_tolerates_the_taint(present: list[dict[str, Any]]) -> None:
    assert unchanged(Tolerations(), case(pod(tolerations=present))) == Outcome("covered")


HONOR = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "nodeTaintsPolicy": "Honor"}


def test_left_alone_where_a_hard_spread_would_count_more_nodes() -> None:
    assert unchanged(Tolerations(), case(pod(topologySpreadConstraints=[HONOR]))) == Outcome("ownSpread")


@pytest.mark.parametrize(
    "spread",
    [
        pytest.param(HONOR | {"whenUnsatisfiable": "ScheduleAnyway"}, id="ScheduleAnyway"),
        pytest.param(HONOR | {"nodeTaintsPolicy": "Ignore"}, id="a spread that ignores taints"),
    ],
)
def test_added_where_a_spread_loses_nothing(spread: dict[str, Any]) -> None:
    made = pod(topologySpreadConstraints=[spread])
    assert applied(Tolerations(taints=(PolicyTaint(key=GPU),)), case(made), own=OWN)[1].result == "added"


@pytest.mark.parametrize(
    ("taint", "allowed"),
    [
        pytest.param(
            Taint("team", "b", "NoSchedule"), (AllowedTaint(key=GPU),), id="a taint that the policy does not allow"
        ),
        pytest.param(
            Taint("dedicated", "db", "NoSchedule"),
            (AllowedTaint(key="dedicated", value="gpu"),),
            id="an allowed key with another value",
        ),
        pytest.param(Taint("gpus", "", "NoSchedule"), (AllowedTaint(key="gpu"),), id="a key is no prefix"),
    ],
)
def test_left_alone_where_the_policy_does_not_allow_it(taint: Taint, allowed: tuple[AllowedTaint, ...]) -> None:
    injector = Tolerations(taints=(), allowed=allowed)
    assert unchanged(injector, case(pod(), cluster=tainted(taint))) == Outcome("covered")


def test_taints_of_nodes_do_not_count_while_the_state_is_stale() -> None:
    stale = tainted(Taint("sku", "gpu", "NoSchedule"), fresh=False)
    assert unchanged(Tolerations(taints=()), case(pod(), cluster=stale)) == Outcome("covered")


def test_another_vendors_taint_is_not_tolerated() -> None:
    after, _ = applied(Tolerations(), case(pod(container(gpu=None, limits={"amd.com/gpu": 1}))), OWN)
    assert AMD in after["spec"]["tolerations"]
    after, _ = applied(Tolerations(), case(pod(container(limits={"amd.com/gpu": 0})), cluster=UNKNOWN), OWN)
    assert after["spec"]["tolerations"] == [EXISTS], "0 GPUs of a vendor do not count"


@pytest.mark.parametrize(
    ("present", "want"),
    [
        pytest.param({}, [EXISTS], id="no tolerations"),
        pytest.param({"tolerations": None}, [EXISTS], id="tolerations of null"),
        pytest.param({"tolerations": []}, [EXISTS], id="an empty list"),
        pytest.param({"tolerations": [NOT_READY]}, [NOT_READY, EXISTS], id="others stay where they are"),
        pytest.param(
            {"tolerations": [{"key": GPU, "operator": "Exists", "effect": "NoExecute"}]},
            [{"key": GPU, "operator": "Exists", "effect": "NoExecute"}, EXISTS],
            id="another effect does not cover it",
        ),
        pytest.param(
            {"tolerations": [{"key": GPU, "operator": "Equal", "value": "present", "effect": "NoSchedule"}]},
            [{"key": GPU, "operator": "Equal", "value": "present", "effect": "NoSchedule"}, EXISTS],
            id="one value does not cover all values",
        ),
        pytest.param(
            {"tolerations": [{"key": "other", "operator": "Gt", "value": "5"}]},
            [{"key": "other", "operator": "Gt", "value": "5"}, EXISTS],
            id="a comparison with another taint",
        ),
    ],
)
def test_the_vendors_taint_is_tolerated(present: dict[str, Any], want: list[dict[str, Any]]) -> None:
    after, outcome = applied(Tolerations(), case(pod(**present), cluster=UNKNOWN), OWN)
    assert after["spec"]["tolerations"] == want
    assert outcome == Outcome("added", [GPU])


@pytest.mark.parametrize(
    ("taints", "allowed", "want"),
    [
        pytest.param(
            [Taint("sku", "gpu", "NoSchedule")],
            [AllowedTaint(key="sku", value="gpu")],
            [{"key": "sku", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}],
            id="only the value that is allowed",
        ),
        pytest.param(
            [Taint("sku", "gpu", "NoSchedule")],
            [AllowedTaint(key="sku")],
            [{"key": "sku", "operator": "Exists", "effect": "NoSchedule"}],
            id="any value where any is allowed",
        ),
        pytest.param(
            [Taint("sku", "a100", "NoSchedule"), Taint("sku", "h100", "NoSchedule"), Taint("sku", "cpu", "NoSchedule")],
            [AllowedTaint(key="sku", value="a100"), AllowedTaint(key="sku", value="h100")],
            [
                {"key": "sku", "operator": "Equal", "value": "a100", "effect": "NoSchedule"},
                {"key": "sku", "operator": "Equal", "value": "h100", "effect": "NoSchedule"},
            ],
            id="two values of one key, and not a third one",
        ),
        pytest.param(
            [Taint("sku", "a100", "NoSchedule"), Taint("sku", "h100", "NoSchedule")],
            [AllowedTaint(key="sku")],
            [{"key": "sku", "operator": "Exists", "effect": "NoSchedule"}],
            id="two values of one key where any is allowed: the key once",
        ),
        pytest.param(
            [Taint("gpu", "", "NoExecute"), Taint("gpu", "", "NoSchedule")],
            [AllowedTaint(key="gpu")],
            [{"key": "gpu", "operator": "Exists"}],
            id="two effects of one key: the key once, for all effects",
        ),
        pytest.param(
            [Taint("gpu", "a", "NoExecute"), Taint("gpu", "a", "NoSchedule"), Taint("gpu", "a", "PreferNoSchedule")],
            [AllowedTaint(key="gpu", value="a")],
            [{"key": "gpu", "operator": "Equal", "value": "a"}],
            id="three effects of one value",
        ),
        pytest.param(
            [Taint("nvidia.com/mig-strategy", "x", "NoSchedule")],
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


def test_a_live_taint_that_the_policys_own_covers_adds_nothing() -> None:
    after, outcome = applied(Tolerations(), case(pod(), cluster=TWO_NODES), OWN)
    assert after["spec"]["tolerations"] == [EXISTS]
    assert outcome == Outcome("added", [GPU])


def test_a_live_taint_of_another_effect_widens_the_one_toleration_of_its_key() -> None:
    cluster = tainted(Taint(GPU, "present", "NoExecute"), Taint(GPU, "present", "NoSchedule"))
    after, _ = applied(Tolerations(), case(pod(), cluster=cluster), OWN)
    assert after["spec"]["tolerations"] == [{"key": GPU, "operator": "Exists"}]


def test_taints_of_the_policy_for_all_vendors_and_with_a_value() -> None:
    injector = Tolerations(taints=(PolicyTaint(key="pool", value="gpu", effect="NoExecute"),), allowed=())
    after, outcome = applied(injector, case(pod()), OWN)
    assert after["spec"]["tolerations"] == [{"key": "pool", "operator": "Equal", "value": "gpu", "effect": "NoExecute"}]
    assert outcome == Outcome("added", ["pool"])


def test_a_second_pod_gets_its_own_copy_of_the_tolerations() -> None:
    injector = Tolerations()
    first, _ = applied(injector, case(pod()), OWN)
    first["spec"]["tolerations"][0]["key"] = "changed"
    second, _ = applied(injector, case(pod()), OWN)
    assert second["spec"]["tolerations"] == [EXISTS]
