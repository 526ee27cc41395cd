"""Node affinity to the ranked nodes, preferred and required."""

from typing import Any

import pytest

from tests.builders import Case, case, container, pod
from tests.injectors.applied import applied, unchanged
from webhook.framework.cluster_view import Expression, Placement, Preferred, Ranked
from webhook.framework.interface import Outcome
from webhook.framework.node_terms import has_name, preferred_node
from webhook.injectors.node_affinity import NodeAffinity
from webhook.kube.pod import PREFERRED, REQUIRED

OWN = (
    r"/spec/affinity|/spec/affinity/nodeAffinity"
    r"|/spec/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution(/-)?"
    r"|/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution"
    r"(/nodeSelectorTerms/\d+/matchFields(/-)?)?"
)
PINNED = NodeAffinity(mode="required")


IN_ZONE = {"key": "zone", "operator": "In", "values": ["z1"]}
USERS = {"weight": 100, "preference": {"matchExpressions": [IN_ZONE]}}


def ranked(*names: str, weights: tuple[int, ...] = (100, 60, 36)) -> Placement:
    return Placement(tuple(Ranked(name, 8, 0, 1.0) for name in names), "pack", weights=weights, total=9)


def placed(affinity: Any = ..., *names: str, **spec: Any) -> Case:
    if affinity is not ...:
        spec["affinity"] = affinity
    return case(pod(**spec), placement=ranked(*(names or ("a1", "a2"))))


# --- what must not change ---------------------------------------------------------------------------------------------


def test_the_node_is_required_where_the_scheduler_weighs_no_preference() -> None:
    chosen = ranked("a1", "a2")._replace(required=True)
    changed, outcome = applied(NodeAffinity(), case(pod(), placement=chosen), OWN)
    assert outcome == Outcome("required", "a1")
    assert changed["spec"]["affinity"] == {
        "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": [has_name("a1")]}]}}
    }


@pytest.mark.parametrize("mode", ["preferred", "required"])
@pytest.mark.parametrize(
    ("placement", "reason"),
    [
        pytest.param(None, "no placement", id="nothing was placed"),
        pytest.param(Placement((), "off", "the policy leaves it to the scheduler"), None, id="strategy off"),
        pytest.param(Placement((), "pack", "pod of a DaemonSet"), None, id="a pod of a DaemonSet"),
        pytest.param(
            Placement((), "pack", "no node fits", total=3, rejected=(("cordoned", 3),)), None, id="no node fits"
        ),
    ],
)
def test_left_alone_where_no_node_was_chosen(mode: Any, placement: Placement | None, reason: str | None) -> None:
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": [has_name("x")]}]}}}
    outcome = unchanged(NodeAffinity(mode=mode), case(pod(affinity=affinity), placement=placement))
    assert outcome == Outcome("none", reason or (placement.reason if placement else ""))


@pytest.mark.parametrize(
    ("injector", "affinity"),
    [
        pytest.param(
            NodeAffinity(),
            {"nodeAffinity": {PREFERRED: [preferred_node("a2", 60), USERS, preferred_node("a1", 100)]}},
            id="all nodes are preferred already",
        ),
        pytest.param(
            PINNED,
            {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": [has_name("a1")]}]}}},
            id="the node is required already",
        ),
        pytest.param(
            PINNED,
            {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}, {"matchExpressions": []}, {"matchFields": None}]}}},
            id="empty terms match nothing: the pin would make them match",
        ),
        pytest.param(
            PINNED,
            {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}},
            id="no terms at all, which the API server refuses",
        ),
        pytest.param(PINNED, {"nodeAffinity": {REQUIRED: {}}}, id="a selector without terms"),
    ],
)
def test_left_alone_where_nothing_is_to_be_added(injector: NodeAffinity, affinity: dict[str, Any]) -> None:
    assert unchanged(injector, placed(affinity)) == Outcome("present")


