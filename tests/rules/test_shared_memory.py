"""Several GPUs in a container with 64 MiB of shared memory."""

from typing import Any

from tests.builders import Case, case, container, sidecar
from tests.controlplane.objects import pod
from webhook.framework.interface import Template
from webhook.kube.asked import AskedPod
from webhook.policy.model import Policy
from webhook.rules.shared_memory import SharedMemory

RULE = SharedMemory()
MEMORY: dict[str, Any] = {"emptyDir": {"medium": "Memory"}}
DISK: dict[str, Any] = {"emptyDir": {}}


def mounting(volume: dict[str, Any], path: str = "/dev/shm", gpu: int = 8, name: str = "shm") -> Case:
    """A container with GPUs that mounts the volume `shm`, or one of another name."""
    made = container(gpu=gpu, volumeMounts=[{"name": name, "mountPath": path}])
    return case(pod(containers=[made], volumes=[{"name": "shm", **volume}]))


def several(gpu: int = 8, **fields: Any) -> Case:
    return case(pod(containers=[container(gpu=gpu)], **fields))


def shipped(made: dict[str, Any]) -> Case:
    """With the GPUs of the shipped policy."""
    found, gpus = pod(containers=[made]), Policy.load("{}").gpus
    return case(found)._replace(context=case(found).context._replace(gpus=gpus, pod=AskedPod(found, gpus)))


ALLOWED: dict[str, Case] = {
    "one GPU": several(1),
    "without a GPU": case(pod(gpus=0)),
    "slices of GPUs, which do not talk to each other": case(
        pod(containers=[container(gpu=None, limits={"nvidia.com/mig-1g.10gb": "2"})])
    ),
    "chips whose programs talk otherwise": shipped(container(gpu=None, limits={"google.com/tpu": "4"})),
    "two containers with a GPU each": case(pod(containers=[container("a"), container("b")])),
    "an emptyDir in memory": mounting(MEMORY),
    "the same, with a size": mounting({"emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}}),
    "the same, by another spelling of the path": mounting(MEMORY, "//dev/./shm/"),
    "an emptyDir of huge pages": mounting({"emptyDir": {"medium": "HugePages"}}),
    "shared memory of the node": mounting({"hostPath": {"path": "/dev/shm"}}),
    "devices of the node, with their shared memory": mounting({"hostPath": {"path": "/dev"}}, "/dev"),
    "a claim, which may be anything": mounting({"persistentVolumeClaim": {"claimName": "shm"}}),
    "a volume that is not there, which the API server refuses": mounting(MEMORY, name="other"),
    "the IPC namespace of the node": several(hostIPC=True),
    "a size for CRI-O": several(annotations={"io.kubernetes.cri-o.ShmSize": "8Gi"}),
    "a size for CRI-O, of one container": several(annotations={"shm-size.crio.io/main": "8Gi"}),
    "an annotation of the policy": case(
        pod(containers=[container(gpu=8)], annotations={"shm.example/Size": "8Gi"}),
        rule=SharedMemory(annotations=("shm.example/*",)),
    ),
    "fewer GPUs than the policy says": case(pod(containers=[container(gpu=2)]), rule=SharedMemory(gpus=4)),
    "a template of KubeRay, which mounts it": case(
        pod(containers=[container(gpu=8)], owned_by="RayCluster"), template=Template(1)
    ),
}


def message(seen: str, number: int = 0, what: str = "containers") -> list[str]:
    return [
        f"spec.{what}[{number}].volumeMounts: saw {seen} without a volume at /dev/shm, wanted more than 64 MiB of shared "
        "memory for NCCL and data loaders. Mount an emptyDir with medium Memory at /dev/shm."
    ]


_DISK = (
    'spec.containers[0].volumeMounts: saw 8 GPUs in container "main" with an emptyDir on disk at /dev/shm, wanted memory: NCCL '
    "and data loaders are slow on a disk. Set medium: Memory in that emptyDir."
)
MAIN = message('8 GPUs in container "main"')
REFUSED: dict[str, tuple[Case, list[str]]] = {
    "no volume": (several(), MAIN),
    "GPUs of AMD": (shipped(container(gpu=None, limits={"amd.com/gpu": "8"})), MAIN),
    "a volume elsewhere": (mounting(MEMORY, "/dev/shm2"), MAIN),
    "a volume below it": (mounting(MEMORY, "/dev/shm/x"), MAIN),
    "an emptyDir on the disk": (mounting(DISK), [_DISK]),
    "an emptyDir without any field": (mounting({"emptyDir": None}), [_DISK]),
    "two GPUs of a sidecar": (
        case(pod(init=[sidecar("server", gpu=2)])),
        message('2 GPUs in container "server"', 0, "initContainers"),
    ),
    "one of two containers": (
        case(
            pod(
                containers=[
                    container("a", gpu=2, volumeMounts=[{"name": "shm", "mountPath": "/dev/shm"}]),
                    container("b", gpu=4),
                ],
                volumes=[{"name": "shm", **MEMORY}],
            )
        ),
        message('4 GPUs in container "b"', 1),
    ),
    "one GPU, where the policy says so": (case(pod(), rule=SharedMemory(gpus=1)), message('1 GPU in container "main"')),
    "a pod of KubeRay without it": (several(owned_by="RayCluster"), MAIN),
}
