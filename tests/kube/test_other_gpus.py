"""GPUs requested without a GPU resource of the policy. What such a pod gets is in tests/e2e/behaviour/others_names.py."""

from typing import Any

import jsonpatch
import orjson
import pytest

from tests.builders import request
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from tests.state.objects import state
from webhook.admission.pods import mutate
from webhook.kube.other_gpus import other_gpus
from webhook.placement.placer import Placer
from webhook.policy.model import Policy, PolicyFile


def named(name: str, amount: str = "1") -> dict[str, Any]:
    return {"name": "main", "resources": {"limits": {name: amount}, "requests": {name: amount}}}


NVIDIA = {
    "HAMi, by memory": pod(containers=[named("nvidia.com/gpumem", "4000")]),
    "HAMi, by a part of the memory": pod(containers=[named("nvidia.com/gpumem-percentage", "50")]),
    "HAMi, by cores": pod(containers=[named("nvidia.com/gpucores", "30")]),
    "HAMi, beside a GPU": pod(limits={"nvidia.com/gpumem": "4000"}),
    "Volcano": pod(containers=[named("volcano.sh/vgpu-number")]),
    "Aliyun": pod(containers=[named("aliyun.com/gpu-mem", "8")]),
    "KAI": pod(gpus=0, annotations={"gpu-fraction": "0.5"}),
    "KAI, by container": pod(gpus=0, annotations={"nvidia.com/container.main.gpu-memory.request": "8Gi"}),
    "KAI, by container, with a limit alone": pod(
        gpus=0, annotations={"nvidia.com/container.x.gpu-memory.limit": "8Gi"}
    ),
    "KAI, by container, without its name": pod(gpus=0, annotations={"nvidia.com/container.gpu-memory.request": "8Gi"}),
    "Run:ai": pod(gpus=0, annotations={"gpu-memory": "4096"}),
    "an extended resource that DRA serves": pod(
        containers=[named("deviceclass.resource.kubernetes.io/gpu.nvidia.com")]
    ),
}
NONE = {
    "a pod without GPUs": pod(gpus=0),
    "a quantity of 0": pod(containers=[named("nvidia.com/gpumem", "0")]),
    "another device": pod(containers=[named("rdma/hca")]),
    "an annotation with a similar name": pod(gpus=0, annotations={"gpu": "1"}),
    "how a container computes, but no part": pod(
        gpus=0, annotations={"nvidia.com/container.main.gpu-compute.mode": "x"}
    ),
    "memory of no container": pod(gpus=0, annotations={"nvidia.com/containers.main.gpu-memory.request": "8Gi"}),
}


@pytest.mark.parametrize("name", [*NVIDIA, *NONE])
def test_the_vendors_of_other_gpus(name: str) -> None:
    assert other_gpus({**NVIDIA, **NONE}[name]) == ({"nvidia.com"} if name in NVIDIA else set())


DRIVERS = [
    pytest.param("gpu.nvidia.com", ["nvidia.com/gpu"], id="gpu.nvidia.com"),
    pytest.param("gpu.intel.com", ["gpu.intel.com/i915", "gpu.intel.com/xe"], id="gpu.intel.com"),
    pytest.param("gpu.nvidia.com gpu.amd.com", [], id="gpu.nvidia.com gpu.amd.com"),
    pytest.param("dra.net", [], id="dra.net"),
]


@pytest.mark.parametrize(("drivers", "keys"), DRIVERS)
def test_a_claim_gets_the_tolerations_of_the_only_vendor_whose_driver_serves_gpus(
    drivers: str, keys: list[str]
) -> None:
    taints = [{"key": f"{vendor}.com/gpu", "value": "present", "effect": "NoSchedule"} for vendor in ("nvidia", "amd")]
    of = state([node("n", taints=taints[:1]), node("a", 0, taints=taints[1:], resources={"amd.com/gpu": "8"})])
    for driver in drivers.split():
        of.slices.seen({"metadata": {"name": driver}, "spec": {"driver": driver, "nodeName": "n"}})
    claim = {"name": "gpu", "resourceClaimName": "c"}
    made = pod(containers=[{"name": "main", "resources": {"claims": [{"name": "gpu"}]}}], resourceClaims=[claim])
    decision = mutate(request(made), Policy.of(PolicyFile()), of.view(0), Placer(of))
    stored = made if decision.patch is None else jsonpatch.apply_patch(made, orjson.loads(decision.patch))
    assert [each["key"] for each in stored["spec"].get("tolerations") or ()] == keys
