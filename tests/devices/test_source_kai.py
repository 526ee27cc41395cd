"""KAI's groups of pods that share a GPU: what its binder writes, then forged groups and hostile texts.

Covers devices.source_kai.
"""

from itertools import permutations
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.controlplane.nodes import node
from tests.devices.kai import GROUP, KAI_SCHEDULER, part, reservation
from tests.reference import ROOT
from tests.state.objects import Object, facts, free, state, stored
from webhook.devices.source_kai import KAI, asking, shared_gpus
from webhook.state.state import ClusterState

MEMORY = f"{KAI.name}/memory"
LABELS = {"nvidia.com/gpu.memory": "81559"}


def parts_of(of: ClusterState, name: str) -> list[int]:
    """What is free of the memory of each shared GPU of a node, in MiB, the fullest first."""
    row = of.nodes.row_of[name]
    for at, _, layout, left in of.nodes.devices.published():
        if at == row:
            return sorted([int(left[counter]) for slot in layout.slots for _, counter, _, _ in slot.parts])
    return []


def test_what_its_binder_wrote() -> None:
    """See `tests/data/README.md`: two halves of one GPU; 10 GiB and a quarter of another; a quarter of a third."""
    recorded = orjson.loads((ROOT / "tests/data/kai-binder.json").read_bytes())["items"]
    of = state([node("gpu-0", 4, labels={"nvidia.com/gpu.memory": "40960"})], recorded)
    assert parts_of(of, "gpu-0") == [0, 40900 - 10240 - 10225, 30675]
    assert free(of, "gpu-0") == 1, "reservation pods hold the others"


@pytest.mark.parametrize("asked", [{"gpu-memory": "4000"}, {"gpu-fraction": "0.7"}])
def test_a_smaller_part_is_asked_for_in_one_way(asked: dict[str, str]) -> None:
    """KAI refuses pods that state a fraction and memory."""
    given = stored("p", 0)
    given["metadata"]["annotations"] = {**asked, "gpu-fraction-num-devices": "2"}
    assert asking(given, 0.25)["metadata"]["annotations"] == {"gpu-fraction": "0.25", "gpu-fraction-num-devices": "2"}


def labelled(made: Object) -> Object:
    made["metadata"]["labels"] = {GROUP: "g"}
    return made


HELD = reservation("g", "a")


@pytest.mark.parametrize(
    ("pods", "left"),
    [
        pytest.param([], [], id="nobody has a part"),
        pytest.param([stored("p", 1, on="a")], [], id="whole GPUs"),
        pytest.param([part("p", "0.5", "g", on="a")], [], id="a group that a tenant made up"),
        pytest.param([reservation("g", "a", namespace="team-a")], [], id="a reservation pod in a tenant's namespace"),
        pytest.param([reservation("g", "a", namespace="runai-reservation")], [], id="where KAI up to 0.5 had them"),
        pytest.param([reservation("g", "a", gpus=0)], [], id="one that holds no GPU"),
        pytest.param([reservation("g", "a", gpus=8)], [], id="one that holds all"),
        pytest.param([reservation("", "a")], [], id="without a group"),
        pytest.param([reservation("g", "b")], [], id="on another node"),
        pytest.param([HELD], [81500], id="its pods are not bound yet"),
        pytest.param([HELD, part("p", "0.5", "g", on="a")], [40750], id="half of it"),
        pytest.param([HELD, part("p", "0.5", "g", on="a"), part("q", "0.25", "g", on="a")], [20375], id="two pods"),
        pytest.param([HELD, part("p", "2000", "g", on="a", key="gpu-memory")], [79500], id="MiB"),
        pytest.param([HELD, part("p", "0.5", "other", on="a")], [81500], id="of a group that nobody reserved"),
        pytest.param([HELD, part("p", "0.5", "g", on="b")], [81500], id="of a group of another node"),
        pytest.param([HELD, part("p", "0.5", on="a")], [81500], id="no group"),
        pytest.param([HELD, labelled(part("p", "0.5", on="a"))], [81500], id="a label that KAI did not write"),
        pytest.param([HELD, part("p", "0.5", "g", on="a", schedulerName="team")], [40750], id="KAI by another name"),
        pytest.param([HELD, reservation("h", "a")], [81500, 81500], id="two groups"),
        pytest.param([HELD, reservation("h", "a"), part("p", "0.4", "g", "h", on="a")], [48900, 48900], id="a pod of two groups"),
        pytest.param([HELD, reservation("g", "a", name="again")], [81500, 81500], id="KAI reserved two GPUs for it"),
    ],
)  # fmt: skip
def test_what_is_left_of_each_shared_gpu(pods: list[Object], left: list[int]) -> None:
    of = state([node("a", labels=LABELS), node("b")], pods)
    assert parts_of(of, "a") == left