POOL = Preferred(7, (Expression("pool", "In", ("spot",)), Expression("memory", "Gt", ("40000",))))
BY_NAME = Preferred(20, (Expression("metadata.name", "In", ("a7",), field=True),))
OF_POOL = {
    "weight": 7,
    "preference": {
        "matchExpressions": [
            {"key": "pool", "operator": "In", "values": ["spot"]},
            {"key": "memory", "operator": "Gt", "values": ["40000"]},
        ]
    },
}
UNSEEN = [
    pytest.param(
        {"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": "zone"}]}}},
        "required podAffinity",
        id="required pod affinity",
    ),
    pytest.param(
        {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": "zone"}]}}},
        "required podAntiAffinity",
        id="required pod anti-affinity",
    ),
    pytest.param(
        {"topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]},
        "DoNotSchedule spread",
        id="a hard spread",
    ),
    pytest.param(
        {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}, "volumes", id="a volume claim"
    ),
    pytest.param(
        {"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}]}, "volumes", id="an ephemeral volume"
    ),
    pytest.param({"volumes": [{"name": "v", "csi": {"driver": "d"}}]}, "volumes", id="a CSI volume"),
    pytest.param({"resourceClaims": [{"name": "c"}]}, "resource claims", id="claimed devices"),
    pytest.param({"containers": [container(ports=[{"hostPort": 80}])]}, "host ports", id="a host port"),
    pytest.param(
        {"initContainers": [container(ports=[{"containerPort": 1}, {"hostPort": 80}])]},
        "host ports",
        id="a host port of a sidecar",
    ),
]
SEEN = [
    pytest.param(
        {"affinity": {"podAffinity": {PREFERRED: []}, "podAntiAffinity": None}}, id="only preferences for pods"
    ),
    pytest.param({"affinity": {"podAntiAffinity": {REQUIRED: []}}}, id="an empty list"),
    pytest.param(
        {"topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}]},
        id="a soft spread",
    ),
    pytest.param(
        {
            "volumes": [
                {"name": "a", "emptyDir": {}},
                {"name": "b", "hostPath": {"path": "/"}},
                {"name": "c", "nfs": {}},
            ]
        },
        id="volumes that every node has",
    ),
    pytest.param({"containers": [container(ports=[{"containerPort": 80}])]}, id="a container port"),
    pytest.param({"containers": [container(ports=None)], "volumes": None, "resourceClaims": None}, id="nulls"),
]


@pytest.mark.parametrize("spec", SEEN)
def test_this_does_not_keep_a_pod_from_being_pinned(spec: dict[str, Any]) -> None:
    after, outcome = applied(PINNED, case(pod() | {"spec": pod()["spec"] | spec}, placement=ranked("a1", "a2")), OWN)
    assert after["spec"]["affinity"]["nodeAffinity"][REQUIRED] == {
        "nodeSelectorTerms": [{"matchFields": [has_name("a1")]}]
    }
    assert outcome == Outcome("required", "a1")


def test_the_choice_of_an_earlier_call_has_no_weights_and_adds_nothing() -> None:
    known = case(pod(), placement=ranked("a1", "a2", weights=()))
    assert unchanged(NodeAffinity(), known) == Outcome("present")


# --- what must --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("affinity", "want"),
    [
        pytest.param(
            ..., {"nodeAffinity": {PREFERRED: [preferred_node("a1", 100), preferred_node("a2", 60)]}}, id="no affinity"
        ),
        pytest.param(
            None, {"nodeAffinity": {PREFERRED: [preferred_node("a1", 100), preferred_node("a2", 60)]}}, id="null"
        ),
        pytest.param(
            {}, {"nodeAffinity": {PREFERRED: [preferred_node("a1", 100), preferred_node("a2", 60)]}}, id="an empty one"
        ),
        pytest.param(
            {"podAffinity": {"x": 1}, "nodeAffinity": None},
            {
                "podAffinity": {"x": 1},
                "nodeAffinity": {PREFERRED: [preferred_node("a1", 100), preferred_node("a2", 60)]},
            },
            id="another kind of affinity stays",
        ),
        pytest.param(
            {"nodeAffinity": {PREFERRED: [USERS], "somethingNew": True}},
            {
                "nodeAffinity": {
                    PREFERRED: [USERS, preferred_node("a1", 100), preferred_node("a2", 60)],
                    "somethingNew": True,
                }
            },
            id="the user's preferences come first",
        ),
        pytest.param(
            {"nodeAffinity": {PREFERRED: [preferred_node("a1", 3)]}},
            {
                "nodeAffinity": {
                    PREFERRED: [preferred_node("a1", 3), preferred_node("a1", 100), preferred_node("a2", 60)]
                }
            },
            id="a node with a small weight of the user gets our weight too: otherwise it would come after the others",
        ),
        pytest.param(
            {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [IN_ZONE]}]}}},
            {
                "nodeAffinity": {
                    REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [IN_ZONE]}]},
                    PREFERRED: [preferred_node("a1", 100), preferred_node("a2", 60)],
                }
            },
            id="what is required stays",
        ),
    ],
)
def test_preferred(affinity: Any, want: dict[str, Any]) -> None:
    after, outcome = applied(NodeAffinity(), placed(affinity), OWN)
    assert after["spec"]["affinity"] == want
    assert outcome.result == "preferred"


