"""Settings of the GPU metrics: where they come from, how they are smoothed, and what counts as idle, hot and sick.

They stand in the policy as `gpuMetrics`. Secrets (a bearer token) do not: whoever may edit the policy could otherwise
have them sent to any address.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from webhook.framework.interface import Settings
from webhook.text import quoted

Source = Literal["off", "prometheus", "dcgm", "nvidiaSmi"]
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)(ms|s|m|h)", re.ASCII)
_METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*", re.ASCII)


def _seconds(value: Any) -> Any:
    """ "30s", "5m", "1.5h" as seconds; a bare number is left to pydantic, as seconds."""
    if not isinstance(value, str):
        return value
    match = _DURATION.fullmatch(value)
    if match is None:
        raise ValueError('wanted a duration such as "30s", "5m" or "1h"')
    return float(match[1]) * _UNITS[match[2]]


Seconds = Annotated[float, BeforeValidator(_seconds), Field(allow_inf_nan=False)]
Percent = Annotated[int, Field(ge=1, le=100, strict=True)]
Query = Annotated[str, StringConstraints(strip_whitespace=True, max_length=2000)]
Name = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*$", max_length=100)]
Namespace = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", max_length=63)]


class Queries(Settings):
    """What is asked of the source: PromQL for Prometheus, names of metrics for DCGM exporters; "" asks nothing."""

    utilisation: Query = "DCGM_FI_DEV_GPU_UTIL"
    """Percent. DCGM has none for a MIG instance (old exporters say 0): there, `engine` is taken."""
    engine: Query = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
    """Ratio from 0 to 1; for MIG instances, and where there is no utilisation."""
    memory_used: Query = "DCGM_FI_DEV_FB_USED"
    """MiB."""
    memory_free: Query = "DCGM_FI_DEV_FB_FREE"
    """MiB."""
    temperature: Query = "DCGM_FI_DEV_GPU_TEMP"
    """Degrees Celsius."""
    xid: Query = "DCGM_FI_DEV_XID_ERRORS"
    """The last Xid error of the GPU, 0 for none."""

    @model_validator(mode="after")
    def _some_utilisation(self) -> Queries:
        if not self.utilisation and not self.engine:
            raise ValueError('utilisation and engine are both "": nothing would say whether a GPU is idle. Set one')
        return self


class Dcgm(Settings):
    """Where the DCGM exporters are. Only in this namespace: else any tenant could label a pod as an exporter."""

    namespace: Namespace = "gpu-operator"
    selector: dict[str, str] = Field(default={"app": "nvidia-dcgm-exporter"}, min_length=1)
    """Labels of the exporter pods."""
    port: int = Field(default=9400, ge=1, le=65535)


class NvidiaSmi(Settings):
    """Where `nvidia-smi` may be run. It needs manifests/optional/nvidia-smi-rbac.yaml."""

    namespaces: tuple[Namespace | Literal["*"], ...] = ()
    """Pods of these namespaces that hold a GPU; "*" for every namespace."""


class Idle(Settings):
    """A GPU is idle while it stayed below both for the whole window."""

    utilisation: Percent = 30
    memory: Percent = 50


class Hot(Settings):
    temperature: int = Field(default=85, ge=30, le=150)
    """Degrees Celsius from which a GPU counts as hot."""
    avoid: bool = True


class Sick(Settings):
    xids: tuple[int, ...] = (46, 48, 62, 64, 79, 95, 119, 120, 140)
    """Xid errors after which a GPU needs a reset or a repair, by NVIDIA's Xid catalog (resolution buckets RESET_GPU and
    RESTART_BM). Errors of an application (13, 31, 43, 45) are none of them."""
    avoid: bool = True


class GpuMetricsSettings(Settings):
    """The `gpuMetrics` of a policy."""

    source: Source = "off"
    url: str = ""
    """Base URL of the Prometheus HTTP API (also Thanos, Mimir, VictoriaMetrics): `http://prometheus.monitoring:9090`."""
    interval: Seconds = Field(default=30.0, ge=1, le=3600)
    timeout: Seconds = Field(default=10.0, ge=0.1, le=300)
    """For one answer: of a query, an exporter, or one `nvidia-smi`."""
    window: Seconds = Field(default=300.0, ge=1, le=86400)
    """A GPU is busy for this long after it was seen busy, so that a pause between two batches does not look idle."""
    stale_after: Seconds = Field(default=180.0, ge=1, le=86400)
    """Older samples are not used."""
    queries: Queries = Queries()
    node_labels: tuple[Name, ...] = Field(
        default=("node", "Hostname", "hostname", "kubernetes_node", "instance"), min_length=1, max_length=10
    )
    """The label with the node's name: the first of these that a series has. A port is cut off; the address or name of
    a DCGM exporter's pod stands for its node."""
    dcgm: Dcgm = Dcgm()
    nvidia_smi: NvidiaSmi = NvidiaSmi()
    idle: Idle = Idle()
    hot: Hot = Hot()
    sick: Sick = Sick()

    @model_validator(mode="after")
    def _complete(self) -> GpuMetricsSettings:
        if self.source == "prometheus":
            _check_url(self.url)
        if self.source == "nvidiaSmi" and not self.nvidia_smi.namespaces:
            raise ValueError('nvidiaSmi.namespaces is empty: name the namespaces to run nvidia-smi in, or "*" for all')
        if self.source == "dcgm":
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
