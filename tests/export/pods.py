"""Pods that show what random ones seldom do. The webhook and the exported policies accept, refuse or warn about each alike."""

from typing import Any

from tests.controlplane.objects import pod
from tests.export.world import Json, other


def env(name: str, value: str | None = "all", **entry: Any) -> Json:
    return {"env": [{"name": name, **({} if value is None else {"value": value}), **entry}]}


def host(path: str, kind: str = "") -> Json:
    return pod("p", volumes=[{"name": "v", "hostPath": {"path": path, "type": kind}}])


def secured(**context: Any) -> Json:
    return pod("p", container={"securityContext": context})


def adds(*names: str) -> Json:
    return secured(capabilities={"add": list(names)})


def limits(**counts: int) -> Json:
    return {"resources": {"limits": {name.replace("__", "/").replace("_", "."): str(n) for name, n in counts.items()}}}


def mount(path: str) -> Json:
    return pod(
        "p", volumes=[{"name": "v", "emptyDir": {}}], container={"volumeMounts": [{"name": "v", "mountPath": path}]}
    )


def prefix(text: str) -> Json:
    return pod("p", 0, container={"envFrom": [{"prefix": text, "secretRef": {"name": "s"}}]})


def annotated(key: str, gpus: int = 1, value: str = "x") -> Json:
    return pod("p", gpus, annotations={key: value})


MPS = "cloud.google.com/gke-gpu-sharing-strategy"
CLAIM = {"resourceClaims": [{"name": "any", "resourceClaimName": "any"}]}
SECRET = {"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
VISIBLE = "NVIDIA_VISIBLE_DEVICES"
PART = {"annotations": {"gpu-fraction": "0.5", "runai/shared-gpu-configmap": "p-x"}, "runtimeClassName": "nvidia"}


def part_from(configmap: str, scheduler: str = "kai-scheduler", **more: Any) -> Json:
    """A pod with a part of a GPU, whose variable comes from this ConfigMap."""
    source = {"configMapKeyRef": {"name": configmap, "key": VISIBLE}}
    return pod("p", 0, container=env(VISIBLE, None, valueFrom=source), schedulerName=scheduler, **PART, **more)


PODS: list[Json] = [
    # GPUs
    *(pod("p", gpus) for gpus in (0, 1, 3, 8, 16)),
    pod("p", container=limits(nvidia_com__gpu=1, amd_com__gpu=1)),
    pod("p", container=limits(nvidia_com__gpu=1, **{"nvidia_com__mig-1g.10gb": 1})),
    pod("p", container=limits(nvidia_com__gpu=0) | env(VISIBLE, "void")),
    pod("p", 8, initContainers=[other("i", **limits(nvidia_com__gpu=8)), other("j", **limits(nvidia_com__gpu=6))]),
    pod("p", 8, initContainers=[other("s", restartPolicy="Always", **limits(nvidia_com__gpu=4))]),
    # Variables
    *(pod("p", container=env(VISIBLE, value)) for value in ("all", "none")),
    *(pod("p", gpus, container=env("CUDA_VERSION", "12")) for gpus in (0, 1)),
    *(pod("p", gpus, container=env("NVIDIA_MOFED", "enabled")) for gpus in (0, 1)),
    *(pod("p", container=env(name, "0")) for name in (VISIBLE.lower(), "CUDA_VISIBLE_DEVICES")),
    pod("p", 0, container=env(VISIBLE, "void")),
    *(part_from(*source) for source in (("p-x-0",), ("mine",), ("p-x-0", "default-scheduler"))),
    part_from("p-x-0", nodeName="n"),
    *(pod("p", 0, container=env(f"{vendor}_VISIBLE_DEVICES")) for vendor in ("HABANA", "NOBODY", "MUSA")),
    pod("p", 0, container=env("DOCKER_RESOURCE_GPU")),
    pod("p", 0, container={"env": [*env("CUDA_VERSION", "12")["env"], *env(VISIBLE, "void")["env"]]}),
    pod("p", container=env(VISIBLE, None, **SECRET)),
    pod("p", initContainers=[other("i", **env(VISIBLE, "0"))]),
    *map(prefix, ("NVIDIA_", "APP_", "ASCEND_RUNTIME_O", "FOO_VISIBLE_")),
    pod("p", container={"envFrom": [{"configMapRef": {"name": "c", "optional": True}}]}),
    # Mounts and folders of the host
    *map(mount, ("/var/run/nvidia", "/var/run/nvidia-container-devices/all")),
    mount("/var//run/x/../nvidia-container-devices/all"),
    *map(host, ("/home/kubernetes/bin/nvidia/lib64", "/home/kubernetes/bin/kubelet")),
    *map(host, ("/mnt/models", "/mnt2", "/mnt\\..\\dev")),
    *map(host, ("/dev", "/dev/shm", "/dev/nvidia0", "/", "/proc/sys", "/proc/1/root/", "//var/./run/nvidia//")),
    *map(host, ("/var/lib/kubelet/device-plugins", "//mnt/k8s-disks/./0/kubelet/device-plugins", "/mnt/k8s-disks/0")),
    host("//data1/./sets/", "Directory"),
    host("/mnt/x", "Socket"),
    pod("p", volumes=[{"name": "v", "gitRepo": {"repository": "https://example.com/x"}}]),
    # Annotations
    *map(annotated, ("example.com/cdi.k8s.io", "New.NRI.io/pod", "devices.crio.io.main", "io.microsoft.container.x")),
    annotated("io.katacontainers.config_path"),
    annotated("cpu-quota.crio.io", value="disable"),
    annotated("cdi.k8s.io/gpu", value="nvidia.com/gpu=0"),
    *(annotated("devices.gke.io/container.a", gpus) for gpus in (0, 1)),
    *(annotated("dev.gvisor.internal.nvproxy", gpus, "true") for gpus in (0, 1)),
    # Rights
    *map(adds, ("IPC_LOCK", "CAP_DAC_READ_SEARCH", "ALL", "cap_sys_admin")),
    *(secured(privileged=value) for value in (True, False)),
    secured(seccompProfile={"type": "Unconfined"}),
    secured(seLinuxOptions={"level": "s0:c1"}),
    secured(seLinuxOptions={"type": "spc_t"}),
    pod("p", securityContext={"appArmorProfile": {"type": "Unconfined"}}),
    pod("p", hostNetwork=True, securityContext={"windowsOptions": {"hostProcess": True}}),
    pod("p", hostPID=True),
    *(pod("p", gpus, hostIPC=True, **more) for gpus, more in ((0, {}), (1, {}), (0, CLAIM))),
    pod("p", 0, hostIPC=True, container={"resources": {"limits": {"x.io/gpu": "0"}}}),
    *(pod("p", gpus, hostIPC=True, nodeSelector={MPS: of}) for gpus in (0, 1) for of in ("mps", "time-sharing")),
    # What a pod names
    *(pod("p", 0, runtimeClassName=name) for name in ("gvisor", "nvidia")),
    *(pod("p", gpus, runtimeClassName="nvidia", **more) for gpus, more in ((1, {}), (0, CLAIM))),
    *(pod("p", priorityClassName=f"export-{name}") for name in ("low", "kept", "entitled")),
    pod("p", priorityClassName="system-node-critical"),
    pod("p", nodeName="a"),
    pod("p", 0, tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}]),
    pod("p", 0, serviceAccountName="exporter", volumes=[{"name": "v", "hostPath": {"path": "/dev", "type": ""}}]),
]
