"""GPUs by state, model, namespace and node: the numbers add up, and say no more than is known."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.controlplane.nodes import node
from tests.devices import dra
from tests.placement.claiming import MIG, claiming, cluster, partitioned, reserve
from tests.state.objects import GPU, admitted, state, stored
from webhook.framework.cluster_view import Placement, Ranked
from webhook.kube.asked import AskedPod
from webhook.kube.gpus import GpuName, Gpus
from webhook.nodes.rejections import OTHER
from webhook.nodes.utilisation import NodeUse, PodUse
from webhook.placement.gpu_counts import SEVERAL, GpuCounts, count
from webhook.placement.settings import Health
from webhook.state.state import ClusterState

GPUS = Gpus((GpuName(GPU, "whole"), GpuName("nvidia.com/mig-*", "slice")))
A100 = {"nvidia.com/gpu.product": "A100"}


def counts(of: ClusterState, uses: Mapping[str, NodeUse] | None = None) -> GpuCounts:
    for name, use in (uses or {}).items():
        of.nodes.use_seen(name, use)
    return count(of, GPUS, Health(), uses or {})


def states(of: ClusterState, model: str = "A100", uses: Mapping[str, NodeUse] | None = None) -> dict[str, float]:
    found = counts(of, uses).gpus
    return {word: found.get((GPU, model, word), 0) for word in ("allocated", "promised", "free", "unusable")}


def a100(name: str = "a", gpus: int = 8, **more: Any) -> dict[str, Any]:
    return node(name, gpus, labels=A100 | more.pop("labels", {}), **more)


def shrunk(name: str, capacity: int, offered: int) -> dict[str, Any]:
    found = a100(name, offered)
    found["status"]["capacity"] = found["status"]["allocatable"] | {GPU: str(capacity)}
    return found


def of_team(name: str, gpus: int, on: str, team: str) -> dict[str, Any]:
    found = stored(name, gpus, on=on)
    found["metadata"]["namespace"] = team
    return found


def reserved(of: ClusterState, gpus: int, on: str, team: str = "team-a") -> None:
    asked = AskedPod(admitted(of_team("p", gpus, on, team)), GPUS)
    of.reserve(asked, Placement((Ranked(on, 8, 0, 1.0),), "pack"), 0.0)


# 8 GPUs on node a, 3 of them allocated: how many are free, and how many are not usable.
USABLE = [
    pytest.param(a100(), 5, 0, id="an ordinary node"),
    pytest.param(a100(taints=[{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]), 5, 0, id="a taint of GPU nodes"),
    pytest.param(a100(taints=[{"key": "team", "value": "a", "effect": "NoSchedule"}]), 5, 0, id="a node of one team"),
    pytest.param(
        a100(taints=[{"key": "node.kubernetes.io/memory-pressure", "effect": "PreferNoSchedule"}]), 5, 0, id="soft"
    ),
    pytest.param(a100(cordoned=True), 0, 5, id="cordoned"),
    pytest.param(a100(conditions={"Ready": "False"}), 0, 5, id="not ready"),
    pytest.param(a100(conditions={"GpuUnhealthy": "True"}), 0, 5, id="unhealthy by a condition of the policy"),
    pytest.param(
        a100(labels={"nvidia.com/gpu-driver-upgrade-state": "pod-deletion-required"}), 0, 5, id="by a label of it"
    ),
    pytest.param(
        a100(taints=[{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]), 0, 5, id="unreachable"
    ),
    pytest.param(shrunk("a", 8, 6), 3, 2, id="two are sick for the device plugin"),
    pytest.param(shrunk("a", 8, 2), 0, 5, id="fewer offered than allocated"),
    pytest.param(shrunk("a", 0, 0), 0, 0, id="a device plugin that is away"),
]


@pytest.mark.parametrize(("seen", "free", "unusable"), USABLE)
def test_what_is_not_allocated_is_free_or_unusable(seen: dict[str, Any], free: int, unusable: int) -> None:
    of = state([seen], [stored("p", 3, on="a")])
    assert states(of) == {"allocated": 3, "promised": 0, "free": free, "unusable": unusable}


def test_gpus_that_are_hot_or_busy_without_a_pod_are_not_usable() -> None:
    of = state([a100()], [stored("p", 3, on="a")])
    use = NodeUse(8, 0, 0.5, 90.0, 1, 0, avoid=1, busy=5, known=8)
    assert states(of, uses={"a": use}) == {"allocated": 3, "promised": 0, "free": 2, "unusable": 3}


def test_a_reservation_is_promised_until_the_pod_is_bound() -> None:
    of = state([a100()])
    reserved(of, 2, "a")
    assert states(of) == {"allocated": 0, "promised": 2, "free": 6, "unusable": 0}
    assert counts(of).namespaces == {("team-a", GPU, "promised"): 2}


def test_a_node_is_empty_if_all_its_gpus_are_free() -> None:
    nodes = [a100("empty"), a100("used"), a100("promised"), a100("shut", cordoned=True), shrunk("shrunk", 8, 7)]
    of = state(nodes, [stored("p", 1, on="used")])
    reserved(of, 1, "promised")
    assert counts(of).empty_nodes == {(GPU, "A100"): 1}
    of.pod_seen(stored("q", 1, on="empty"), 0.0)
    assert counts(of).empty_nodes == {(GPU, "A100"): 0}, "a series that ends cannot be told from a server that is away"


def test_what_is_no_gpu_is_not_counted() -> None:
    of = state([a100(resources={"rdma/hca": "8"})], [stored("p", 1, on="a", limits={"rdma/hca": "1"})])
    assert {key[0] for key in counts(of).gpus} == {GPU}
    assert counts(of).namespaces == {("team-a", GPU, "allocated"): 1}


# --- GPUs of DRA ------------------------------------------------------------------------------------------------------


def by_state(found: GpuCounts, resource: str = dra.DRIVER) -> dict[str, float]:
    return {word: number for (name, _, word), number in found.gpus.items() if name == resource}


def test_gpus_of_dra_are_counted_under_their_driver_and_those_of_a_device_plugin_beside_them() -> None:
    used = [dra.claim("c", dra.exactly(2), on="a", has=["gpu-0", "gpu-1"]), dra.claim("waits", dra.exactly())]
    of = cluster([dra.gpus_of("a", 4), dra.gpus_of("b", 8)], [dra.template("one", dra.exactly())], used)
    of.nodes.seen(a100("plugin"))
    of.pod_seen(stored("p", 3, on="plugin"), 0.0)
    reserve(of, claiming("one"))
    found = counts(of)
    assert by_state(found) == {"allocated": 2, "promised": 1, "free": 9, "unusable": 0}
    assert by_state(found, GPU) == {"allocated": 3, "promised": 0, "free": 5, "unusable": 0}
    assert {key: number for key, number in found.namespaces.items() if number} == {
        ("team-a", dra.DRIVER, "allocated"): 2,
        ("team-a", dra.DRIVER, "promised"): 1,
        ("team-a", GPU, "allocated"): 3,
    }
    assert found.empty_nodes[dra.DRIVER, "H100"] == 1


def test_the_model_of_devices_is_that_of_the_label_else_what_their_driver_tells() -> None:
    mixed = dra.device_slice(
        "mixed", [dra.gpu(0, "L4"), dra.gpu(1, "NVIDIA H100 80GB HBM3"), dra.gpu(2, "NVIDIA H100 80GB HBM3")]
    )
    bare = dra.gpu(0, on="bare")
    del bare["attributes"]["productName"]
    slices = [dra.gpus_of("a", 2), dra.gpus_of("labelled", 4), mixed, dra.device_slice("bare", [bare])]
    of = cluster(slices, nodes=["a", "labelled", "mixed", "bare"])
    of.nodes.seen(node("labelled", 0, labels={"nvidia.com/gpu.product": "NVIDIA-A100"}))
    found = counts(of).gpus
    free = {model: number for (name, model, word), number in found.items() if (name, word) == (dra.DRIVER, "free")}
    assert free == {"H100": 2, "NVIDIA-A100": 4, "NVIDIA-H100-80GB-HBM3": 3, "": 1}


def test_parts_of_a_gpu_are_fractions_and_a_gpu_with_all_of_its_parts_is_one() -> None:
    used = [dra.claim("c", dra.exactly(of=MIG), on="a", has=["mig-0-0"])]
    of = cluster([partitioned("a", 2)], claims=used)
    found = by_state(counts(of))
    assert sum(found.values()) == 2
    assert 0 < found["allocated"] < 1


def test_a_claim_with_admin_access_takes_nothing_and_a_cordoned_node_has_nothing_free() -> None:
    used = [dra.claim("c", dra.exactly(), on="a", has=["gpu-0"], admin=True)]
    of = cluster([dra.gpus_of("a", 4)], claims=used)
    assert by_state(counts(of)) == {"allocated": 0, "promised": 0, "free": 4, "unusable": 0}
    of.nodes.seen(node("a", 0, cordoned=True))
    assert by_state(counts(of)) == {"allocated": 0, "promised": 0, "free": 0, "unusable": 4}


nodes_of_any_kind = st.lists(
    st.tuples(st.integers(0, 8), st.integers(0, 8), st.booleans(), st.sampled_from(["A100", "H100", ""])),
    min_size=1,
    max_size=6,
)
pods_anywhere = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 4), st.sampled_from("abc")), max_size=12)


@given(nodes_of_any_kind, pods_anywhere, pods_anywhere)
def test_the_states_add_up_to_what_the_nodes_have(
    kinds: list[tuple[int, int, bool, str]], bound: list[tuple[int, int, str]], promised: list[tuple[int, int, str]]
) -> None:
    """Counted from the objects once more. Bound pods may have more than a node says it has: then these are all of it."""
    nodes = []
    for number, (one, other, cordoned, model) in enumerate(kinds):
        found = shrunk(f"n{number}", max(one, other), min(one, other))
        found["metadata"]["labels"]["nvidia.com/gpu.product"] = model
        found["spec"]["unschedulable"] = cordoned
        nodes.append(found)
    on = [(f"n{at % len(nodes)}", gpus, team) for at, gpus, team in bound]
    of = state(nodes, [of_team(f"p{i}", gpus, name, team) for i, (name, gpus, team) in enumerate(on)])
    for at, gpus, team in promised:
        reserved(of, gpus, f"n{at % len(nodes)}", team)
    found = counts(of)
    for model in {kind[3] for kind in kinds}:
        total = 0
        for number, (one, other, _, its) in enumerate(kinds):
            if its == model:
                total += max(one, other, sum(gpus for name, gpus, _ in on if name == f"n{number}"))
        assert sum(n for (_, its, _), n in found.gpus.items() if its == model) == total
    for team in "abc":
        assert found.namespaces.get((team, GPU, "allocated"), 0) == sum(gpus for _, gpus, its in on if its == team)
    by_state = [n for (_, _, word), n in found.gpus.items() if word == "allocated"]
    assert sum(by_state) == sum(gpus for _, gpus, _ in on)
    assert all(n >= 0 for n in found.gpus.values())


# --- Idle -------------------------------------------------------------------------------------------------------------


def used(idle: int, long: int = 0, measured: int = 8, **pods: tuple[int, int]) -> NodeUse:
    """`pods`: GPUs and idle GPUs by the namespace of a pod, as labels say."""
    named = tuple([PodUse(f"{team}/p", gpus, its, (0, 0, 0)) for team, (gpus, its) in pods.items()])
    return NodeUse(measured, idle, 0.5, 60.0, 0, 0, 0, known=measured, idle_for=(long, 0, 0), pods=named)


# What pods of two teams have on a node of 8, how many of its GPUs are idle, and what is said of whom.
IDLE: list[Any] = [
    pytest.param(0, 0, used(8), {}, id="nothing is allocated"),
    pytest.param(4, 0, used(4), {}, id="only as many are idle as are free"),
    pytest.param(4, 0, used(6), {"a": 2}, id="two more"),
    pytest.param(4, 4, used(8), {"a": 4, "b": 4}, id="all"),
    pytest.param(6, 2, used(4), {"a": 2, SEVERAL: 2}, id="two are surely of the first"),
    pytest.param(4, 4, used(4), {SEVERAL: 4}, id="of either"),
    pytest.param(8, 0, used(2, measured=4), {"a": 2}, id="half is measured"),
    pytest.param(4, 4, used(4, a=(5, 4)), {SEVERAL: 4}, id="labels that say more than there is are not believed"),
    pytest.param(4, 4, used(4, other=(8, 4)), {SEVERAL: 4}, id="nor those of a pod that has none"),
    pytest.param(4, 4, used(4, a=(4, 1), b=(4, 3)), {"a": 1, "b": 3}, id="labels say whose"),
    pytest.param(4, 2, used(2, measured=6, a=(4, 0), b=(2, 2)), {"b": 2}, id="free ones are not measured"),
    pytest.param(4, 2, used(4, a=(4, 1), b=(2, 1)), {"a": 1, "b": 1}, id="free ones are idle too"),
    pytest.param(4, 4, used(4, b=(4, 3)), {"a": 1, "b": 3}, id="what is left is of the only other"),
]


@pytest.mark.parametrize(("a", "b", "use", "said"), IDLE)
def test_a_namespace_is_named_for_gpus_that_are_surely_idle(a: int, b: int, use: NodeUse, said: dict[str, int]) -> None:
    pods = [of_team(team, gpus, "a", team) for team, gpus in (("a", a), ("b", b)) if gpus]
    found = counts(state([a100()], pods), {"a": use}).idle
    assert {team: n for (team, since), n in found.items() if since == "window" and n} == said


def test_gpus_that_a_node_offers_no_more_make_no_others_idle() -> None:
    found = counts(state([shrunk("a", 8, 4)], [of_team("p", 8, "a", "a")]), {"a": used(2)}).idle
    assert found["a", "window"] == 2


def test_idle_for_an_hour_is_counted_for_the_pod_that_labels_name() -> None:
    use = NodeUse(8, 8, 0.5, 60.0, 0, 0, 0, known=8, idle_for=(3, 3, 0), pods=(PodUse("b/p", 4, 4, (3, 1, 0)),))
    found = counts(state([a100()], [of_team("x", 4, "a", "a"), of_team("p", 4, "a", "b")]), {"a": use}).idle
    assert {key: n for key, n in found.items() if key[1] != "window" and n} == {
        ("b", "1h"): 3,
        ("b", "6h"): 1,
        ("a", "6h"): 2,
    }, "of four GPUs of a two have been idle for six hours"


def test_idle_for_an_hour_is_counted_by_itself() -> None:
    found = counts(state([a100()], [stored("p", 8, on="a")]), {"a": used(5, long=3)}).idle
    assert found == {("team-a", "window"): 5, ("team-a", "1h"): 3, ("team-a", "6h"): 0, ("team-a", "1d"): 0}


def test_shared_gpus_are_nobodys_idle_ones() -> None:
    shared = a100(labels={"nvidia.com/gpu.replicas": "4"})
    for use in (used(2), used(2)._replace(pods=(PodUse("team-a/p", 2, 2, (0, 0, 0)),))):
        assert counts(state([shared], [stored("p", 8, on="a")]), {"a": use}).idle == {}


def test_utilisation_is_that_of_the_allocated_gpus() -> None:
    of = state([a100(), a100("b")], [stored("p", 4, on="a")])
    of.nodes.use_seen("a", NodeUse(8, 4, 0.25, 60.0, 0, 0, 0, known=8))
    assert counts(of).utilisation == {"A100": 0.5}, "2 of 8 are at work: so 2 of the 4 that a pod has"


def test_problems_are_named_by_node() -> None:
    uses = {"a": NodeUse(8, 0, 0.5, 90.0, 2, 1, 3, known=8, full=4)}
    assert counts(state([shrunk("a", 8, 7), a100("b")]), uses).problems == {
        ("a", "withdrawn"): 1,
        ("a", "hot"): 2,
        ("a", "sick"): 1,
        ("a", "memoryFull"): 4,
    }


def test_names_are_bounded_and_the_rest_is_counted_together() -> None:
    nodes = [shrunk(f"n{number:03}", 100, 90 - number % 2) for number in range(70)]
    for number, each in enumerate(nodes):
        each["metadata"]["labels"]["nvidia.com/gpu.product"] = f"model-{number}"
    pods = [of_team(f"p{number}", 1 + number % 3, f"n{number:03}", f"team-{number}") for number in range(70)]
    found = counts(state(nodes, pods))
    for counted, at in ((found.gpus, 1), (found.namespaces, 0), (found.problems, 0)):
        assert len({key[at] for key in counted}) == 51
        assert OTHER in {key[at] for key in counted}
    assert sum(found.gpus.values()) == 7000
    assert sum(found.namespaces.values()) == sum(1 + number % 3 for number in range(70))
