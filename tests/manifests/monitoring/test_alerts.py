"""Each alert on promtool: when it fires, when it just does not, and that it ends. Each has a section in docs/operations.md."""

import re
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.feeds.prometheus_server import find
from tests.manifests.files import MANIFESTS
from tests.manifests.monitoring.files import alerts, rules

Series = dict[str, str]
"""Values by series, one each minute, as promtool writes them: `0+2x3` is 0 2 4 6, `_x2` is two minutes without a value."""


class Case(NamedTuple):
    fires: Series
    at: int
    """The minute in which it fires."""
    ended: int
    """The minute in which it does not fire any more."""
    under: list[Series]
    """With each of these it never fires."""


HOOK = '{name="mutate.gpu-admission.io"}'
OPEN = f"apiserver_admission_webhook_fail_open_count{HOOK}"
ERRORS = (
    'apiserver_admission_webhook_rejection_count{name="validate.gpu-admission.io", error_type="calling_webhook_error"}'
)
SLOW = "apiserver_admission_webhook_admission_duration_seconds_bucket{name='mutate.gpu-admission.io', le='%s'}"
LEFT, LIFE = "gpu_admission_certificate_seconds_left", "gpu_admission_certificate_lifetime_seconds"
CHOICES = "gpu_admission_choices_total{outcome='%s'}"
REFUSED = "gpu_admission_findings_total{rule='gpuLimit', action='deny'}"
REJECTED = "gpu_admission_pods_rejected_total{node='n', reason='OutOf', instance='%s'}"


def slow(under_a_second: int) -> Series:
    return {
        SLOW % "1": f"0+{under_a_second}x60 {under_a_second * 60}x60",
        SLOW % "2.5": "0+1000x60 60000x60",
        SLOW % "+Inf": "0+1000x60 60000x60",
    }


def problem(name: str, minutes: int) -> Case:
    """It fires if a GPU has a problem for so many minutes."""
    series = f"gpu_admission_gpu_problems{{node='n', problem='{name}'}}"
    return Case({series: f"1x{minutes + 3} 0x20"}, minutes + 1, minutes + 8, [{series: f"1x{minutes - 1} 0x20"}])


CASES: dict[str, Case] = {
    "GpuAdmissionFailedOpen": Case(
        {OPEN: "0x5 1+1x20 21x30"}, 15, 45, [{OPEN: "0x5 1x40"}, {OPEN.replace("mutate.gpu", "other"): "0+1x40"}]
    ),
    "GpuAdmissionCallErrors": Case(
        {ERRORS: "0x5 1+1x20 21x30"}, 15, 45, [{ERRORS: "0x5 1x40"}, {ERRORS.replace("calling_", ""): "0+1x40"}]
    ),
    "GpuAdmissionAbsent": Case(
        {"gpu_admission_build_info": "_x10 1x30"}, 7, 12, [{"gpu_admission_build_info": "1x3 _x8 1x110"}]
    ),
    "GpuAdmissionOneReplica": Case(
        {  # one is scraped twice: by its annotations, and by the PodMonitor
            "gpu_admission_build_info{instance='a', job='pods'}": "1x60",
            "gpu_admission_build_info{instance='a', job='gpu-admission'}": "1x60",
            "gpu_admission_build_info{instance='b', job='gpu-admission'}": "_x20 1x40",
        },
        16,
        22,
        [{"gpu_admission_build_info{instance='a'}": "1x60", "gpu_admission_build_info{instance='b'}": "_x14 1x60"}],
    ),
    "GpuAdmissionSlow": Case(slow(900), 25, 85, [slow(986)]),
    "GpuAdmissionCertificateNotRenewed": Case(
        {LEFT: "199x90 300x30", LIFE: "1000x120"}, 62, 92, [{LEFT: "200x120", LIFE: "1000x120"}]
    ),
    "GpuAdmissionCertificateEnds": Case(
        {LEFT: "49x9 300x30", LIFE: "1000x60"}, 6, 12, [{LEFT: "50x60", LIFE: "1000x60"}]
    ),
    "GpuAdmissionPolicyInvalid": Case(
        {"gpu_admission_policy_valid": "0x9 1x20"}, 6, 12, [{"gpu_admission_policy_valid": "1x5 0x4 1x40"}]
    ),
    "GpuAdmissionClusterStale": Case(
        {"gpu_admission_cluster_fresh": "0x15 1x20"}, 11, 18, [{"gpu_admission_cluster_fresh": "1x5 0x9 1x40"}]
    ),
    "GpuAdmissionShedding": Case(
        {"gpu_admission_shed_total{reason='full'}": "0+1x30 30x30"},
        15,
        45,
        [{"gpu_admission_http_refused_total{code='404'}": "0x5 1x40"}],
    ),
    "GpuAdmissionTaskRestarts": Case(
        {"gpu_admission_task_restarts_total{task='events'}": "0x5 4x40"},
        8,
        30,
        [{"gpu_admission_task_restarts_total{task='events'}": "0x5 3x40"}],
    ),
    "GpuAdmissionChoicesMissed": Case(
        {CHOICES % "other": "0+1x150 150x90", CHOICES % "first": "0+9x150 1350x90"},
        130,
        220,
        [
            {CHOICES % "other": "0+1x240", CHOICES % "first": "0+20x240"},
            {CHOICES % "other": "0 1x240", CHOICES % "first": "0 15x240"},
        ],
    ),
    "GpuAdmissionRefusalsJump": Case(
        {REFUSED: "0x1500 0+1x60 60x300", "gpu_admission_build_info": "1x1800"},
        1555,
        1650,
        [
            {REFUSED: "0+1x1800", "gpu_admission_build_info": "1x1800"},
            {REFUSED: "0x1500 10x300", "gpu_admission_build_info": "1x1800"},
        ],
    ),
    "GpuPodsRejectedByNode": Case(
        {REJECTED % "a": "0+1x30 30x40", REJECTED % "b": "0+1x30 30x40"},
        12,
        60,
        [{REJECTED % "a": "0x5 3x60", REJECTED % "b": "0x5 3x60"}],
    ),
    "GpuNodeShrunk": problem("withdrawn", 15),
    "GpuSick": problem("sick", 10),
    "GpuHot": problem("hot", 10),
    "GpuMemoryFull": problem("memoryFull", 15),
    "GpuIdle": Case(
        {"gpu_admission_idle_gpus{namespace='a', idle_for='1h'}": "1x70 0x20"},
        62,
        75,
        [
            {"gpu_admission_idle_gpus{namespace='a', idle_for='1h'}": "1x58 0x20"},
            {"gpu_admission_idle_gpus{namespace='a', idle_for='window'}": "1x200"},
        ],
    ),
    "GpuUnderused": Case(
        {"gpu_admission_allocated_gpu_utilisation_ratio{model='A100'}": "0.19x370 0.5x20"},
        365,
        375,
        [{"gpu_admission_allocated_gpu_utilisation_ratio{model='A100'}": "0.2x400"}],
    ),
    "GpuMetricsOld": Case(
        {"gpu_admission_gpu_metrics_age_seconds": "301x15 10x20"},
        11,
        18,
        [{"gpu_admission_gpu_metrics_age_seconds": "300x120"}],
    ),
}


