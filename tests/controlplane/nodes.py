"""What a GPU node looks like: a v1 Node as a plain dict, for a control plane and for an offline `List` alike.

Labels as GPU Feature Discovery and the GPU operator write them (NVIDIA/k8s-device-plugin,
docs/gpu-feature-discovery/README.md; NVIDIA/gpu-operator, controllers/state_manager.go).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

NOT_READY = "controlplane/not-ready"  # annotation: stages.yaml then keeps the node not ready
GPU_TAINT = "nvidia.com/gpu=present:NoSchedule"  # what GKE puts on GPU nodes, and the operator's documents advise
# A kubelet may be as old as the oldest release that we run, and not newer than the API server.
NODE_INFO = {
    "architecture": "amd64",
    "bootID": "",
    "containerRuntimeVersion": "containerd://2.1.4",
    "kernelVersion": "6.8.0",
    "kubeProxyVersion": "",
    "kubeletVersion": "v1.34.2",
    "machineID": "",
    "operatingSystem": "linux",
    "osImage": "Ubuntu 24.04 LTS (simulated)",
    "systemUUID": "",
}

Json = dict[str, Any]


@dataclass(frozen=True)
class Product:
    """A GPU model: memory in MiB, architecture, compute capability, an instance type that has it."""

    memory: int
    family: str
    compute: str
    instance: str
    mig: bool = False


PRODUCTS = {
    "NVIDIA-A100-SXM4-40GB": Product(40_960, "ampere", "8.0", "a2-highgpu-8g", mig=True),
    "NVIDIA-A100-SXM4-80GB": Product(81_920, "ampere", "8.0", "a2-ultragpu-8g", mig=True),
    "NVIDIA-B200": Product(183_359, "blackwell", "10.0", "a4-highgpu-8g", mig=True),
    "NVIDIA-H100-80GB-HBM3": Product(81_559, "hopper", "9.0", "a3-highgpu-8g", mig=True),
    "NVIDIA-H200": Product(143_771, "hopper", "9.0", "a3-ultragpu-8g", mig=True),
    "NVIDIA-L4": Product(23_034, "ada-lovelace", "8.9", "g2-standard-96"),
    "Tesla-T4": Product(15_360, "turing", "7.5", "n1-standard-32"),
}


def node(
    name: str,
    gpus: int = 8,
    product: str = "NVIDIA-A100-SXM4-80GB",
    *,
    cpu: str = "128",
    memory: str = "1Ti",
    pods: str = "110",
    zone: str = "zone-a",
    labels: Mapping[str, str | None] | None = None,
    annotations: Mapping[str, str] | None = None,
    taints: Iterable[str | Mapping[str, str]] = (),
    images: Mapping[str, int] | None = None,
    ready: bool = True,
    conditions: Mapping[str, str] | None = None,
    cordoned: bool = False,
    provider: str = "",
    mig: Mapping[str, int] | None = None,
    replicas: int = 1,
    renamed: bool = False,
    resources: Mapping[str, str] | None = None,
) -> Json:
    """A Node with `gpus` physical GPUs of one `product` (a key of PRODUCTS); 0: a node without GPUs.

    taints: as kubectl takes them, "key=value:Effect", or as the API has them. images: name -> size in bytes.
    conditions: beside Ready. provider: its providerID.
    mig: profile -> number of its devices, such as {"1g.10gb": 7}: all GPUs are partitioned (strategy "mixed").
    replicas: time-slicing; each GPU is advertised that often, as nvidia.com/gpu or, `renamed`, nvidia.com/gpu.shared.
    resources: more capacity, or other than follows from the above: {"nvidia.com/gpu": "0"} while the device plugin is away.
    labels: the same; None: without this one.
    """
    capacity = {"cpu": cpu, "memory": memory, "ephemeral-storage": "1Ti", "pods": pods}
    instance = PRODUCTS[product].instance if gpus else "n2-standard-128"
    all_labels = {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/instance-type": instance,
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/region": "region-1",
        "topology.kubernetes.io/zone": zone,
        "node.kubernetes.io/instance-type": instance,
    }
    if gpus:
        all_labels |= gpu_labels(gpus, product, mig or {}, replicas, renamed)
        capacity |= gpu_capacity(gpus, mig or {}, replicas, renamed)
    spec: Json = {"podCIDR": "10.64.0.0/24"}
    if provider:
        spec["providerID"] = provider
    found = [_taint(each) if isinstance(each, str) else dict(each) for each in taints]
    if cordoned:
        spec["unschedulable"] = True
        found.append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
    if not ready:
        found.append({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"})
    if found:
        spec["taints"] = found
    labelled = {key: value for key, value in {**all_labels, **(labels or {})}.items() if value is not None}
    metadata: Json = {"name": name, "labels": labelled}
    notes = dict(annotations or {}) | ({} if ready else {NOT_READY: "true"})
    if notes:
        metadata["annotations"] = notes
    capacity |= dict(resources or {})
    known = {"Ready": "True" if ready else "False", **(conditions or {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": spec,
        "status": {
            "capacity": capacity,
            "allocatable": dict(capacity),
            "conditions": [{"type": of, "status": status} for of, status in known.items()],
            "addresses": [{"type": "Hostname", "address": name}],
            "nodeInfo": dict(NODE_INFO),
            "images": [{"names": [image], "sizeBytes": size} for image, size in (images or {}).items()],
        },
    }


def gpu_labels(gpus: int, product: str, mig: Mapping[str, int], replicas: int, renamed: bool) -> dict[str, str]:
    """Of the labels of GPU Feature Discovery and of the GPU operator for such a node, those that say what it has."""
    known = PRODUCTS[product]
    major, minor = known.compute.split(".")
    shared = replicas > 1
    labels = {
        "nvidia.com/gpu-driver-upgrade-state": "upgrade-done",
        "nvidia.com/gpu.compute.major": major,
        "nvidia.com/gpu.compute.minor": minor,
        "nvidia.com/gpu.count": str(gpus),
        "nvidia.com/gpu.family": known.family,
        "nvidia.com/gpu.memory": str(known.memory),
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": f"{product}-SHARED" if shared and not renamed else product,
        "nvidia.com/gpu.replicas": "0" if mig else str(replicas),
        "nvidia.com/gpu.sharing-strategy": "time-slicing" if shared else "none",
        "nvidia.com/mig.capable": str(known.mig).lower(),
        "nvidia.com/mig.strategy": "mixed" if mig else "single",
        "nvidia.com/mps.capable": "false",
    }
    if known.mig:
        labels["nvidia.com/mig.config"] = "custom" if mig else "all-disabled"
    for profile, count in mig.items():
        prefix = f"nvidia.com/mig-{profile}"
        labels |= {
            f"{prefix}.count": str(count),
            f"{prefix}.product": f"{product}-MIG-{profile}",
            f"{prefix}.replicas": "1",
            f"{prefix}.sharing-strategy": "none",
        }
    return labels


def gpu_capacity(gpus: int, mig: Mapping[str, int], replicas: int, renamed: bool) -> dict[str, str]:
    """What NVIDIA's device plugin advertises."""
    if mig:
        return {"nvidia.com/gpu": "0"} | {f"nvidia.com/mig-{profile}": str(count) for profile, count in mig.items()}
    if renamed:
        return {"nvidia.com/gpu": "0", "nvidia.com/gpu.shared": str(gpus * replicas)}
    return {"nvidia.com/gpu": str(gpus * replicas)}


def _taint(text: str) -> Json:
    """key=value:Effect or key:Effect, as `kubectl taint` takes it."""
    head, colon, effect = text.rpartition(":")
    if not colon or effect not in ("NoSchedule", "NoExecute", "PreferNoSchedule"):
        raise ValueError(f"taint {text!r}: wanted key=value:Effect, such as {GPU_TAINT}")
    key, equals, value = head.partition("=")
    return {"key": key, "value": value, "effect": effect} if equals else {"key": key, "effect": effect}
