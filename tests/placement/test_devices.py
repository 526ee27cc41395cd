"""Pods that ask for devices one by one are ranked and reserved by them.

Covers placement.devices, devices.claims, devices.search, devices.layout, devices.sources, devices.table,
devices.types.
"""

import pytest

from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from tests.devices import dra
from tests.placement.claiming import TWO, Object, claiming, cluster, free, reserve, sharing
from tests.placement.placed import names, placed
from tests.state.objects import admitted, state, stored
from webhook.placement.devices import LEFT_ALONE

# --- templates --------------------------------------------------------------------------------------------------------


def test_the_smaller_rest_first_and_only_where_enough_devices_are_free() -> None:
    of = cluster(TWO, [dra.template("one", dra.exactly()), dra.template("eight", dra.exactly(8))])
    found = placed(of, claiming("one"))
    assert names(found) == ["a", "b"]
    assert [ranked.free for ranked in found.nodes] == [4, 8]
    assert names(placed(of, claiming("eight"))) == ["b"]


def test_a_burst_sees_its_own_reservations() -> None:
    of = cluster(TWO, [dra.template("two", dra.exactly(2))])
    chosen = []
    for number in range(6):
        chosen += names(reserve(of, claiming("two", name=f"p{number}")))[:1]
        of.pod_seen(claiming("two", name=f"p{number}", ranked=chosen[-1:]), 0)
    assert chosen == ["a", "a", "b", "b", "b", "b"]
    refused = placed(of, claiming("two", name="late"))
    assert (refused.reason, refused.rejected) == ("no node fits", (("no free devices for its claims", 2),))


def test_a_reservation_ends_in_the_allocated_claim_and_counts_once() -> None:
    of = cluster(TWO, [dra.template("two", dra.exactly(2))])
    made = claiming("two", ranked=["a"])
    reserve(of, claiming("two"))
    of.pod_seen(made, 0)
    assert free(of, "a") == 2000
    of.seen("resourceclaims", dra.claim("p-c0", dra.exactly(2), on="a", has=["gpu-0", "gpu-1"], users=["uid-p"]), 0)
    assert free(of, "a") == 2000
    status = {"resourceClaimStatuses": [{"name": "c0", "resourceClaimName": "p-c0"}]}
    bound = claiming("two", ranked=["a"], on="a") | {"status": status}
    of.pod_seen(bound, 0)
    assert free(of, "a") == 2000
    assert of.ledger.honoured["first"] == 1
    of.pod_gone(bound)
    of.forget("resourceclaims", "team-a/p-c0")
    assert free(of, "a") == 4000


def test_a_pod_that_is_bound_before_its_claim_is_seen_keeps_its_devices() -> None:
    of = cluster(TWO, [dra.template("two", dra.exactly(2))])
    reserve(of, claiming("two"))
    of.pod_seen(claiming("two", ranked=["a"], on="a"), 0)
    assert free(of, "a") == 2000
    of.seen("resourceclaims", dra.claim("c", dra.exactly(2), on="a", has=["gpu-2", "gpu-3"], users=["uid-p"]), 0)
    assert free(of, "a") == 2000


def test_a_reservation_that_expires_gives_its_devices_back() -> None:
    of = cluster(TWO, [dra.template("two", dra.exactly(2))])
    reserve(of, claiming("two"))
    of.expire(1e9)
    assert free(of, "a") == 4000


def test_the_part_of_a_namespace_is_of_the_nodes_that_tell_devices() -> None:
    """Of 64 nodes 16 have devices: reservations that nobody can confirm take two of these from others, and not eight."""
    having = [f"gpu-{number}" for number in range(16)]
    slices = [dra.gpus_of(name, 1) for name in having]
    of = cluster(
        slices, [dra.template("one", dra.exactly(1))], nodes=[*having, *[f"cpu-{number}" for number in range(48)]]
    )
    for number in range(8):
        assert reserve(of, claiming("one", name=f"p-{number}")).nodes
    of.usage.seen_from("other")
    assert sum(free(of, name) == 0 for name in having) == 2


def test_events_in_any_order_give_the_same_state() -> None:
    used = [dra.claim("c", dra.exactly(2), on="a", has=["gpu-0", "gpu-1"])]
    later = state([])
    later.replace("resourceclaims", used, 0)
    later.replace("resourceslices", TWO, 0)
    later.replace("nodes", [node("a", 0), node("b", 0)], 0)
    assert free(later, "a") == free(cluster(TWO, claims=used), "a") == 2000
    later.node_gone("a")
    later.node_seen(node("a", 0))
    assert free(later, "a") == 2000
    later.forget("resourceslices", "slice-a")
    later.seen("resourceslices", TWO[0], 0)
    assert free(later, "a") == 2000


# --- pools ------------------------------------------------------------------------------------------------------------


def test_incomplete_pools_and_old_generations_do_not_count() -> None:
    slices = [
        dra.device_slice("a", [dra.gpu(0)], slices=2),
        dra.device_slice("b", [dra.gpu(0), dra.gpu(1)], name="old"),
        dra.device_slice("b", [dra.gpu(0)], name="new", generation=2),
    ]
    of = cluster(slices, [dra.template("one", dra.exactly()), dra.template("two", dra.exactly(2))])
    assert names(placed(of, claiming("one"))) == ["b"]
    assert placed(of, claiming("two")).reason == "no node fits"
    of.seen("resourceslices", dra.device_slice("a", [dra.gpu(1)], name="second", slices=2), 0)
    assert names(placed(of, claiming("two"))) == ["a"]


