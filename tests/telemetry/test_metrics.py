"""The metrics after decisions. No text from outside creates a series."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from webhook.admission.decision import Decision, UnitFinding
from webhook.framework.cluster_view import Placement, Ranked
from webhook.framework.interface import Finding, Outcome
from webhook.telemetry.metrics import Metrics

FINDING = Finding("spec.containers[0]", "2", "1", "Ask for less")
CHOSEN = Placement((Ranked("node-of-a-tenant", 8, 0, 1.0),), "spread", total=1)
NONE_FITS = Placement((), "pack", "no node fits", 3, (("too few free GPUs", 3),))


def samples(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """All samples by name and labels, parsed as Prometheus does it."""
    families = text_string_to_metric_families(metrics.text().decode())
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return samples(metrics).get((f"gpu_admission_{name}", tuple(sorted(labels.items()))))


DECISIONS = [
    pytest.param(Decision("ignored"), {}, id="an ignored request"),
    pytest.param(
        Decision(
            "patched", outcomes={"gpuResources": Outcome("filled"), "tolerations": Outcome("none")}, placement=CHOSEN
        ),
        {
            ("injections_total", ("injector", "gpuResources"), ("result", "filled")),
            ("injections_total", ("injector", "tolerations"), ("result", "none")),
            ("placements_total", ("strategy", "spread"), ("result", "chosen")),
        },
        id="a patch",
    ),
    pytest.param(
        Decision("unchanged", placement=NONE_FITS),
        {("placements_total", ("strategy", "pack"), ("result", "no node fits"))},
        id="no node",
    ),
    pytest.param(
        Decision(
            "denied", findings=(UnitFinding("gpuLimit", "deny", FINDING), UnitFinding("deviceEnv", "warn", FINDING))
        ),
        {
            ("findings_total", ("rule", "gpuLimit"), ("action", "deny")),
            ("findings_total", ("rule", "deviceEnv"), ("action", "warn")),
        },
        id="a refusal",
    ),
    pytest.param(Decision("patched", unknown_profile=True), {("unknown_profile_total",)}, id="an unknown profile"),
]


@pytest.mark.parametrize(("decision", "counted"), DECISIONS)
def test_a_decision_is_counted_once_in_each_of_its_series(
    decision: Decision, counted: set[tuple[str | tuple[str, str], ...]]
) -> None:
    metrics = Metrics()
    metrics.decided("mutate", decision, 0.0004)
    nonzero = [key for key, value in samples(metrics).items() if value and key[0].startswith("gpu_admission_")]
    series = {(name.removeprefix("gpu_admission_"), frozenset(labels)) for name, labels in nonzero}
    for name, *labels in counted:
        assert (name, frozenset(labels)) in series
    others = {(name, labels) for name, labels in series if not str(name).startswith("review_seconds")}
    assert len(others) == len(counted)
    assert value(metrics, "review_seconds_count", hook="mutate", result=decision.result) == 1


def test_gauges_are_read_only_when_the_metrics_are_rendered() -> None:
    metrics, asked = Metrics(), []

    def left() -> float:
        asked.append(1)
        return 42.0

    metrics.gauge("certificate_seconds_left", "Left.", left)
    metrics.gauges("feed_age_seconds", "Age.", "feed", lambda: {"pods": 1.5, "nodes": 2.5})
    metrics.counters("choices", "Choices.", "outcome", lambda: {"first": 3})
    assert asked == []
    assert value(metrics, "certificate_seconds_left") == 42
    assert value(metrics, "feed_age_seconds", feed="nodes") == 2.5
    assert value(metrics, "choices_total", outcome="first") == 3
