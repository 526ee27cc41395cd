"""Makes a snapshot anonymous: it keeps what decisions and explanations need, and hides whose cluster it is.

Names of objects and values of labels become hashes. One name has one hash everywhere, also inside messages. Image names,
environment variables, commands, data, and all annotations but our own are removed. Public names stay: resource names, label
keys, values of well-known labels, system priority classes. Names can be guessed, and a guess could be checked against its
hash. So each snapshot is hashed with a random key, which is not kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import blake2b
from secrets import token_bytes
from typing import Any, Final

from webhook.cli.cluster.measured import Measured
from webhook.cli.cluster.snapshot import OUR_NAMESPACE, Object, Snapshot
from webhook.kube.pod import DECISION

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_KEPT: Final = frozenset(
    ("", "default", "kube-system", "kube-public", "kube-node-lease", OUR_NAMESPACE, "true", "false")
)
"""Names and label values that are the same in every cluster."""
_PUBLIC_DOMAINS: Final = (
    *("kubernetes.io", "k8s.io", "nvidia.com", "amd.com", "intel.com", "gpu-admission.io", "cloud.google.com"),
    *("karpenter.sh", "k8s.aws", "eks.amazonaws.com", "azure.com", "node-restriction"),
)
"""Labels of these domains have values that describe a node and do not name anything."""
_NAMING_LABELS: Final = frozenset(("kubernetes.io/hostname", "kubernetes.io/metadata.name", "app.kubernetes.io/name"))
_NAMING_PREFIXES: Final = tuple(f"{group}.kubernetes.io/" for group in ("app", "apps", "batch", "statefulset"))
"""Exceptions: labels of these domains whose values are names."""
_REMOVED_FIELDS: Final = frozenset(
    (
        *("env", "envFrom", "command", "args", "data", "binaryData", "stringData", "managedFields", "lifecycle"),
        *("livenessProbe", "readinessProbe", "startupProbe", "images", "imageID", "containerID", "addresses"),
        *("podIP", "podIPs", "hostIP", "hostIPs"),
    )
)
_REMOVED_KINDS: Final = ("ConfigMap", "ServingCertificate")
"""Kinds of which nothing but names and data would be left."""
_OURS: Final = (
    *("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"),
    *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
)
"""Kinds whose objects stay if they are ours: these are the same in every cluster. Their labels are removed."""
_PUBLIC_NAMES: Final = frozenset(("PriorityClass", "RuntimeClass", "DeviceClass", "StorageClass"))
"""Kinds whose names stay."""


def anonymous(snapshot: Snapshot) -> Snapshot:
    """The same cluster without names. The policy is removed too: its ConfigMap is data."""
    hashes = _Hashes()
    for kind, objects in snapshot.objects.items():
        for obj in objects:
            hashes.add_names(kind, obj)
    kept = {
        kind: [_ours(kind, obj) or hashes.replace_in(obj) for obj in objects]
        for kind, objects in snapshot.objects.items()
        if kind not in _REMOVED_KINDS
    }
    missing = snapshot.missing | {kind: f"an anonymous snapshot has no {kind}" for kind in _REMOVED_KINDS}
    result = Snapshot(kept, missing, snapshot.taken, snapshot.namespace)
    if measured := snapshot.measured:
        gpu_names: dict[tuple[str, str], str] = {}
        samples = [
            sample._replace(
                node=hashes.replace_in(sample.node),
                gpu=gpu_names.setdefault((sample.node, sample.gpu), f"gpu-{len(gpu_names)}"),
            )
            for sample in measured.samples
        ]
        result.measured = Measured(measured.source, samples)
    return result


def _ours(kind: str, obj: Object) -> Object | None:
    """The object with only its name as metadata, if it is one that we install."""
    name = obj["metadata"]["name"]
    if kind not in _OURS or not name.startswith(OUR_NAMESPACE):
        return None
    return obj | {"metadata": {"name": name}}


class _Hashes:
    """The hash of each name in a cluster."""

    def __init__(self) -> None:
        self._key = token_bytes(16)
        self._hash_of: dict[str, str] = {}

    def add_names(self, kind: str, obj: Object) -> None:
        """Hash every name that the object states."""
        metadata = obj["metadata"]
        names = [metadata.get("namespace"), metadata.get("uid"), *_names_in(metadata.get("labels"))]
        names += [reference.get("uid") for reference in metadata.get("ownerReferences") or ()]
        if kind not in _PUBLIC_NAMES:
            names += [metadata.get("name"), (metadata.get("generateName") or "").rstrip("-")]
        spec = obj.get("spec") or {}
        template = spec.get("template") or {}
        for part in (spec, template.get("spec") or {}):
            names += [*_names_in(part.get("nodeSelector")), *[c.get("name") for c in part.get("containers") or ()]]
        names += _names_in((template.get("metadata") or {}).get("labels"))
        for name in names:
            if name and name not in _KEPT and not name.startswith("system-") and name not in self._hash_of:
                self._hash_of[name] = "x" + blake2b(name.encode(), key=self._key, digest_size=5).hexdigest()

    def replace_in(self, value: Any, key: str = "") -> Any:
        """A JSON value with hashes for the known names, and without the fields that are removed. `key`: its field."""
        if isinstance(value, dict):
            if key == "annotations":
                value = {name: text for name, text in value.items() if name == DECISION}
            return {name: self.replace_in(each, name) for name, each in value.items() if name not in _REMOVED_FIELDS}
        if isinstance(value, list):
            return [self.replace_in(each, key) for each in value]
        if not isinstance(value, str):
            return value
        if key == "image":
            return "image"
        return _NAME.sub(lambda match: self._hash_of.get(match[0], match[0]), value)


def _names_in(labels: dict[str, str] | None) -> Iterator[str]:
    """The values that name something."""
    for key, value in (labels or {}).items():
        naming = key in _NAMING_LABELS or key.startswith(_NAMING_PREFIXES)
        if naming or not key.rpartition("/")[0].endswith(_PUBLIC_DOMAINS):
            yield value
