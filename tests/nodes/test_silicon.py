"""Devices that several resources hand out, as chips and their cores: what one has given out is free in none of them."""

import pytest

from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from tests.state.objects import placer, state, stored
from webhook.kube.asked import AskedPod
from webhook.placement.settings import PlacementSettings
from webhook.policy.model import Policy
from webhook.state.gpu_amounts import gpu_amounts
from webhook.state.state import ClusterState

CHIP, CORE, OLD = "aws.amazon.com/neuron", "aws.amazon.com/neuroncore", "aws.amazon.com/neurondevice"
CHIPS = node("a", 0, resources={CHIP: "16", OLD: "16", CORE: "32"})


def free(of: ClusterState) -> dict[str, int]:
    row = of.nodes.row_of["a"]
    return {name: int(of.nodes.columns.free[name][row]) for name in (CHIP, OLD, CORE)}


@pytest.mark.parametrize(
    ("asked", "left"),
    [
        pytest.param({}, (16, 16, 32), id="nothing is taken"),
        pytest.param({CHIP: 16}, (0, 0, 0), id="all chips"),
        pytest.param({CHIP: 4}, (12, 12, 24), id="some chips"),
        pytest.param({OLD: 4}, (12, 12, 24), id="some chips by their old name"),
        pytest.param({CORE: 8}, (12, 12, 24), id="cores of whole chips"),
        pytest.param({CORE: 3}, (14, 14, 29), id="a core of a chip"),
        pytest.param({CHIP: 4, CORE: 8}, (8, 8, 16), id="chips and cores"),
    ],
)
@pytest.mark.parametrize("late", [False, True], ids=["node first", "pods first"])
def test_what_one_name_hands_out_is_free_under_no_other(
    asked: dict[str, int], left: tuple[int, ...], late: bool
) -> None:
    pods = [stored(f"on-{n}", 0, on="a", limits={name: str(amount)}) for n, (name, amount) in enumerate(asked.items())]
    of = state([] if late else [CHIPS], pods)
    if late:
        of.seen("nodes", CHIPS, 0)
    assert tuple(free(of).values()) == left
    for each in pods:
        of.seen("pods", {**each, "status": {"phase": "Succeeded"}}, 0)
    assert tuple(free(of).values()) == (16, 16, 32)


def test_a_pod_of_cores_goes_where_chips_are_free() -> None:
    nodes = [CHIPS, node("b", 0, resources={CHIP: "16", CORE: "32"})]
    of = state(nodes, [stored("x", 0, on="a", limits={CHIP: "16"})])
    gpus = Policy.load("{}").gpus
    found = placer(of).place(AskedPod(pod("p", 0, limits={CORE: "8"}), gpus), of.view(0), PlacementSettings(), "pack")
    assert [each.node for each in found.nodes] == ["b"]


def test_each_unit_counts_what_is_taken_in_any() -> None:
    gpus = Policy.load("{}").gpus
    of = state([CHIPS], [stored("x", 0, on="a", limits={CHIP: "4"}), stored("y", 0, on="a", limits={CORE: "8"})])
    row, found = of.nodes.row_of["a"], gpu_amounts(of, gpus)
    assert {name: float(found[name].allocated[row]) for name in (CHIP, CORE)} == {CHIP: 8, CORE: 16}
