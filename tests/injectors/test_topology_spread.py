"""Topology spread of replicas that are kept apart."""

from dataclasses import replace
from typing import Any

import pytest

from tests.builders import GPU, UNKNOWN, Case, ClusterFacts, Obstructed, case, container
from tests.controlplane.objects import pod
from tests.injectors.applied import applied, unchanged
from webhook.framework.interface import Outcome
from webhook.injectors.topology_spread import HOST, ZONE, Constraint, TopologySpread
from webhook.kube.pod import PREFERRED as SOFT
from webhook.kube.taints import Taint

OWN = (
    r"/spec/topologySpreadConstraints(/-)?|/spec/affinity|/spec/affinity/podAntiAffinity"
    r"|/spec/affinity/podAntiAffinity/preferredDuringSchedulingIgnoredDuringExecution(/-)?"
)
LABELS = {"app": "web", "pod-template-hash": "5f6d"}


def zones(*names: str) -> ClusterFacts:
    offers = {f"n{i}": {GPU: 8} for i in range(len(names))}
    labels = {f"n{i}": {ZONE: zone or None, HOST: f"n{i}"} for i, zone in enumerate(names)}
    return ClusterFacts(offers=offers, labels=labels)


TWO_ZONES, ONE_ZONE = zones("z1", "z1", "z2"), zones("z1", "z1")
KARPENTER = ClusterFacts(offers={"n": {GPU: 8}}, labels={"n": {"karpenter.sh/nodepool": "gpu"}})

FROM_ZERO = ClusterFacts(node_pools=("gpu",))


STARTING = Taint("node.cloudprovider.kubernetes.io/uninitialized", "true", "NoSchedule")


def able(*zones: str) -> Obstructed:
    """Nodes of these zones could take the pod."""
    return Obstructed(labels=[{ZONE: zone} for zone in zones])


def replica(
    labels: dict[str, str] = LABELS,
    cluster: ClusterFacts = ONE_ZONE,
    owner: str = "ReplicaSet",
    spreads: bool = True,
    nodes: Obstructed | None = None,
    **spec: Any,
) -> Case:
    made = pod(labels={"app": None, **labels}, owned_by=owner, **spec)
    return case(made, cluster=cluster, spreads=spreads, nodes=nodes)


def constraint(key: str, skew: int = 0, **tweaks: Any) -> dict[str, Any]:
    """As the scheduler's own default for this key, unless `skew` is given."""
    return {
        "maxSkew": skew or {HOST: 3, ZONE: 5}.get(key, 1),
        "topologyKey": key,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"pod-template-hash": "5f6d"}},
    } | tweaks


def avoiding(key: str) -> dict[str, Any]:
    return {"podAntiAffinity": {SOFT: [{"weight": 1, "podAffinityTerm": {"topologyKey": key}}]}}


SPREAD, ANTI = TopologySpread(), TopologySpread(mode="antiAffinity")
OVER_ZONES = TopologySpread(constraints=(Constraint(key=ZONE),))
HARD_HOST = Constraint(key=HOST, when_unsatisfiable="DoNotSchedule")


