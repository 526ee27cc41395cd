"""Every view of a cluster counts its GPUs alike, each of them once: `nodes`, `balance`, `simulate`, the page and the metrics.

Covers cluster.gpu_amounts, cli.cluster.devices, cli.waiting.free_gpus, cli.waiting.causes.
"""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.objects import TAKEN, Json, call, placed, snapshot, write
from tests.cluster import dra
from tests.cluster.kai import part, reservation
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from tests.placement.test_devices import MIG, cluster, partitioned
from webhook.cli.balance import balanced
from webhook.cli.cluster.anonymous import anonymous
from webhook.cli.cluster.devices import PodGpus
from webhook.cli.cluster.load import read_snapshot, write_snapshot
from webhook.cli.cluster.report import gpu_nodes, holders, report
from webhook.cli.cluster.snapshot import Snapshot
from webhook.cli.offline import load_policy
from webhook.cli.pending import answers
from webhook.cli.simulate import manifests
from webhook.cli.simulating.moves import suggestions
from webhook.cli.simulating.run import simulate
from webhook.cli.ui.picture import Picture
from webhook.cli.waiting.situation import Situation
from webhook.cluster.gpu_amounts import gpu_amounts
from webhook.cluster.source_hami import HAMI
from webhook.cluster.source_kai import KAI
from webhook.cluster.source_volcano import VOLCANO
from webhook.placement.gpu_counts import count
from webhook.placement.settings import Health

POLICY = load_policy()
GPU, DRIVER = "nvidia.com/gpu", dra.DRIVER


def of_kind(kind: str, obj: Json) -> Json:
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "spec": {}, "status": {}, **obj}


def claimed(name: str, on: str, device: str, *users: str, **more: Any) -> Json:
    return of_kind("ResourceClaim", dra.claim(name, dra.exactly(**more), on=on, has=[device], users=users))


def claiming(name: str, claim: str, on: str) -> Json:
    """A pod whose claim was made of a template."""
    made = pod(name, 0, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one"}])
    made["metadata"]["namespace"] = "team-a"
    return placed(made, on, resourceClaimStatuses=[{"name": "gpu", "resourceClaimName": claim}])


def annotated(kind: Json, **notes: str) -> Json:
    kind["metadata"]["annotations"] = notes
    return kind


def shared_pod(name: str, on: str | None, limits: dict[str, str], notes: dict[str, str]) -> Json:
    made = placed(pod(name, 0, container={"resources": {"limits": limits, "requests": limits}}), on)
    return annotated(made, **notes) if on else made


HAMI_PART = {GPU: "1", "nvidia.com/gpumem": "20000", "nvidia.com/gpucores": "25"}
VOLCANO_PART = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "8000"}
BARE = {GPU: "0"}
CLASSES = [
    of_kind("DeviceClass", dra.device_class(resource=GPU)),
    of_kind("DeviceClass", dra.device_class(MIG, "mig")),
    of_kind("ResourceClaimTemplate", dra.template("one", dra.exactly())),
    of_kind("ResourceClaimTemplate", dra.template("four", dra.exactly(4))),
    of_kind("ResourceClaimTemplate", dra.template("part", dra.exactly(of=MIG))),
]
PLUGIN = [node("plugin", 8), placed(pod("trainer", 3), "plugin")]
DEVICES = [
    node("dra", resources=BARE),
    of_kind("ResourceSlice", dra.gpus_of("dra", 4)),
    claimed("one-x", "dra", "gpu-0", "uid-by-claim"),
    claiming("by-claim", "one-x", "dra"),
    claimed("made", "dra", "gpu-1", "uid-by-name"),
    placed(pod("by-name", 1), "dra", extendedResourceClaimStatus={"resourceClaimName": "made"}),
]
PARTITIONS = [
    node("mig", resources=BARE),
    of_kind("ResourceSlice", partitioned("mig", 2)),
    claimed("part-x", "mig", "mig-0-0", "uid-by-part", of=MIG),
    claiming("by-part", "part-x", "mig"),
]
SHARED = [
    annotated(
        node("hami", 2, replicas=5), **{HAMI.registered: "".join(f"GPU-{n},5,80000,100,A100,0,true:" for n in range(2))}
    ),
    shared_pod("hami-part", "hami", HAMI_PART, {HAMI.assigned[0]: "GPU-0,NVIDIA,20000,25:;"}),
    annotated(
        node("volcano", resources={**BARE, "volcano.sh/vgpu-number": "20"}),
        **{VOLCANO.registered: "".join(f"GPU-{n},10,16000,V100,true,hami-core:" for n in range(2))},
    ),
    shared_pod("volcano-part", "volcano", VOLCANO_PART, {VOLCANO.assigned[0]: "GPU-1,NVIDIA,8000,0:;"}),
]
BY_KAI = [
    node("kai", 4, labels={"nvidia.com/gpu.memory": "16000"}),
    *[{"apiVersion": "v1", "kind": "Pod", **reservation(group, "kai")} for group in "gh"],
    {"apiVersion": "v1", "kind": "Pod", **part("kai-half", "0.5", "g", on="kai")},
    {"apiVersion": "v1", "kind": "Pod", **part("kai-mib", "4000", "h", on="kai", key="gpu-memory")},
    placed(pod("kai-whole", 1), "kai"),
]
BOTH = [
    node("both", 4),
    of_kind("ResourceSlice", dra.gpus_of("both", 4)),
    placed(pod("by-plugin", 1), "both"),
    claimed("one-y", "both", "gpu-3", "uid-beside"),
    claiming("beside", "one-y", "both"),
]
EVERYTHING = [*CLASSES, *PLUGIN, *DEVICES, *PARTITIONS, *SHARED, *BY_KAI, *BOTH]
WANTED = {
    "plugin": {GPU: (8, 3)},
    "dra": {DRIVER: (4, 2)},
    "mig": {DRIVER: (2, 0.25)},
    "hami": {HAMI.name: (2, 0.25)},
    "volcano": {VOLCANO.name: (2, 0.5)},
    "kai": {GPU: (2, 1), KAI.name: (2, 0.75)},
    "both": {GPU: (3, 1), DRIVER: (1, 1)},
}
"""Total and allocated by node and resource."""


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
            assert of["total"] == of["allocated"] + of["promised"] + of["free"]


