"""Annotations that ask container runtimes for devices."""

import pytest

from tests.builders import case
from tests.controlplane.objects import pod
from webhook.rules.device_annotations import DeviceAnnotations

RULE = DeviceAnnotations()

_GKE = {"devices.gke.io/container.tcpxo-daemon": "- path: /dev/nvidia0"}
_GVISOR = {"dev.gvisor.internal.nvproxy": "true"}
_KOORDINATOR = {"scheduling.koordinator.sh/device-allocated": "x"}
_OF = "nvidia.com/container.main."
_PART = {f"{_OF}{word}": "1Gi" for word in ("gpu-memory.request", "gpu-memory.limit", "gpu-compute.mode")}
_GIVEN = (
    f"{_OF}gpus.devices",
    f"{_OF}gpu-compute.portion",
    "nvidia.com/container.a.New-Word",
    "nvidia.com/container.x",
)
_OTHERS = (
    *("team", "example.com/cdi.k8s.io", "cdi.k8s.ioX", "mycdi.k8s.io/a", "prefix-nri.io/devices", "crio.iox/a"),
    *("gke-gcsfuse/volumes", "k8s.v1.cni.cncf.io/networks", "nvidia.com/vgpu-mode", "hami.io/gpu-scheduler-policy"),
    *("run.ocix", "io.kubernetes.crix", "networking.gke.io/interfaces", "dev.gvisor.spec.mount.v.type"),
)
_HARMLESS = (
    *("cpu-load-balancing.crio.io", "irq-load-balancing.crio.io", "cpu-quota.crio.io/main", "shm-size.crio.io"),
    *("io.kubernetes.cri-o.ShmSize", "io-priority.noderesource.dev/container.main", "closid.rdt.noderesource.dev/pod"),
    *("tolerate-missing-nri-plugins.noderesource.dev", "run.oci.keep_original_groups", "io.kubernetes.cri.rdt-class"),
    *("io.katacontainers.config.hypervisor.default_memory", "io.katacontainers.config.hypervisor.default_vcpus"),
)
ALLOWED = [
    pytest.param(case(pod()), id="no annotations"),
    pytest.param(case(pod(annotations=dict.fromkeys(_OTHERS, "x"))), id="others"),
    pytest.param(case(pod(annotations=dict.fromkeys(_HARMLESS, "x"))), id="what these runtimes take that is no device"),
    pytest.param(
        case(pod(annotations=_KOORDINATOR), operation="UPDATE"),
        id="a running pod to which its scheduler says which devices it gets",
    ),
    pytest.param(
        case(pod(annotations=dict.fromkeys(_GIVEN, "0")), operation="UPDATE"), id="the same for one container"
    ),
    pytest.param(case(pod(annotations=_PART)), id="a part of a GPU is asked for"),
    pytest.param(
        case(pod(annotations=dict.fromkeys(_GIVEN, "0")), rule=DeviceAnnotations(of_containers=())),
        id="a prefix that the policy does not name",
    ),
    pytest.param(
        case(pod(annotations={"cdi.k8s.io/a": "x"}), rule=DeviceAnnotations(domains=("nri.io",), keys=())),
        id="a domain that the policy does not name",
    ),
]

