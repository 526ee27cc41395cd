"""The metrics about GPUs, as Prometheus reads them."""

from prometheus_client.parser import text_string_to_metric_families

from tests.controlplane.nodes import node
from tests.state.objects import GPU, state, stored
from webhook.feeds.policy import shipped_policy
from webhook.policy.model import Policy
from webhook.server import gpu_gauges
from webhook.telemetry.metrics import Metrics


def test_the_gauges_are_counted_at_each_scrape_and_are_empty_without_a_policy() -> None:
    metrics, of = Metrics(), state([node("a", labels={"nvidia.com/gpu.product": "A100"})])
    policies: list[Policy] = []
    gpu_gauges.add(metrics, of, lambda: policies[0] if policies else None)

    def seen() -> dict[tuple[str, ...], float]:
        families = text_string_to_metric_families(metrics.text().decode())
        return {
            (s.name.removeprefix("gpu_admission_"), *(s.labels[name] for name in sorted(s.labels))): s.value
            for family in families
            for s in family.samples
            if "gpus" in s.name or "pods_rejected" in s.name
        }

    assert seen() == {}
    policies.append(Policy.load(shipped_policy()))
    free = {("gpus", "A100", GPU, word): 0.0 for word in ("allocated", "promised", "unusable")}
    assert seen() == free | {("gpus", "A100", GPU, "free"): 8}
    of.pod_seen(stored("p", 3, on="a"), 1.0)
    assert seen()["gpus", "A100", GPU, "free"] == 5
    assert seen()["namespace_gpus", "team-a", GPU, "allocated"] == 3
    failed = stored("p", 3, on="a", phase="Failed")
    of.pod_seen(failed | {"status": failed["status"] | {"reason": "OutOfnvidia.com/gpu"}}, 2.0)
    assert seen()["pods_rejected_total", "a", "OutOf"] == 1
