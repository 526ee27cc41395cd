"""All queries of the alerts and the dashboard are PromQL, about metrics that there are; and all our metrics are asked for."""

from typing import Any, cast

from tests.manifests.monitoring.files import queries
from tests.manifests.monitoring.promql import selectors
from webhook.feeds.gpu_metrics import GpuMetrics
from webhook.nodes.gpu_metrics import GpuMetricsSettings
from webhook.nodes.utilisation import Utilisation
from webhook.server.process import Process
from webhook.server.settings import ServeSettings

FOR_DEBUGGING = {
    "gpu_admission_certificate_info",
    "gpu_admission_connections_cut",
    "gpu_admission_events",
    "gpu_admission_gpu_metrics_gpus",
    "gpu_admission_gpu_metrics_ignored",
    "gpu_admission_gpu_metrics_polls",
    "gpu_admission_policy_info",
    "gpu_admission_policy_shipped",
    "gpu_admission_reservations",
    "gpu_admission_unknown_profile",
}
"""Metrics of ours that are on no panel and in no alert."""
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum")}


async def families() -> dict[str, set[str]]:
    """Of a server, with the names of their series."""
    process = Process(ServeSettings())
    none = cast(Any, None)
    GpuMetrics(lambda: None, Utilisation(GpuMetricsSettings()), none, none, process.metrics, none)
    found = [each for each in process.metrics.registry.collect() if each.name.startswith("gpu_admission_")]
    return {each.name: {each.name + suffix for suffix in SUFFIXES.get(each.type, ("",))} for each in found}


async def test_queries_are_about_metrics_that_there_are_and_each_is_asked_for_or_is_for_debugging() -> None:
    """What the API server counts is asked of a real one, in test_prometheus.py."""
    ours = await families()
    asked = {selector.name for query in queries() for selector in selectors(query.expr)}
    assert {name for name in asked if name.startswith("gpu_admission_")} <= set().union(*ours.values())
    assert {name for name, series in ours.items() if not series & asked} == FOR_DEBUGGING
