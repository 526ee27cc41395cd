"""The component as kubectl composes it: what it adds, and that it fits the installation."""

from pathlib import Path

import orjson
import pytest
import yaml

from tests.controlplane.plane import ControlPlane
from tests.manifests.files import only
from tests.manifests.monitoring.files import COMPONENT, rules
from tests.manifests.test_install import composed, kustomized

pytestmark = pytest.mark.controlplane


def test_it_adds_a_monitor_alerts_and_a_dashboard_and_changes_nothing(applied: ControlPlane, tmp_path: Path) -> None:
    shipped, found = kustomized(applied), composed(applied, tmp_path, "monitoring")
    assert [each for each in shipped if each not in found] == []
    more = {each["kind"]: each for each in found if each not in shipped}
    assert [*more] == ["ConfigMap", "PodMonitor", "PrometheusRule"]
    assert {each["metadata"]["namespace"] for each in more.values()} == {"gpu-admission"}
    assert more["PrometheusRule"]["spec"] == rules()

    config = more["ConfigMap"]
    assert config["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert orjson.loads(config["data"]["gpu-admission.json"]) == orjson.loads(
        (COMPONENT / "dashboard.json").read_bytes()
    )
    applied.kubectl("apply", "-f", "-", "--dry-run=server", input=yaml.safe_dump(config))

    template = only("Deployment")["spec"]["template"]
    spec = more["PodMonitor"]["spec"]
    assert spec["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    assert template["metadata"]["labels"][spec["jobLabel"]] == "gpu-admission"
    ports = {port["name"] for port in template["spec"]["containers"][0]["ports"]}
    assert {endpoint["port"] for endpoint in spec["podMetricsEndpoints"]} <= ports
