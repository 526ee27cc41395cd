"""The process and IPC namespaces of the node."""

import pytest

from tests.builders import case, container
from tests.controlplane.objects import pod
from webhook.rules.host_namespaces import HostNamespaces

RULE = HostNamespaces()

ALLOWED = [
    pytest.param(case(pod()), id="neither"),
    pytest.param(case(pod(hostPID=False, hostIPC=False)), id="false"),
    pytest.param(case(pod(hostNetwork=True)), id="the network of the node, as multi-node training uses it"),
    pytest.param(
        case(pod(hostIPC=True, nodeSelector={"cloud.google.com/gke-gpu-sharing-strategy": "mps"})),
        id="hostIPC by which a pod uses MPS of GKE",
    ),
    pytest.param(case(pod(shareProcessNamespace=True)), id="processes shared within the pod"),
]

_PID = (
    "spec.hostPID: saw true, wanted false: it shows the GPU processes of all pods of the node. "
    "Remove it; use shareProcessNamespace to see the processes of this pod."
)


def ipc(more: str = " in a pod that asks for no GPU") -> str:
    return (
        f"spec.hostIPC: saw true{more}, wanted false: it shares memory with all pods of the node, and reaches its MPS "
        "server. Remove it; for shared memory mount an emptyDir with medium Memory at /dev/shm."
    )


REFUSED = [
    pytest.param(
        case(pod(gpus=0, hostIPC=True, nodeSelector={"cloud.google.com/gke-gpu-sharing-strategy": "mps"})),
        [ipc()],
        id="hostIPC on nodes with MPS, without a GPU",
    ),
    pytest.param(case(pod(hostPID=True)), [_PID], id="hostPID with a GPU"),
    pytest.param(case(pod(gpus=0, hostPID=True, hostIPC=True)), [_PID, ipc()], id="both without a GPU"),
    pytest.param(
        case(pod(gpus=0, hostIPC=True, resourceClaims=[{"name": "gpu"}])),
        [ipc()],
        id="hostIPC with a claim, which may be of any device",
    ),
    pytest.param(
        case(pod(gpus=0, limits={"x.io/gpu": "0"}, hostIPC=True)),
        [ipc()],
        id="hostIPC with 0 of a GPU that the policy does not know",
    ),
    pytest.param(case(pod(containers=[container(gpu=0)], hostIPC=True)), [ipc()], id="hostIPC with 0 GPUs"),
]
WARNED = [
    pytest.param(case(pod(hostIPC=True)), [ipc("")], id="hostIPC with a GPU"),
]
