"""Settings of the process: where it listens, whom it asks. What decides about pods is the policy, not this.

Each one that is not given on the command line may come from the environment: `drain_seconds` from
GPU_ADMISSION_DRAIN_SECONDS.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from webhook.errors import BadInput
from webhook.text import quoted

PREFIX = "GPU_ADMISSION_"


class ServeSettings(BaseModel):
    """Of `gpu-admission serve`. Two that contradict each other raise BadInput."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    host: str = "0.0.0.0"  # noqa: S104  in a pod, the network's own policy says who may come
    """Address to listen on, for both ports."""
    port: int = Field(8443, ge=0, le=65535)
    """HTTPS: /mutate and /validate. 0 takes a free one."""
    ops_port: int = Field(8080, ge=0, le=65535)
    """HTTP: /healthz, /readyz and /metrics. 0 takes a free one."""
    cluster: Path | None = None
    """A file that is the cluster: there is no API server at all."""
    kubeconfig: Path | None = None
    """How to reach the API server from outside of the cluster; without it, as a pod does."""
    policy: str | None = None
    """A policy file, or `default` for the shipped one, instead of the ConfigMap."""
    tls_cert: Path | None = None
    """Serving certificate (chain), PEM; read again when it changes. Without it we issue our own."""
    tls_key: Path | None = None
    client_ca: Path | None = None
    """Authorities for client certificates, PEM: the webhook port serves nobody who shows none of theirs."""
    namespace: str = "gpu-admission"
    """Where our own objects are."""
    service: str = "gpu-admission"
    """The Service that the API server calls: its name stands in the certificate."""
    config_map: str = "gpu-admission-policy"
    secret: str = "gpu-admission-tls"  # noqa: S105  its name
    webhook_configuration: str = "gpu-admission"
    """Name of both webhook configurations, whose caBundle is kept right; empty: leave them alone."""
    replica: str = ""
    """The name of this replica, by which several share out the nodes to fill. In a pod, its name."""
    max_age: float = Field(60.0, gt=0)
    """Seconds without a word from a watch after which the cluster state is too old to choose a node by."""
    events: bool = False
    """Write Events in the namespaces that have opted in; `manifests/components/events` has the rights for it."""
    prometheus_ca: Path | None = None
    """The authority that signed the certificate of the Prometheus that `gpuMetrics.url` names, PEM."""
    prometheus_token: Path | None = None
    """A file with the bearer token for it; read at each poll."""
    drain_seconds: float = Field(15.0, ge=0)
    """How long to go on answering after SIGTERM: until every kube-proxy and API server knows that we go."""

    @model_validator(mode="after")
    def _whole(self) -> ServeSettings:
        if (self.tls_cert is None) != (self.tls_key is None):
            present, missing = ("tls-cert", "tls-key") if self.tls_cert else ("tls-key", "tls-cert")
            raise BadInput(f"saw --{present} alone, wanted --{missing} with it")
        if self.cluster is not None and self.kubeconfig is not None:
            raise BadInput("saw --cluster and --kubeconfig, wanted one: the file is instead of an API server")
        return self

    def completed(self, environment: Mapping[str, str]) -> ServeSettings:
        """With what the environment says about fields that were not given. Raises BadInput with every problem."""
        values: dict[str, Any] = {n: v for n in self.model_fields_set if (v := getattr(self, n)) is not None}
        for name in type(self).model_fields.keys() - values.keys():
            if value := environment.get(PREFIX + name.upper()):
                values[name] = value
        if not {"cluster", "kubeconfig"} & values.keys():
            values.setdefault("replica", environment.get("HOSTNAME", ""))
        try:
            return ServeSettings.model_validate(values)
        except ValidationError as error:
            raise BadInput("; ".join(_problem(e) for e in error.errors())) from None


def _problem(error: Any) -> str:
    return f"{PREFIX}{str(error['loc'][0]).upper()}: saw {quoted(error['input'])}: {error['msg']}"
