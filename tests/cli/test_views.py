"""Every view of a cluster counts its GPUs alike, each of them once: `top`, `drain`, `try`, the page and the metrics.

Covers state.gpu_amounts, whatif.cluster.devices, whatif.waiting.free_gpus, whatif.waiting.causes.
"""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli import vendors
from tests.cli.mixed import BOTH, CLASSES, DEVICES, DRIVER, EVERYTHING, GPU, WANTED
from tests.cli.objects import TAKEN, snapshot, write
from tests.controlplane.nodes import node
from tests.devices import dra
from tests.placement.claiming import cluster, partitioned
from webhook.cli.checks.nodes import same_names
from webhook.cli.cluster.anonymous import anonymous
from webhook.cli.cluster.load import read_snapshot, write_snapshot
from webhook.cli.drain import drainable
from webhook.cli.ui.picture import Picture
from webhook.devices.source_kai import KAI
from webhook.devices.source_vgpu import VGPUS
from webhook.placement.gpu_counts import count
from webhook.placement.settings import Health
from webhook.state.gpu_amounts import gpu_amounts
from webhook.whatif.cluster.report import gpu_nodes, holders, report
from webhook.whatif.cluster.snapshot import Snapshot
from webhook.whatif.offline import load_policy
from webhook.whatif.tried import try_pods

HAMI, VOLCANO = VGPUS

POLICY = load_policy()
KINDS = {"whole": "free", "slice": "freeSlices", "share": "freeShares"}
"""How `try` calls what is free of each."""


