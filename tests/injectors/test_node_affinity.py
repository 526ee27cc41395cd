"""Node affinity to the ranked nodes, preferred and required."""

from dataclasses import replace
from typing import Any

import pytest

from tests import builders
from tests.builders import Case, ClusterFacts, container, preferred_node
from tests.controlplane.objects import pod, required
from tests.injectors.applied import applied, unchanged
from webhook.framework.cluster_view import Expression, Placement, Preferred, Ranked
from webhook.framework.interface import Outcome
from webhook.framework.node_terms import NEUTRAL, has_name
from webhook.injectors.node_affinity import NodeAffinity
from webhook.kube.json_patch import Edit
from webhook.kube.pod import HOSTNAME, PREFERRED, REQUIRED, Pod

OWN = (
    r"/spec/affinity|/spec/affinity/nodeAffinity"
    r"|/spec/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution(/-)?"
    r"|/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution"
    r"(/nodeSelectorTerms/\d+/matchFields(/-)?)?"
    r"|/spec/topologySpreadConstraints"
)
PINNED = NodeAffinity(mode="required")
IN_ZONE = {"key": "zone", "operator": "In", "values": ["z1"]}
USERS = {"weight": 100, "preference": {"matchExpressions": [IN_ZONE]}}
OURS = [preferred_node("a1", 100), preferred_node("a2", 60)]
PIN: dict[str, Any] = {"matchFields": [has_name("a1")]}


NODES = ("a1", "a2", "a7")
LABELLED = ClusterFacts(offers={name: {} for name in NODES}, labels={name: {HOSTNAME: name} for name in NODES})
OTHERWISE = ClusterFacts(
    offers={name: {} for name in NODES}, labels={name: {HOSTNAME: f"{name}.example"} for name in NODES}
)


def case(of: Pod, cluster: ClusterFacts = LABELLED, **more: Any) -> Case:
    return builders.case(of, cluster=cluster, **more)


def ranked(*names: str, weights: tuple[int, ...] = (100, 60, 36), **more: Any) -> Placement:
    nodes = tuple(Ranked(name, 8, 0, 1.0) for name in names or ("a1", "a2"))
    return Placement(nodes, "pack", weights=weights, total=9)._replace(**more)


def placed(affinity: Any = ..., **spec: Any) -> Case:
    return case(pod(**({} if affinity is ... else {"affinity": affinity}), **spec), placement=ranked())


def requiring(*terms: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}, **more}}


def preferring(*terms: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"nodeAffinity": {PREFERRED: list(terms), **more}}


# --- what must not change ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["preferred", "required"])
@pytest.mark.parametrize(
    ("placement", "reason"),
    [
        (None, "no placement"),
        (Placement((), "off", "the policy leaves it to the scheduler"), "the policy leaves it to the scheduler"),
        (Placement((), "pack", "no node fits", total=3, rejected=(("cordoned", 3),)), "no node fits"),
    ],
    ids=["nothing was placed", "strategy off", "no node fits"],
)
def test_left_alone_where_no_node_was_chosen(mode: Any, placement: Placement | None, reason: str) -> None:
    there = pod(affinity=requiring({"matchFields": [has_name("x")]}))
    outcome = unchanged(NodeAffinity(mode=mode), case(there, placement=placement))
    assert outcome == Outcome("none", reason)


@pytest.mark.parametrize(
    ("injector", "affinity"),
    [
        pytest.param(NodeAffinity(), preferring(OURS[1], USERS, OURS[0]), id="all nodes are preferred already"),
        pytest.param(PINNED, requiring(PIN), id="the node is required already"),
        pytest.param(
            PINNED,
            requiring({}, {"matchExpressions": []}, {"matchFields": None}),
            id="empty terms match nothing: the pin would make them match",
        ),
        pytest.param(PINNED, requiring(), id="no terms at all, which the API server refuses"),
        pytest.param(PINNED, {"nodeAffinity": {REQUIRED: {}}}, id="a selector without terms"),
    ],
)
def test_left_alone_where_nothing_is_to_be_added(injector: NodeAffinity, affinity: dict[str, Any]) -> None:
    assert unchanged(injector, placed(affinity)) == Outcome("present")


def test_the_choice_of_an_earlier_call_has_no_weights_and_adds_nothing() -> None:
    assert unchanged(NodeAffinity(), case(pod(), placement=ranked(weights=()))) == Outcome("present")


CONSTRAINED = pod(owned_by="ReplicaSet", topologySpreadConstraints=[{"topologyKey": "rack"}])


