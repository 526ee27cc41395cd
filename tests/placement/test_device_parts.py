"""Parts of GPUs: of partitions and shared devices of DRA, and those that other schedulers serve."""

import pytest

from tests.controlplane.nodes import node
from tests.devices import dra
from tests.placement.claiming import MIG, Object, claiming, cluster, free, partitioned, reserve
from tests.placement.placed import names, placed
from tests.state.objects import state, stored


def test_counters_and_not_names_say_what_is_free() -> None:
    used = [dra.claim("c", dra.exactly(of=MIG), on="a", has=["mig-0-0"])]
    templates = [dra.template("whole", dra.exactly()), dra.template("parts", dra.exactly(4, of=MIG))]
    of = cluster([partitioned("a", 1), partitioned("b", 2)], templates, used)
    assert free(of, "a") == 750
    assert names(placed(of, claiming("whole"))) == ["b"]
    assert names(placed(of, claiming("parts"))) == ["b"]


def test_pools_of_one_node_have_their_own_counters_whatever_these_are_called() -> None:
    slices = [partitioned("a", 1), partitioned("a", 1)]
    for number, each in enumerate(slices):
        each["metadata"]["name"] = each["spec"]["pool"]["name"] = f"a-{number}"
    of = cluster(slices, [dra.template("two", dra.exactly(2)), dra.template("three", dra.exactly(3))])
    assert free(of, "a") == 2000
    assert names(placed(of, claiming("two"))) == ["a"]
    assert names(placed(of, claiming("three"))) == []


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


# --- that other schedulers serve ---------------------------------------------------------------------------------------

MEM, COUNT, INDEX = "aliyun.com/gpu-mem", "aliyun.com/gpu-count", "ALIYUN_COM_GPU_MEM_IDX"


def sharing_node(name: str) -> Object:
    """Two GPUs of 16 GiB each."""
    made = node(name, 0, resources={MEM: "32", COUNT: "2"})
    made["status"]["capacity"] = made["status"]["allocatable"]
    return made


def part(name: str, gib: int, on: str = "", index: str = "") -> Object:
    made = stored(name, 0, on=on or None, limits={MEM: str(gib)})
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
    of = state([node("a", 0, resources={MEM: "32"})])
    assert placed(of, part("p", 12)).reason == "GPUs that another scheduler serves"