def test_a_pod_whose_annotations_all_went_has_no_part_any_more() -> None:
    made = part("p", "0.5", "g", on="a")
    of = state([node("a", labels=LABELS)], [HELD, made])
    del made["metadata"]["annotations"]
    of.pod_seen(made, 0)
    assert parts_of(of, "a") == [81500]


@pytest.mark.parametrize(
    ("labels", "memory"),
    [
        pytest.param({}, 100, id="no label: as KAI takes it"),
        pytest.param({"nvidia.com/gpu.memory": "15360"}, 15300, id="MiB, in hundreds"),
        pytest.param({"nvidia.com/gpu.memory": str(16 << 30)}, 16300, id="bytes"),
        pytest.param({"nvidia.com/gpu.memory": "-1"}, 100, id="a negative number"),
        pytest.param({"nvidia.com/gpu.memory": "9" * 63}, 100, id="a number without end"),
    ],
)
def test_the_memory_of_a_gpu(labels: dict[str, str], memory: int) -> None:
    (device,) = shared_gpus(["g"], labels).devices
    assert device.facts.capacity == {MEMORY: memory}


def test_the_reserved_gpu_is_taken_and_is_nobodys() -> None:
    """Other pods do not get it; and it counts as what its group has of it, under no namespace besides."""
    of = state([node("a")], [reservation("g", "a"), stored("p", 2, on="a")])
    assert free(of, "a") == 5
    assert {key: dict(rows) for key, rows in of.holdings.items()} == {("team-a", "nvidia.com/gpu"): {0: 2}}


def test_the_order_of_events_does_not_matter() -> None:
    nodes, pods = (
        [node("a", labels=LABELS)],
        [reservation("g", "a"), part("p", "0.5", "g", on="a"), stored("q", 1, on="a")],
    )
    wanted = state(nodes, pods)
    events = [("nodes", nodes[0]), *[("pods", each) for each in pods]]
    for order in permutations(events):
        of = state()
        for kind, obj in order:
            of.seen(kind, obj, 0)  # type: ignore[arg-type]
        assert parts_of(of, "a") == parts_of(wanted, "a") == [40750]
        assert facts(of) == facts(wanted)


def test_an_event_of_a_node_that_tells_nothing_new_changes_nothing() -> None:
    of = state([node("a", labels=LABELS)], [reservation("g", "a")])
    before = of.nodes.changes.position
    of.node_seen(node("a", labels=LABELS))
    assert of.nodes.changes.position == before


def test_what_ends_and_what_changes() -> None:
    reserved, half = reservation("g", "a"), part("p", "0.5", "g", on="a")
    of = state([node("a", labels=LABELS)], [reserved, half])
    of.node_seen(node("a", labels={"nvidia.com/gpu.memory": "40960"}))
    assert parts_of(of, "a") == [20450]
    of.node_gone("a")
    assert parts_of(of, "a") == []
    of.node_seen(node("a", labels=LABELS))
    assert parts_of(of, "a") == [40750]
    half["metadata"]["labels"] = {}
    of.pod_seen(half, 0)
    assert parts_of(of, "a") == [81500]
    del reserved["metadata"]["labels"]
    of.pod_seen(reserved, 0)
    assert (parts_of(of, "a"), free(of, "a")) == ([], 7)
    of.pod_seen(reservation("g", "a"), 0)
    of.pod_gone(reserved)
    assert (parts_of(of, "a"), free(of, "a")) == ([], 8)


REQUEST = (1, ((MEMORY, 0.5),))
BY_CONTAINER = "nvidia.com/container.main.gpu-memory.request"


