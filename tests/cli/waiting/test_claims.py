"""Which devices count as free for a ResourceClaim that is not allocated yet.

Covers cli.waiting.claim_devices, cli.waiting.free_devices.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.objects import Json, snapshot
from tests.cli.waiting.test_diagnosis import DEVICE_CLASS, claiming, obj
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
