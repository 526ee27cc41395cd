"""How the webhook was installed: in which namespace, by kubectl or by Helm, and with that the commands of next steps."""

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from webhook.text import bare
from webhook.whatif.commands import Command

NAME: Final = "gpu-admission"
"""The name of both webhook configurations, of the Service and of the Deployment."""
OUR_POLICY: Final = "gpu-admission-policy"
NAMED: Final = os.environ.get("GPU_ADMISSION_NAMESPACE")
"""The namespace that whoever runs the command, or the pod it runs in, names. It is not looked for then."""
_KIND: Final = "MutatingWebhookConfiguration"
_INSTALLED: Final = (
    _KIND,
    "ValidatingWebhookConfiguration",
    "ConfigMap",
    "PriorityClass",
    "ValidatingAdmissionPolicyBinding",
)
"""Kinds that show how it was installed."""
_PART_OF, _MANAGED_BY = "app.kubernetes.io/part-of", "app.kubernetes.io/managed-by"
_RELEASE: Final = "meta.helm.sh/release-name"


class Release(NamedTuple):
    """`helm` is the name of Helm's release; "" if the manifests were applied. `own_policy`: the ConfigMap is not Helm's."""

    namespace: str = NAMED or NAME
    helm: str = ""
    own_policy: bool = False

    def kubectl(self, *arguments: str) -> Command:
        """A command of kubectl in its namespace."""
        return ("kubectl", "-n", self.namespace, *arguments)

    @property
    def logs(self) -> Command:
        return self.kubectl("logs", f"deployment/{NAME}")

    @property
    def restart(self) -> Command:
        return self.kubectl("rollout", "restart", f"deployment/{NAME}")

    @property
    def apply(self) -> str:
        if not self.helm:
            return "kubectl apply -k manifests/ (or your own kustomization)"
        return f"helm upgrade {self.helm} manifests/chart -n {self.namespace} --reset-then-reuse-values"

    @property
    def edit_policy(self) -> Command:
        if not self.helm or self.own_policy:
            return self.kubectl("edit", "configmap", OUR_POLICY)
        return (*self.apply.split(), "--set-file", "policy.text=policy.yaml")

    def created(self, section: str, file: str = "") -> str:
        """Brings back what a value of the chart may leave out, and what is in a file of manifests/."""
        if self.helm:
            return f"{self.apply} --set {section}.create=true"
        return self.file(file) if file else self.apply

    def component(self, name: str) -> str:
        """Adds a component of manifests/components."""
        if not self.helm:
            return f"install the component manifests/components/{name}"
        return f"{self.apply} --set components.{re.sub(r'-(.)', lambda match: match[1].upper(), name)}=true"

    def file(self, name: str) -> str:
        """Applies a file of manifests/."""
        return self.apply if self.helm else f"kubectl apply -f manifests/{name}"


def namespace_of(configuration: Mapping[str, Any]) -> str:
    """The namespace of the Service that our mutating webhook is called by; the default where it is called by URL."""
    for hook in configuration.get("webhooks") or ():
        if service := (hook.get("clientConfig") or {}).get("service"):
            return str(service["namespace"])
    return NAME


def release_of(objects: Mapping[str, Iterable[Mapping[str, Any]]]) -> Release:
    """How these objects, by kind, were installed. The first that is ours counts: priority classes outlive Helm's release."""
    configurations = [each for each in objects.get(_KIND, ()) if each["metadata"].get("name") == NAME]
    namespace = NAMED or next(map(namespace_of, configurations), NAME)
    for metadata in [each["metadata"] for kind in _INSTALLED for each in objects.get(kind, ())]:
        labels = metadata.get("labels") or {}
        if labels.get(_PART_OF) == NAME:
            if labels.get(_MANAGED_BY) != "Helm":
                return Release(namespace)
            policies = [
                each["metadata"] for each in objects.get("ConfigMap", ()) if each["metadata"]["name"] == OUR_POLICY
            ]
            own = any((each.get("labels") or {}).get(_MANAGED_BY) != "Helm" for each in policies)
            return Release(namespace, bare((metadata.get("annotations") or {}).get(_RELEASE)), own)
    return Release(namespace)