def summed(rows: Iterable[tuple[str, float]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, amount in rows:
        found[name] = round(found.get(name, 0) + amount, 3)
    return found


FREE = summed([(name, total - has) for of in WANTED.values() for name, (total, has) in of.items()])
TOTAL = summed([(name, total) for of in WANTED.values() for name, (total, _) in of.items()])


@pytest.fixture
def everything(tmp_path: Path) -> Snapshot:
    return snapshot(tmp_path, *EVERYTHING)


def test_nodes_counts_each_gpu_once(everything: Snapshot) -> None:
    found = report(everything, POLICY, gpu_nodes(everything, POLICY))
    assert {
        each["name"]: {name: (of["total"], of["allocated"]) for name, of in each["gpus"].items()} for each in found
    } == WANTED
    for each in found:
        for of in each["gpus"].values():
            assert of["total"] == of["allocated"] + of["promised"] + of["free"] + of["unusable"]


def test_pods_have_what_is_allocated(everything: Snapshot) -> None:
    found = report(everything, POLICY, gpu_nodes(everything, POLICY))
    of_pods = summed([(name, amount) for each in found for p in each["pods"] for name, amount in p["gpus"].items()])
    assert of_pods == {name: round(TOTAL[name] - FREE[name], 3) for name in TOTAL}
    by = {each["namespace"]: each["gpus"] for each in holders(found, "namespace")}
    assert by["team-a"] == {DRIVER: 2.25, KAI.name: 0.75}
    (hami,) = [each for each in holders(found, "workload") if each["workload"] == "team/pod/hami-part"]
    assert hami["on"] == {"hami": 0.25}
    assert by["team"] == {DRIVER: 1, GPU: 5, HAMI.name: 0.25, VOLCANO.name: 0.5}


def test_drain_counts_the_same(everything: Snapshot) -> None:
    found = drainable(everything, POLICY)
    assert found["free"] == {name: free for name, free in FREE.items() if free}
    assert found["wholeNodes"] == 0


def test_try_counts_the_same(everything: Snapshot) -> None:
    found = try_pods(everything, POLICY, []).gpus
    wanted = {name: dict.fromkeys(("before", "after"), amount) for name, amount in FREE.items()}
    assert {name: of["free"] for name, of in found.items()} == wanted


def test_the_page_counts_the_same(everything: Snapshot) -> None:
    found = Picture(everything, POLICY).document["totals"]
    assert summed([(each["resource"], each["total"]) for each in found if each["model"] is not None]) == TOTAL
    assert summed([(each["resource"], each["free"]) for each in found if each["model"] is not None]) == FREE
    for each in found:
        assert each["total"] == each["allocated"] + each["promised"] + each["free"] + each["unusable"]


def test_the_metrics_count_the_same(everything: Snapshot) -> None:
    found = count(everything.state, POLICY.gpus, Health(), {})
    assert summed([(name, amount) for (name, _, word), amount in found.gpus.items() if word == "free"]) == FREE
    assert summed([(name, amount) for (name, _, _), amount in found.gpus.items()]) == TOTAL
    allocated = {name: round(TOTAL[name] - FREE[name], 3) for name in TOTAL}
    assert summed([(name, amount) for (_, name, _), amount in found.namespaces.items()]) == allocated


def test_an_anonymous_snapshot_counts_the_same(everything: Snapshot, tmp_path: Path) -> None:
    file = tmp_path / "anonymous.json"
    everything.taken = TAKEN
    write_snapshot(anonymous(everything), file)
    text = file.read_text()
    assert not [name for name in ("GPU-0", "GPU-dra-0", "one-x") if name in text]
    found = count(read_snapshot(file).state, POLICY.gpus, Health(), {})
    assert summed([(name, amount) for (name, _, word), amount in found.gpus.items() if word == "free"]) == FREE
    assert summed([(name, amount) for (name, _, _), amount in found.gpus.items()]) == TOTAL


def test_gpus_of_a_device_plugin_and_of_slices_are_others_if_the_node_has_so_many(tmp_path: Path) -> None:
    objects = [*CLASSES, *BOTH[1:], node("both", 4, labels={"nvidia.com/gpu.count": "8"})]
    (found,) = report(read := snapshot(tmp_path, *objects), POLICY, gpu_nodes(read, POLICY))
    assert {name: (of["total"], of["allocated"]) for name, of in found["gpus"].items()} == {GPU: (4, 1), DRIVER: (4, 1)}


def test_without_claims_it_is_not_known_what_is_free_of_the_devices_of_dra(tmp_path: Path) -> None:
    kinds = ["Node", "Pod", "ResourceSlice", "DeviceClass", "ResourceClaimTemplate"]
    objects = [each for each in DEVICES if each["kind"] in kinds]
    read = read_snapshot(write(tmp_path, *objects, kinds=kinds))
    assert gpu_amounts(read.state, POLICY.gpus)[GPU].offered.sum() == 0
    assert DRIVER not in gpu_amounts(read.state, POLICY.gpus)


# --- nodes of every vendor --------------------------------------------------------------------------------------------


@pytest.fixture
def of_vendors(tmp_path: Path) -> Snapshot:
    return snapshot(tmp_path, *vendors.OBJECTS)


def test_every_view_counts_the_gpus_of_every_vendor_alike(of_vendors: Snapshot) -> None:
    found = report(of_vendors, POLICY, gpu_nodes(of_vendors, POLICY))
    counted = {each["name"]: {of: (n["total"], n["allocated"]) for of, n in each["gpus"].items()} for each in found}
    assert counted == vendors.WANTED
    amounts = [(of, *each) for held in vendors.WANTED.values() for of, each in held.items()]
    total, has = (summed([(each[0], each[at]) for each in amounts]) for at in (1, 2))
    withdrawn = {vendors.GPU: 16}
    free = {of: round(total[of] - has[of] - withdrawn.get(of, 0), 3) for of in total}

    metrics = count(of_vendors.state, POLICY.gpus, Health(), {}).gpus
    assert summed([(of, amount) for (of, _, _), amount in metrics.items()]) == total
    assert summed([(of, amount) for (of, _, word), amount in metrics.items() if word == "free"]) == free

    page = [each for each in Picture(of_vendors, POLICY).document["totals"] if each["model"] is not None]
    assert summed([(each["resource"], each["total"]) for each in page]) == total
    assert summed([(each["resource"], each["free"]) for each in page]) == free

    tried = try_pods(of_vendors, POLICY, []).gpus
    assert {of: sum(n[key]["before"] for key in KINDS.values() if key in n) for of, n in tried.items()} == free
    drained = drainable(of_vendors, POLICY)
    assert summed([pair for key in ("free", "freeSlices", "freeShares") for pair in drained[key].items()]) == {
        of: amount for of, amount in free.items() if amount
    }


def test_every_view_says_alike_what_one_of_a_resource_is(of_vendors: Snapshot) -> None:
    nodes, wanted = of_vendors.state.nodes, dict[tuple[str, str], float]()
    assert {on: (of, nodes.one_of(on, of).kind) for on, (of, _) in vendors.ONES.items()} == vendors.ONES
    for on, (of, kind) in vendors.ONES.items():
        total, has = vendors.WANTED[on][of]
        wanted[of, kind] = wanted.get((of, kind), 0) + total - has

    tried = try_pods(of_vendors, POLICY, []).gpus
    assert {(of, kind): tried[of][KINDS[kind]]["before"] for of, kind in wanted} == wanted
    for of in (vendors.GPU, vendors.AMD):
        (said,) = [each.text for each in same_names(of_vendors, POLICY) if of in each.text]
        for on, (resource, kind) in vendors.ONES.items():
            assert resource != of or on in re.split("[ ,:]+", next(t for t in said.split(" and ") if kind in t))


# --- numbers of any cluster -------------------------------------------------------------------------------------------

claims_of_nodes = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.sampled_from(["gpu-0", "gpu-1", "mig-0-0", "mig-0-1", "mig-1-3", "gone"]),
        st.booleans(),
    ),
    max_size=8,
)


@given(whole=st.integers(0, 8), split=st.integers(0, 2), claims=claims_of_nodes, offered=st.integers(0, 8))
def test_sums_add_up(whole: int, split: int, claims: list[tuple[str, str, bool]], offered: int) -> None:
    found = [
        dra.claim(f"c{n}", dra.exactly(), on=on, has=[device], admin=admin)
        for n, (on, device, admin) in enumerate(claims)
    ]
    of = cluster([dra.gpus_of("a", whole), partitioned("b", split)], claims=found)
    of.node_seen(node("a", offered, labels={"nvidia.com/gpu.count": ""}) if offered else node("a", 0))
    amounts = gpu_amounts(of, POLICY.gpus)
    for each in amounts.values():
        assert each.allocated + each.promised + each.free == pytest.approx(each.offered)
    row = of.nodes.row_of["a"]
    taken = amounts[DRIVER].allocated[row] if DRIVER in amounts else 0
    assert sum(each.offered[row] for each in amounts.values()) == pytest.approx(
        max(offered, taken) if offered else whole
    )
    counts = count(of, POLICY.gpus, Health(), {}).gpus
    for name, each in amounts.items():
        total = sum(amount for (resource, _, _), amount in counts.items() if resource == name)
        assert total == pytest.approx(float(each.offered.sum()), abs=0.01)