def also(made: Object) -> Object:
    made["metadata"]["annotations"] |= {"gpu-memory": "9", BY_CONTAINER.replace("request", "limit"): "3Gi"}
    return made


@pytest.mark.parametrize(
    ("made", "asked"),
    [
        pytest.param(stored("p", 1, **KAI_SCHEDULER), None, id="whole GPUs"),
        pytest.param(part("p", schedulerName="default-scheduler"), None, id="a scheduler that does not read it"),
        pytest.param(part("p", limits={"nvidia.com/gpu": "1"}), None, id="a GPU beside it"),
        pytest.param(part("p"), REQUEST, id="half"),
        pytest.param(part("p", "2000", key="gpu-memory"), (1, ((MEMORY, 2000),)), id="MiB"),
        pytest.param(part("p", "0.5", "g", "h"), (2, ((MEMORY, 0.5),)), id="of two GPUs"),
        pytest.param(
            part("p", "0.5", *map(str, range(64))), (64, ((MEMORY, 0.5),)), id="of more GPUs than any node has"
        ),
        pytest.param(part("p", "2Gi", key=BY_CONTAINER), (1, ((MEMORY, 2048),)), id="of one container"),
        pytest.param(part("p", "2049M", key=BY_CONTAINER), (1, ((MEMORY, 1954),)), id="of one container, rounded down"),
        pytest.param(
            part("p", "2Gi", key=BY_CONTAINER.replace("request", "limit")), (1, ((MEMORY, 2048),)), id="its limit alone"
        ),
        pytest.param(
            also(part("p", "2Gi", "g", "h", key=BY_CONTAINER)), (2, ((MEMORY, 2048),)), id="before that of the pod"
        ),
    ],
)
def test_what_a_pod_asks_for(made: Object, asked: Any) -> None:
    claim = KAI.claim(made)
    found = None if claim is None else [(one.devices, one.amounts) for (one,) in claim.requests]
    assert found == (None if asked is None else [asked])


@pytest.mark.parametrize(
    "text", ["", "0", "0.0", "-0.5", "1.5", "nan", "inf", "1e-9", "0x1", "0.5 ", "٠.٥", "9" * 4096]
)
def test_a_number_that_is_none(text: str) -> None:
    for key in ("gpu-fraction", "gpu-memory", BY_CONTAINER):
        made = part("p", text, "g", on="a", key=key)
        assert (KAI.claim(made), KAI.uses(made)) == (None, ())
    many = part("p", "0.5", "g", on="a")
    many["metadata"]["annotations"]["gpu-fraction-num-devices"] = text or "2.0"
    assert (KAI.claim(many), KAI.uses(many)) == (None, ())


@pytest.mark.parametrize(("number", "used"), [("1", 1), ("64", 16)])
def test_a_pod_has_no_more_than_it_asks_for_nor_than_a_node_may_have(number: str, used: int) -> None:
    made = part("p", "0.25", "g", on="a")
    made["metadata"]["annotations"]["gpu-fraction-num-devices"] = number
    made["metadata"]["labels"] |= {f"{GROUP}/h{number}": f"h{number}" for number in range(1000)}
    assert [use.amounts for use in KAI.uses(made)] == [((MEMORY, 0.25),)] * used


def test_pods_that_a_tenant_binds_to_a_node_are_counted_within_bounds() -> None:
    """8 ms for each event of any of 5,000 such pods before, whoever the pods of the node are of."""
    forged = [part(f"forged-{number}", "1", "g", on="a", key="gpu-memory") for number in range(1100)]
    of = state([node("a", labels=LABELS)], [*forged, reservation("g", "a")])
    assert parts_of(of, "a") == [81500 - 1024]


@given(
    st.text(alphabet="0123456789.e-+_ naxif٣", max_size=20),
    st.sampled_from(["gpu-fraction", "gpu-memory", BY_CONTAINER]),
)
def test_no_text_is_an_error(text: str, key: str) -> None:
    made = part("p", text, "g", on="a", key=key)
    made["metadata"]["annotations"]["gpu-fraction-num-devices"] = text
    KAI.claim(made)
    KAI.uses(made)
    shared_gpus([text], {"nvidia.com/gpu.memory": text})
