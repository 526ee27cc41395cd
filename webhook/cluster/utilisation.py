"""What GPU metrics say about each node."""

from __future__ import annotations

from webhook.cluster.gpu_metrics import GpuMetricsSettings

__all__ = ["GpuMetricsSettings"]
