"""Several GPUs in a container with 64 MiB of shared memory."""

from typing import Any

import pytest

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


ALLOWED = [
    pytest.param(
        shipped(container(gpu=None, limits={"google.com/tpu": "4"})), id="chips whose programs talk otherwise"
    ),
    pytest.param(several(1), id="one GPU"),
    pytest.param(case(pod(gpus=0)), id="without a GPU"),
    pytest.param(
        case(pod(containers=[container(gpu=None, limits={"nvidia.com/mig-1g.10gb": "2"})])),
        id="slices of GPUs, which do not talk to each other",
    ),
    pytest.param(case(pod(containers=[container("a"), container("b")])), id="two containers with a GPU each"),
    pytest.param(mounting(MEMORY), id="an emptyDir in memory"),
    pytest.param(mounting({"emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}}), id="the same, with a size"),
    pytest.param(mounting(MEMORY, "//dev/./shm/"), id="the same, by another spelling of the path"),
    pytest.param(mounting({"emptyDir": {"medium": "HugePages"}}), id="an emptyDir of huge pages"),
    pytest.param(mounting({"hostPath": {"path": "/dev/shm"}}), id="shared memory of the node"),
    pytest.param(mounting({"hostPath": {"path": "/dev"}}, "/dev"), id="devices of the node, with their shared memory"),
    pytest.param(mounting({"persistentVolumeClaim": {"claimName": "shm"}}), id="a claim, which may be anything"),
    pytest.param(mounting(MEMORY, name="other"), id="a volume that is not there, which the API server refuses"),
    pytest.param(several(hostIPC=True), id="the IPC namespace of the node"),
    pytest.param(several(annotations={"io.kubernetes.cri-o.ShmSize": "8Gi"}), id="a size for CRI-O"),
    pytest.param(several(annotations={"shm-size.crio.io/main": "8Gi"}), id="a size for CRI-O, of one container"),
    pytest.param(
        case(
            pod(containers=[container(gpu=8)], annotations={"shm.example/Size": "8Gi"}),
            rule=SharedMemory(annotations=("shm.example/*",)),
        ),
        id="an annotation of the policy",
    ),
    pytest.param(
        case(pod(containers=[container(gpu=2)]), rule=SharedMemory(gpus=4)), id="fewer GPUs than the policy says"
    ),
    pytest.param(
        case(pod(containers=[container(gpu=8)], owned_by="VirtualMachineInstance")),
        id="GPUs that a machine of KubeVirt has",
    ),
    pytest.param(
        case(pod(containers=[container(gpu=8)], owned_by="RayCluster"), template=Template(1)),
        id="a template of KubeRay, which mounts it",
    ),
    pytest.param(
        case(pod(containers=[container(gpu=8)], owned_by="RayCluster")),
        id="a pod of KubeRay as its template says, which try judges",
    ),
]


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
REFUSED = [
    pytest.param(several(), MAIN, id="no volume"),
    pytest.param(shipped(container(gpu=None, limits={"amd.com/gpu": "8"})), MAIN, id="GPUs of AMD"),
    pytest.param(mounting(MEMORY, "/dev/shm2"), MAIN, id="a volume elsewhere"),
    pytest.param(mounting(MEMORY, "/dev/shm/x"), MAIN, id="a volume below it"),
    pytest.param(mounting(DISK), [_DISK], id="an emptyDir on the disk"),
    pytest.param(mounting({"emptyDir": None}), [_DISK], id="an emptyDir without any field"),
    pytest.param(
        case(pod(init=[sidecar("server", gpu=2)])),
        message('2 GPUs in container "server"', 0, "initContainers"),
        id="two GPUs of a sidecar",
    ),
    pytest.param(
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
        id="one of two containers",
    ),
    pytest.param(
        case(pod(), rule=SharedMemory(gpus=1)),
        message('1 GPU in container "main"'),
        id="one GPU, where the policy says so",
    ),
]
