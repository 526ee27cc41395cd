"""The running DCGM exporters."""

from typing import Any

import pytest

from tests.feeds.exporters import exporter
from webhook.feeds.exporters import Exporter, Exporters
from webhook.nodes.gpu_metrics import GpuMetricsSettings, Pods

SETTINGS = GpuMetricsSettings(source="dcgm")


@pytest.mark.parametrize(
    "obj",
    [
        pytest.param(exporter(app=None), id="a pod without the label"),
        pytest.param(exporter(namespace="team-a"), id="a tenant's pod with the label of an exporter"),
        pytest.param(exporter(phase="Pending"), id="an exporter that does not run yet"),
        pytest.param(exporter(deletionTimestamp="2026-01-01T00:00:00Z"), id="an exporter that is being deleted"),
        pytest.param(exporter(address="example.com/x?"), id="a malformed address"),
        pytest.param(exporter(address="169.254.169.254"), id="the address of a cloud's metadata service"),
    ],
)
def test_a_pod_that_is_no_running_exporter_is_not_scraped(obj: dict[str, Any]) -> None:
    exporters = Exporters(SETTINGS.asked)
    exporters.seen(obj)
    assert list(exporters) == []


def test_exporters_come_and_go_with_their_pods() -> None:
    exporters = Exporters(SETTINGS.asked)
    assert not exporters.listed.is_set()
    listed = [exporter(name="a"), exporter(name="b", address="fd00::7"), exporter(name="c", app=None)]
    for each in listed:
        exporters.seen(each, listed=True)
    exporters.complete({*map(exporters.key, listed)})
    assert exporters.listed.is_set()
    assert sorted(each.name for each in exporters) == ["a", "b"]
    assert exporters.nodes() == {"a": "gpu-a-1", "b": "gpu-a-1", "10.0.0.7": "gpu-a-1", "fd00::7": "gpu-a-1"}
    exporters.gone(exporter(name="a"))
    exporters.seen(exporter(name="b", phase="Failed"))
    exporters.heard()
    assert list(exporters) == []
    exporters.seen(exporter(name="c"))
    exporters.seen(exporter(name="d"))
    exporters.seen(exporter(name="c"), listed=True)
    assert len(list(exporters)) == 2, "nothing is removed before the list is complete"
    exporters.complete({exporters.key(exporter(name="c"))})
    assert list(exporters) == [Exporter("gpu-a-1", "c", "10.0.0.7", "first")]


def test_only_the_pods_with_the_labels_of_exporters_are_watched() -> None:
    exporters = Exporters(Pods(namespace="m", selector={"b": "2", "a": "1"}))
    assert (exporters.path, exporters.labels) == ("/api/v1/namespaces/m/pods", "a=1,b=2")
