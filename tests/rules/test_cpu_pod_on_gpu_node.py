"""Pods without a GPU that tolerate GPU nodes."""

from typing import Any

from tests.builders import Case, case, container
from tests.controlplane.objects import pod
from webhook.kube.pod import Pod
from webhook.rules.cpu_pod_on_gpu_node import CpuPodOnGpuNode

RULE = CpuPodOnGpuNode()


def tolerating(*tolerations: dict[str, str], gpu: int | None = None, **fields: Any) -> Pod:
    return pod(containers=[container(gpu=gpu)], tolerations=list(tolerations), **fields)


GPU_TAINT = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
EVERYTHING = {"operator": "Exists"}
ALLOWED: dict[str, Case] = {
    "no tolerations": case(pod(gpus=0)),
    "a pod with a GPU": case(tolerating(GPU_TAINT, gpu=1)),
    "a pod with a claim": case(pod(gpus=0, tolerations=[GPU_TAINT], resourceClaims=[{"name": "gpu"}])),
    "a pod with a part of a GPU for one container": case(
        tolerating(GPU_TAINT, annotations={"nvidia.com/container.main.gpu-memory.request": "8Gi"})
    ),
    "a DaemonSet, which runs on every node": case(tolerating(EVERYTHING, owned_by="DaemonSet")),
    "what Kubernetes adds to every pod": case(
        tolerating(
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
            {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
        )
    ),
    "a taint of something else": case(tolerating({"key": "team", "value": "ml"})),
    "any taint of something else": case(tolerating({"key": "team", "operator": "Exists"})),
    "a toleration that tolerates nothing": case(tolerating({"value": "present"})),
    "everything, but only against eviction": case(tolerating(EVERYTHING | {"effect": "NoExecute"})),
}

_END = "wanted none for GPU nodes: their CPUs and memory are for pods with GPUs. Remove it, or ask for a GPU in the limits of a container."
REFUSED: dict[str, tuple[Case, list[str]]] = {
    "the taint of GPU nodes": (
        case(tolerating({"key": "team", "value": "ml"}, GPU_TAINT)),
        [f'spec.tolerations[1]: saw a toleration of "nvidia.com/gpu" in a pod that asks for no GPU, {_END}'],
    ),
    "every taint": (
        case(tolerating(EVERYTHING, owned_by="ReplicaSet")),
        [f"spec.tolerations[0]: saw a toleration of every taint in a pod that asks for no GPU, {_END}"],
    ),
    "the taint of GPU nodes, with 0 GPUs": (
        case(tolerating(GPU_TAINT, gpu=0)),
        [f'spec.tolerations[0]: saw a toleration of "nvidia.com/gpu" in a pod that asks for no GPU, {_END}'],
    ),
}