def test_admin_access_takes_nothing() -> None:
    used = [dra.claim("admin", dra.exactly(adminAccess=True), on="a", has=["gpu-0"], admin=True)]
    of = cluster([dra.gpus_of("a", 1)], [dra.template("one", dra.exactly())], used)
    assert names(placed(of, claiming("one"))) == ["a"]
    of.seen("resourceclaimtemplates", dra.template("look", dra.exactly(adminAccess=True)), 0)
    assert placed(of, claiming("look")).reason == "admin access of its claim is left to the scheduler"


# --- named claims and extended resources ------------------------------------------------------------------------------


def test_the_node_follows_the_devices_of_a_named_claim() -> None:
    of = cluster(TWO, claims=[dra.claim("shared", dra.exactly(), on="b", has=["gpu-0"])])
    assert names(placed(of, sharing("shared"))) == ["b"]
    assert placed(of, sharing("unknown")).reason == "its claim is not known"


@pytest.mark.parametrize("group", [{"schedulingGroup": {"podGroupName": "g"}}, {"workloadRef": {"name": "w"}}])
def test_a_pod_group_is_placed_by_the_scheduler_as_a_whole_and_none_of_its_pods_by_us(group: Object) -> None:
    of = cluster(TWO, claims=[dra.claim("shared", dra.exactly(3))])
    for number in range(2):
        assert reserve(of, sharing("shared", f"p{number}", **group)).reason == "pod group"
    assert (free(of, "a"), free(of, "b")) == (4000, 8000)


def test_pods_that_share_a_claim_count_it_once_and_follow_the_first() -> None:
    of = cluster(TWO, claims=[dra.claim("shared", dra.exactly(3))])
    assert names(reserve(of, sharing("shared", "p0"))) == ["a", "b"]
    assert names(reserve(of, sharing("shared", "p1"))) == ["a"]
    assert free(of, "a") == 1000
    assert names(placed(of, sharing("shared", "p2"))) == ["a"]


def test_an_extended_resource_of_a_class_is_ranked_by_devices_and_counted_once() -> None:
    of = cluster(TWO, classes=[dra.device_class(resource="nvidia.com/gpu")])
    first = reserve(of, pod("p", 4))
    assert names(first) == ["a", "b"]
    assert names(placed(of, admitted(pod("q", 1)))) == ["b"]
    of.pod_seen(stored("p", 4, ranked=["a"]), 0)
    assert free(of, "a") == 0
    status = {"extendedResourceClaimStatus": {"resourceClaimName": "p-x"}}
    has = [f"gpu-{i}" for i in range(4)]
    of.seen("resourceclaims", dra.claim("p-x", dra.exactly(4), on="a", has=has, users=["uid-p"]), 0)
    of.pod_seen(stored("p", 4, ranked=["a"], on="a") | {"status": status}, 0)
    assert free(of, "a") == 0
    assert free(of, "b") == 8000


def test_devices_are_not_given_for_an_extended_resource_before_claims_are_known() -> None:
    """All devices would look free: a replica is ready before it has listed the claims."""
    of = cluster(TWO, classes=[dra.device_class(resource="nvidia.com/gpu")])
    assert names(placed(of, pod("p", 4)))
    of.withdraw("resourceclaims")
    assert placed(of, pod("p", 4)).rejected == (("GPUs only through DRA", 2),)


def test_nodes_with_a_device_plugin_come_before_the_devices_of_a_class() -> None:
    of = cluster([dra.gpus_of("a")], classes=[dra.device_class(resource="nvidia.com/gpu")])
    of.node_seen(node("plugin", 1))
    assert names(placed(of, pod("p", 1))) == ["plugin"]
    assert names(placed(of, pod("p", 2))) == ["a"]


def test_replicas_that_are_kept_apart_go_to_both_kinds_of_nodes() -> None:
    of = cluster([dra.gpus_of("a"), dra.gpus_of("b")], classes=[dra.device_class(resource="nvidia.com/gpu")])
    of.node_seen(node("plugin", 8))
    replica = admitted(stored("p", 1, owner="chat"))
    assert names(placed(of, replica, "apart")) == ["plugin"]
    of.pod_seen(stored("there", 1, owner="chat", on="plugin"), 0)
    second = placed(of, replica, "apart")
    assert names(second) == ["a", "b", "plugin"]
    assert (second.decided, bool(second.devices)) == ("name", True)
    of.pod_seen(stored("here", 1, owner="chat", on="a"), 0)
    assert names(placed(of, replica, "apart"))[0] == "b"
    assert names(placed(of, replica)) == ["plugin"], "packed"


def test_devices_beside_a_device_plugin_are_not_given_for_its_resource() -> None:
    of = cluster([dra.gpus_of("a")], classes=[dra.device_class(resource="nvidia.com/gpu")])
    of.node_seen(node("a", 2))
    assert names(placed(of, pod("p", 2))) == ["a"]
    of.pod_seen(stored("there", 1, on="a"), 0)
    assert placed(of, pod("p", 2)).reason == LEFT_ALONE
