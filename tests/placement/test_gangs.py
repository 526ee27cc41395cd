"""Pods that work together go to one domain while it has room; other pods are not affected."""

import itertools
import json
from typing import Any

import pytest

from tests.builders import GPUS
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from tests.state.objects import admitted, placer, state, stored
from webhook.kube.asked import AskedPod
from webhook.placement.gangs import gang_size
from webhook.placement.settings import Gangs, PlacementSettings
from webhook.state.state import ClusterState

CLIQUE, RACK, ZONE = "nvidia.com/gpu.clique", "topology.kubernetes.io/rack", "topology.kubernetes.io/zone"
DEFAULTS = PlacementSettings()


def racks(*gpus: int) -> ClusterState:
    """Racks r0, r1, … of two nodes each, with so many GPUs per node; two racks in a zone."""
    return state(
        node(f"{rack}{half}", amount, labels={RACK: f"r{rack}", ZONE: f"z{rack // 2}"})
        for rack, amount in enumerate(gpus)
        for half in "ab"
    )


def member(name: str, gpus: int = 8, *, kind: str = "Job", size: int | None = None, **made: Any) -> dict[str, Any]:
    found = stored(name, gpus, owner="gang", **made)
    found["metadata"]["ownerReferences"][0]["kind"] = kind
    if size is not None:
        found["metadata"]["annotations"] = {"leaderworkerset.sigs.k8s.io/size": str(size)}
    return found


def run(of: ClusterState, made: dict[str, Any], strategy: str = "pack", settings: PlacementSettings = DEFAULTS) -> str:
    """Admit a pod, and return its first node."""
    placement = placer(of).place(AskedPod(admitted(made), GPUS), of.view(0), settings, strategy)
    of.reserve(AskedPod(admitted(made), GPUS), placement, 0)
    return placement.nodes[0].node


def labelled(name: str, kind: str, key: str, value: str) -> dict[str, Any]:
    made = stored(name, 8, owner=f"own-{name}")
    made["metadata"]["ownerReferences"] = [
        {**each, "kind": kind} for each in made["metadata"]["ownerReferences"] if kind
    ]
    made["metadata"]["labels"] = {key: value, "leaderworkerset.sigs.k8s.io/name": "a mark in pods of a StatefulSet"}
    return made


# --- what must not change ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        pytest.param("ReplicaSet", DEFAULTS, id="pods of a ReplicaSet do not work together"),
        pytest.param("Job", PlacementSettings(gangs=Gangs(enabled=False)), id="gangs are off"),
        pytest.param(
            "Job", PlacementSettings(gangs=Gangs(kinds=("PyTorchJob",))), id="a kind that the policy leaves out"
        ),
        pytest.param("Job", PlacementSettings(gangs=Gangs(keys=("no/such",))), id="a label that no node has"),
    ],
)
def test_no_domain_is_preferred(kind: str, settings: PlacementSettings) -> None:
    of = racks(8, 8, 8)
    of.pod_seen(member("first", kind=kind, on="2a"), 0)
    assert run(of, member("p", kind=kind), settings=settings) == "0a"


def test_a_domain_has_no_room_on_nodes_that_are_closed_to_the_gang() -> None:
    taint = {"key": "team", "value": "other", "effect": "NoSchedule"}
    of = racks(8, 8)
    of.node_seen(node("0b", 8, labels={RACK: "r0", ZONE: "z0"}, taints=[taint]))
    assert run(of, member("p", size=2)) == "1a"


def test_the_pods_own_preference_comes_before_the_domain() -> None:
    of = racks(8, 8, 8)
    of.pod_seen(member("first", on="2a"), 0)
    term = {"matchExpressions": [{"key": RACK, "operator": "In", "values": ["r1"]}]}
    wish = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}]}}
    assert run(of, member("p", affinity=wish)) == "1a"


# --- what must change -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["pack", "spread"])
def test_a_gang_stays_in_the_rack_of_its_first_pod_then_in_the_zone(strategy: str) -> None:
    of = racks(8, 8, 8, 8)
    of.pod_seen(member("first", on="2a"), 0)
    assert [run(of, member(f"p{i}"), strategy) for i in range(5)] == ["2b", "3a", "3b", "0a", "0b"]


