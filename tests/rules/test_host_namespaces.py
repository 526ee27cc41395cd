"""The process and IPC namespaces of the node."""

from tests.builders import Case, case, container
from tests.controlplane.objects import pod
from webhook.rules.host_namespaces import HostNamespaces

RULE = HostNamespaces()

ALLOWED: dict[str, Case] = {
    "neither": case(pod()),
    "false": case(pod(hostPID=False, hostIPC=False)),
    "the network of the node, as multi-node training uses it": case(pod(hostNetwork=True)),
    "processes shared within the pod": case(pod(shareProcessNamespace=True)),
}

_PID = (
    "spec.hostPID: saw true, wanted false: it shows the GPU processes of all pods of the node. "
    "Remove it; use shareProcessNamespace to see the processes of this pod."
)


def ipc(more: str = " in a pod that asks for no GPU") -> str:
    return (
        f"spec.hostIPC: saw true{more}, wanted false: it shares memory with all pods of the node, and reaches its MPS "
        "server. Remove it; for shared memory mount an emptyDir with medium Memory at /dev/shm."
    )


REFUSED: dict[str, tuple[Case, list[str]]] = {
    "hostPID with a GPU": (case(pod(hostPID=True)), [_PID]),
    "both without a GPU": (case(pod(gpus=0, hostPID=True, hostIPC=True)), [_PID, ipc()]),
    "hostIPC with a claim, which may be of any device": (
        case(pod(gpus=0, hostIPC=True, resourceClaims=[{"name": "gpu"}])),
        [ipc()],
    ),
    "hostIPC with 0 of a GPU that the policy does not know": (
        case(pod(gpus=0, limits={"x.io/gpu": "0"}, hostIPC=True)),
        [ipc()],
    ),
    "hostIPC with 0 GPUs": (case(pod(containers=[container(gpu=0)], hostIPC=True)), [ipc()]),
}
WARNED: dict[str, tuple[Case, list[str]]] = {"hostIPC with a GPU": (case(pod(hostIPC=True)), [ipc("")])}