@pytest.mark.parametrize(
    ("there", "injector", "found"),
    [
        pytest.param(
            pod(owned_by="Job"), NodeAffinity(), ranked(), id="a Job's pod: the scheduler spreads none of these"
        ),
        pytest.param(pod(), NodeAffinity(), ranked(), id="a bare pod"),
        pytest.param(CONSTRAINED, NodeAffinity(), ranked(), id="it has a constraint of its own"),
        pytest.param(pod(owned_by="ReplicaSet"), PINNED, ranked(), id="its node is required"),
        pytest.param(
            pod(owned_by="ReplicaSet"), NodeAffinity(), Placement((), "pack", "no node fits"), id="no node was chosen"
        ),
    ],
)
def test_no_constraint_is_added_where_the_scheduler_spreads_nothing(
    there: Pod, injector: NodeAffinity, found: Placement
) -> None:
    after, _ = applied(injector, case(there, placement=found), OWN)
    assert after["spec"].get("topologySpreadConstraints") == there["spec"].get("topologySpreadConstraints")


# --- what must --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("affinity", "want"),
    [
        pytest.param(..., preferring(*OURS), id="no affinity"),
        pytest.param(None, preferring(*OURS), id="null"),
        pytest.param({}, preferring(*OURS), id="an empty one"),
        pytest.param(
            {"podAffinity": {"x": 1}, "nodeAffinity": None},
            {"podAffinity": {"x": 1}, **preferring(*OURS)},
            id="another kind of affinity stays",
        ),
        pytest.param(
            preferring(USERS, new=True), preferring(USERS, *OURS, new=True), id="the user's preferences come first"
        ),
        pytest.param(
            preferring(preferred_node("a1", 3)),
            preferring(preferred_node("a1", 3), *OURS),
            id="a node with a small weight of the user gets our weight too: otherwise it would come after the others",
        ),
        pytest.param(
            requiring({"matchExpressions": [IN_ZONE]}),
            requiring({"matchExpressions": [IN_ZONE]}, **{PREFERRED: OURS}),
            id="what is required stays",
        ),
    ],
)
def test_preferred(affinity: Any, want: dict[str, Any]) -> None:
    after, outcome = applied(NodeAffinity(), placed(affinity), OWN)
    assert after["spec"]["affinity"] == want
    assert outcome == Outcome("preferred", 2)


def test_a_node_whose_hostname_label_is_not_its_name_is_preferred_by_its_name() -> None:
    """Karpenter would give up the terms by label first, so as to read the author's. These it does not read."""
    after, _ = applied(NodeAffinity(), case(pod(), OTHERWISE, placement=ranked()), OWN)
    terms = [{"weight": w, "preference": {"matchFields": [has_name(name)]}} for name, w in (("a1", 100), ("a2", 60))]
    assert after["spec"]["affinity"] == preferring(*terms)


@pytest.mark.parametrize(
    "there",
    [pod(owned_by=kind) for kind in ("ReplicaSet", "StatefulSet", "ReplicationController")]
    + [pod(owned_by="Job", subdomain="ranks")],
)
def test_the_default_spread_of_the_scheduler_is_switched_off_for_a_packed_pod(there: Pod) -> None:
    after, _ = applied(NodeAffinity(), case(there, placement=ranked()), OWN)
    assert after["spec"]["topologySpreadConstraints"] == [NEUTRAL]
    apart, _ = applied(NodeAffinity(), case(there, placement=ranked(), spreads=True), OWN)
    assert "topologySpreadConstraints" not in apart["spec"]


def test_the_node_is_required_where_the_scheduler_weighs_no_preference() -> None:
    changed, outcome = applied(NodeAffinity(), case(pod(), placement=ranked(required=True)), OWN)
    assert outcome == Outcome("required", "a1")
    assert changed["spec"]["affinity"] == requiring(PIN)


@pytest.mark.parametrize("injector", [NodeAffinity(), PINNED], ids=["preferred", "required"])
def test_on_nodes_that_no_pod_may_name_it_names_none(injector: NodeAffinity) -> None:
    """GKE Autopilot refuses a pod with node affinity by hostname."""
    of = case(pod(owned_by="ReplicaSet"), placement=ranked("gk3-pool-1", "gk3-pool-2"))
    edit = Edit(of.pod)
    outcome = injector.inject(edit, of.context)
    assert (outcome.result, outcome.detail) == ("none", "GKE Autopilot refuses pods that name a node")
    assert outcome.placement is not None
    assert not outcome.placement.nodes
    assert not edit


@pytest.mark.parametrize(
    ("injector", "own", "how", "least"),
    [
        pytest.param(NodeAffinity(), {}, ["preferred", 2], "1.5", id="preferred"),
        pytest.param(PINNED, {}, ["notPinned", ["Karpenter makes nodes", 2]], "1.5", id="not pinned"),
        pytest.param(
            NodeAffinity(), required(HOSTNAME, "In", "a1"), ["preferred", 2], "none", id="pinned by its author"
        ),
    ],
)
def test_where_karpenter_runs_a_pod_is_not_pinned_and_the_record_says_which_version_makes_a_node(
    injector: NodeAffinity, own: dict[str, Any], how: list[Any], least: str
) -> None:
    for pools, said in ((("gpu",), least), ((), "")):
        of = case(pod(affinity=own), replace(LABELLED, node_pools=pools), placement=ranked())
        outcome = injector.inject(Edit(of.pod), of.context)
        assert outcome.placement is not None
        assert outcome.placement.karpenter == said
        assert not pools or [outcome.result, outcome.detail] == how