def test_the_rack_where_most_of_the_gang_is_counts() -> None:
    of = racks(16, 16, 16)
    for name, on in (("x", "0a"), ("y", "2a"), ("z", "2b")):
        of.pod_seen(member(name, on=on), 0)
    assert run(of, member("p"))[0] == "2"


def test_the_closest_label_counts_first() -> None:
    of = racks(8, 8, 8)
    for name in ("1b", "2b"):
        row = of.nodes.row_of[name]
        of.node_seen(node(name, labels={**of.nodes.labels.get(row), CLIQUE: "c"}))
    of.pod_seen(member("first", on="1b"), 0)
    assert run(of, member("p")) == "2b"


@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [
        pytest.param("Job", "jobset.sigs.k8s.io/jobset-uid", "u-1", id="the Jobs of one JobSet"),
        pytest.param(
            "StatefulSet", "leaderworkerset.sigs.k8s.io/group-key", "abc", id="leader and workers of one group"
        ),
        pytest.param("", "elasticjob.dlrover/name", "train", id="pods without a controller"),
    ],
)
def test_a_gang_over_several_controllers_or_none_is_known_by_its_label(kind: str, key: str, value: str) -> None:
    of = racks(8, 8, 8)
    first = labelled("first", kind, key, value)
    first["spec"]["nodeName"] = "2a"
    of.pod_seen(first, 0)
    assert run(of, labelled("p", kind, key, value)) == "2b"
    assert run(of, labelled("q", kind, key, "other")) == "0a"


@pytest.mark.parametrize(
    ("labels", "on"), [pytest.param({}, "2b", id="trains"), pytest.param({"ray.io/serve": "true"}, "0a", id="serves")]
)
def test_the_pods_of_a_ray_cluster_are_a_gang_unless_they_serve(labels: dict[str, str], on: str) -> None:
    of = racks(8, 8, 8)
    of.pod_seen(member("first", kind="RayCluster", on="2a"), 0)
    made = member("p", kind="RayCluster")
    made["metadata"]["labels"] = labels
    assert run(of, made) == on


def test_a_gang_of_known_size_begins_in_the_smallest_rack_that_holds_it() -> None:
    of = racks(4, 16, 8)
    assert [run(of, member(f"p{i}", 8, size=2)) for i in range(2)] == ["2a", "2b"]


def test_a_gang_with_anti_affinity_starts_in_a_domain_with_enough_hosts() -> None:
    of = state([node("a", labels={RACK: "r1"}), *[node(name, labels={RACK: "r2"}) for name in "bcd"]])
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    assert [run(of, member(f"p{i}", 1, size=3, affinity=affinity)) for i in range(3)] == ["b", "c", "d"]


@pytest.mark.parametrize(
    ("size", "on"), [pytest.param(3, "3a", id="of known size"), pytest.param(None, "2b", id="of unknown size")]
)
def test_without_room_for_the_rest_of_the_gang_in_the_rack_the_zone_counts(size: int | None, on: str) -> None:
    of = racks(8, 8, 12, 8)
    of.pod_seen(member("first", on="2a", size=size), 0)
    assert run(of, member("p", size=size)) == on


def test_pods_of_the_gang_on_nodes_of_no_domain_do_not_hide_where_the_others_are() -> None:
    of = racks(8, 8, 16)
    of.node_seen(node("x", 64))
    for name, on, gpus in (("p", "x", 8), ("q", "x", 8), ("r", "2a", 16)):
        of.pod_seen(member(name, gpus, on=on), 0)
    assert run(of, member("s")) == "2b"


def test_a_gang_that_is_spread_goes_to_the_free_nodes_of_its_rack_first_and_names_none_twice() -> None:
    of = racks(16, 16)
    of.pod_seen(member("first", on="0a"), 0)
    placement = placer(of).place(AskedPod(member("p"), GPUS), of.view(0), DEFAULTS, "spread")
    assert [ranked.node for ranked in placement.nodes] == ["0b", "0a", "1a", "1b"]