@pytest.mark.parametrize(
    ("known", "injector", "outcome"),
    [
        pytest.param(replica(owner=""), SPREAD, "noOwner", id="a pod on its own"),
        pytest.param(replica({}), SPREAD, "noLabels", id="no labels: a constraint would match nothing"),
        pytest.param(replica({"app": "web"}), SPREAD, "noLabels", id="no label of its ReplicaSet"),
        pytest.param(
            replica(owner="SparkApplication"), SPREAD, "noLabels", id="a controller whose pods no label tells"
        ),
        pytest.param(replica(owner="RayCluster"), SPREAD, "gang", id="a gang"),
        pytest.param(
            replica(schedulerName="slurm-bridge"), SPREAD, "otherScheduler", id="a scheduler that may refuse it"
        ),
        pytest.param(
            replica(LABELS | {"leaderworkerset.sigs.k8s.io/name": "k"}, owner="StatefulSet"),
            SPREAD,
            "gang",
            id="the pods of a LeaderWorkerSet",
        ),
        pytest.param(replica(cluster=KARPENTER), SPREAD, "autoscaler", id="Karpenter would require it"),
        pytest.param(replica(cluster=FROM_ZERO), SPREAD, "autoscaler", id="Karpenter has made no node yet"),
        pytest.param(replica(cluster=FROM_ZERO), ANTI, "autoscaler", id="Karpenter would require anti-affinity too"),
        pytest.param(replica(owner="DaemonSet"), SPREAD, "nodeIsFixed", id="a pod of a DaemonSet"),
        pytest.param(replica(owner="Node"), SPREAD, "nodeIsFixed", id="a static pod"),
        pytest.param(replica(nodeName="n1"), SPREAD, "nodeIsFixed", id="a pod on its node"),
        pytest.param(replica(schedulingGroup={"podGroupName": "g"}), SPREAD, "podGroup", id="a pod of a group"),
        pytest.param(
            replica(topologySpreadConstraints=[constraint(HOST, whenUnsatisfiable="DoNotSchedule")]),
            SPREAD,
            "present",
            id="the pod spreads over that key",
        ),
        pytest.param(replica(spreads=False), SPREAD, "packed", id="packed"),
        pytest.param(
            replica(topologySpreadConstraints=[constraint("rack")], spreads=False),
            SPREAD,
            "packed",
            id="packed, and the pod has a constraint of its own",
        ),
        pytest.param(replica(containers=[container(gpu=None)]), SPREAD, "parts", id="parts of GPUs"),
        pytest.param(
            replica(affinity=avoiding(HOST)), ANTI, "present", id="the pod has an anti-affinity to its replicas"
        ),
        pytest.param(replica(cluster=UNKNOWN), OVER_ZONES, "present", id="zones that are not known"),
        pytest.param(replica(), OVER_ZONES, "present", id="a single zone"),
        pytest.param(
            replica(cluster=UNKNOWN),
            TopologySpread(constraints=(HARD_HOST,)),
            "present",
            id="a hard spread over hosts that are not known",
        ),
    ],
)
def test_left_alone(known: Case, injector: TopologySpread, outcome: str) -> None:
    assert unchanged(injector, known) == Outcome(outcome)


@pytest.mark.parametrize(
    ("known", "want"),
    [
        pytest.param(replica(), [constraint(HOST)], id="over hosts"),
        pytest.param(replica(cluster=UNKNOWN), [constraint(HOST)], id="over hosts, without any state"),
        pytest.param(replica(cluster=TWO_ZONES), [constraint(HOST), constraint(ZONE)], id="over hosts and zones"),
        pytest.param(
            replica(cluster=zones("z1", "z2", "")),
            [constraint(HOST)],
            id="a node without a zone, which would come last",
        ),
        pytest.param(
            replica(cluster=zones("z1", "z2", ""), nodes=able("z1", "z2")),
            [constraint(HOST), constraint(ZONE)],
            id="a node without a zone, which could not take the pod",
        ),
        pytest.param(
            replica(cluster=zones("z1", "z2", ""), nodes=able("z1", "z2", "")),
            [constraint(HOST)],
            id="a node without a zone, which could take the pod",
        ),
        pytest.param(
            replica(cluster=zones("z1", "z2", ""), nodes=able()),
            [constraint(HOST)],
            id="a node without a zone, and nobody can tell whether it could take the pod",
        ),
        pytest.param(
            replica(cluster=replace(zones("z1", "z2", ""), taints=(STARTING,))),
            [constraint(HOST), constraint(ZONE)],
            id="a node that has just come, and gets its zone from the cloud",
        ),
        pytest.param(
            replica(cluster=TWO_ZONES, topologySpreadConstraints=[constraint(HOST, 5)]),
            [constraint(HOST, 5), constraint(ZONE)],
            id="over what the pod does not yet spread over",
        ),
        pytest.param(replica(topologySpreadConstraints=None), [constraint(HOST)], id="a list of null"),
        pytest.param(
            replica(containers=[container(gpu=None)], resourceClaims=[{"name": "gpu"}]),
            [constraint(HOST)],
            id="claimed devices",
        ),
        pytest.param(
            replica({"app": "db", "controller-revision-hash": "db-7"}, owner="StatefulSet"),
            [constraint(HOST, labelSelector={"matchLabels": {"controller-revision-hash": "db-7"}})],
            id="of a StatefulSet",
        ),
        pytest.param(
            replica({"app": "web", "rollouts-pod-template-hash": "b"}),
            [constraint(HOST, labelSelector={"matchLabels": {"rollouts-pod-template-hash": "b"}})],
            id="of a Rollout",
        ),
    ],
)
def test_constraints(known: Case, want: list[dict[str, Any]]) -> None:
    after, outcome = applied(SPREAD, known, OWN)
    assert after["spec"]["topologySpreadConstraints"] == want
    assert outcome.result == "added"


