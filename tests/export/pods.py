"""Pods that the webhook accepts, refuses or warns about. Each shows one case."""

from typing import Any

from tests.controlplane.objects import pod
from tests.export.world import Json, other


def env(name: str, value: str | None = "all", **entry: Any) -> Json:
    return {"env": [{"name": name, **({} if value is None else {"value": value}), **entry}]}


def host(path: str, kind: str = "") -> Json:
    return {"volumes": [{"name": "v", "hostPath": {"path": path, "type": kind}}]}


def adds(*names: str) -> Json:
    return {"securityContext": {"capabilities": {"add": list(names)}}}


def limits(**counts: int) -> Json:
    return {"resources": {"limits": {name.replace("__", "/").replace("_", "."): str(n) for name, n in counts.items()}}}


def mount(path: str) -> Json:
    return {"volumeMounts": [{"name": "v", "mountPath": path}]}


CLAIM = {"resourceClaims": [{"name": "any", "resourceClaimName": "any"}]}
SHM = {"volumes": [{"name": "v", "emptyDir": {}}]}
SECRET = {"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
VISIBLE = "NVIDIA_VISIBLE_DEVICES"

TAKEN: dict[str, Json] = {
    "a GPU pod": pod("p"),
    "a pod without GPU": pod("p", 0),
    "another variable": pod("p", container=env("CUDA_VISIBLE_DEVICES", "0")),
    "the same letters, small": pod("p", container=env(VISIBLE.lower())),
    "void without a GPU": pod("p", 0, container=env(VISIBLE, "void")),
    "CUDA_VERSION with a GPU": pod("p", container=env("CUDA_VERSION", "12")),
    "CUDA_VERSION beside void": pod(
        "p", 0, container={"env": [{"name": "CUDA_VERSION", "value": "12"}, {"name": VISIBLE, "value": "void"}]}
    ),
    "another prefix": pod("p", container={"envFrom": [{"prefix": "APP_", "configMapRef": {"name": "c"}}]}),
    "drivers of GKE": pod("p", **host("/home/kubernetes/bin/nvidia/lib64")),
    "an SELinux level": pod("p", container={"securityContext": {"seLinuxOptions": {"level": "s0:c1"}}}),
    "a host path of models": pod("p", **host("/mnt/models")),
    "a host path of data, written otherwise": pod("p", **host("//data1/./sets/", "Directory")),
    "shared memory of the host": pod("p", **host("/dev/shm")),
    "a variable that only programs read": pod("p", 0, container=env("MUSA_VISIBLE_DEVICES", "0")),
    "what a container runtime takes that is no device": pod("p", annotations={"cpu-quota.crio.io": "disable"}),
    "a capability for RDMA": pod("p", container=adds("IPC_LOCK")),
    "privileged false": pod("p", container={"securityContext": {"privileged": False}}),
    "eight GPUs": pod("p", 8),
    "an init container that reuses": pod(
        "p", 8, initContainers=[other("i", **limits(nvidia_com__gpu=8)), other("j", **limits(nvidia_com__gpu=6))]
    ),
    "another runtime": pod("p", 0, runtimeClassName="gvisor"),
    "the GPU runtime with a GPU": pod("p", runtimeClassName="nvidia"),
    "an annotation": pod("p", annotations={"example.com/cdi.k8s.io": "x"}),
    "a mount elsewhere": pod("p", **SHM, container=mount("/var/run/nvidia")),
    "an exporter that is exempt": pod("p", 0, serviceAccountName="exporter", **host("/dev")),
    "a class that the namespace is entitled to": pod("p", priorityClassName="export-low"),
}
REFUSED: dict[str, tuple[str, Json]] = {
    "two vendors": ("gpuMixing", pod("p", container=limits(nvidia_com__gpu=1, amd_com__gpu=1))),
    "whole and slices": (
        "gpuMixing",
        pod("p", container={"resources": {"limits": {"nvidia.com/gpu": "1", "nvidia.com/mig-1g.10gb": "1"}}}),
    ),
    "too many in a container": ("gpuLimit", pod("p", 16)),
    "a size that leaves GPUs unused": ("gpuLimit", pod("p", 3)),
    "too many in a pod": (
        "gpuLimit",
        pod("p", 8, initContainers=[other("s", restartPolicy="Always", **limits(nvidia_com__gpu=4))]),
    ),
    "a class of others": ("priorityClass", pod("p", priorityClassName="export-kept")),
    "a class of the system": ("priorityClass", pod("p", priorityClassName="system-node-critical")),
    "all devices by variable": ("deviceEnv", pod("p", container=env(VISIBLE))),
    "a variable by reference": ("deviceEnv", pod("p", container=env(VISIBLE, None, **SECRET))),
    "a variable in an init container": ("deviceEnv", pod("p", initContainers=[other("i", **env(VISIBLE, "0"))])),
    "another vendor's variable": ("deviceEnv", pod("p", 0, container=env("HABANA_VISIBLE_DEVICES"))),
    "CUDA_VERSION without a GPU": ("deviceEnv", pod("p", 0, container=env("CUDA_VERSION", "12"))),
    "a variable by prefix": (
        "deviceEnvFrom",
        pod("p", 0, container={"envFrom": [{"prefix": "NVIDIA_", "secretRef": {"name": "s"}}]}),
    ),
    "a mount that names devices": (
        "deviceMounts",
        pod("p", **SHM, container=mount("/var/run/nvidia-container-devices/all")),
    ),
    "a mount in another spelling": (
        "deviceMounts",
        pod("p", **SHM, container=mount("/var//run/x/../nvidia-container-devices/all")),
    ),
    "an annotation for CDI": ("deviceAnnotations", pod("p", annotations={"cdi.k8s.io/gpu": "nvidia.com/gpu=0"})),
    "a class of workload that is for others": ("priorityClass", pod("p", priorityClassName="export-entitled")),
    "an unknown vendor": ("deviceEnv", pod("p", 0, container=env("NOBODY_VISIBLE_DEVICES"))),
    "a family of variables": ("deviceEnv", pod("p", 0, container=env("DOCKER_RESOURCE_GPU"))),
    "RDMA without a GPU": ("deviceEnv", pod("p", 0, container=env("NVIDIA_MOFED", "enabled"))),
    "a family of variables by prefix": (
        "deviceEnvFrom",
        pod("p", 0, container={"envFrom": [{"prefix": "ASCEND_RUNTIME_O", "secretRef": {"name": "s"}}]}),
    ),
    "an annotation for a plugin of NRI": ("deviceAnnotations", pod("p", annotations={"New.NRI.io/pod": "x"})),
    "an annotation for CRI-O in its older form": (
        "deviceAnnotations",
        pod("p", annotations={"devices.crio.io.main": "x"}),
    ),
    "an annotation for Kata": ("deviceAnnotations", pod("p", annotations={"io.katacontainers.config_path": "x"})),
    "GKE's annotation without a GPU": (
        "deviceAnnotations",
        pod("p", 0, annotations={"devices.gke.io/container.a": "x"}),
    ),
    "a prefix of an unknown vendor": (
        "deviceEnvFrom",
        pod("p", 0, container={"envFrom": [{"prefix": "FOO_VISIBLE_", "secretRef": {"name": "s"}}]}),
    ),
    "an annotation for hcsshim": ("deviceAnnotations", pod("p", annotations={"io.microsoft.container.x": "x"})),
    "GPUs in gVisor without a GPU": (
        "deviceAnnotations",
        pod("p", 0, annotations={"dev.gvisor.internal.nvproxy": "true"}),
    ),
    "a folder of data in which the kubelet keeps its state": (
        "hostDevices",
        pod("p", **host("//mnt/k8s-disks/./0/kubelet/device-plugins")),
    ),
    "a program of the node": ("hostDevices", pod("p", **host("/home/kubernetes/bin/kubelet"))),
    "a repository": (
        "hostDevices",
        pod("p", volumes=[{"name": "v", "gitRepo": {"repository": "https://example.com/x"}}]),
    ),
    "a socket in a folder of data": ("hostDevices", pod("p", **host("/mnt/x", "Socket"))),
    "a path with a backslash": ("hostDevices", pod("p", **host("/mnt\\..\\dev"))),
    "a host path with the same beginning": ("hostDevices", pod("p", **host("/mnt2"))),
    "settings of the kernel": ("hostDevices", pod("p", **host("/proc/sys"))),
    "the GPU runtime with a claim": ("runtimeClass", pod("p", 0, runtimeClassName="nvidia", **CLAIM)),
    "memory of the node with a claim": ("hostNamespaces", pod("p", 0, hostIPC=True, **CLAIM)),
    "memory of the node with 0 of an unknown GPU": (
        "hostNamespaces",
        pod("p", 0, hostIPC=True, container={"resources": {"limits": {"x.io/gpu": "0"}}}),
    ),
    "a hostProcess of Windows": (
        "privileged",
        pod("p", hostNetwork=True, securityContext={"windowsOptions": {"hostProcess": True}}),
    ),
    "a capability that reads files of the node": ("capabilities", pod("p", container=adds("CAP_DAC_READ_SEARCH"))),
    "a device of the host": ("hostDevices", pod("p", **host("/dev/nvidia0"))),
    "the folder above": ("hostDevices", pod("p", **host("/dev"))),
    "the whole host": ("hostDevices", pod("p", **host("/"))),
    "what is below": ("hostDevices", pod("p", **host("/var/lib/kubelet/device-plugins"))),
    "the whole host through a process": ("hostDevices", pod("p", **host("/proc/1/root/"))),
    "a path in another spelling": ("hostDevices", pod("p", **host("//var/./run/nvidia//"))),
    "processes of the node": ("hostNamespaces", pod("p", hostPID=True)),
    "memory of the node": ("hostNamespaces", pod("p", 0, hostIPC=True)),
    "privileged": ("privileged", pod("p", container={"securityContext": {"privileged": True}})),
    "every capability": ("capabilities", pod("p", container=adds("ALL"))),
    "a capability in another spelling": ("capabilities", pod("p", container=adds("cap_sys_admin"))),
    "the GPU runtime without a GPU": ("runtimeClass", pod("p", 0, runtimeClassName="nvidia")),
    "a node name": ("nodeName", pod("p", nodeName="a")),
}
WARNED: dict[str, tuple[str, Json]] = {
    "a folder that contains one of the kubelet": ("hostDevices", pod("p", **host("/mnt/k8s-disks/0"))),
    "GPUs in gVisor": ("deviceAnnotations", pod("p", annotations={"dev.gvisor.internal.nvproxy": "true"})),
    "no seccomp": ("privileged", pod("p", container={"securityContext": {"seccompProfile": {"type": "Unconfined"}}})),
    "no AppArmor, for the pod": ("privileged", pod("p", securityContext={"appArmorProfile": {"type": "Unconfined"}})),
    "an SELinux type that confines nothing": (
        "privileged",
        pod("p", container={"securityContext": {"seLinuxOptions": {"type": "spc_t"}}}),
    ),
    "zero GPUs and void": ("gpuZero", pod("p", container=limits(nvidia_com__gpu=0) | env(VISIBLE, "void"))),
    "a hidden GPU": ("deviceEnv", pod("p", container=env(VISIBLE, "none"))),
    "RDMA beside a GPU": ("deviceEnv", pod("p", container=env("NVIDIA_MOFED", "enabled"))),
    "GKE's annotation beside a GPU": ("deviceAnnotations", pod("p", annotations={"devices.gke.io/container.a": "x"})),
    "variables of unknown names": (
        "deviceEnvFrom",
        pod("p", container={"envFrom": [{"configMapRef": {"name": "c", "optional": True}}]}),
    ),
    "memory of the node with a GPU": ("hostNamespaces", pod("p", hostIPC=True)),
    "a CPU pod on GPU nodes": (
        "cpuPodOnGpuNode",
        pod("p", 0, tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}]),
    ),
}
