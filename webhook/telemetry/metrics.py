"""The metrics of the program, for Prometheus.

Labels contain only names from the policy, constants of this program, and a bounded number of names of namespaces, nodes and GPU
models. So tenants cannot create series without end.
"""

import collections
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
"""Seconds. A decision takes about a millisecond, and the API server waits 3 s for a mutation."""
disable_created_metrics()  # type: ignore[no-untyped-call]  # they double the series of counters, and nobody reads them


Families = Mapping[str, tuple[str, tuple[str, ...]]]
"""The name of each family, with its help and its labels."""


class _Readings(Collector):
    """Metrics whose values another part of the program keeps, by family. They are read when Prometheus scrapes."""

    def __init__(self, kind: Any, families: Families, read: Callable[[], Mapping[str, Mapping[Any, float]]]) -> None:
        self._kind, self._families, self._read = kind, families, read

    def collect(self) -> Iterator[Metric]:
        values = self._read()
        for name, (help_, labels) in self._families.items():
            family = self._kind(f"gpu_admission_{name}", help_, labels=labels)
            for key, number in values[name].items():
                family.add_metric(key if isinstance(key, tuple) else (key,), number)
            yield family


class Metrics:
    """The metrics. Each counter is an attribute, or is changed by `decided`."""

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
        # Plain counts and no `Counter`: a decision adds to about ten of them, and each would take a microsecond or two.
        self._injections = self._counts("injections", "Results of injectors.", "injector", "result")
        self._findings = self._counts("findings", "Violations found, by rule and action.", "rule", "action")
        self._placements = self._counts("placements", "Choices of a node, or why there is none.", "strategy", "result")
        self.unknown_profiles = self._counter(
            "unknown_profile", "Reviews from namespaces whose profile does not exist."
        )
        self.refused = self._counter("http_refused", "Requests that were answered with an error.", "code")
        self.shed = self._counter("shed", "Requests refused because there was too much to do.", "reason")
        self.cut = self._counter("connections_cut", "Connections closed to make room for new ones.")
        self.policy_errors = self._counter("policy_errors", "Policies that did not parse: the last good one stayed.")
        self.certificate_errors = self._counter("certificate_errors", "Certificates that could not be served or kept.")
        self.relists = self._counter("feed_relists", "Full lists taken from the API server.", "feed")
        self.feed_errors = self._counter("feed_errors", "Lists and watches that failed.", "feed")
        self.events = self._counter("events", "Events for users, by result.", "result")
        self.restarts = self._counter("task_restarts", "Background tasks that crashed and were started again.", "task")

    def decided(self, hook: str, decision: Decision, seconds: float) -> None:
        """Count one decision. `hook`: `mutate` or `validate`. `seconds`: the time that it took."""
        self._reviews.labels(hook, decision.result).observe(seconds)
        for injector, outcome in decision.outcomes.items():
            self._injections[injector, outcome.result] += 1
        for rule, action, _ in decision.findings:
            self._findings[rule, action] += 1
        if (placement := decision.placement) is not None:
            self._placements[placement.strategy, "chosen" if placement.nodes else placement.reason] += 1
        if decision.unknown_profile:
            self.unknown_profiles.inc()

    def gauge(self, name: str, help_: str, read: Callable[[], float]) -> None:
        Gauge(f"gpu_admission_{name}", help_, registry=self.registry).set_function(read)

    def gauges(self, name: str, help_: str, label: str, read: Callable[[], Mapping[str, float]]) -> None:
        """One series for each key of `read()`. The keys are constants."""
        self.together({name: (help_, (label,))}, lambda: {name: read()})

    def counters(
        self, name: str, help_: str, labels: str | tuple[str, ...], read: Callable[[], Mapping[Any, float]]
    ) -> None:
        families = {name: (help_, (labels,) if isinstance(labels, str) else labels)}
        self.registry.register(_Readings(CounterMetricFamily, families, lambda: {name: read()}))

    def together(self, families: Families, read: Callable[[], Mapping[str, Mapping[Any, float]]]) -> None:
        """Several gauges, whose series `read` gives by the name of the gauge."""
        self.registry.register(_Readings(GaugeMetricFamily, families, read))

    def text(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        return generate_latest(self.registry)

    def _counter(self, name: str, help_: str, *labels: str) -> Counter:
        return Counter(f"gpu_admission_{name}", help_, labels, registry=self.registry)

    def _counts(self, name: str, help_: str, *labels: str) -> collections.Counter[tuple[str, ...]]:
        counts: collections.Counter[tuple[str, ...]] = collections.Counter()
        self.counters(name, help_, labels, lambda: counts)
        return counts
