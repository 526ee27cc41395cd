"""GPUs on Google Kubernetes Engine."""

from typing import Final

from webhook.vendors.model import Annotation, Gate, HostPath, Label, Taint, Vendor

GKE: Final = Vendor(
    name="Google Kubernetes Engine",
    facts={
        "https://docs.cloud.google.com/kubernetes-engine/docs/how-to/gpus": (
            Label("cloud.google.com/gke-accelerator", "model"),
            Label("cloud.google.com/gke-nodepool", "pool"),
            Label("cloud.google.com/gke-spot", "spot"),
            Taint("cloud.google.com/impending-node-termination", says="leaving"),
        ),
        "https://github.com/GoogleCloudPlatform/container-engine-accelerators/tree/master/nri_device_injector": (
            Annotation("devices.gke.io*", "besideGpu"),
        ),
        "https://github.com/GoogleCloudPlatform/container-engine-accelerators/tree/master/gpudirect-rdma": (
            HostPath("/home/kubernetes/bin/nvidia"),
            HostPath("/home/kubernetes/bin/gib"),
        ),
        "https://cloud.google.com/container-optimized-os/docs/concepts/disks-and-filesystem": (
            HostPath("/home/kubernetes", "node"),
            HostPath("/mnt/stateful_partition", "node"),
        ),
        "https://github.com/AI-Hypercomputer/xpk": (
            Gate("gke.io/topology-aware-auto-*", "the topology scheduler of GKE", "it has placed all pods of the job"),
        ),
    },
)
