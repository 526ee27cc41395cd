"""What is counted, for Prometheus. Called from the edges only.

A label holds nothing but names from the policy and constants of this program: nothing that a tenant writes can fill the
memory of whoever stores them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from webhook.admission.decision import Decision

BUCKETS = (0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0)
"""Seconds. A decision takes about 0.1 ms; the API server waits 3 s for a mutation."""
disable_created_metrics()  # type: ignore[no-untyped-call]  # one more series for each, which nobody reads


class _Readings(Collector):
    """What another part of the program counts anyway: read only when somebody asks, one series for each key."""

    def __init__(self, family: Any, name: str, help_: str, label: str, read: Callable[[], Mapping[str, float]]) -> None:
        self._family, self._arguments, self._label, self._read = family, (f"gpu_admission_{name}", help_), label, read

    def collect(self) -> Iterator[Metric]:
        family = self._family(*self._arguments, labels=[self._label])
        for value, number in self._read().items():
            family.add_metric([value], number)
        yield family


class Metrics:
    """Every counter of the program, by the name of what it counts."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        for process in (ProcessCollector, PlatformCollector, GCCollector):
            process(registry=self.registry)
        self._reviews = Histogram(
            "gpu_admission_review_seconds",
            "Time to decide, by webhook and result.",
            ["hook", "result"],
            registry=self.registry,
            buckets=BUCKETS,
        )
        self._injections = self._counter("injections", "What injectors did.", "injector", "result")
        self._findings = self._counter("findings", "Violations found, by rule and action.", "rule", "action")
        self._placements = self._counter("placements", "Choices of a node, or why there is none.", "strategy", "result")
        self._children: dict[tuple[str, ...], Counter] = {}
        """The series of `_count`: `labels()` takes 2 µs each time, and a decision counts ten things."""
        self.unknown_profiles = self._counter(
            "unknown_profile", "Reviews from namespaces whose profile does not exist."
        )
        self.refused = self._counter("http_refused", "Requests that were answered with an error.", "code")
        self.shed = self._counter("shed", "Requests sent away because there was too much to do.", "reason")
        self.cut = self._counter("connections_cut", "Connections that went to make room, or never asked.", "stage")
        self.policy_errors = self._counter("policy_errors", "Policies that did not parse: the last good one stayed.")
        self.certificate_errors = self._counter("certificate_errors", "Certificates that could not be served or kept.")
        self.relists = self._counter("feed_relists", "Full lists taken from the API server.", "feed")
        self.feed_errors = self._counter("feed_errors", "Lists and watches that failed.", "feed")
        self.restarts = self._counter("task_restarts", "Background tasks that crashed and were started again.", "task")

    def decided(self, hook: str, decision: Decision, seconds: float) -> None:
        """Everything that one decision counts. `hook`: `mutate` or `validate`."""
        self._reviews.labels(hook, decision.result).observe(seconds)
        for injector, outcome in decision.outcomes.items():
            self._count(self._injections, "injector", injector, outcome.result)
        for rule, action, _ in decision.findings:
            self._count(self._findings, "rule", rule, action)
        if (placement := decision.placement) is not None:
            result = "chosen" if placement.nodes else placement.reason
            self._count(self._placements, "strategy", placement.strategy, result)
        if decision.unknown_profile:
            self.unknown_profiles.inc()

    def gauge(self, name: str, help_: str, read: Callable[[], float]) -> None:
        Gauge(f"gpu_admission_{name}", help_, registry=self.registry).set_function(read)

    def gauges(self, name: str, help_: str, label: str, read: Callable[[], Mapping[str, float]]) -> None:
        """One series for each key that `read` gives; the keys are constants."""
        self.registry.register(_Readings(GaugeMetricFamily, name, help_, label, read))

    def counters(self, name: str, help_: str, label: str, read: Callable[[], Mapping[str, float]]) -> None:
        self.registry.register(_Readings(CounterMetricFamily, name, help_, label, read))

    def text(self) -> bytes:
        """The exposition format of Prometheus."""
        return generate_latest(self.registry)

    def _counter(self, name: str, help_: str, *labels: str) -> Counter:
        return Counter(f"gpu_admission_{name}", help_, labels, registry=self.registry)

    def _count(self, counter: Counter, *key: str) -> None:
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = counter.labels(*key[1:])
        child.inc()
