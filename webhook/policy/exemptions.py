"""Who is not asked to keep the rules of a profile: GPU operators, exporters, debuggers of the platform team.

An exemption goes by what Kubernetes vouches for, never by labels or annotations, which every tenant can write. A service
account is the pod's own (`spec.serviceAccountName`): everybody who may create pods in a namespace may use its service accounts,
so it is the namespace that is trusted; give exporters one of their own.
"""

from __future__ import annotations

from pydantic import Field, model_validator

from webhook.framework.interface import Settings
from webhook.kube.pod import Pod
from webhook.kube.review import Request
from webhook.text import matches_any

OPERATORS = (
    *("gpu-operator", "nvidia-gpu-operator", "kube-amd-gpu"),
    *("inteldeviceplugins-system", "node-feature-discovery"),
)
"""Where the operators of the vendors live."""


class Exemption(Settings):
    """Applies where every list that is given has a match, exact or with a trailing `*`."""

    namespaces: tuple[str, ...] = Field(min_length=1)
    """of the pod; must be there"""
    service_accounts: tuple[str, ...] = ()
    """that the pod runs as"""
    users: tuple[str, ...] = ()
    """who asked for the pod, as the API server knows them"""
    groups: tuple[str, ...] = ()
    """that who asked for the pod is in"""

    @model_validator(mode="after")
    def _not_everybody(self) -> Exemption:
        if not (self.service_accounts or self.users or self.groups) and "*" in self.namespaces:
            raise ValueError(
                'an exemption of all namespaces exempts everybody: add users or groups, or set the rules to "off"'
            )
        if self.service_accounts and "*" in self.namespaces and not (self.users or self.groups):
            raise ValueError(
                "a service account of any namespace can be made by every tenant: name the namespaces, or add users"
            )
        return self

    def covers(self, request: Request, pod: Pod) -> bool:
        """Whether this request for this pod is exempt. `pod` has the shape of a pod."""
        if not matches_any(self.namespaces, request.namespace):
            return False
        if self.service_accounts:
            spec = pod["spec"]
            account = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
            if not matches_any(self.service_accounts, account):
                return False
        if self.users and not matches_any(self.users, request.user):
            return False
        return not self.groups or any(matches_any(self.groups, group) for group in request.groups)