@pytest.mark.parametrize(
    ("affinity", "terms"),
    [
        pytest.param(..., [{"matchFields": [has_name("a1")]}], id="no affinity"),
        pytest.param({"nodeAffinity": {REQUIRED: None}}, [{"matchFields": [has_name("a1")]}], id="null"),
        pytest.param(
            {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [IN_ZONE]}]}}},
            [{"matchExpressions": [IN_ZONE], "matchFields": [has_name("a1")]}],
            id="added to a term, not beside it",
        ),
        pytest.param(
            {
                "nodeAffinity": {
                    REQUIRED: {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [IN_ZONE], "matchFields": None},
                            {},
                            {"matchFields": [has_name("b")]},
                        ]
                    }
                }
            },
            [
                {"matchExpressions": [IN_ZONE], "matchFields": [has_name("a1")]},
                {},
                {"matchFields": [has_name("b"), has_name("a1")]},
            ],
            id="added to every term that matches something",
        ),
    ],
)
def test_required(affinity: Any, terms: list[Any]) -> None:
    after, outcome = applied(PINNED, placed(affinity), OWN)
    assert after["spec"]["affinity"]["nodeAffinity"][REQUIRED] == {"nodeSelectorTerms": terms}
    assert outcome == Outcome("required", "a1")


@pytest.mark.parametrize(("spec", "why"), UNSEEN)
def test_a_pod_for_which_the_scheduler_filters_by_more_than_we_check_is_not_pinned(
    spec: dict[str, Any], why: str
) -> None:
    after, outcome = applied(PINNED, case(pod() | {"spec": pod()["spec"] | spec}, placement=ranked("a1", "a2")), OWN)
    assert after["spec"]["affinity"]["nodeAffinity"] == {
        PREFERRED: [preferred_node("a1", 100), preferred_node("a2", 60)]
    }
    assert outcome == Outcome("notPinned", [why, 2])


def test_preferences_of_the_policy_come_after_the_ranked_nodes() -> None:
    found = ranked("a1", "a2")._replace(preferred=(POOL,), warning="no such node")
    after, outcome = applied(NodeAffinity(), case(pod(), placement=found), OWN)
    assert after["spec"]["affinity"]["nodeAffinity"] == {
        PREFERRED: [preferred_node("a1", 100), preferred_node("a2", 60), OF_POOL]
    }
    assert outcome == Outcome("preferred", 3, "no such node")


def test_a_pinned_pod_gets_no_preferences() -> None:
    found = ranked("a1", "a2")._replace(preferred=(POOL,), warning="no such node")
    after, outcome = applied(PINNED, case(pod(), placement=found), OWN)
    assert list(after["spec"]["affinity"]["nodeAffinity"]) == [REQUIRED]
    assert outcome == Outcome("required", "a1", "no such node")


@pytest.mark.parametrize("injector", [NodeAffinity(), PINNED], ids=["preferred", "required"])
def test_preferences_are_added_if_no_node_was_chosen(injector: NodeAffinity) -> None:
    found = Placement((), "pack", "cluster state is stale", preferred=(POOL, BY_NAME))
    after, outcome = applied(injector, case(pod(), placement=found), OWN)
    assert after["spec"]["affinity"]["nodeAffinity"] == {PREFERRED: [OF_POOL, preferred_node("a7", 20)]}
    assert outcome == Outcome("preferredPools", ["cluster state is stale", 2])
