"""GPUs on Google Kubernetes Engine."""

from typing import Final

from webhook.vendors.model import Annotation, Divided, Gate, HostPath, Label, Taint, UnnamedNode, Vendor

_STRATEGY: Final = "cloud.google.com/gke-gpu-sharing-strategy"
_CLIENTS: Final = "cloud.google.com/gke-max-shared-clients-per-gpu"

GKE: Final = Vendor(
    name="Google Kubernetes Engine",
    facts={
        "https://docs.cloud.google.com/kubernetes-engine/docs/how-to/gpus": (
            Label("cloud.google.com/gke-accelerator", "model"),
            Label("cloud.google.com/gke-nodepool", "pool"),
            Label("cloud.google.com/gke-gpu", "present"),
            Label("cloud.google.com/gke-gpu-driver-version", "mode"),
            Label("cloud.google.com/gke-spot", "spot"),
            Taint("cloud.google.com/impending-node-termination", says="leaving"),
        ),
        # «node affinity is not allowed on labels with keys» other than of region, zone, OS and architecture
        "https://github.com/kubernetes-sigs/secrets-store-csi-driver/issues/672": (
            UnnamedNode("gk3-*", "GKE Autopilot"),
        ),
        "https://docs.cloud.google.com/kubernetes-engine/docs/concepts/timesharing-gpus": (
            Divided("nvidia.com/gpu", "slice", "cloud.google.com/gke-gpu-partition-size"),
            Divided("nvidia.com/gpu", "share", _STRATEGY, "time-sharing", _CLIENTS, refused=True),
            Divided("nvidia.com/gpu", "share", _STRATEGY, "mps", _CLIENTS, host_ipc=True),
            Divided("nvidia.com/gpu", "share", _CLIENTS, into=_CLIENTS),
            Label(_STRATEGY, "mode"),
            Label("cloud.google.com/gke-gpu-partition-size", "mode"),
            Label(_CLIENTS, "mode"),
        ),
        "https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/": (
            Label("cloud.google.com/gce-topology-subblock", "domain"),
            Label("cloud.google.com/gce-topology-block", "domain"),
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
