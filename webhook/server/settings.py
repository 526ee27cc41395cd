"""Settings of the server process, such as ports and files. The policy has the settings that decide about pods.

A setting that is not given on the command line is read from the environment: `drain_seconds` from GPU_ADMISSION_DRAIN_SECONDS.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from webhook.errors import BadInput
from webhook.text import quoted

PREFIX = "GPU_ADMISSION_"


class ServeSettings(BaseModel):
    """Settings of `gpu-admission serve`. Raises BadInput if two of them contradict each other."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    host: str = "::"
    """Address to listen on. `::` is all addresses, IPv4 too."""
    port: int = Field(8443, ge=0, le=65535)
    """HTTPS port of the webhooks. 0 takes a free one."""
    ops_port: int = Field(8080, ge=0, le=65535)
    """HTTP port of /healthz, /readyz and /metrics. 0 takes a free one."""
    cluster: Path | None = None
    """A file with a cluster, in place of an API server."""
    kubeconfig: Path | None = None
    """A kubeconfig, to run outside the cluster."""
    policy: str | None = None
    """A policy file, or `default` for the shipped policy, in place of the ConfigMap."""
    tls_cert: Path | None = None
    """Serving certificate (chain), PEM, read again when it changes. Without it, the server issues one."""
    tls_key: Path | None = None
    """The key of that certificate, PEM."""
    client_ca: Path | None = None
    """Authorities for client certificates, PEM. The HTTPS port then requires one."""
    namespace: str = "gpu-admission"
    """Namespace of the webhook's own objects."""
    service: str = "gpu-admission"
    """The Service that the API server calls."""
    config_map: str = "gpu-admission-policy"
    """Name of the ConfigMap with the policy."""
    secret: str = "gpu-admission-tls"  # noqa: S105  its name
    """Name of the Secret with its certificates."""
    webhook_configuration: str = "gpu-admission"
    """Name of both webhook configurations, whose `caBundle` it keeps up to date."""
    replica: str = ""
    """Name of this replica; default: of its pod."""
    max_age: float = Field(60.0, gt=0)
    """Seconds without news from a watch after which no node is chosen. If the API server answers other requests then, the
    replica is not ready."""
    events: bool = False
    """Write Events in namespaces that opted in. The component `events` sets it, and grants the right."""
    prometheus_ca: Path | None = None
    """The authority of the Prometheus in `gpuMetrics.url`, PEM."""
    prometheus_token: Path | None = None
    """A file with the token for that Prometheus."""
    drain_seconds: float = Field(15.0, ge=0)
    """Seconds to answer after SIGTERM, until every API server knows of the shutdown."""

    @property
    def authenticated(self) -> bool:
        """Whether only clients with a certificate can ask: then each review is one that an API server sent."""
        return self.client_ca is not None

    @model_validator(mode="after")
    def _check_combinations(self) -> Self:
        if (self.tls_cert is None) != (self.tls_key is None):
            present, missing = ("tls-cert", "tls-key") if self.tls_cert else ("tls-key", "tls-cert")
            raise BadInput(f"saw --{present} alone, wanted --{missing} with it")
        if self.cluster is not None and self.kubeconfig is not None:
            raise BadInput("saw --from and --kubeconfig, wanted one: the file is instead of an API server")
        return self

    def with_environment(self, environment: Mapping[str, str]) -> Self:
        """These settings; what was not given is taken from the environment. Raises BadInput with all problems."""
        read = {name: environment.get(PREFIX + name.upper()) or None for name in type(self).model_fields}
        given = {name: getattr(self, name) for name in self.model_fields_set}
        values = {name: value for name, value in [*read.items(), *given.items()] if value is not None}
        if not {"cluster", "kubeconfig"} & values.keys():
            values.setdefault("replica", environment.get("HOSTNAME", ""))
        try:
            return type(self).model_validate(values)
        except ValidationError as error:
            raise BadInput("; ".join(_problem(e) for e in error.errors())) from None


def _problem(error: Any) -> str:
    return f"{PREFIX}{str(error['loc'][0]).upper()}: saw {quoted(error['input'])}: {error['msg']}"
