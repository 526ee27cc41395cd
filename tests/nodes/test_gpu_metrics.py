"""The settings of GPU metrics."""

import pytest
from pydantic import ValidationError

from webhook.nodes.gpu_metrics import GpuMetricsSettings


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        pytest.param({"source": "zabbix"}, "wanted 'off', 'prometheus'", id="an unknown source"),
        pytest.param({"source": "prometheus"}, "http://prometheus.monitoring:9090", id="Prometheus without its URL"),
        pytest.param({"source": "prometheus", "url": "file:///etc/passwd"}, "wanted the base", id="a URL of a file"),
        pytest.param({"source": "prometheus", "url": "http://u:p@h"}, "webhook's own", id="a password in the policy"),
        pytest.param(
            {"source": "dcgm", "queries": {"memoryUsed": "sum(x)"}}, "queries.memoryUsed", id="PromQL for an exporter"
        ),
        pytest.param({"queries": {"utilisation": "", "engine": ""}}, "nothing would say", id="no utilisation at all"),
        pytest.param({"interval": "10 parsecs"}, '"30s", "5m" or "1h"', id="a malformed duration"),
        pytest.param({"interval": "2m"}, "Raise staleAfter", id="polled more rarely than samples grow stale"),
        pytest.param({"pods": {"namespace": "../nodes"}}, "pattern", id="a malformed namespace"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, object], says: str) -> None:
    with pytest.raises(ValidationError) as error:
        GpuMetricsSettings.model_validate(settings)
    assert says in str(error.value)


def test_durations_are_written_as_in_kubernetes() -> None:
    settings = GpuMetricsSettings.model_validate(
        {"interval": "1m", "staleAfter": "0.5h", "window": 120, "timeout": "1500ms"}
    )
    assert (settings.interval, settings.stale_after, settings.window, settings.timeout) == (60, 1800, 120, 1.5)