def test_every_alert_has_its_case() -> None:
    assert [*CASES] == [rule["alert"] for rule in alerts()]


def firing(alert: str, series: Series, *at: tuple[int, int]) -> dict[str, Any]:
    """A test of promtool: how many of an alert fire in each of these minutes."""
    told = f'count(ALERTS{{alertname="{alert}", alertstate="firing"}}) or vector(0)'
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {"expr": told, "eval_time": f"{minute}m", "exp_samples": [{"labels": "{}", "value": count}]}
            for minute, count in at
        ],
    }


def never(alert: str, series: Series, until: int) -> dict[str, Any]:
    made = firing(alert, series, (until, 0))
    made["promql_expr_test"][0]["expr"] = (
        f'count(count_over_time(ALERTS{{alertname="{alert}", alertstate="firing"}}[2d])) or vector(0)'
    )
    return made


def test_each_alert_fires_and_ends_and_does_not_fire_just_under(tmp_path: Path) -> None:
    """`promtool test rules` says which expression of which alert did not give what was expected."""
    for rule in alerts():  # each with a file of its own: promtool evaluates all rules of a file for each test
        alert = rule["alert"]
        case = CASES[alert]
        tests = [firing(alert, case.fires, (0, 0), (case.at, 1), (case.ended, 0))]
        tests += [never(alert, series, case.ended + 100) for series in case.under]
        alone = {"groups": [{"name": alert, "rules": [rule]}]}
        (tmp_path / f"{alert}.rules.yaml").write_text(yaml.safe_dump(alone))
        written = {"rule_files": [f"{alert}.rules.yaml"], "evaluation_interval": "1m", "tests": tests}
        (tmp_path / f"{alert}.yaml").write_text(yaml.safe_dump(written, sort_keys=False))
    files = [f"{alert}.yaml" for alert in CASES]
    answer = subprocess.run(
        [find("promtool"), "test", "rules", *files], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_promtool_finds_no_fault_in_the_rules(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rules()))
    command = [find("promtool"), "check", "rules", "--lint=all", "--lint-fatal", "rules.yaml"]
    answer = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr


PAGE = (MANIFESTS.parent / "docs" / "operations.md").read_text()
PARTS = ("Diagnosis", "Mitigation")


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: rule["alert"])
def test_an_alert_says_where_to_read_on_and_that_section_is_there(rule: dict[str, Any]) -> None:
    anchor = rule["annotations"]["runbook_url"].partition("#")[2]
    sections = {title.lower(): text for title, text in re.findall(r"^### (\w+)\n\n(.+?)(?=^##|\Z)", PAGE, re.M | re.S)}
    assert anchor == rule["alert"].lower()
    assert re.match(r"[A-Z]", sections[anchor]), "what it means, and what harm is done"
    assert re.findall(r"^- \*\*(\w+):\*\*", sections[anchor], re.M) == [*PARTS]
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert rule["annotations"]["summary"]
    assert rule["annotations"]["description"]


def test_no_section_is_about_an_alert_that_is_gone() -> None:
    assert re.findall(r"^### (\w+)$", PAGE, re.M) == [rule["alert"] for rule in alerts()]
