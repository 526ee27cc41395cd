"""Topology spread of replicas that are kept apart."""

from dataclasses import replace
from typing import Any

import pytest

from tests.builders import GPU, UNKNOWN, Case, ClusterFacts, case, container
from tests.controlplane.objects import pod
from tests.injectors.applied import applied, unchanged
from tests.tables import table
from webhook.framework.interface import Outcome
from webhook.injectors.topology_spread import HOST, ZONE, Constraint, TopologySpread
from webhook.kube.pod import PREFERRED as SOFT

OWN = (
    r"/spec/topologySpreadConstraints(/-)?|/spec/affinity|/spec/affinity/podAntiAffinity"
    r"|/spec/affinity/podAntiAffinity/preferredDuringSchedulingIgnoredDuringExecution(/-)?"
)
LABELS = {"app": "web", "pod-template-hash": "5f6d"}


def zones(*names: str) -> ClusterFacts:
    offers = {f"n{i}": {GPU: 8} for i in range(len(names))}
    return ClusterFacts(offers=offers, labels={f"n{i}": {ZONE: zone, HOST: f"n{i}"} for i, zone in enumerate(names)})


TWO_ZONES, ONE_ZONE = zones("z1", "z1", "z2"), zones("z1", "z1")
KARPENTER = ClusterFacts(offers={"n": {GPU: 8}}, labels={"n": {"karpenter.sh/nodepool": "gpu"}})

FROM_ZERO = ClusterFacts(node_pools=("gpu",))


def replica(
    labels: dict[str, str] = LABELS,
    cluster: ClusterFacts = ONE_ZONE,
    owner: str = "ReplicaSet",
    keeps_apart: bool = True,
    **spec: Any,
) -> Case:
    return case(pod(labels={"app": None, **labels}, owned_by=owner, **spec), cluster=cluster, keeps_apart=keeps_apart)


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


@table(
    ("known", "injector", "outcome"),
    {
        "a pod on its own": (replica(owner=""), SPREAD, "noOwner"),
        "no labels: a constraint would match nothing": (replica({}), SPREAD, "noLabels"),
        "no label of its ReplicaSet": (replica({"app": "web"}), SPREAD, "noLabels"),
        "a controller whose pods no label tells": (replica(owner="SparkApplication"), SPREAD, "noLabels"),
        "a gang": (replica(owner="RayCluster"), SPREAD, "gang"),
        "the pods of a LeaderWorkerSet": (
            replica(LABELS | {"leaderworkerset.sigs.k8s.io/group-key": "k"}, owner="StatefulSet"),
            SPREAD,
            "gang",
        ),
        "Karpenter would require it": (replica(cluster=KARPENTER), SPREAD, "autoscaler"),
        "Karpenter has made no node yet": (replica(cluster=FROM_ZERO), SPREAD, "autoscaler"),
        "Karpenter would require anti-affinity too": (replica(cluster=FROM_ZERO), ANTI, "autoscaler"),
        "a pod of a DaemonSet": (replica(owner="DaemonSet"), SPREAD, "nodeIsFixed"),
        "a static pod": (replica(owner="Node"), SPREAD, "nodeIsFixed"),
        "a pod on its node": (replica(nodeName="n1"), SPREAD, "nodeIsFixed"),
        "a pod of a group": (replica(schedulingGroup={"podGroupName": "g"}), SPREAD, "podGroup"),
        "the pod spreads over that key": (
            replica(topologySpreadConstraints=[constraint(HOST, whenUnsatisfiable="DoNotSchedule")]),
            SPREAD,
            "present",
        ),
        "packed": (replica(keeps_apart=False), SPREAD, "packed"),
        "packed, and the pod has a constraint of its own": (
            replica(topologySpreadConstraints=[constraint("rack")], keeps_apart=False),
            SPREAD,
            "packed",
        ),
        "parts of GPUs": (replica(containers=[container(gpu=None)]), SPREAD, "parts"),
        "the pod has an anti-affinity to its replicas": (replica(affinity=avoiding(HOST)), ANTI, "present"),
        "zones that are not known": (replica(cluster=UNKNOWN), OVER_ZONES, "present"),
        "a single zone": (replica(), OVER_ZONES, "present"),
        "a hard spread over hosts that are not known": (
            replica(cluster=UNKNOWN),
            TopologySpread(constraints=(HARD_HOST,)),
            "present",
        ),
    },
)
def test_left_alone(known: Case, injector: TopologySpread, outcome: str) -> None:
    assert unchanged(injector, known) == Outcome(outcome)


@table(
    ("known", "want"),
    {
        "over hosts": (replica(), [constraint(HOST)]),
        "over hosts, without any state": (replica(cluster=UNKNOWN), [constraint(HOST)]),
        "over hosts and zones": (replica(cluster=TWO_ZONES), [constraint(HOST), constraint(ZONE)]),
        "over what the pod does not yet spread over": (
            replica(cluster=TWO_ZONES, topologySpreadConstraints=[constraint(HOST, 5)]),
            [constraint(HOST, 5), constraint(ZONE)],
        ),
        "a list of null": (replica(topologySpreadConstraints=None), [constraint(HOST)]),
        "claimed devices": (
            replica(containers=[container(gpu=None)], resourceClaims=[{"name": "gpu"}]),
            [constraint(HOST)],
        ),
        "of a StatefulSet": (
            replica({"app": "db", "controller-revision-hash": "db-7"}, owner="StatefulSet"),
            [constraint(HOST, labelSelector={"matchLabels": {"controller-revision-hash": "db-7"}})],
        ),
        "of a Rollout": (
            replica({"app": "web", "rollouts-pod-template-hash": "b"}),
            [constraint(HOST, labelSelector={"matchLabels": {"rollouts-pod-template-hash": "b"}})],
        ),
    },
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
