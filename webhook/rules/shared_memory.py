"""A container with several GPUs has shared memory of more than 64 MiB.

NCCL and the data loaders of PyTorch exchange data by files in /dev/shm, which has 64 MiB. If it is full, NCCL ends or hangs, and
data loaders die of a bus error. Mount an emptyDir of medium Memory at /dev/shm, with a `sizeLimit`: no injector does. What is in
it counts against the container's memory limit.

Fields read:   whole GPUs of NVIDIA and AMD in spec.containers and initContainers, and their volumeMounts; spec.volumes;
               spec.hostIPC; metadata.annotations
Allowed:       a memory-backed emptyDir at /dev/shm, or a volume of another kind there; /dev of the node; hostIPC; the annotations
               of `annotations`; fewer GPUs than `gpus`
Warned about:  no volume at /dev/shm, or an emptyDir on the disk of the node
Not for:       parts of GPUs; DRA, where the number of GPUs is in the claim; pods of KubeRay, which mounts it, and of KubeVirt

Source: containerd internal/cri/server/podsandbox (DevShm), CRI-O internal/lib/sandbox (DefaultShmSize), NCCL's troubleshooting
guide, KubeRay ray-operator/controllers/ray/common/pod.go (addEmptyDir).
"""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from pydantic import Field

from webhook.framework.interface import Action, Context, Finding, Rule
from webhook.kube.asked import AskedPod
from webhook.kube.gpus import vendor
from webhook.kube.pod import Container, clean_path
from webhook.text import matches_any, plural, quoted
from webhook.vendors.catalogue import every
from webhook.vendors.model import Collectives

_PATH = "/dev/shm"  # noqa: S108 - a path of containers
_NEED_NONE = ("RayCluster", "VirtualMachineInstance")
"""Kinds of workload whose controllers mount it in their pods, or whose GPUs a machine has, with a /dev/shm of its own."""
_LIBRARIES = {each.vendor: each.name for each in every(Collectives)}
_MEMORY = "more than 64 MiB of shared memory for NCCL and data loaders"


class SharedMemory(Rule):
    of_whole_pods: ClassVar[bool] = True
    not_exported: ClassVar[str] = "adds up quantities"

    action: Action = "warn"
    gpus: int = Field(default=2, ge=1)
    """The smallest number of GPUs of one container that need it."""
    annotations: tuple[str, ...] = ("shm-size.crio.io*", "io.kubernetes.cri-o.shmsize")
    """Annotations by which the container runtime makes /dev/shm larger (name patterns, compared in lower case)."""

    def check(self, pod: AskedPod, context: Context) -> Iterable[Finding]:
        many = [
            (container, count)
            for container, whole in pod.whole_gpus
            if whole >= self.gpus and (count := _with_library(container, context)) >= self.gpus
        ]
        if not many or pod.spec.get("hostIPC") or self._larger_already(pod):
            return
        on_disk = {v.get("name") for v in pod.spec.get("volumes") or () if _is_on_disk(v)}
        for container, count in many:
            mounts = [m.get("name") for m in container.spec.get("volumeMounts") or () if _holds_it(m)]
            if any([name not in on_disk for name in mounts]):
                continue
            gpus = f"{plural(count, 'GPU')} in container {quoted(container.name)}"
            yield Finding(
                path=f"{container.field}.volumeMounts",
                seen=f"{gpus} with an emptyDir on disk at {_PATH}" if mounts else f"{gpus} without a volume at {_PATH}",
                wanted="memory: NCCL and data loaders are slow on a disk" if mounts else _MEMORY,
                fix="Set medium: Memory in that emptyDir"
                if mounts
                else f"Mount an emptyDir with medium Memory at {_PATH}",
            )

    def _larger_already(self, pod: AskedPod) -> bool:
        """Whether it is larger, by the container runtime or the controller, or not what the programs see."""
        if pod.owner is not None and pod.owner.kind in _NEED_NONE:
            return True
        return any([matches_any(self.annotations, key.lower()) for key in pod.annotations])


def _with_library(container: Container, context: Context) -> int:
    """The number of its whole GPUs whose vendor has a library that exchanges data in /dev/shm."""
    counts, kind = container.gpu_counts(context.gpus), context.gpus.kind
    return sum([n for name, n in counts.items() if kind(name) == "whole" and vendor(name) in _LIBRARIES])


def _holds_it(mount: Mapping[str, Any]) -> bool:
    """Whether /dev/shm is what a mount has, or below that."""
    return clean_path(str(mount.get("mountPath") or "/")) in (_PATH, "/dev")


def _is_on_disk(volume: Mapping[str, Any]) -> bool:
    """Whether it is an emptyDir without a medium. So is a volume without a source (SetDefaults_Volume in core/v1/defaults.go)."""
    sources = [key for key, value in volume.items() if key != "name" and value is not None]
    return sources in ([], ["emptyDir"]) and not (volume.get("emptyDir") or {}).get("medium")
