"""What is said of a ResourceClaim without devices. Which devices a claim gets is in tests/devices, and what is said of the common
cases in tests/e2e/test_pending.py.

Covers whatif.waiting.free_devices.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.mixed import BARE, GPU, HAMI
from tests.cli.objects import Json, of_kind, placed
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from tests.devices import dra
from tests.whatif.waiting.waits import DEVICE_CLASS, answer, claiming, held, mounting, obj, waiting
from webhook.whatif.answers import Answer

HOSTNAME = "kubernetes.io/hostname"
FREE, NONE_FREE = "fitsNow", "noDevice"
ON_N = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]}


def device(name: str, model: str = "A100", **more: Any) -> Json:
    return {"name": name, "attributes": {"model": {"string": model}}, **more}


def of_model(*models: str) -> Json:
    """A request for a device of one of these models."""
    expression = f'device.attributes["gpu.x"].model in {json.dumps(models)}'
    return {**ANY, "selectors": [{"cel": {"expression": expression}}]}


def part(amount: int) -> Json:
    """What a device takes of the memory of its GPU."""
    return {"consumesCounters": [{"counterSet": "gpu", "counters": {"memory": {"value": f"{amount}Gi"}}}]}


ANY: Json = {"deviceClassName": "dc"}
ALL = {**ANY, "allocationMode": "All"}
SICK = {"taints": [{"key": "sick", "effect": "NoSchedule"}]}
UNKNOWN: Json = {**ANY, "selectors": [{"cel": {"expression": "device.nothing.like.it == 3"}}]}
TAINTED = "it does not tolerate the taints of devices of node n: "
RULE = obj(
    "DeviceTaintRule",
    "r",
    {"deviceSelector": {"pool": "p"}, "taint": {"key": "xid", "effect": "NoExecute"}},
    metadata={"namespace": ""},
)
TWO = [device("a"), device("b")]
CASES = [
    pytest.param(TWO, [ANY, ANY], [], FREE, "", "", id="two requests, two devices"),
    pytest.param([device("a"), device("b", "L4")], [of_model("A100"), of_model("A100", "L4")], [], FREE, "", "", id="one of them has a choice"),
    pytest.param(TWO, [{**ANY, "count": 2}], ["a"], NONE_FREE, "2 devices of dc wanted, at most 1 free on a node: not on node n", "ask for at most 1 in a new claim", id="one of two is taken"),
    pytest.param(TWO, [{**ANY, "count": 3}], [], NONE_FREE, "at most 2 free", "ask for at most 2 in a new claim, or repair the driver on node n", id="more than there are"),
    pytest.param(TWO, [{**ANY, "count": 3}, ANY], [], NONE_FREE, "3 devices of dc wanted, at most 2 free", "ask for fewer in a new claim", id="more than there are, and another request needs one"),
    pytest.param(TWO, [{**ANY, "count": 3}], ["a"], NONE_FREE, "at most 1 free", "ask for at most 1 in a new claim, or", id="more than there are, and one is taken"),
    pytest.param([device("a"), device("b", **SICK)], [ALL], [], NONE_FREE, "all devices that match are wanted, and others have some of those of node n, or they have taints", "", id="all, and one has a taint"),
    pytest.param([device("a", **SICK)], [ANY], [], NONE_FREE, f"1 device of dc wanted, and {TAINTED}sick", "", id="a device with a taint"),
    pytest.param([device("a", **SICK)], [{**ANY, "tolerations": [{"key": "sick", "operator": "Exists"}]}], [], FREE, "", "", id="a taint that is tolerated"),
    pytest.param([*TWO, RULE], [ANY], [], NONE_FREE, f"{TAINTED}xid", "kubectl get devicetaintrules", id="a taint of a rule"),
    pytest.param([device("a")], [{**ANY, "capacity": {"requests": {"memory": "1Gi"}}}], [], NONE_FREE, "no device matches the capacity that it asks for", "", id="more capacity than any has"),
    pytest.param([device("a")], [UNKNOWN], [], NONE_FREE, "whether the devices of node n can be had is not known: a selector", "see what the scheduler says", id="CEL that cannot be evaluated here"),
    pytest.param([device("half", **part(40)), device("rest", **part(40))], [of_model("A100")], ["half"], FREE, "", "", id="the half that is left of a GPU"),
    pytest.param([device("whole", **part(80)), device("half", "MIG", **part(40))], [of_model("A100")], ["half"], NONE_FREE, "at most 0 free on a node", "wait for a claim", id="a whole GPU of which others have a half"),
]  # fmt: skip


def asked(tmp_path: Path, devices: list[Json], requests: list[Json], taken: list[str], **offered_to: Any) -> Answer:
    """The answer for a pod with one claim. `taken`: what another claim has of the devices of node n."""
    head = {"driver": "gpu.x", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 2}, **offered_to}
    counters = [{"name": "gpu", "counters": {"memory": {"value": "80Gi"}}}]
    wanted = [{"name": f"r{number}", "exactly": each} for number, each in enumerate(requests)]
    results = [{"driver": "gpu.x", "pool": "p", "device": name} for name in taken]
    allocation = {"devices": {"results": results}, "nodeSelector": ON_N}
    given = {"devices": [each for each in devices if "kind" not in each]}
    return answer(
        tmp_path,
        *(node("n"), DEVICE_CLASS, *[each for each in devices if "kind" in each]),
        obj("ResourceSlice", "s", head | given, metadata={"namespace": ""}),
        obj("ResourceSlice", "t", head | {"sharedCounters": counters}, metadata={"namespace": ""}),
        obj("ResourceClaim", "other", status={"allocation": allocation} if taken else {}),
        *(obj("ResourceClaim", "c", {"devices": {"requests": wanted}}), claiming(resourceClaimName="c")),
    )


@pytest.mark.parametrize(("devices", "requests", "taken", "word", "text", "fix"), CASES)
def test_what_is_said_of_a_claim(
    tmp_path: Path, devices: list[Json], requests: list[Json], taken: list[str], word: str, text: str, fix: str
) -> None:
    (cause,) = asked(tmp_path, devices, requests, taken, nodeName="n").causes
    assert cause.cause == word, cause
    assert text in cause.text
    assert fix in cause.fix


def test_who_holds_the_counters_of_a_gpu_is_named(tmp_path: Path) -> None:
    """A partition of another class has a part of the GPU that is wanted whole."""
    devices = [device("whole", **part(80)), device("half", "MIG", **part(40))]
    other_class = obj("DeviceClass", "mig", DEVICE_CLASS["spec"], metadata={"namespace": ""})
    holds = placed(pod("holds", 0), "n")
    head = {"driver": "gpu.x", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 2}, "nodeName": "n"}
    results = [{"request": "r0", "driver": "gpu.x", "pool": "p", "device": "half"}]
    status = {
        "allocation": {"devices": {"results": results}, "nodeSelector": ON_N},
        "reservedFor": [{"resource": "pods", "name": "holds", "uid": holds["metadata"]["uid"]}],
    }
    counters = [{"name": "gpu", "counters": {"memory": {"value": "80Gi"}}}]
    (cause,) = answer(
        tmp_path,
        *(node("n"), DEVICE_CLASS, other_class, {**holds, "kind": "Pod"}),
        obj("ResourceSlice", "s", head | {"devices": devices}, metadata={"namespace": ""}),
        obj("ResourceSlice", "t", head | {"sharedCounters": counters}, metadata={"namespace": ""}),
        obj(
            "ResourceClaim",
            "o",
            {"devices": {"requests": [{"name": "r0", "exactly": {"deviceClassName": "mig"}}]}},
            status,
        ),
        obj("ResourceClaim", "c", {"devices": {"requests": [{"name": "r0", "exactly": of_model("A100")}]}}),
        claiming(resourceClaimName="c"),
    ).causes
    assert (cause.fixes[0].words, cause.helps) == ("wait for pod/holds in team to end", 1)


CAPACITIES = [
    pytest.param([("10Gi", {"matchLabels": {HOSTNAME: "n"}})], "", id="as much as is asked for"),
    pytest.param([("4Gi", {"matchLabels": {HOSTNAME: "n"}})], "at most 4Gi there", id="less"),
    pytest.param([("99Gi", {"matchLabels": {HOSTNAME: "m"}})], "at most nothing there", id="more, of another node"),
    pytest.param([("99Gi", None)], "at most nothing there", id="more, of nobody"),
    pytest.param([("99Gi", {})], "", id="more, of all nodes"),
    pytest.param(
        [("99Gi", {"matchLabels": {HOSTNAME: "n", "kubernetes.io/os": "linux"}})], "", id="more, by two labels"
    ),
    pytest.param(
        [("99Gi", {"matchExpressions": [{"key": HOSTNAME, "operator": "Exists"}]})], "", id="more, by an expression"
    ),
    pytest.param([], "at most nothing there", id="none known"),
]


@pytest.mark.parametrize(("capacities", "text"), CAPACITIES)
@pytest.mark.parametrize("says", [True, False])
def test_the_storage_that_a_driver_has(
    tmp_path: Path, capacities: list[tuple[str, Json | None]], text: str, says: bool
) -> None:
    """The scheduler's own words are in tests/e2e/pending."""
    late = {"provisioner": "csi.x", "volumeBindingMode": "WaitForFirstConsumer"}
    asked = {"storageClassName": "late", "resources": {"requests": {"storage": "10Gi"}}}
    of_capacity = [
        obj("CSIStorageCapacity", f"c{n}", storageClassName="late", capacity=amount, **({} if topology is None else {"nodeTopology": topology}))
        for n, (amount, topology) in enumerate(capacities)
    ]  # fmt: skip
    (cause,) = answer(
        tmp_path,
        *(node("n"), mounting("data"), obj("PersistentVolumeClaim", "data", asked, {"phase": "Pending"})),
        obj("StorageClass", "late", metadata={"namespace": ""}, **late),
        obj("CSIDriver", "csi.x", {"storageCapacity": says}, metadata={"namespace": ""}),
        *of_capacity,
    ).causes
    assert cause.cause == ("volumeNodeConflict" if text and says else "fitsNow"), cause
    assert not says or text in cause.text