@pytest.mark.parametrize(
    ("affinity", "terms"),
    [
        pytest.param(..., [PIN], id="no affinity"),
        pytest.param({"nodeAffinity": {REQUIRED: None}}, [PIN], id="null"),
        pytest.param(
            requiring({"matchExpressions": [IN_ZONE], "matchFields": None}, {}, {"matchFields": [has_name("b")]}),
            [{"matchExpressions": [IN_ZONE], **PIN}, {}, {"matchFields": [has_name("b"), has_name("a1")]}],
            id="added to every term that matches something, not beside it",
        ),
    ],
)
def test_required(affinity: Any, terms: list[Any]) -> None:
    after, outcome = applied(PINNED, placed(affinity), OWN)
    assert after["spec"]["affinity"]["nodeAffinity"][REQUIRED] == {"nodeSelectorTerms": terms}
    assert outcome == Outcome("required", "a1")


SPREAD = {"topologyKey": "zone", "maxSkew": 1}
UNSEEN: dict[str, list[dict[str, Any]]] = {
    "required podAffinity": [{"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": "zone"}]}}}],
    "required podAntiAffinity": [{"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": "zone"}]}}}],
    "DoNotSchedule spread": [{"topologySpreadConstraints": [SPREAD | {"whenUnsatisfiable": "DoNotSchedule"}]}],
    "volumes": [
        {"volumes": [{"name": "v", kind: {}}]} for kind in ("persistentVolumeClaim", "ephemeral", "csi", "iscsi")
    ],
    "resource claims": [{"resourceClaims": [{"name": "c"}]}],
    "host ports": [
        {"containers": [container(ports=[{"hostPort": 80}])]},
        {"initContainers": [container(ports=[{"containerPort": 1}, {"hostPort": 80}])]},
    ],
}
SEEN = [
    pytest.param(
        {"affinity": {"podAffinity": {PREFERRED: []}, "podAntiAffinity": None}}, id="only preferences for pods"
    ),
    pytest.param({"affinity": {"podAntiAffinity": {REQUIRED: []}}}, id="an empty list"),
    pytest.param({"topologySpreadConstraints": [SPREAD | {"whenUnsatisfiable": "ScheduleAnyway"}]}, id="a soft spread"),
    pytest.param(
        {"volumes": [{"name": kind, kind: {}} for kind in ("emptyDir", "hostPath", "nfs")]},
        id="volumes that every node has",
    ),
    pytest.param({"containers": [container(ports=[{"containerPort": 80}])]}, id="a container port"),
    pytest.param({"containers": [container(ports=None)], "volumes": None, "resourceClaims": None}, id="nulls"),
]


@pytest.mark.parametrize("spec", SEEN)
def test_this_does_not_keep_a_pod_from_being_pinned(spec: dict[str, Any]) -> None:
    after, outcome = applied(PINNED, case(pod() | {"spec": pod()["spec"] | spec}, placement=ranked()), OWN)
    assert after["spec"]["affinity"]["nodeAffinity"][REQUIRED] == {"nodeSelectorTerms": [PIN]}
    assert outcome == Outcome("required", "a1")


@pytest.mark.parametrize(("why", "spec"), [(why, spec) for why, specs in UNSEEN.items() for spec in specs])
def test_a_pod_for_which_the_scheduler_filters_by_more_than_we_check_is_not_pinned(
    why: str, spec: dict[str, Any]
) -> None:
    after, outcome = applied(PINNED, case(pod() | {"spec": pod()["spec"] | spec}, placement=ranked()), OWN)
    assert after["spec"]["affinity"]["nodeAffinity"] == {PREFERRED: OURS}
    assert outcome == Outcome("notPinned", [why, 2])


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
STALE = Placement((), "pack", "cluster state is stale", preferred=(POOL, BY_NAME))
WARNED = ranked(preferred=(POOL,), warning="no such node")


@pytest.mark.parametrize(
    ("injector", "found", "want", "outcome"),
    [
        pytest.param(
            NodeAffinity(),
            WARNED,
            preferring(*OURS, OF_POOL),
            ("preferred", 3, "no such node"),
            id="after ranked nodes",
        ),
        pytest.param(PINNED, WARNED, requiring(PIN), ("required", "a1", "no such node"), id="none beside a pin"),
        *[
            pytest.param(
                injector,
                STALE,
                preferring(OF_POOL, preferred_node("a7", 20)),
                ("preferredPools", ["cluster state is stale", 2], None),
                id=f"without a chosen node, {injector.mode}",
            )
            for injector in (NodeAffinity(), PINNED)
        ],
    ],
)
def test_preferences_of_the_policy(
    injector: NodeAffinity, found: Placement, want: dict[str, Any], outcome: tuple[Any, ...]
) -> None:
    after, said = applied(injector, case(pod(), placement=found), OWN)
    assert after["spec"]["affinity"] == want
    assert said == Outcome(*outcome)
