"""Which devices count as free for a ResourceClaim that is not allocated yet.

Covers cli.waiting.claim_devices, cli.waiting.free_devices.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.objects import Json, snapshot
from tests.cli.waiting.waits import DEVICE_CLASS, claiming, obj, waiting
from tests.controlplane.nodes import node
from webhook.cli.offline import load_policy
from webhook.cli.pending import answers

ON_NODE = {"nodeName": "n"}
EVERYWHERE = {"allNodes": True}
BY_LABEL = {
    "nodeSelector": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "Exists"}]}]
    }
}
ELSEWHERE = {
    "nodeSelector": {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["m"]}]}]
    }
}
ON_N = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]}
BY_DEVICE = {"perDeviceNodeSelection": True}
ALLOCATED = {"driver": "gpu.x", "pool": "p", "device": "gpu-0"}
FREE, NONE_FREE = "fitsNow", "noDevice"
CASES = [
    pytest.param(ON_NODE, {}, {}, {}, FREE, id="a device of the node"),
    pytest.param(EVERYWHERE, {}, {}, {}, FREE, id="a device of all nodes"),
    pytest.param(BY_LABEL, {}, {}, {}, FREE, id="a device of the nodes with a label"),
    pytest.param(ELSEWHERE, {}, {}, {}, NONE_FREE, id="a device of another node"),
    pytest.param(BY_DEVICE, ON_NODE, {}, {}, FREE, id="a device that names its node itself"),
    pytest.param(ON_NODE, {}, ALLOCATED, {}, NONE_FREE, id="a device that another claim has"),
    pytest.param(ON_NODE, {}, ALLOCATED | {"adminAccess": True}, {}, FREE, id="a device that another claim has for administration"),
    pytest.param(ON_NODE, {}, ALLOCATED, {"adminAccess": True}, FREE, id="an administrator's claim for a device that another has"),
    pytest.param(ON_NODE, {"allowMultipleAllocations": True}, ALLOCATED, {}, FREE, id="a device that claims share"),
]  # fmt: skip


@pytest.mark.parametrize(("slice_of", "device", "other", "request_more", "cause"), CASES)
def test_a_claim_gets_a_free_device(
    tmp_path: Path, slice_of: Json, device: Json, other: Json, request_more: Json, cause: str
) -> None:
    offered = {
        "driver": "gpu.x",
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0", **device}],
    }
    asked = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "dc", **request_more}}]}}
    objects = [
        *(node("n"), DEVICE_CLASS),
        obj("ResourceSlice", "s", {**offered, **slice_of}, metadata={"namespace": ""}),
        obj(
            "ResourceClaim",
            "other",
            status={"allocation": {"devices": {"results": [other] if other else []}, "nodeSelector": ON_N}},
        ),
        *(obj("ResourceClaim", "c", asked), claiming(resourceClaimName="c")),
    ]
    (answer,) = answers(snapshot(tmp_path, *objects), load_policy(), None)
    assert [each.cause for each in answer.causes] == [cause]


def device(name: str, model: str = "A100", **more: Any) -> Json:
    return {"name": name, "attributes": {"model": {"string": model}}, **more}


def of_model(*models: str, **more: Any) -> Json:
    """A request for a device of one of these models."""
    expression = f'device.attributes["gpu.x"].model in {json.dumps(models)}'
    return {"deviceClassName": "dc", "selectors": [{"cel": {"expression": expression}}], **more}


def part(amount: int) -> Json:
    """What a device takes of the memory of its GPU."""
    return {"consumesCounters": [{"counterSet": "gpu", "counters": {"memory": {"value": f"{amount}Gi"}}}]}


ANY: Json = {"deviceClassName": "dc"}
SICK = {"taints": [{"key": "sick", "effect": "NoSchedule"}]}
TOLERANT = {"tolerations": [{"key": "sick", "operator": "Exists"}]}
UNKNOWN: Json = {"deviceClassName": "dc", "selectors": [{"cel": {"expression": "device.nothing.like.it == 3"}}]}
TOGETHER = [
    pytest.param([device("a"), device("b")], [ANY, ANY], [], FREE, "", id="two requests, two devices"),
    pytest.param([device("a"), device("b", "L4")], [of_model("A100"), of_model("A100", "L4")], [], FREE, "", id="one of them has a choice"),
    pytest.param([device("a"), device("b", "L4")], [of_model("A100"), of_model("A100", "T4")], [], NONE_FREE, "not enough devices for all requests together on node n", id="both want the same device"),
    pytest.param([device("a"), device("b")], [ANY, ANY], ["a"], NONE_FREE, "2 devices of dc wanted, at most 1 free on a node", id="both want the device that is left"),
    pytest.param([device("a"), device("b")], [{**ANY, "allocationMode": "All"}], [], FREE, "", id="all, and all are free"),
    pytest.param([device("a"), device("b")], [{**ANY, "allocationMode": "All"}], ["a"], NONE_FREE, "all devices that match are wanted, and others have some", id="all, and one is taken"),
    pytest.param([device("a"), device("b", **SICK)], [{**ANY, "allocationMode": "All"}], [], NONE_FREE, "all devices that match are wanted, and it does not tolerate the taints of some of node n", id="all, and one has a taint"),
    pytest.param([device("a")], [{**UNKNOWN, "adminAccess": True}], [], NONE_FREE, "the pod: whether the devices of node n can be had is not known", id="admin access, which takes no device, by an expression that cannot be evaluated here"),
    pytest.param([device("a", **SICK)], [ANY], [], NONE_FREE, "1 device of dc wanted, and it does not tolerate the taints of devices of node n: sick", id="a device with a taint"),
    pytest.param([device("a", **SICK)], [{**ANY, **TOLERANT}], [], FREE, "", id="a taint that is tolerated"),
    pytest.param([device("a")], [UNKNOWN], [], NONE_FREE, "whether the devices of node n can be had is not known", id="CEL that cannot be evaluated here"),
    pytest.param([device("half", **part(40)), device("rest", **part(40))], [of_model("A100")], ["half"], FREE, "", id="the half that is left of a GPU"),
    pytest.param([device("whole", **part(80)), device("half", "MIG", **part(40))], [of_model("A100")], ["half"], NONE_FREE, "no device that matches can be had on node n: others have parts of the same GPUs", id="a whole GPU of which others have a half"),
]  # fmt: skip


@pytest.mark.parametrize(("devices", "asked", "taken", "cause", "text"), TOGETHER)
def test_the_requests_of_a_pod_are_looked_at_together(
    tmp_path: Path, devices: list[Json], asked: list[Json], taken: list[str], cause: str, text: str
) -> None:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 2}
    counters = [{"name": "gpu", "counters": {"memory": {"value": "80Gi"}}}]
    head = {"driver": "gpu.x", "pool": pool, "nodeName": "n"}
    requests = [{"name": f"r{number}", "exactly": each} for number, each in enumerate(asked)]
    results = [{"driver": "gpu.x", "pool": "p", "device": name} for name in taken]
    field = {"key": "metadata.name", "operator": "In", "values": ["n"]}
    allocation = {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]}}
    objects = [
        *(node("n"), DEVICE_CLASS | {"metadata": {"name": "dc"}}),
        obj("ResourceSlice", "s", {**head, "devices": devices}, metadata={"namespace": ""}),
        obj("ResourceSlice", "t", {**head, "sharedCounters": counters}, metadata={"namespace": ""}),
        obj("ResourceClaim", "other", status={"allocation": allocation} if taken else {}),
        *(obj("ResourceClaim", "c", {"devices": {"requests": requests}}), claiming(resourceClaimName="c")),
    ]
    (answer,) = answers(snapshot(tmp_path, *objects), load_policy(), None)
    assert [each.cause for each in answer.causes] == [cause], answer.causes
    assert text in answer.causes[0].text


def test_devices_of_a_pool_that_is_incomplete_are_not_there(tmp_path: Path) -> None:
    """They were said to be taken in part by others."""
    (found,) = of_node_n(tmp_path, [device("a")], ANY, slices=2).causes
    assert (found.cause, found.text) == (NONE_FREE, "claim c: 1 device of dc wanted, and no node has any")
    assert "repair the driver" in found.fix


CARD = [device("a", card={"int": 0}), device("b", card={"int": 0}), device("c", card={"int": 1})]
for each in CARD:
    each["attributes"]["card"] = each.pop("card")
COMPARED = [
    pytest.param("matchAttribute", 2, FREE, "", id="two that are equal"),
    pytest.param("matchAttribute", 3, NONE_FREE, "3 devices of dc wanted, at most 2 free on a node", id="three that are equal"),
    pytest.param("distinctAttribute", 2, FREE, "", id="two that differ"),
    pytest.param("distinctAttribute", 3, NONE_FREE, "3 devices of dc wanted, at most 2 free on a node", id="three that differ"),
]  # fmt: skip


@pytest.mark.parametrize(("constraint", "number", "cause", "text"), COMPARED)
def test_constraints_say_how_many_devices_may_be_together(
    tmp_path: Path, constraint: str, number: int, cause: str, text: str
) -> None:
    answer = of_node_n(tmp_path, CARD, {**ANY, "count": number}, constraints=[{constraint: "gpu.x/card"}])
    assert [each.cause for each in answer.causes] == [cause], answer.causes
    assert text in answer.causes[0].text


def test_a_device_taint_rule_is_named_with_what_to_do(tmp_path: Path) -> None:
    taint = {"key": "xid", "effect": "NoExecute"}
    rule = obj("DeviceTaintRule", "r", {"deviceSelector": {"pool": "p"}, "taint": taint}, metadata={"namespace": ""})
    (cause,) = of_node_n(tmp_path, CARD, ANY, rule).causes
    assert "it does not tolerate the taints of devices of node n: xid" in cause.text
    assert "kubectl get devicetaintrules" in cause.fix


def of_node_n(tmp_path: Path, devices: list[Json], asked: Json, *others: Json, slices: int = 1, **claim: Any) -> Any:
    """The answer for a pod with one claim, where node n has these devices. `slices`: those that their pool says it has."""
    pool = {"name": "p", "generation": 1, "resourceSliceCount": slices}
    objects = [
        *(node("n"), DEVICE_CLASS | {"metadata": {"name": "dc"}}),
        obj(
            "ResourceSlice",
            "s",
            {"driver": "gpu.x", "pool": pool, "nodeName": "n", "devices": devices},
            metadata={"namespace": ""},
        ),
        obj("ResourceClaim", "c", {"devices": {"requests": [{"name": "r", "exactly": asked}], **claim}}),
        claiming(resourceClaimName="c"),
    ]
    (answer,) = answers(snapshot(tmp_path, *objects, *others), load_policy(), None)
    return answer


QUOTA = "dra.example.org.deviceclass.resource.k8s.io/devices"
REFUSED = (
    f'resourceclaims "x" is forbidden: exceeded quota: gpus, requested: {QUOTA}=3, used: {QUOTA}=1, limited: {QUOTA}=2'
)
NUMBERS = f"quota gpus: {QUOTA}=1 used, {QUOTA}=3 asked for, {QUOTA}=2 at most"


@pytest.mark.parametrize(
    ("says", "cause", "text"),
    [
        pytest.param("", "claimMissing", "no ResourceClaim was made of template t yet", id="nothing was said"),
        pytest.param(
            f"PodResourceClaim more: {REFUSED}", "claimMissing", "no ResourceClaim was made", id="another claim"
        ),
        pytest.param(
            f"(combined from similar events): PodResourceClaim gpu: create ResourceClaim : {REFUSED}",
            "quotaExceeded",
            f"no ResourceClaim was made of template t: {NUMBERS}",
            id="a quota",
        ),
        pytest.param(
            'PodResourceClaim gpu: admission webhook "x.example" denied the request: no',
            "refused",
            "no ResourceClaim was made of template t: webhook x.example: no",
            id="a webhook",
        ),
    ],
)
def test_why_no_claim_was_made_of_a_template(tmp_path: Path, says: str, cause: str, text: str) -> None:
    event = obj(
        "Event",
        "e",
        involvedObject={"kind": "Pod", "namespace": "team", "name": "waits"},
        reason="FailedResourceClaimCreation",
        message=says,
    )
    asked = {"spec": {"devices": {"requests": [{"name": "r", "exactly": ANY}]}}}
    made = [node("n"), DEVICE_CLASS, obj("ResourceClaimTemplate", "t", asked)]
    waits = claiming(resourceClaimTemplateName="t")
    (answer,) = answers(snapshot(tmp_path, *made, waits, *([event] if says else [])), load_policy(), None)
    assert answer.causes[0].cause == cause
    assert text in answer.causes[0].text
    if cause == "quotaExceeded":
        assert "end what uses it (kubectl get resourceclaims -n team)" in answer.causes[0].fix


def test_a_quota_that_keeps_the_scheduler_from_making_a_claim_is_named(tmp_path: Path) -> None:
    says = f'running PreBind plugin "DynamicResources": create claim for extended resources team/: {REFUSED}'
    condition = {"type": "PodScheduled", "status": "False", "reason": "SchedulerError", "message": says}
    waits = waiting(0, {"phase": "Pending", "conditions": [condition]})
    (answer,) = answers(snapshot(tmp_path, node("n"), waits), load_policy(), None)
    assert [each.cause for each in answer.causes] == ["quotaExceeded"]
    assert answer.causes[0].text == f"the scheduler could not create its ResourceClaim: {NUMBERS}"