def test_devices_of_several_nodes_are_left_to_the_scheduler(tmp_path: Path) -> None:
    (cause,) = asked(tmp_path, TWO, [ANY], [], allNodes=True).causes
    assert cause.text.endswith("can be had is not known: its devices may be of several nodes")


@pytest.mark.parametrize("more", [[], [node("full", 1), held(1, "full")]])
def test_gpus_that_come_by_claims_have_no_device_plugin(tmp_path: Path, more: list[Json]) -> None:
    objects = [node("dra", resources=BARE), of_kind("ResourceSlice", dra.gpus_of("dra", 4)), *more]
    causes = [each for each in answer(tmp_path, *objects, waiting(1)).causes if each.nodes == ("dra",)]
    text = "node dra: gpu.nvidia.com in place of nvidia.com/gpu"
    assert [each[:2] for each in causes] == [("otherGpuResource", text)]
    assert (causes[0].helps, causes[0].fix) == (0, "claim them in spec.resourceClaims: kubectl get deviceclasses")


def test_a_node_without_gpus_is_none_to_repair_a_driver_on(tmp_path: Path) -> None:
    pool = {"driver": "gpu.x", "nodeName": "n", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}}
    devices = obj("ResourceSlice", "s", {**pool, "devices": [device("a")]}, metadata={"namespace": ""})
    claim = obj("ResourceClaim", "c", {"devices": {"requests": [{"name": "r", "exactly": ANY}]}})
    made = [node("n", 0), node("plain", 0), node("plugin", 8), DEVICE_CLASS, devices, claim]
    found = {each.nodes: each for each in answer(tmp_path, *made, claiming(resourceClaimName="c")).causes}
    assert (found[("plugin",)].helps, found[("plugin",)].elsewhere) == (0, False)
    assert found[("plain",)].elsewhere


