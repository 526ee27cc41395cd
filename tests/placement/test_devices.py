"""Pods that ask for devices one by one are ranked and reserved by them.

Covers placement.devices, cluster.device_demands, cluster.device_kinds, cluster.device_layout, cluster.device_search,
cluster.device_sources, cluster.device_states, cluster.device_table, cluster.device_capacity, cluster.device_matches,
cluster.device_node, cluster.devices, cluster.claims.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from tests.cluster import dra
from tests.cluster.objects import admitted, node, pod, state
from tests.placement.placed import names, placed
from webhook.cluster import device_matches, device_search, device_table
from webhook.cluster.claims import NO_SPEC, Specs
from webhook.cluster.node_table import TOLD, Demand
from webhook.cluster.pods import reservation_request
from webhook.cluster.state import ClusterState
from webhook.framework.cluster_view import Placement

Object = dict[str, Any]
MIG = "mig.nvidia.com"
CAPACITY = f'device.capacity["{dra.DRIVER}"]'
ATTRIBUTES = f'device.attributes["{dra.DRIVER}"]'


def cluster(
    slices: Iterable[Object],
    templates: Iterable[Object] = (),
    claims: Iterable[Object] = (),
    classes: Iterable[Object] = (dra.device_class(), dra.device_class(MIG, "mig")),
    nodes: Iterable[str] = ("a", "b"),
    pods: Iterable[Object] = (),
) -> ClusterState:
    """Nodes without GPUs of a device plugin."""
    of = state([node(name, None) for name in nodes], pods)
    of.replace("resourceslices", list(slices), 0)
    of.replace("deviceclasses", list(classes), 0)
    of.replace("resourceclaims", list(claims), 0)
    of.replace("resourceclaimtemplates", list(templates), 0)
    return of


def claiming(*templates: str, name: str = "p", **more: Any) -> Object:
    """A pod with a claim from each template."""
    entries = [{"name": f"c{i}", "resourceClaimTemplateName": each} for i, each in enumerate(templates)]
    return pod(name, 0, resourceClaims=entries, **more)


def sharing(claim: str, name: str = "p", **more: Any) -> Object:
    return pod(name, 0, resourceClaims=[{"name": "c", "resourceClaimName": claim}], **more)


def reserve(of: ClusterState, made: Object) -> Placement:
    placement = placed(of, admitted(made))
    of.reserve(reservation_request(made, Demand(placement.asked, placement.devices)), placement, 0)
    return placement


TWO = [dra.gpus_of("a", 4), dra.gpus_of("b", 8)]

# --- what is left to the scheduler ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        pytest.param(None, "the template of its claim is not known", id="no template"),
        pytest.param(dra.template("t", dra.exactly(of="x")), "the class of its claim is not known", id="no class"),
        pytest.param(
            dra.template("t", dra.exactly(selector="ip('1.1.1.1').isGlobalUnicast()")),
            "its claims cannot be decided",
            id="a function that we do not know",
        ),
        pytest.param(
            dra.template("t", dra.exactly(selector=f"{ATTRIBUTES}.nothing == 1")),
            "its claims cannot be decided",
            id="an error, which ends the scheduler's search too",
        ),
        pytest.param(
            dra.template("t", dra.exactly(2), constraints=[{"matchExpression": "true"}]),
            "a constraint of its claim is left to the scheduler",
            id="a constraint of a kind that is not known",
        ),
        pytest.param(
            dra.template(
                "t",
                {"name": "r", "firstAvailable": [{"name": "s", **dra.exactly(2)}]},
                constraints=[{"matchAttribute": f"{dra.DRIVER}/productName", "requests": ["r/s"]}],
            ),
            "a constraint of its claim is left to the scheduler",
            id="a constraint for one alternative",
        ),
        pytest.param(
            {"metadata": {"namespace": "team-a", "name": "t"}, "spec": {"spec": {"devices": {"requests": ["x"]}}}},
            "its claim cannot be read",
            id="malformed",
        ),
    ],
)
def test_left_to_the_scheduler(template: Object | None, reason: str) -> None:
    of = cluster(TWO, [template] if template else [])
    assert placed(of, claiming("t")).reason == reason


def test_claims_that_may_not_be_read_are_left_to_the_scheduler() -> None:
    of = cluster(TWO, [dra.template("t", dra.exactly())])
    of.withdraw("resourceclaims")
    assert placed(of, claiming("t")).reason == "GPUs only through DRA"


def test_a_claim_for_no_gpu() -> None:
    card = {"name": "nic-0", "attributes": {"type": {"string": "gpu"}}}
    of = cluster(
        [dra.device_slice("a", [card], driver="net.example.com")],
        [dra.template("t", dra.exactly(of="net"))],
        classes=[{"metadata": {"name": "net"}, "spec": {}}],
    )
    assert placed(of, claiming("t")).reason == "no GPU is asked for"


def test_devices_of_no_single_node_are_left_to_the_scheduler() -> None:
    fabric = dra.device_slice("f", [dra.gpu(0)], nodeName=None, allNodes=True)
    of = cluster([*TWO, fabric], [dra.template("t", dra.exactly())])
    assert placed(of, claiming("t")).reason == "its claims cannot be decided"
    of.forget("resourceslices", "slice-f")
    assert names(placed(of, claiming("t")))
    of.seen("resourceslices", fabric, 0)
    assert placed(of, claiming("t")).reason == "its claims cannot be decided"


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
    later.replace("nodes", [node("a", None), node("b", None)], 0)
    assert free(later, "a") == free(cluster(TWO, claims=used), "a") == 2000
    later.node_gone("a")
    later.node_seen(node("a", None))
    assert free(later, "a") == 2000
    later.forget("resourceslices", "slice-a")
    later.seen("resourceslices", TWO[0], 0)
    assert free(later, "a") == 2000


def free(of: ClusterState, name: str) -> int:
    columns = of.nodes.columns
    return int(columns.free[f"devices/{dra.DRIVER}"][of.nodes.row_of[name]])


# --- selectors, alternatives, constraints -----------------------------------------------------------------------------


def test_selectors_choose_the_model_and_the_memory() -> None:
    slices = [dra.gpus_of("a", 8, "A100"), dra.gpus_of("b", 8, "H100")]
    h100 = dra.template("h100", dra.exactly(selector=f'{ATTRIBUTES}.productName.startsWith("H")'))
    large = dra.template("large", dra.exactly(selector=f'{CAPACITY}.memory.compareTo(quantity("90Gi")) > 0'))
    of = cluster(slices, [h100, large])
    assert names(placed(of, claiming("h100"))) == ["b"]
    assert placed(of, claiming("large")).reason == "no node fits"


def test_the_first_alternative_comes_first_whatever_the_score() -> None:
    slices = [dra.gpus_of("a", 2, "A100"), dra.gpus_of("b", 8, "H100")]
    wanted = [
        {"name": model, **dra.exactly(selector=f'{ATTRIBUTES}.productName == "{model}"')} for model in ("H100", "A100")
    ]
    of = cluster(slices, [dra.template("any", {"firstAvailable": wanted}), dra.template("one", dra.exactly())])
    assert names(placed(of, claiming("one"))) == ["a", "b"]
    found = placed(of, claiming("any"))
    assert (names(found), found.decided) == (["b", "a"], "alternatives")


def with_attribute(name: str, *values: int) -> Object:
    """A node with a GPU for each value of its attribute `card`."""
    devices = [dra.gpu(index, on=name) for index in range(len(values))]
    for device, value in zip(devices, values, strict=True):
        device["attributes"]["card"] = {"int": value}
    return dra.device_slice(name, devices)


CARD = f"{dra.DRIVER}/card"


@pytest.mark.parametrize(
    ("requests", "constraints", "found"),
    [
        pytest.param([dra.exactly(3)], [{"matchAttribute": CARD}], ["b"], id="three that are equal"),
        pytest.param([dra.exactly(4)], [{"matchAttribute": CARD}], [], id="four that are equal"),
        pytest.param([dra.exactly(4)], [{"distinctAttribute": CARD}], ["a"], id="four that differ"),
        pytest.param([dra.exactly(2)], [{"distinctAttribute": CARD}], ["a", "b"], id="two that differ"),
        pytest.param([dra.exactly()] * 3, [{"distinctAttribute": CARD}], ["a"], id="of three requests"),
        pytest.param(
            [dra.exactly(2), dra.exactly(2)],
            [{"matchAttribute": CARD, "requests": ["r0"]}, {"distinctAttribute": CARD, "requests": ["r1"]}],
            ["b"],
            id="each request its own",
        ),
        pytest.param([dra.exactly()], [{"distinctAttribute": f"{dra.DRIVER}/none"}], [], id="what no device has"),
    ],
)
def test_constraints_compare_the_devices_of_a_claim(
    requests: list[Object], constraints: list[Object], found: list[str]
) -> None:
    slices = [with_attribute("a", 0, 1, 2, 3), with_attribute("b", 0, 0, 0, 1)]
    of = cluster(slices, [dra.template("t", *requests, constraints=constraints)])
    assert names(placed(of, claiming("t"))) == found


def test_devices_of_two_claims_are_not_compared() -> None:
    of = cluster(
        [with_attribute("a", 0, 0)], [dra.template("t", dra.exactly(), constraints=[{"distinctAttribute": CARD}])]
    )
    assert names(placed(of, claiming("t", "t"))) == ["a"]


@pytest.mark.parametrize("kind", ["matchAttribute", "distinctAttribute"])
def test_a_constraint_on_an_attribute_that_is_not_kept_or_is_a_list_is_left_to_the_scheduler(kind: str) -> None:
    """A UUID has one value for each device of a cluster. No device had it then, and the pod was said to fit nowhere."""
    listed = dra.device_slice("x", [dra.gpu(0) | {"attributes": {"cards": {"ints": [1, 2]}}}])
    every = {"metadata": {"name": "every"}, "spec": {}}
    templates = [
        dra.template(name, dra.exactly(of="every"), constraints=[{kind: f"{dra.DRIVER}/{name}"}])
        for name in ("uuid", "cards")
    ]
    of = cluster([*[dra.gpus_of(f"n{i}", 2) for i in range(40)], listed], templates, classes=[every], nodes=["n0", "x"])
    for name in ("uuid", "cards"):
        assert placed(of, claiming(name)).reason == "its claims cannot be decided"


def test_tainted_devices_are_out_unless_tolerated() -> None:
    taint = {"key": "gpu.example.com/xid", "value": "79", "effect": "NoExecute"}
    slices = [dra.device_slice("a", [dra.gpu(0, taints=[taint])]), dra.gpus_of("b", 1)]
    tolerant = dra.exactly(tolerations=[{"key": taint["key"], "operator": "Exists"}])
    of = cluster(slices, [dra.template("one", dra.exactly()), dra.template("tolerant", tolerant)])
    assert names(placed(of, claiming("one"))) == ["b"]
    assert names(placed(of, claiming("tolerant"))) == ["a", "b"]


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
    full = cluster(
        [dra.gpus_of("a", 1)],
        [dra.template("look", dra.exactly(adminAccess=True))],
        [dra.claim("c", dra.exactly(), on="a", has=["gpu-0"])],
    )
    assert placed(full, claiming("look")).reason == "no GPU is asked for"


# --- partitions and shares --------------------------------------------------------------------------------------------


def partitioned(name: str, gpus: int) -> Object:
    def drawn(index: int, amount: int) -> list[Object]:
        return [{"counterSet": f"gpu-{index}", "counters": {"slices": {"value": str(amount)}}}]

    devices = []
    for index in range(gpus):
        devices.append(dra.gpu(index, on=name, consumesCounters=drawn(index, 8)))
        for part in range(4):
            mig = {"name": f"mig-{index}-{part}", "attributes": {"type": {"string": "mig"}}}
            devices.append(mig | {"consumesCounters": drawn(index, 2)})
    sets = [{"name": f"gpu-{index}", "counters": {"slices": {"value": "8"}}} for index in range(gpus)]
    return dra.device_slice(name, devices, sharedCounters=sets)


def test_counters_and_not_names_say_what_is_free() -> None:
    used = [dra.claim("c", dra.exactly(of=MIG), on="a", has=["mig-0-0"])]
    templates = [dra.template("whole", dra.exactly()), dra.template("parts", dra.exactly(4, of=MIG))]
    of = cluster([partitioned("a", 1), partitioned("b", 2)], templates, used)
    assert free(of, "a") == 750
    assert names(placed(of, claiming("whole"))) == ["b"]
    assert names(placed(of, claiming("parts"))) == ["b"]


def test_a_partition_goes_to_a_gpu_that_is_broken_already() -> None:
    used = [dra.claim("c", dra.exactly(of=MIG), on="b", has=["mig-0-0"])]
    of = cluster([partitioned("a", 2), partitioned("b", 2)], [dra.template("part", dra.exactly(of=MIG))], used)
    assert names(placed(of, claiming("part"))) == ["b", "a"]


def shared(name: str, gpus: int) -> Object:
    return dra.device_slice(name, [dra.gpu(i, on=name, allowMultipleAllocations=True) for i in range(gpus)])


def test_one_device_must_have_enough_of_its_capacity() -> None:
    quarter = {"capacity": {"requests": {"memory": "20Gi"}}}
    used = [dra.claim(f"c{i}", on="a", has=[f"gpu-{i}"], consumed={"memory": "70Gi"}) for i in range(2)]
    templates = [dra.template("quarter", dra.exactly(**quarter)), dra.template("whole", dra.exactly())]
    of = cluster([shared("a", 2), shared("b", 1)], templates, used)
    assert free(of, "a") == 250
    assert names(placed(of, claiming("quarter"))) == ["b"]
    for number in range(4):
        assert names(reserve(of, claiming("quarter", name=f"p{number}"))) == ["b"]
    assert placed(of, claiming("quarter")).reason == "no node fits"


QUARTER = {"capacity": {"requests": {"memory": "20Gi"}}}


@pytest.mark.parametrize(
    ("slices", "asked", "first"),
    [
        pytest.param([partitioned("a", 2), partitioned("b", 2)], dra.exactly(), "a", id="all nodes have partitions"),
        pytest.param([partitioned("a", 2), dra.gpus_of("b", 8)], dra.exactly(of=MIG), "a", id="a partition"),
        pytest.param([shared("a", 2), shared("b", 8)], dra.exactly(), "a", id="all devices are shared"),
        pytest.param([dra.gpus_of("a", 2), dra.gpus_of("b", 8)], dra.exactly(**QUARTER), "a", id="no device is shared"),
        pytest.param(
            [partitioned("a", 1), dra.gpus_of("b", 8)], dra.exactly(), "b", id="partitions are kept for others"
        ),
        pytest.param(
            [shared("a", 1), dra.gpus_of("b", 8)], dra.exactly(), "b", id="shared devices are kept for others"
        ),
        pytest.param([dra.gpus_of("a", 1), shared("b", 8)], dra.exactly(**QUARTER), "b", id="no device for a quarter"),
        pytest.param([partitioned("a", 1), dra.gpus_of("b", 8)], dra.exactly(of="any"), "b", id="any device"),
    ],
)
def test_whole_devices_and_parts_go_where_they_spoil_nothing(slices: list[Object], asked: Object, first: str) -> None:
    every = {
        "metadata": {"name": "any"},
        "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{dra.DRIVER}"'}}]},
    }
    classes = (dra.device_class(), dra.device_class(MIG, "mig"), every)
    of = cluster(slices, [dra.template("t", asked)], classes=classes)
    assert names(placed(of, claiming("t")))[0] == first


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
    of.pod_seen(pod("p", 4, ranked=["a"]), 0)
    assert free(of, "a") == 0
    status = {"extendedResourceClaimStatus": {"resourceClaimName": "p-x"}}
    has = [f"gpu-{i}" for i in range(4)]
    of.seen("resourceclaims", dra.claim("p-x", dra.exactly(4), on="a", has=has, users=["uid-p"]), 0)
    of.pod_seen(pod("p", 4, ranked=["a"], on="a") | {"status": status}, 0)
    assert free(of, "a") == 0
    assert free(of, "b") == 8000


def test_nodes_with_a_device_plugin_come_before_the_devices_of_a_class() -> None:
    of = cluster([dra.gpus_of("a")], classes=[dra.device_class(resource="nvidia.com/gpu")])
    of.node_seen(node("plugin", 1))
    assert names(placed(of, pod("p", 1))) == ["plugin"]
    assert names(placed(of, pod("p", 2))) == ["a"]


# --- hostile ----------------------------------------------------------------------------------------------------------


def test_devices_that_cannot_be_read_are_named_and_left_out() -> None:
    bad = dra.gpu(1) | {"attributes": {"type": {"string": 7}}}
    of = cluster([dra.device_slice("a", [dra.gpu(0), bad, "nothing", {}])], [dra.template("one", dra.exactly())])
    assert names(placed(of, claiming("one"))) == ["a"]
    assert of.slices.ignored.keys() == {"slice-a"}
    many = dra.device_slice("b", [dra.gpu(index) for index in range(10_000)])
    of.seen("resourceslices", many, 0)
    assert of.slices.ignored["slice-b"] == "10000 devices, wanted at most 128"
    assert free(of, "b") == 128_000


def test_attributes_that_tell_devices_apart_are_dropped_and_nodes_stay_equal() -> None:
    by_uuid = dra.template("uuid", dra.exactly(selector=f'{ATTRIBUTES}.uuid == "GPU-n1-0"'))
    of = cluster(
        [dra.gpus_of(f"n{i}", 2) for i in range(40)],
        [by_uuid, dra.template("one", dra.exactly())],
        nodes=[f"n{i}" for i in range(40)],
    )
    assert len(set(of.nodes.columns.devices[:40].tolist())) == 1
    assert len(placed(of, claiming("one")).nodes) == 10
    assert placed(of, claiming("uuid")).reason == "its claims cannot be decided"
    few = cluster([dra.gpus_of("n0", 2), dra.gpus_of("n1", 2)], [by_uuid], nodes=["n0", "n1"])
    assert names(placed(few, claiming("uuid"))) == ["n1"]


def test_what_tenants_write_is_kept_within_bounds() -> None:
    long = dra.template("long", *[dra.exactly(selector=f"true{' ' * 9000}") for _ in range(2)])
    of = cluster(TWO, [long, dra.template("many", *[dra.exactly() for _ in range(4)])])
    assert placed(of, claiming("long")).reason == "its claims are too large"
    assert placed(of, claiming(*["many"] * 33)).reason == "it has too many claims"
    half = dra.template("half", dra.exactly(selector=f"true{' ' * 9000}"))
    of.seen("resourceclaimtemplates", half, 0)
    assert placed(of, claiming("half")).nodes
    assert placed(of, claiming("half", "half")).reason == "its claims are too large"
    table = of.nodes.devices
    for number in range(5000):
        of.seen(
            "resourceclaimtemplates", dra.template("t", dra.exactly(selector=f"true || {number} > {' ' * 8000}0")), 0
        )
        assert placed(of, claiming("t")).nodes
        assert table._matching._bytes <= 32 << 20
        if number > 50 and len(table._asked) < 40:
            break
    else:
        pytest.fail("the caches are never emptied")


def test_a_search_is_bounded() -> None:
    """Every order of 20 devices would be tried for a claim that cannot be met."""
    requests = [dra.exactly(5, selector=f"{ATTRIBUTES}.index < {limit}") for limit in (20, 20, 20, 4)]
    of = cluster([dra.gpus_of("a", 24)], [dra.template("much", *requests)], nodes=["a"])
    assert placed(of, claiming("much")).reason == "its claims cannot be decided"


def test_searches_of_one_decision_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """400 choices on each of thousands of nodes whose first GPU is taken."""
    first = dra.exactly(selector=f"{ATTRIBUTES}.index == 0")
    names_of = [f"n{number}" for number in range(30)]
    claims = [
        dra.claim(name, dra.exactly(), on=name, has=["gpu-0", "gpu-1"][: 1 + i % 2]) for i, name in enumerate(names_of)
    ]
    claims += [
        dra.claim(f"{name}-b", dra.exactly(), on=name, has=[f"gpu-{2 + i % 6}"]) for i, name in enumerate(names_of)
    ]
    much, one = dra.template("much", *[dra.exactly()] * 3, first), dra.template("one", dra.exactly())
    of = cluster([dra.gpus_of(name) for name in names_of], [much, one], claims, nodes=names_of)
    assert placed(of, claiming("much")).reason == "no node fits"
    monkeypatch.setattr(device_table, "_MAX_UNDONE", 1000)
    assert placed(of, claiming("much", priorityClassName="another-shape", nodeSelector={})).nodes == ()
    of.seen("resourceclaimtemplates", dra.template("again", *[dra.exactly()] * 3, first, dra.exactly()), 0)
    assert placed(of, claiming("again")).reason == "its claims cannot be decided"
    assert placed(of, claiming("one")).nodes, "another decision has all of its work"


def test_claims_for_more_devices_than_a_node_has_are_no_deeper_than_the_stack() -> None:
    """Claims for admin access leave devices free for each other, so that 256 requests find some."""
    admin = dra.template("admin", *[dra.exactly(adminAccess=True) for _ in range(7)])
    of = cluster(TWO, [admin, dra.template("one", dra.exactly())])
    assert placed(of, claiming(*["admin"] * 32)).reason == "its claims are too large"
    assert placed(of, claiming(*["admin"] * 19)).reason == "its claims cannot be decided"
    assert placed(of, claiming("one", *["admin"] * 3)).nodes
    of.pod_seen(claiming(*["admin"] * 32, ranked=["a"]), 0)


@pytest.mark.parametrize(("admin", "most", "left"), [(False, 4, 0), (True, device_table._MAX_HELD, 4000)])
def test_the_claims_that_are_reserved_on_one_node_are_bounded(
    monkeypatch: pytest.MonkeyPatch, admin: bool, most: int, left: int
) -> None:
    """Anybody can create pods that wait with a preference for one node. Each changed the node, and all were looked at again."""
    of = cluster(TWO, [dra.template(f"t{number}", dra.exactly(adminAccess=admin)) for number in range(300)])
    for number in range(300):
        of.pod_seen(claiming(f"t{number}", name=f"p{number}", ranked=["a"]), 0)
    looked_at = Counter[str]()

    def find(*of: Any) -> Any:
        looked_at.update(["claims"])
        return device_search.find(*of)

    monkeypatch.setattr(device_table, "find", find)
    of.nodes.devices.refresh("a")
    assert looked_at["claims"] == most
    assert free(of, "a") == left
    of.expire(1000)
    assert free(of, "a") == 4000


def test_one_more_claim_on_a_node_is_looked_at_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    of = cluster(TWO, [dra.template("one", dra.exactly())])
    looked_at = Counter[str]()

    def find(*of: Any) -> Any:
        looked_at.update(["claims"])
        return device_search.find(*of)

    of.pod_seen(claiming("one", name="first", ranked=["b"]), 0)
    monkeypatch.setattr(device_table, "find", find)
    for number in range(9):
        of.pod_seen(claiming("one", name=f"p{number}", ranked=["b"]), 0)
        assert (looked_at["claims"], free(of, "b")) == (number + 1, max(0, 6000 - 1000 * number))


def test_a_claim_for_which_nothing_was_left_counts_once_the_node_tells_more_devices() -> None:
    of = cluster(TWO, [dra.template("two", dra.exactly(2)), dra.template("three", dra.exactly(3))])
    for number in range(2):
        of.pod_seen(claiming("three", "two", name=f"p{number}", ranked=["a"]), 0)
    of.pod_seen(claiming("three", name="single", ranked=["a"]), 0)
    assert free(of, "a") == 1000, "only the last fits"
    of.seen("resourceslices", dra.gpus_of("a", 8), 0)
    assert free(of, "a") == 0
    of.pod_gone(claiming("three", name="single"))
    of.pod_gone(claiming("three", "two", name="p0"))
    of.pod_gone(claiming("three", "two", name="p1"))
    assert free(of, "a") == 8000


def test_expressions_that_need_too_much_work_leave_the_pod_alone_and_cost_nobody_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """8 selectors of 8 requests took 2.3 s on a thousand nodes of 60 models."""
    monkeypatch.setattr(device_matches, "_MAX_WORK", 40)
    monkeypatch.setattr(device_matches, "_COMPILED", 1 << 20)
    models = [dra.device_slice(name, [dra.gpu(i, f"{name}{i}", name) for i in range(8)]) for name in ("a", "b")]
    loop = f"[1, 2].all(x, x > 0) && {ATTRIBUTES}.productName != ''"
    many = " && ".join([f"{ATTRIBUTES}.productName != 'x{i}'" for i in range(4)])
    templates = [
        dra.template("loop", dra.exactly(selector=loop)),
        dra.template("many", *[dra.exactly(selector=f"{many} && {i} > -1") for i in range(8)]),
        dra.template("plain", dra.exactly(selector=many)),
    ]
    of = cluster(models, templates)
    for costly in ("loop", "many"):
        assert placed(of, claiming(costly)).reason == "its claims cannot be decided"
    assert names(placed(of, claiming("plain")))


def test_compiling_is_work_and_so_is_looking_at_many_kinds_of_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """32 expressions took 3 ms each to compile, and were looked at for 544 kinds of devices, which took 150 ms."""
    wide = " || ".join([f"{ATTRIBUTES}.index == {number}" for number in range(60)])
    short = f"{ATTRIBUTES}.productName != ''"
    templates = [dra.template("wide", dra.exactly(selector=wide)), dra.template("short", dra.exactly(selector=short))]
    of = cluster(TWO, templates)
    monkeypatch.setattr(device_matches, "_MAX_WORK", len(wide) // 8)
    assert placed(of, claiming("wide")).reason == "its claims cannot be decided"
    monkeypatch.setattr(device_matches, "_MAX_WORK", len(wide))
    assert names(placed(of, claiming("wide")))
    monkeypatch.setattr(device_matches, "_MAX_NEW", 3)
    assert placed(of, claiming("short")).reason == "its claims cannot be decided"
    monkeypatch.setattr(device_matches, "_MAX_NEW", 100)
    assert names(placed(of, claiming("short")))


def test_what_is_reserved_stays_counted_after_anothers_decision_has_used_up_its_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another tenant's expressions pushed out the results, and an event of the node found no work left to get them again."""
    templates = [dra.template("plain", dra.exactly(selector=f"{ATTRIBUTES}.productName == 'H100'"))]
    templates += [
        dra.template(f"t{i}", dra.exactly(selector=f"{ATTRIBUTES}.index > {-1 - i}"))
        for i in range(device_matches._MAX_SELECTORS)
    ]
    loop = f"[1, 2].all(x, x > 0) && {ATTRIBUTES}.productName != ''"
    of = cluster([dra.gpus_of("a", 8)], [*templates, dra.template("loop", dra.exactly(selector=loop))], nodes=["a"])
    reserve(of, claiming("plain"))
    monkeypatch.setattr(device_matches, "_MAX_MATCHES", 1024)
    for made in templates[1:]:
        placed(of, claiming(made["metadata"]["name"]))
    monkeypatch.setattr(device_matches, "_MAX_WORK", 10)
    monkeypatch.setattr(device_matches, "_COMPILED", 1 << 20)
    assert placed(of, claiming("loop")).reason == "its claims cannot be decided"
    of.nodes.devices.refresh("a")
    assert int(of.nodes.columns.free[f"{TOLD}{dra.DRIVER}"][of.nodes.row_of["a"]]) == 7_000