def test_of_karpenter_only_what_is_required_anyway_is_left() -> None:
    injector = TopologySpread(constraints=(HARD_HOST, Constraint(key=ZONE)))
    two_hosts = replace(TWO_ZONES, node_pools=("gpu",))
    after, outcome = applied(injector, replica(cluster=two_hosts), OWN)
    assert outcome == Outcome("added", [HOST])
    hard = constraint(HOST, 1, whenUnsatisfiable="DoNotSchedule")
    assert after["spec"]["topologySpreadConstraints"] == [hard]


def test_a_hard_constraint() -> None:
    injector = TopologySpread(constraints=(Constraint(key=ZONE, max_skew=2, when_unsatisfiable="DoNotSchedule"),))
    after, _ = applied(injector, replica(cluster=TWO_ZONES), OWN)
    assert after["spec"]["topologySpreadConstraints"] == [constraint(ZONE, 2, whenUnsatisfiable="DoNotSchedule")]


@pytest.mark.parametrize(
    "affinity",
    [None, {"podAntiAffinity": {SOFT: None}}, avoiding(ZONE)],
    ids=["no affinity", "a list of null", "another key"],
)
def test_a_soft_anti_affinity_instead(affinity: dict[str, Any] | None) -> None:
    after, outcome = applied(ANTI, replica(affinity=affinity), OWN)
    assert after["spec"]["affinity"]["podAntiAffinity"][SOFT][-1] == {
        "weight": 100,
        "podAffinityTerm": {"topologyKey": HOST, "labelSelector": {"matchLabels": {"pod-template-hash": "5f6d"}}},
    }
    assert "topologySpreadConstraints" not in after["spec"]
    assert outcome == Outcome("antiAffinity")


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"max_skew": 0}, "greater than or equal to 1"),
        ({"max_skew": 2**31}, "less than or equal to"),
        ({"key": "a key"}, "String should match pattern"),
    ],
)
def test_a_setting_that_the_api_server_would_refuse_is_refused(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Constraint(**({"key": "zone"} | settings))


def test_one_key_twice_is_refused() -> None:
    why = r"kubernetes\.io/hostname stands here twice: keep one constraint for each key"
    with pytest.raises(ValueError, match=why):
        TopologySpread(constraints=(Constraint(key=HOST), HARD_HOST))


@pytest.mark.parametrize(
    "differs", ["spark-exec-id", "ray.io/worker-group-replica-index", "apps.kubernetes.io/pod-index"]
)
def test_pods_of_one_revision_have_one_constraint_whatever_else_their_labels_say(differs: str) -> None:
    written = [
        applied(SPREAD, replica({**LABELS, differs: number}), OWN)[0]["spec"]["topologySpreadConstraints"]
        for number in "12"
    ]
    assert written[0] == written[1] == [constraint(HOST)]
