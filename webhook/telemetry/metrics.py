"""What is counted, for Prometheus. Called from the edges only.

A label holds nothing but names from the policy and constants of this program, and no metric ever has more than
MOST_SERIES series: nothing that a tenant writes can fill the memory of whoever stores them.

Counting is a dictionary update: one event loop counts, so there is no lock to take; prometheus_client turns it into
families when it is asked (its own counters cost a microsecond each, and a decision moves ten of them).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, TypeVar

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from webhook.admission.decision import Decision

Labels = tuple[str, ...]
Added = TypeVar("Added", bound=Collector)
MOST_SERIES = 200
_OTHER = "other"
BUCKETS = (0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0)
"""Seconds. A decision takes about 0.1 ms; the API server waits 3 s for a mutation."""


class Tally(Collector):
    """A counter with labels."""

    def __init__(self, name: str, help_: str, labels: Labels) -> None:
        self._name, self._help, self._labels = name, help_, labels
        self._counts: dict[Labels, int] = {} if labels else {(): 0}

    def add(self, *values: str, by: int = 1) -> None:
        try:
            self._counts[values] += by
        except KeyError:
            key = _bounded(values, self._counts)
            self._counts[key] = self._counts.get(key, 0) + by

    def describe(self) -> Iterator[Metric]:
        yield CounterMetricFamily(self._name, self._help, labels=self._labels)

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(self._name, self._help, labels=self._labels)
        for values, count in self._counts.items():
            family.add_metric(values, count)
        yield family


class Timing(Collector):
    """A histogram of seconds with labels."""

    def __init__(self, name: str, help_: str, labels: Labels) -> None:
        self._name, self._help, self._labels = name, help_, labels
        self._rows: dict[Labels, list[float]] = {}

    def observe(self, seconds: float, *values: str) -> None:
        row = self._rows.get(values) or self._new(values)
        row[bisect_left(BUCKETS, seconds)] += 1
        row[-1] += seconds

    def _new(self, values: Labels) -> list[float]:
        """A count for each bucket, one for what is slower than all of them, and the sum."""
        return self._rows.setdefault(_bounded(values, self._rows), [0.0] * (len(BUCKETS) + 2))

    def describe(self) -> Iterator[Metric]:
        yield HistogramMetricFamily(self._name, self._help, labels=self._labels)

    def collect(self) -> Iterator[Metric]:
        family = HistogramMetricFamily(self._name, self._help, labels=self._labels)
        for values, (*counts, total) in self._rows.items():
            cumulated, buckets = 0.0, []
            for limit, count in zip((*map(str, BUCKETS), "+Inf"), counts, strict=True):
                cumulated += count
                buckets.append((limit, cumulated))
            family.add_metric(values, buckets, total)
        yield family


class Reading(Collector):
    """What another part of the program knows anyway: read only when somebody asks."""

    def __init__(
        self, kind: Literal["gauge", "counter"], name: str, help_: str, label: str | None, read: Callable[[], Any]
    ) -> None:
        self._family = CounterMetricFamily if kind == "counter" else GaugeMetricFamily
        self._name, self._help, self._label, self._read = name, help_, label, read

    def _empty(self) -> Any:
        return self._family(self._name, self._help, labels=[self._label] if self._label else [])

    def describe(self) -> Iterator[Metric]:
        yield self._empty()

    def collect(self) -> Iterator[Metric]:
        family = self._empty()
        if self._label is None:
            family.add_metric([], self._read())
        else:
            for value, number in self._read().items():
                family.add_metric([value], number)
        yield family


class Metrics:
    """Every counter of the program, by the name of what it counts."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        for process in (ProcessCollector, PlatformCollector, GCCollector):
            process(registry=self.registry)
        self.reviews = self._timing("review_seconds", "Time to decide, by webhook and result.", "hook", "result")
        self.injections = self._tally("injections", "What injectors did.", "injector", "result")
        self.findings = self._tally("findings", "Violations found, by rule and action.", "rule", "action")
        self.placements = self._tally("placements", "Choices of a node, or why there is none.", "strategy", "result")
        self.unknown_profiles = self._tally("unknown_profile", "Reviews from namespaces whose profile does not exist.")
        self.refused = self._tally("http_refused", "Requests that were answered with an error.", "code")
        self.shed = self._tally("shed", "Requests sent away because there was too much to do.", "reason")
        self.cut = self._tally("connections_cut", "Connections that went to make room, or never asked.", "stage")
        self.policy_errors = self._tally("policy_errors", "Policies that did not parse: the last good one stayed.")
        self.certificate_errors = self._tally("certificate_errors", "Certificates that could not be served or kept.")
        self.relists = self._tally("feed_relists", "Full lists taken from the API server.", "feed")
        self.feed_errors = self._tally("feed_errors", "Lists and watches that failed.", "feed")
        self.restarts = self._tally("task_restarts", "Background tasks that crashed and were started again.", "task")

    def decided(self, hook: str, decision: Decision, seconds: float) -> None:
        """Everything that one decision counts. `hook`: `mutate` or `validate`."""
        self.reviews.observe(seconds, hook, decision.result)
        for injector, outcome in decision.outcomes.items():
            self.injections.add(injector, outcome.result)
        for rule, action, _ in decision.findings:
            self.findings.add(rule, action)
        if (placement := decision.placement) is not None:
            self.placements.add(placement.strategy, "chosen" if placement.nodes else placement.reason)
        if decision.unknown_profile:
            self.unknown_profiles.add()

    def gauge(self, name: str, help_: str, read: Callable[[], float]) -> None:
        self._add(Reading("gauge", _full(name), help_, None, read))

    def gauges(self, name: str, help_: str, label: str, read: Callable[[], Mapping[str, float]]) -> None:
        """One series for each key that `read` gives; the keys are constants."""
        self._add(Reading("gauge", _full(name), help_, label, read))

    def counters(self, name: str, help_: str, label: str, read: Callable[[], Mapping[str, float]]) -> None:
        self._add(Reading("counter", _full(name), help_, label, read))

    def text(self) -> bytes:
        """The exposition format of Prometheus."""
        return generate_latest(self.registry)

    def _tally(self, name: str, help_: str, *labels: str) -> Tally:
        return self._add(Tally(_full(name), help_, labels))

    def _timing(self, name: str, help_: str, *labels: str) -> Timing:
        return self._add(Timing(_full(name), help_, labels))

    def _add(self, collector: Added) -> Added:
        self.registry.register(collector)
        return collector


def _full(name: str) -> str:
    return f"gpu_admission_{name}"


def _bounded(values: Labels, known: Mapping[Labels, Any]) -> Labels:
    return values if len(known) < MOST_SERIES - 1 else (_OTHER,) * len(values)
