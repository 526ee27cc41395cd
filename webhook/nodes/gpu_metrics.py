"""The `gpuMetrics` of a policy: where GPU metrics come from, how they are smoothed, and when a GPU is idle, hot or sick.

Secrets, such as a bearer token, are not part of a policy: whoever may edit the policy could send them to any address.

To add a source: a fact about pods with a command. Or `webhook/feeds/<word>.py`, a class with `poll(into)`, which adds every
number that there is now, and a function `source(wiring)`, which makes one; bound every answer before you read it.
`tests/feeds/test_<word>.py`, a server that answers as the real one does, and then wrongly. One line in SOURCES, or a fact about
the pods that it asks, and `make manifests`. Settings of its own are a section of `GpuMetricsSettings`.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, model_validator

from webhook.framework.interface import Settings
from webhook.text import quoted
from webhook.vendors.catalogue import every, metric, series_labels
from webhook.vendors.model import Command, MeasuringPods

PODS: Final = {each.source: each for each in every(MeasuringPods)}
"""The pods that a source asks, by its name in the policy."""
SOURCES: Final[dict[str, str]] = {"prometheus": "", **{name: pods.does for name, pods in PODS.items()}}
"""What each source does, by its name in the policy."""
_DCGM = next(iter(PODS.values()))
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)(ms|s|m|h)", re.ASCII)
_METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*", re.ASCII)


def _seconds(value: Any) -> Any:
    """Convert "30s", "5m" or "1.5h" to seconds. Numbers are passed on to pydantic."""
    if not isinstance(value, str):
        return value
    match = _DURATION.fullmatch(value)
    if match is None:
        raise ValueError('wanted a duration such as "30s", "5m" or "1h"')
    return float(match[1]) * _UNITS[match[2]]


def _known(name: str) -> str:
    if name not in ("off", *SOURCES):
        *first, last = map(repr, ("off", *SOURCES))
        raise ValueError(f"wanted {', '.join(first)} or {last}")
    return name


Source = Annotated[str, AfterValidator(_known)]
Seconds = Annotated[float, BeforeValidator(_seconds), Field(allow_inf_nan=False)]
Percent = Annotated[int, Field(ge=1, le=100, strict=True)]
Query = Annotated[str, StringConstraints(strip_whitespace=True, max_length=2000)]
Name = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*$", max_length=100)]


class Queries(Settings):
    """PromQL for prometheus, names of metrics for dcgm. "" leaves one out."""

    utilisation: Query = metric("utilisation")
    """Percent."""
    engine: Query = metric("engine")
    """0 to 1. Used for MIG instances, which have no utilisation, and for GPUs without the metric above."""
    memory_used: Query = metric("memoryUsed")
    """MiB."""
    memory_free: Query = metric("memoryFree")
    """MiB."""
    temperature: Query = metric("temperature")
    """Degrees Celsius."""
    xid: Query = metric("xid")
    """The last Xid error of a GPU; 0 is none."""

    @model_validator(mode="after")
    def _some_utilisation(self) -> Queries:
        if not self.utilisation and not self.engine:
            raise ValueError('utilisation and engine are both "": nothing would say whether a GPU is idle. Set one')
        return self


class Pods(Settings):
    """The pods that the source asks, one on each GPU node; for prometheus the exporters. "" and {} are those of the GPU operator:
    for nvidiaSmi its device plugin's; the driver's have the label app=nvidia-driver-daemonset."""

    namespace: str = Field(default="", pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$", max_length=63)
    """Only pods in this namespace are asked: in other namespaces anyone could give a pod the same labels."""
    selector: dict[str, str] = {}
    """Labels of the pods. A command runs in the first container of each."""
    port: int = Field(default=9400, ge=1, le=65535)
    """Of exporters."""


class Idle(Settings):
    """A GPU is idle if both stayed below these percentages for the whole window."""

    utilisation: Percent = 30
    memory: Percent = 50


class Busy(Settings):
    """A GPU is busy if it is not idle although no pod has it. avoid: it does not count as free."""

    avoid: bool = True


class Hot(Settings):
    """From this temperature on, in degrees Celsius, a GPU is hot. avoid: it does not count as free."""

    temperature: int = Field(default=85, ge=30, le=150)
    avoid: bool = True


class Sick(Settings):
    """Xid errors after which a GPU needs a reset or a repair (NVIDIA's Xid catalog). Errors of programs (13, 31, 43, 45)
    are not among them. avoid: such a GPU does not count as free."""

    xids: tuple[int, ...] = (46, 48, 62, 64, 79, 95, 119, 120, 140)
    avoid: bool = True


class GpuMetricsSettings(Settings):
    """The `gpuMetrics` of a policy."""

    source: Source = Field(
        default="off",
        description=" | ".join(["off", *(f"{name} ({does})" if does else name for name, does in SOURCES.items())]),
    )
    url: str = ""
    """For prometheus: the base URL of its HTTP API (also of Thanos, Mimir or VictoriaMetrics), for example
    http://prometheus.monitoring:9090.

    It must not contain a user or a password, which everyone who may read this ConfigMap could read. The Deployment gets
    a token and a CA instead (manifests/components/prometheus).
    """
    interval: Seconds = Field(default=30.0, ge=1, le=3600)
    """How often metrics are read. Durations: 30s, 5m, 1h; a bare number is seconds."""
    timeout: Seconds = Field(default=10.0, ge=0.1, le=300)
    """Timeout of one query, of one exporter, or of one command."""
    window: Seconds = Field(default=300.0, ge=1, le=86400)
    """A GPU counts as busy for this long after it was busy, so that a pause between two batches does not look idle."""
    stale_after: Seconds = Field(default=180.0, ge=1, le=86400)
    """Older samples are not used. At least twice the interval."""
    queries: Queries = Queries()
    node_labels: tuple[Name, ...] = Field(
        default=("node", *series_labels("node"), "kubernetes_node", "instance"), min_length=1, max_length=10
    )
    """The labels of a series that may name the node; the first that is present counts. A port is cut off."""
    pods: Pods = Pods()
    idle: Idle = Idle()
    busy: Busy = Busy()
    hot: Hot = Hot()
    sick: Sick = Sick()

    @property
    def command(self) -> Command | None:
        """What the source runs in its pods, which needs the component with the program's name."""
        return PODS[self.source].command if self.source in PODS else None

    @property
    def asked(self) -> Pods:
        """`pods`, with what they are by default. Prometheus has series of the first exporters."""
        known, pods = PODS.get(self.source, _DCGM), self.pods
        named = {"namespace": pods.namespace or known.namespace, "selector": pods.selector or {"app": known.app}}
        return pods.model_copy(update=named)

    @model_validator(mode="after")
    def _complete(self) -> GpuMetricsSettings:
        if self.source == "prometheus":
            _check_url(self.url)
        if self.source == _DCGM.source:
            for key, name in self.queries.model_dump(by_alias=True).items():
                if name and not _METRIC.fullmatch(name):
                    raise ValueError(f"queries.{key} is {quoted(name)}; an exporter is asked for a metric by its name")
        if self.stale_after < 2 * self.interval:
            raise ValueError(
                f"staleAfter is {self.stale_after:g}s, less than twice the interval of {self.interval:g}s: one late "
                "poll would make every sample stale. Raise staleAfter or lower interval"
            )
        return self


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"url is {quoted(url)}; wanted the base of a Prometheus, as http://prometheus.monitoring:9090")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError(
            "url must have no user, password, query or fragment: give a token to the webhook's own settings"
        )