@pytest.mark.parametrize(
    ("text", "size"),
    [
        pytest.param("4", 4, id="4"),
        pytest.param("", 1, id="empty"),
        pytest.param("-1", 1, id="minus"),
        pytest.param("four", 1, id="word"),
        pytest.param("9" * 50, 1, id="huge"),
    ],
)
def test_the_size_of_a_gang_is_what_the_pod_says_if_it_makes_sense(text: str, size: int) -> None:
    made = member("p")
    made["metadata"]["annotations"] = {"leaderworkerset.sigs.k8s.io/size": text}
    assert gang_size(AskedPod(made, GPUS), Gangs()) == size
    elastic = member("p")
    elastic["spec"]["containers"][0]["env"] = [{"name": "PET_NNODES", "value": text}]
    assert gang_size(AskedPod(elastic, GPUS), Gangs()) == size


def tensorflow(cluster: object) -> str:
    return json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 0}})


@pytest.mark.parametrize(
    ("kind", "variable", "text", "size"),
    [
        pytest.param("JAXJob", "NUM_PROCESSES", "3", 3, id="a JAXJob"),
        pytest.param("PaddleJob", "PADDLE_NNODES", "3", 3, id="a PaddleJob"),
        pytest.param("XGBoostJob", "WORLD_SIZE", "3", 3, id="an XGBoostJob"),
        pytest.param("PyTorchJob", "WORLD_SIZE", "24", 1, id="processes, of which a pod has several"),
        pytest.param("TFJob", "TF_CONFIG", tensorflow({"chief": ["c"], "worker": ["a", "b"]}), 3, id="a TFJob"),
        pytest.param(
            "TFJob",
            "TF_CONFIG",
            tensorflow({"ps": ["p"], "evaluator": ["e"], "worker": ["a", "b"]}),
            2,
            id="with servers",
        ),
        pytest.param("TFJob", "TF_CONFIG", tensorflow({"worker": {"1": "b"}}), 1, id="one whose workers come and go"),
        pytest.param("TFJob", "TF_CONFIG", tensorflow({"worker": ["a"] * 100_000}), 1, id="more than is read"),
        pytest.param("TFJob", "TF_CONFIG", "[1]", 1, id="a list"),
        pytest.param("TFJob", "TF_CONFIG", '{"cluster": 3}', 1, id="a number"),
        pytest.param("TFJob", "TF_CONFIG", "[" * 60_000, 1, id="deep"),
        pytest.param("TFJob", "TF_CONFIG", 3, 1, id="no text"),
    ],
)
def test_pods_of_kubeflow_say_how_many_they_are_by_a_variable(kind: str, variable: str, text: Any, size: int) -> None:
    made = pod("p", owned_by=kind)
    made["spec"]["containers"][0]["env"] = [{"name": variable, "value": text}]
    assert gang_size(AskedPod(made, GPUS), Gangs()) == size


# --- sizes from Jobs --------------------------------------------------------------------------------------------------


def of_size(of: ClusterState, pods: int) -> ClusterState:
    metadata = {"name": "gang", "namespace": "team-a", "uid": "gang"}
    of.replace("jobs", [{"metadata": metadata, "spec": {"parallelism": pods}}], 0)
    return of


def test_a_job_of_known_size_begins_in_the_domain_that_holds_all() -> None:
    of = state([node("a"), node("b", labels={RACK: "r1"}), *[node(name, labels={RACK: "r2"}) for name in "cd"]])
    of_size(of, 2)
    assert {run(of, member("one")), run(of, member("two"))} == {"c", "d"}


def test_the_size_in_the_pod_counts_before_the_size_of_its_job() -> None:
    assert run(of_size(racks(8, 4), 9), member("one", 4, size=2)) in ("1a", "1b")


def test_a_gang_that_requests_a_resource_of_no_node_gets_no_node() -> None:
    of = racks(8, 8)
    made = member("a", size=4)
    for part in made["spec"]["containers"][0]["resources"].values():
        part["vpc.amazonaws.com/efa"] = "1"
    placement = placer(of).place(AskedPod(made, GPUS), of.view(0), DEFAULTS, "pack")
    assert (placement.nodes, placement.reason) == ((), "no node fits")


# --- the GPU model ----------------------------------------------------------------------------------------------------