def test_the_claims_of_one_namespace_do_not_fill_the_memory_and_are_forgotten_with_their_objects() -> None:
    long = f"{ATTRIBUTES}.productName != '{'x' * 8_000}'"
    specs = Specs()
    for number in range(1_000):
        specs.seen(dra.template(f"t{number}", dra.exactly(selector=f"{number} > -1 && {long}")))
    assert sum(map(len, specs.values())) < 2 << 20
    other = dra.template("other", dra.exactly(selector=long))
    other["metadata"]["namespace"] = "team-b"
    specs.seen(other)
    assert specs["team-b/other"] != NO_SPEC
    for name in [*specs]:
        specs.gone(name)
    specs.seen(dra.template("t", dra.exactly(selector=long)))
    assert specs["team-a/t"] != NO_SPEC
    specs.seen(dra.template("t", dra.exactly(selector=long)))  # changed: it counts once
    assert specs["team-a/t"] != NO_SPEC


# --- parts of GPUs that other schedulers serve ------------------------------------------------------------------------

MEM, COUNT, INDEX = "aliyun.com/gpu-mem", "aliyun.com/gpu-count", "ALIYUN_COM_GPU_MEM_IDX"


def sharing_node(name: str) -> Object:
    """Two GPUs of 16 GiB each."""
    made = node(name, None, **{MEM: "32", COUNT: "2"})
    made["status"]["capacity"] = made["status"]["allocatable"]
    return made


def part(name: str, gib: int, on: str = "", index: str = "") -> Object:
    made = pod(name, 0, on=on or None, asks={MEM: str(gib)})
    made["spec"]["containers"][0]["resources"]["limits"] = {MEM: str(gib)}
    made["metadata"]["annotations"] = {**(made["metadata"].get("annotations") or {}), INDEX: index}
    return made


def test_a_part_of_a_gpu_goes_where_one_gpu_has_enough_and_is_held_there() -> None:
    of = state(
        [sharing_node("a"), sharing_node("b")],
        [part("one", 8, "a", "0"), part("two", 8, "a", "1"), part("three", 16, "b", "0")],
    )
    assert names(placed(of, part("p", 12))) == ["b"], "16 GiB are free on each node, on a they are apart"
    reserve(of, part("p", 12))
    assert names(placed(of, part("q", 12))) == []


def test_where_nobody_tells_the_gpus_a_part_is_left_to_its_scheduler() -> None:
    of = state([node("a", None, **{MEM: "32"})])
    assert placed(of, part("p", 12)).reason == "GPUs that another scheduler serves"
