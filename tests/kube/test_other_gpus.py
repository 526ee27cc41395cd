"""GPUs requested without a GPU resource of the policy: the pod gets tolerations, a class and a record, but no node."""

from typing import Any

import jsonpatch
import orjson
import pytest

from tests.builders import GPU, container, pod, request
from tests.cluster.objects import node, state
from webhook.admission.decision import Decision
from webhook.admission.pods import mutate, validate
from webhook.kube.other_gpus import other_gpus
from webhook.kube.pod import Pod
from webhook.placement.placer import Placer
from webhook.policy.model import Policy, PolicyFile

POLICY = Policy.of(PolicyFile())
NVIDIA, AMD = ({"key": f"{vendor}.com/gpu", "value": "present", "effect": "NoSchedule"} for vendor in ("nvidia", "amd"))


def sliced(driver: str) -> dict[str, Any]:
    return {"metadata": {"name": driver}, "spec": {"driver": driver, "nodeName": "n"}}


def decided(made: Pod, *drivers: str) -> tuple[Decision, Pod, Decision]:
    """The decision of /mutate, the pod after it, and the decision of /validate, on a cluster with nodes of two vendors."""
    of = state([node("n", taints=[NVIDIA]), node("a", None, taints=[AMD], **{"amd.com/gpu": "8"})])
    for name in ("gpu-inference", "gpu-training", "gpu-development"):
        of.priority_classes.seen({"metadata": {"name": name}, "value": 10})
    for driver in drivers:
        of.slices.seen(sliced(driver))
    first = mutate(request(made), POLICY, of.view(0), Placer(of))
    stored = made if first.patch is None else jsonpatch.apply_patch(made, orjson.loads(first.patch))
    return first, stored, validate(request(stored), POLICY, of.view(0), Placer(of))


def named(name: str, amount: str = "1") -> dict[str, Any]:
    return {"name": "main", "resources": {"limits": {name: amount}, "requests": {name: amount}}}


OTHERS = {
    "HAMi, by memory": pod(named("nvidia.com/gpumem", "4000")),
    "HAMi, by cores": pod(named("nvidia.com/gpucores", "30")),
    "HAMi, by a part of the memory": pod(named("nvidia.com/gpumem-percentage", "50")),
    "HAMi, beside a GPU": pod(container(limits={"nvidia.com/gpumem": "4000"})),
    "Volcano": pod(named("volcano.sh/vgpu-number"), schedulerName="volcano"),
    "Aliyun": pod(named("aliyun.com/gpu-mem", "8")),
    "KAI": pod(container(gpu=None), annotations={"gpu-fraction": "0.5"}, schedulerName="kai-scheduler"),
    "Run:ai": pod(container(gpu=None), annotations={"gpu-memory": "4096"}, schedulerName="runai-scheduler"),
    "an extended resource that DRA serves": pod(named("deviceclass.resource.kubernetes.io/gpu.nvidia.com")),
}


@pytest.mark.parametrize("made", OTHERS.values(), ids=OTHERS)
def test_it_is_a_gpu_pod_with_a_toleration_of_its_vendor_a_class_and_a_record_and_no_node(made: Pod) -> None:
    assert other_gpus(made) == {"nvidia.com"}
    first, stored, second = decided(made)
    assert [each["key"] for each in stored["spec"]["tolerations"]] == ["nvidia.com/gpu"]
    assert stored["spec"]["priorityClassName"] == "gpu-development"
    assert first.record
    assert not (first.placement and first.placement.nodes)
    assert "affinity" not in stored["spec"]
    env = [each for c in stored["spec"]["containers"] for each in c.get("env") or ()]
    assert env == [], "NVIDIA_VISIBLE_DEVICES is set by the system that serves the GPU"
    assert [each.unit for each in second.findings if each.unit == "cpuPodOnGpuNode"] == []


NONE = {
    "a pod without GPUs": pod(container(gpu=None)),
    "a quantity of 0": pod(named("nvidia.com/gpumem", "0")),
    "another device": pod(named("rdma/hca")),
    "an annotation with a similar name": pod(container(gpu=None), annotations={"gpu": "1"}),
}


@pytest.mark.parametrize("made", NONE.values(), ids=NONE)
def test_it_is_no_gpu_pod(made: Pod) -> None:
    assert other_gpus(made) == frozenset()
    _, stored, _ = decided(made)
    assert stored == made


def claiming(**claim: str) -> Pod:
    return pod({"name": "main", "resources": {"claims": [{"name": "gpu"}]}}, resourceClaims=[{"name": "gpu", **claim}])


@pytest.mark.parametrize(
    "made", [claiming(resourceClaimTemplateName="t"), claiming(resourceClaimName="c")], ids=["template", "named"]
)
def test_a_claim_gets_the_toleration_of_the_vendor_whose_driver_serves_gpus(made: Pod) -> None:
    first, stored, _ = decided(made, "gpu.nvidia.com")
    assert [each["key"] for each in stored["spec"]["tolerations"]] == ["nvidia.com/gpu"]
    assert stored["spec"]["priorityClassName"] == "gpu-development"
    assert first.placement is not None
    assert first.placement.reason == "GPUs only through DRA"


def test_a_claim_that_intels_driver_serves_gets_the_tolerations_of_intel() -> None:
    _, stored, _ = decided(claiming(resourceClaimName="c"), "gpu.intel.com")
    assert [each["key"] for each in stored["spec"]["tolerations"]] == ["gpu.intel.com/i915", "gpu.intel.com/xe"]


def test_a_claim_of_one_of_two_vendors_gets_no_toleration_and_where_no_driver_serves_gpus_no_class() -> None:
    _, stored, _ = decided(claiming(resourceClaimName="c"), "gpu.nvidia.com", "gpu.amd.com")
    assert "tolerations" not in stored["spec"]
    _, stored, _ = decided(claiming(resourceClaimName="nic"))
    assert "priorityClassName" not in stored["spec"]


def test_a_pod_of_one_vendor_gets_no_toleration_of_another() -> None:
    _, stored, _ = decided(pod())
    assert [each["key"] for each in stored["spec"]["tolerations"]] == [GPU]
    _, stored, _ = decided(pod(named("amd.com/gpu")))
    assert [each["key"] for each in stored["spec"]["tolerations"]] == ["amd.com/gpu"]