def models(**counts: tuple[int, int]) -> ClusterState:
    """Nodes by GPU model: how many, and the GPUs of each."""
    return state(
        node(f"{model}-{number}", gpus, labels={"nvidia.com/gpu.product": model})
        for model, (count, gpus) in counts.items()
        for number in range(count)
    )


@pytest.mark.parametrize("strategy", ["pack", "apart", "spread"])
def test_a_gang_of_known_size_goes_to_one_model_that_has_room_for_all(strategy: str) -> None:
    """Three of four had gone to the H100s, and one to an L4."""
    of = of_size(models(h100=(3, 8), l4=(4, 8)), 4)
    assert {run(of, member(f"p{i}"), strategy)[:2] for i in range(4)} == {"l4"}


def test_a_gang_that_no_model_holds_uses_several() -> None:
    of = of_size(models(h100=(2, 8), l4=(2, 8)), 4)
    assert sorted(run(of, member(f"p{i}")) for i in range(4)) == ["h100-0", "h100-1", "l4-0", "l4-1"]


def test_a_gang_of_unknown_size_follows_the_model_of_its_first_pod() -> None:
    of = models(h100=(2, 8), l4=(3, 8))
    of.pod_seen(member("first", on="l4-1"), 0)
    assert [run(of, member(f"p{i}"))[:2] for i in range(4)] == ["l4", "l4", "h1", "h1"]


# --- the parts of a gang that no domain holds -------------------------------------------------------------------------


def zones(*nodes: int, rack: int = 100) -> ClusterState:
    """Zones z0, z1, … of so many nodes of 8 GPUs; in each, racks of `rack` nodes."""
    return state(
        node(f"{zone}{n:02}", labels={ZONE: f"z{zone}", RACK: f"r{zone}-{n // rack}"})
        for zone, count in enumerate(nodes)
        for n in range(count)
    )


def jobset(of: ClusterState, jobs: int, pods: int) -> ClusterState:
    """A JobSet with so many Jobs `w-0`, `w-1`, … of so many pods."""
    listed = []
    for number in range(jobs):
        labels = {"jobset.sigs.k8s.io/jobset-uid": "set", "jobset.sigs.k8s.io/replicatedjob-name": "workers"}
        labels["jobset.sigs.k8s.io/replicatedjob-replicas"] = str(jobs)
        metadata = {"name": f"w-{number}", "namespace": "team-a", "uid": f"w-{number}", "labels": labels}
        listed.append({"metadata": metadata, "spec": {"parallelism": pods}})
    of.replace("jobs", listed, 0)
    return of


def of_job(number: int, name: str, gpus: int = 8) -> dict[str, Any]:
    made = stored(name, gpus, owner=f"w-{number}")
    made["metadata"]["ownerReferences"][0]["kind"] = "Job"
    made["metadata"]["labels"] = {"jobset.sigs.k8s.io/jobset-uid": "set"}
    return made


def of_replica(name: str, host: int) -> dict[str, Any]:
    """A worker of a multi-host replica of a RayCluster."""
    made = member(f"{name}-{host}", kind="RayCluster")
    made["metadata"]["labels"] = {"ray.io/worker-group-replica-name": name, "ray.io/replica-host-index": str(host)}
    return made


def of_subgroup(number: int, name: str, size: int = 6) -> dict[str, Any]:
    made = stored(name, 8, owner="workers")
    made["metadata"]["ownerReferences"][0]["kind"] = "StatefulSet"
    made["metadata"]["labels"] = {
        "leaderworkerset.sigs.k8s.io/name": "set",
        "leaderworkerset.sigs.k8s.io/group-key": "group",
        "leaderworkerset.sigs.k8s.io/subgroup-key": f"sub-{number}",
    }
    made["metadata"]["annotations"] = {
        "leaderworkerset.sigs.k8s.io/size": str(size),
        "leaderworkerset.sigs.k8s.io/subgroup-size": "3",
    }
    return made


def apart(of: ClusterState, pods: list[tuple[str, dict[str, Any]]]) -> dict[str, set[str]]:
    """Admit the pods in this order. The first characters of the nodes to which each part goes."""
    found: dict[str, set[str]] = {}
    for part, made in pods:
        found.setdefault(part, set()).add(run(of, made)[0])
    return found


