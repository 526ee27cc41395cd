"""The manifests: as they stand in the files, and as kubectl applies them."""

from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.controlplane.plane import ControlPlane

Json = dict[str, Any]
MANIFESTS = Path(__file__).resolve().parents[2] / "manifests"
HOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
ACCOUNT = "system:serviceaccount:gpu-admission:gpu-admission"
# A caBundle, as text of an object: what it says matters to nobody here.
AUTHORITY = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUJsVENDQVR1Z0F3SUJBZ0lVRT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo="
# Kinds in the order in which kubectl applies them: kustomize has a list of those that come first and of the webhooks, which
# come last; what it does not know stands between, by name.
ORDER = (
    *("Namespace", "ResourceQuota", "ServiceAccount", "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"),
    *("ConfigMap", "Secret", "Service", "PriorityClass", "Deployment", "PodDisruptionBudget"),
    *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", *HOOKS),
)


_READER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def objects_of(text: str) -> list[Json]:
    return [found for found in yaml.load_all(text, _READER) if found]


def documents(path: Path) -> list[Json]:
    return objects_of(path.read_text())


def installed_files() -> list[Path]:
    """The files of the installation, in the order of the kustomization."""
    (kustomization,) = documents(MANIFESTS / "kustomization.yaml")
    return [MANIFESTS / name for name in kustomization["resources"]]


def shipped(kind: str, name: str = "") -> list[Json]:
    """The objects of a kind in the installation."""
    found = [document for path in installed_files() for document in documents(path)]
    return [each for each in found if each["kind"] == kind and name in ("", each["metadata"]["name"])]


def only(kind: str, name: str = "") -> Json:
    (found,) = shipped(kind, name)
    return found


def kustomized(plane: ControlPlane, folder: str = str(MANIFESTS)) -> list[Json]:
    """What `kubectl apply -k` would apply, in its order."""
    return objects_of(_kustomized(plane, folder))


@cache
def _kustomized(plane: ControlPlane, folder: str) -> str:
    return plane.kubectl("kustomize", folder).stdout
