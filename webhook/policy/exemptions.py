"""Exemptions from the rules of a profile: for GPU operators, exporters, debuggers of the platform team.

An exemption is based on what Kubernetes guarantees, never on labels or annotations, which every tenant can write. The service
account is that of the pod (`spec.serviceAccountName`). Whoever may create pods in a namespace may use its service accounts, so
an exemption trusts the namespace: give exporters a namespace of their own.
"""

from typing import Self

from pydantic import Field, model_validator

from webhook.framework.interface import Settings
from webhook.kube.pod import Pod
from webhook.kube.review import Request
from webhook.text import matches_any
from webhook.vendors.catalogue import every
from webhook.vendors.model import Namespace

OPERATORS = (*[namespace.name for namespace in every(Namespace)], "node-feature-discovery")
"""The namespaces of the vendors' operators."""


class Exemption(Settings):
    """Applies if every list that is not empty has a match (name patterns)."""

    namespaces: tuple[str, ...] = Field(min_length=1)
    """namespaces of the pod; required"""
    service_accounts: tuple[str, ...] = ()
    """service accounts that the pod runs as"""
    users: tuple[str, ...] = ()
    """users who create the pod, by their names in the API server"""
    groups: tuple[str, ...] = ()
    """groups of the user who creates the pod"""

    @model_validator(mode="after")
    def _not_everybody(self) -> Self:
        if "*" in self.namespaces and not (self.users or self.groups):
            raise ValueError(
                "a service account of any namespace can be made by every tenant: name the namespaces, or add users"
                if self.service_accounts
                else 'an exemption of all namespaces exempts everybody: add users or groups, or set the rules to "off"'
            )
        return self

    def covers(self, request: Request, pod: Pod) -> bool:
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
