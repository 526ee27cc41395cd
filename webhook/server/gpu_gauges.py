"""The metrics about GPUs. They are counted when Prometheus scrapes."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from webhook.placement.gpu_counts import GpuCounts, count
from webhook.policy.model import DEFAULT_PROFILE, Policy
from webhook.state.state import ClusterState
from webhook.telemetry.metrics import Families, Metrics

FAMILIES: Final[Families] = {
    "gpus": (
        "GPUs of the nodes, by resource or DRA driver. The four states add up to all.",
        ("resource", "model", "state"),
    ),
    "empty_nodes": ("Nodes whose GPUs are all free.", ("resource", "model")),
    "namespace_gpus": ("GPUs that pods of a namespace have or will get.", ("namespace", "resource", "state")),
    "idle_gpus": ("Allocated GPUs that are idle, by how long they have been.", ("namespace", "idle_for")),
    "allocated_gpu_utilisation_ratio": ("Mean utilisation of allocated GPUs.", ("model",)),
    "gpu_problems": ("GPUs with a problem, by node.", ("node", "problem")),
}
_NOTHING: Final = GpuCounts({}, {}, {}, {}, {}, {})


def add(metrics: Metrics, state: ClusterState, policy: Callable[[], Policy | None]) -> None:
    """Add them."""

    def read() -> dict[str, Mapping[Any, float]]:
        current = policy()
        counts = _NOTHING
        if current is not None:
            health = current.profile(DEFAULT_PROFILE)[1].placement.health
            counts = count(state, current.gpus, health, state.nodes.uses)
        return dict(zip(FAMILIES, counts, strict=True))

    metrics.together(FAMILIES, read)
    rejected = "Bound pods that the kubelet of their node rejected."
    metrics.counters("pods_rejected", rejected, ("node", "reason"), lambda: state.nodes.rejections.counts)