_KEYS = (
    *("cdi.k8s.io/nvidia", "nvidia.cdi.k8s.io/container.main", "AMD.CDI.k8s.io/x", "cdi.k8s.io"),
    *("devices.nri.io", "devices.nri.io/pod", "devices.nri.io/container.main", "cdi-devices.nri.io/container.main"),
    *("cdi-devices.noderesource.dev/container.main", "devices.noderesource.dev/pod", "mounts.noderesource.dev/pod"),
    *("mounts.nri.io/container.main", "netdevices.noderesource.dev"),
    *("network-devices.nri.io/pod", "new.plugin.nri.io/x"),
    *("netdevices.nri.containerd.io", "cgroups.noderesource.dev/writable.container.main", "Devices.NRI.io/pod"),
    *("io.kubernetes.cri-o.Devices", "io.kubernetes.cri-o.Devices/main", "devices.crio.io", "devices.crio.io/main"),
    *("devices.crio.io.main", "io.kubernetes.cri-o.UnifiedCgroup.main", "io.kubernetes.cri-o.PlatformRuntimePath"),
    *("seccomp-profile.kubernetes.cri-o.io/main", "io.kubernetes.cri.untrusted-workload", "org.criu.config"),
    *("io.katacontainers.config.hypervisor.kernel", "io.katacontainers.config_path", "run.oci.handler"),
    *("org.systemd.property.DeviceAllow", "io.containers.trace-syscall", "dev.gvisor.flag.nvproxy"),
    "dev.gvisor.spec.rootfs.source",
    *("dev.gvisor.internal.tpuproxy", "io.microsoft.virtualmachine.lcow.privileged"),
    *("io.microsoft.container.wcow.deviceextensions", "com.github.containers.virtcontainers.config.KernelPath"),
)
_WANTED = "wanted no such annotation: it can hand out devices past the GPU limit. Remove it,"
_END = f"{_WANTED} and ask for GPUs in the limits of a container; harmless ones can be listed in deviceAnnotations.harmless."
_NEEDED = f"{_WANTED} unless the pod needs it: for fast networking of its GPUs, or to use them in a sandbox."
REFUSED = [
    pytest.param(
        case(pod(annotations={"team": "ml"} | dict.fromkeys(_KEYS, "nvidia.com/gpu=all"))),
        [f'metadata.annotations[{key}]: saw "nvidia.com/gpu=all", {_END}' for key in _KEYS],
        id="each of those that inject devices",
    ),
    pytest.param(
        case(pod(annotations=_PART | dict.fromkeys(_GIVEN, "0"))),
        [f'metadata.annotations[{key}]: saw "0", {_END}' for key in _GIVEN],
        id="a new pod that says which GPUs its containers get",
    ),
    pytest.param(
        case(pod(annotations={f"{_OF}gpu-memory.requests": "8Gi"})),
        [
            f'metadata.annotations[{_OF}gpu-memory.requests]: saw "8Gi", {_WANTED[:-10]}Write gpu-memory.request at its end if that is meant, or remove it.'
        ],
        id="a misspelt request for a part",
    ),
    pytest.param(
        case(
            pod(annotations={"Corp.example/gpu.main.gpus.devices": "0"}),
            rule=DeviceAnnotations(of_containers=("corp.example/GPU.",)),
        ),
        [f'metadata.annotations[Corp.example/gpu.main.gpus.devices]: saw "0", {_END}'],
        id="the same by the prefix of the policy",
    ),
    pytest.param(
        case(pod(annotations=_KOORDINATOR)),
        [f'metadata.annotations[{next(iter(_KOORDINATOR))}]: saw "x", {_END}'],
        id="a new pod that says what only a scheduler knows",
    ),
    pytest.param(
        case(pod(gpus=0, annotations=_GVISOR)),
        [f'metadata.annotations[{next(iter(_GVISOR))}]: saw "true", {_END}'],
        id="GPUs in gVisor without a GPU",
    ),
    pytest.param(
        case(pod(gpus=0, annotations=_GKE, resourceClaims=[{"name": "any"}])),
        [f'metadata.annotations[{next(iter(_GKE))}]: saw "- path: /dev/nvidia0", {_END}'],
        id="GKE's fast networking without a GPU",
    ),
]
WARNED = [
    pytest.param(
        case(pod(annotations=_GVISOR)),
        [f'metadata.annotations[{next(iter(_GVISOR))}]: saw "true", {_NEEDED}'],
        id="GPUs in gVisor",
    ),
    pytest.param(
        case(pod(annotations=_GKE)),
        [f'metadata.annotations[{next(iter(_GKE))}]: saw "- path: /dev/nvidia0", {_NEEDED}'],
        id="GKE's fast networking beside GPUs",
    ),
]