def test_pods_have_what_is_allocated(everything: Snapshot) -> None:
    found = report(everything, POLICY, gpu_nodes(everything, POLICY))
    of_pods = summed([(name, amount) for each in found for p in each["pods"] for name, amount in p["gpus"].items()])
    assert of_pods == {name: round(TOTAL[name] - FREE[name], 3) for name in TOTAL}
    by = {each["namespace"]: each["gpus"] for each in holders(found, "namespace")}
    assert by["team-a"] == {DRIVER: 2.25, KAI.name: 0.75}
    assert by["team"] == {DRIVER: 1, GPU: 5, HAMI.name: 0.25, VOLCANO.name: 0.5}


def test_balance_counts_the_same(everything: Snapshot) -> None:
    found = balanced(everything, POLICY, None)
    assert found["freeGpus"] == sum(FREE.values())
    assert found["wholeNodes"] == 0
    assert {each["of"]: each["gpus"] for each in found["workloads"]}["pod/hami-part"] == {"hami": 0.25}


def test_simulate_counts_the_same(everything: Snapshot) -> None:
    found = simulate(everything, POLICY, [[]]).gpus
    wanted = {name: dict.fromkeys(("before", "without", "with"), amount) for name, amount in FREE.items()}
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


# --- new pods with claims ---------------------------------------------------------------------------------------------


def asking(name: str, *templates: str, **more: Any) -> Json:
    claims = [{"name": f"c{n}", "resourceClaimTemplateName": each} for n, each in enumerate(templates)]
    return pod(name, 0, resourceClaims=claims, **more)


def named(name: str, claim: str) -> Json:
    return pod(name, 0, resourceClaims=[{"name": "c", "resourceClaimName": claim}])


TEAM = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}
ONE_CLAIM = of_kind("ResourceClaim", dra.claim("one-for-all", dra.exactly(2)))


