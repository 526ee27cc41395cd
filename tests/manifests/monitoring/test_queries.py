"""All queries of the alerts and the dashboard are PromQL, about metrics that there are; and all our metrics are asked for."""

import asyncio
from typing import Any, cast

import pytest

from tests.manifests.monitoring.files import Query, queries
from tests.manifests.monitoring.promql import selectors
from webhook.cluster.gpu_metrics import GpuMetricsSettings
from webhook.cluster.utilisation import Utilisation
from webhook.feeds.gpu_metrics import GpuMetrics
from webhook.server.process import Process
from webhook.server.settings import ServeSettings

API_SERVER = {
    "apiserver_admission_webhook_fail_open_count",
    "apiserver_admission_webhook_rejection_count",
    "apiserver_admission_webhook_admission_duration_seconds_bucket",
}
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


@pytest.fixture(scope="module")
def ours() -> dict[str, tuple[str, ...]]:
    """The families of a server, with the endings of the names of their series."""
    return asyncio.run(_families())


async def _families() -> dict[str, tuple[str, ...]]:
    process = Process(ServeSettings())
    none = cast(Any, None)
    GpuMetrics(lambda: None, Utilisation(GpuMetricsSettings()), none, none, process.metrics, none)
    return {family.name: SUFFIXES.get(family.type, ("",)) for family in process.metrics.registry.collect()}


@pytest.mark.parametrize("query", [*queries()], ids=lambda query: query.where)
def test_a_query_is_about_metrics_that_there_are(query: Query, ours: dict[str, tuple[str, ...]]) -> None:
    known = API_SERVER | {name + suffix for name, suffixes in ours.items() for suffix in suffixes}
    asked = {selector.name for selector in selectors(query.expr)}
    assert asked
    assert asked <= known


def test_every_metric_of_ours_is_asked_for_or_is_for_debugging(ours: dict[str, tuple[str, ...]]) -> None:
    asked = {selector.name for query in queries() for selector in selectors(query.expr)}
    families = {name for name, suffixes in ours.items() if {name + suffix for suffix in suffixes} & asked}
    mine = {name for name in ours if name.startswith("gpu_admission_")}
    assert mine - families == FOR_DEBUGGING