def each_alone(found: dict[Any, set[str]]) -> bool:
    return all(len(where) == 1 for where in found.values())


_TURNS = [0, 1, 0, 0, 1, 1]
_IN_TURN, _ONE_AFTER_ANOTHER = [0, 1] * 3, [0] * 3 + [1] * 3


@pytest.mark.parametrize(
    "order",
    [
        pytest.param(_ONE_AFTER_ANOTHER, id="one by one"),
        pytest.param(_IN_TURN, id="in turn"),
        pytest.param(_TURNS, id="in batches"),
    ],
)
@pytest.mark.parametrize("sizes", [(4, 4), (5, 4), (2, 4, 3), (3, 5)], ids=str)
def test_a_jobset_that_no_zone_holds_has_each_job_in_one(sizes: tuple[int, ...], order: list[int]) -> None:
    of = jobset(zones(*sizes), 2, 3)
    assert each_alone(apart(of, [(str(job), of_job(job, f"p{n}")) for n, job in enumerate(order)]))


@pytest.mark.parametrize(
    "order", [pytest.param(_ONE_AFTER_ANOTHER, id="one by one"), pytest.param(_IN_TURN, id="in turn")]
)
def test_a_jobset_that_a_zone_holds_is_in_it_and_each_job_in_a_rack_of_it(order: list[int]) -> None:
    of = jobset(zones(3, 8, rack=4), 2, 3)
    nodes: dict[int, list[str]] = {}
    for n, job in enumerate(order):
        nodes.setdefault(job, []).append(run(of, of_job(job, f"p{n}")))
    racks_of = [{(node[0], int(node[1:]) // 4) for node in each} for each in nodes.values()]
    assert sorted(map(sorted, racks_of)) == [[("1", 0)], [("1", 1)]]


def test_jobs_of_a_jobset_that_have_one_pod_each_are_one_gang() -> None:
    of = jobset(zones(2, 3, 2), 3, 1)
    assert [run(of, of_job(n, f"p{n}"))[0] for n in range(3)] == ["1", "1", "1"]


@pytest.mark.parametrize(
    ("strategy", "of_service"), [("pack", False), ("apart", True)], ids=["RayCluster", "RayService"]
)
@pytest.mark.parametrize("sizes", [(4, 4), (2, 8), (6, 6), (3, 4, 5)], ids=str)
def test_each_multi_host_replica_of_ray_is_in_one_zone(sizes: tuple[int, ...], strategy: str, of_service: bool) -> None:
    """Nothing says how many hosts a replica has: it begins where most have room."""
    of = zones(*sizes)
    of.pod_seen(member("head", 0, kind="RayCluster", on="000"), 0)
    found: dict[int, set[str]] = {0: set(), 1: set()}
    for replica, host in itertools.product(range(2), range(4)):
        made = of_replica(f"g-{replica}", host)
        made["metadata"]["labels"] |= {"ray.io/serve": "true"} if of_service else {}
        found[replica].add(run(of, made, strategy)[0])
    assert each_alone(found)


def test_a_group_that_no_zone_holds_has_each_subgroup_in_one() -> None:
    found = apart(zones(4, 4), [(str(n // 3), of_subgroup(n // 3, f"p{n}")) for n in range(6)])
    assert found == {"0": {"0"}, "1": {"1"}}


def test_a_group_that_a_zone_holds_is_in_it() -> None:
    assert apart(zones(4, 7), [("", of_subgroup(n // 3, f"p{n}")) for n in range(6)]) == {"": {"1"}}


def test_what_a_pod_belongs_to_is_known_as_long_as_pods_of_it_are() -> None:
    of = zones(2)
    made = of_job(0, "p") | {"status": {}}
    made["spec"]["nodeName"] = "000"
    of.pod_seen(made, 0)
    row = of.nodes.row_of["000"]
    assert of.usage.peers == {f"team-a/{key}": {row: 1} for key in ("jobset.sigs.k8s.io/jobset-uid=set", "w-0")}
    of.pod_gone(made)
    assert of.usage.peers == {}
