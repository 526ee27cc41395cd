"""Pods without a GPU that tolerate GPU nodes."""

from typing import Any

import pytest

from tests.builders import case, container
from tests.controlplane.objects import pod
from webhook.kube.pod import Pod
from webhook.rules.cpu_pod_on_gpu_node import CpuPodOnGpuNode

RULE = CpuPodOnGpuNode()


def tolerating(*tolerations: dict[str, str], gpu: int | None = None, **fields: Any) -> Pod:
    return pod(containers=[container(gpu=gpu)], tolerations=list(tolerations), **fields)


GPU_TAINT = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
EVERYTHING = {"operator": "Exists"}
ALLOWED = [
    pytest.param(case(pod(gpus=0)), id="no tolerations"),
    pytest.param(case(tolerating(GPU_TAINT, gpu=1)), id="a pod with a GPU"),
    pytest.param(case(pod(gpus=0, tolerations=[GPU_TAINT], resourceClaims=[{"name": "gpu"}])), id="a pod with a claim"),
    pytest.param(
        case(tolerating(GPU_TAINT, annotations={"nvidia.com/container.main.gpu-memory.request": "8Gi"})),
        id="a pod with a part of a GPU for one container",
    ),
    pytest.param(case(tolerating(EVERYTHING, owned_by="DaemonSet")), id="a DaemonSet, which runs on every node"),
    pytest.param(
        case(
            tolerating(
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
            )
        ),
        id="what Kubernetes adds to every pod",
    ),
    pytest.param(case(tolerating({"key": "team", "value": "ml"})), id="a taint of something else"),
    pytest.param(case(tolerating({"key": "team", "operator": "Exists"})), id="any taint of something else"),
    pytest.param(case(tolerating({"value": "present"})), id="a toleration that tolerates nothing"),
    pytest.param(case(tolerating(EVERYTHING | {"effect": "NoExecute"})), id="everything, but only against eviction"),
]

_END = "wanted none for GPU nodes: their CPUs and memory are for pods with GPUs. Remove it, or ask for a GPU in the limits of a container."
REFUSED = [
    pytest.param(
        case(tolerating({"key": "team", "value": "ml"}, GPU_TAINT)),
        [f'spec.tolerations[1]: saw a toleration of "nvidia.com/gpu" in a pod that asks for no GPU, {_END}'],
        id="the taint of GPU nodes",
    ),
    pytest.param(
        case(tolerating(EVERYTHING, owned_by="ReplicaSet")),
        [f"spec.tolerations[0]: saw a toleration of every taint in a pod that asks for no GPU, {_END}"],
        id="every taint",
    ),
    pytest.param(
        case(tolerating(GPU_TAINT, gpu=0)),
        [f'spec.tolerations[0]: saw a toleration of "nvidia.com/gpu" in a pod that asks for no GPU, {_END}'],
        id="the taint of GPU nodes, with 0 GPUs",
    ),
]