QUOTA = "dra.example.org.deviceclass.resource.k8s.io/devices"
REFUSED = (
    f'resourceclaims "x" is forbidden: exceeded quota: gpus, requested: {QUOTA}=3, used: {QUOTA}=1, limited: {QUOTA}=2'
)
NUMBERS = f"quota gpus: {QUOTA}=1 used, {QUOTA}=3 asked for, {QUOTA}=2 at most"


CREATING = f"(combined from similar events): PodResourceClaim gpu: create ResourceClaim : {REFUSED}"
WEBHOOK = 'PodResourceClaim gpu: admission webhook "x.example" denied the request: no'


@pytest.mark.parametrize(
    ("says", "word", "text", "fix"),
    [
        pytest.param("", "claimMissing", " yet", "see why: kubectl describe pod waits -n team", id="nothing was said"),
        pytest.param(f"PodResourceClaim more: {REFUSED}", "claimMissing", " yet", "", id="another claim"),
        pytest.param(
            CREATING, "quotaExceeded", f": {NUMBERS}", ": kubectl get resourceclaims -n team, or", id="a quota"
        ),
        pytest.param(WEBHOOK, "refused", ": webhook x.example: no", "", id="a webhook"),
    ],
)
def test_why_no_claim_was_made_of_a_template(tmp_path: Path, says: str, word: str, text: str, fix: str) -> None:
    about = {"kind": "Pod", "namespace": "team", "name": "waits"}
    event = obj("Event", "e", involvedObject=about, reason="FailedResourceClaimCreation", message=says)
    template = obj("ResourceClaimTemplate", "t", {"spec": {"devices": {"requests": [{"name": "r", "exactly": ANY}]}}})
    made = [node("n"), DEVICE_CLASS, template, claiming(resourceClaimTemplateName="t"), *([event] if says else [])]
    cause = answer(tmp_path, *made).causes[0]
    assert (cause.cause, cause.text) == (word, f"no ResourceClaim was made of template t{text}")
    assert fix in cause.fix