@pytest.mark.parametrize(
    ("pods", "bound", "left"),
    [
        pytest.param([asking("a", "one"), asking("b", "one")], {"dra": 2}, {DRIVER: 1.75}, id="one each, on two that are left"),
        pytest.param([asking(n, "one") for n in "abcd"], {"dra": 2, "mig": 1}, {DRIVER: 0.75}, id="a GPU of which a part is taken is not whole"),
        pytest.param([asking("a", "four")], {}, {DRIVER: 3.75}, id="more than are free"),
        pytest.param([asking("a", "part", "part"), asking("b", "one")], {"mig": 1, "dra": 1}, {DRIVER: 2.25}, id="parts"),
        pytest.param([pod("a", 2), pod("b", 5)], {"dra": 1, "plugin": 1}, {DRIVER: 1.75, GPU: 0}, id="an extended resource, by either"),
        pytest.param([named("a", "one-for-all"), named("b", "one-for-all")], {"dra": 2}, {DRIVER: 1.75}, id="a claim that pods share"),
    ],
)  # fmt: skip
def test_pods_with_claims_are_simulated(
    tmp_path: Path, pods: list[Json], bound: dict[str, int], left: dict[str, float]
) -> None:
    """The stock scheduler takes the emptiest node by CPU: all are alike, so it is the first that can take the pod."""
    objects = [*CLASSES, *PLUGIN, *DEVICES, *PARTITIONS, TEAM, ONE_CLAIM]
    file = tmp_path / "pods.json"
    for each in pods:
        each["metadata"]["namespace"] = "team-a"
    file.write_bytes(orjson.dumps({"apiVersion": "v1", "kind": "List", "items": pods}))
    read = snapshot(tmp_path, *objects)
    planned = manifests(file.read_bytes(), str(file), POLICY, "team-a")
    found = simulate(read, POLICY, [planned])
    for side in ("without", "with"):
        on = sum([each.sides[side].bound for each in found.workloads], Counter[str]())
        assert on == bound
        assert {name: found.gpus[name]["free"][side] for name in left} == left


def test_templates_of_the_manifest_are_known(tmp_path: Path) -> None:
    file = tmp_path / "pods.json"
    new = of_kind("ResourceClaimTemplate", dra.template("new", dra.exactly(2)))
    file.write_bytes(
        orjson.dumps({"apiVersion": "v1", "kind": "List", "items": [new, asking("a", "new"), asking("b", "new")]})
    )
    cluster = write(tmp_path, *CLASSES, *DEVICES, TEAM)
    result = call("simulate", "-f", file, "-n", "team-a", "--cluster", cluster, "-o", "json")
    found = json.loads(result.stdout)
    assert [(each["of"], each["gpus"], each["with"]["bound"]) for each in found["workloads"]] == [
        ("pod/a", {DRIVER: 2}, {"dra": 1}),
        ("pod/b", {DRIVER: 2}, {}),
    ]
    (cause,) = found["workloads"][1]["with"]["causes"]
    assert cause["cause"] == "noDevice"


def test_a_part_of_a_shared_gpu_fits_where_one_gpu_has_enough(tmp_path: Path) -> None:
    full = shared_pod(
        "full",
        "volcano",
        VOLCANO_PART | {"volcano.sh/vgpu-memory": "12000"},
        {VOLCANO.assigned[0]: "GPU-0,NVIDIA,12000,0:;"},
    )
    waits = shared_pod("waits", None, VOLCANO_PART | {"volcano.sh/vgpu-memory": "9000"}, {})
    read = snapshot(tmp_path, *SHARED[2:], full, waits)
    (answer,) = answers(read, POLICY, None)
    assert [cause.cause for cause in answer.causes] == ["noDevice"]
    assert (
        "no GPU of node volcano has enough free for the part that it asks for (by volcano.sh/vgpu)"
        in answer.causes[0].text
    )
    assert PodGpus(read, POLICY).asked(waits) == {VOLCANO.name: 0.563}


def test_pods_with_claims_are_moved(tmp_path: Path) -> None:
    of = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "of-train", "controller": True}
    objects = [*CLASSES, *DEVICES, node("other", resources=BARE), of_kind("ResourceSlice", dra.gpus_of("other", 8))]
    for number in range(5):
        objects += [
            claimed(f"on-{number}", "other", f"gpu-{number}", f"uid-on-{number}"),
            claiming(f"on-{number}", f"on-{number}", "other"),
        ]
    for each in objects:
        if each["kind"] == "Pod":
            each["metadata"]["ownerReferences"] = [of]
    found = list(suggestions(Situation(snapshot(tmp_path, *objects), POLICY)))
    assert [each.document() for each in found] == [
        {"node": "dra", "moves": [{"pod": "team-a/by-claim", "to": "other"}, {"pod": "team/by-name", "to": "other"}]}
    ]


def test_parts_that_kai_placed_are_not_said_to_move(tmp_path: Path) -> None:
    """Where they would go is KAI's to say. It is said of the pod with a whole GPU beside them."""
    of = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "of-web", "controller": True}
    objects = [*BY_KAI[:-1], node("other", 4), placed(pod("moves", 2), "other")]
    for each in objects:
        if each["kind"] == "Pod":
            each["metadata"]["ownerReferences"] = [of]
    read = snapshot(tmp_path, *objects)
    found = list(suggestions(Situation(read, POLICY)))
    assert [each.document() for each in found] == [{"node": "other", "moves": [{"pod": "team/moves", "to": "kai"}]}]
    assert PodGpus(read, POLICY).asked(part("p", "0.3")) == {KAI.name: 0.3}


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