def test_a_quota_that_keeps_the_scheduler_from_making_a_claim_is_named(tmp_path: Path) -> None:
    says = f'running PreBind plugin "DynamicResources": create claim for extended resources team/: {REFUSED}'
    condition = {"type": "PodScheduled", "status": "False", "reason": "SchedulerError", "message": says}
    found = answer(tmp_path, node("n"), waiting(0, {"phase": "Pending", "conditions": [condition]}))
    text = f"the scheduler could not create its ResourceClaim: {NUMBERS}"
    assert [(each.cause, each.text) for each in found.causes] == [("quotaExceeded", text)]


def test_parts_of_cards_are_where_their_scheduler_has_cards(tmp_path: Path) -> None:
    """HAMi beside the plain device plugin, with the same resource."""
    cards = {HAMI.said.registered: "".join(f"GPU-{n},10,80000,100,A100,0,true:" for n in range(2))}
    nodes = [node("plain", 8), node("hami", 2, resources={GPU: "20"}, annotations=cards)]
    found = {}
    for count in (1, 3):
        limits = {GPU: str(count), "nvidia.com/gpumem": "70000"}
        causes = answer(tmp_path, *nodes, placed(pod("waits", 0, limits=limits), None)).causes
        found[count] = {each.cause: each.nodes for each in causes}
    assert found == {1: {FREE: ("hami",), NONE_FREE: ("plain",)}, 3: {NONE_FREE: ("hami", "plain")}}
