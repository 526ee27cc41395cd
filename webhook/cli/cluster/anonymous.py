"""Takes names out of a snapshot: what is needed to decide and to explain stays, who it is about does not.

Names of objects, of nodes, images and the values of labels become hashes, the same name the same hash everywhere, in text
too. Environment, commands, data and annotations but our own go. Names that everybody has stay: those of resources and of
labels, values of well-known labels, priority classes of the system. A hash of a name that can be guessed can be guessed too,
so each snapshot hashes with a key of its own, which is thrown away.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import blake2b
from secrets import token_bytes
from typing import Any, Final

from webhook.cli.cluster.kinds import OUR_NAMESPACE
from webhook.cli.cluster.measured import Measured
from webhook.cli.cluster.snapshot import Object, Snapshot
from webhook.kube.pod import DECISION

_TOKEN: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_KEPT: Final = frozenset(
    ("", "default", "kube-system", "kube-public", "kube-node-lease", OUR_NAMESPACE, "true", "false")
)
_KNOWN: Final = (
    *("kubernetes.io", "k8s.io", "nvidia.com", "amd.com", "intel.com", "gpu-admission.io", "cloud.google.com"),
    *("karpenter.sh", "k8s.aws", "eks.amazonaws.com", "azure.com", "node-restriction"),
)
"""Domains of labels whose values say what a node is, not whose it is."""
_NAMING: Final = frozenset(("kubernetes.io/hostname", "kubernetes.io/metadata.name", "app.kubernetes.io/name"))
_NAMING_PREFIX: Final = (
    "app.kubernetes.io/",
    "batch.kubernetes.io/",
    "apps.kubernetes.io/",
    "statefulset.kubernetes.io/",
)
_OUT: Final = frozenset(
    [
        *(
            "env",
            "envFrom",
            "command",
            "args",
            "data",
            "binaryData",
            "stringData",
            "managedFields",
            "lifecycle",
            "images",
        ),
        *("livenessProbe", "readinessProbe", "startupProbe", "imageID", "containerID", "addresses"),
        *("podIP", "podIPs", "hostIP", "hostIPs"),
    ]
)
_LEFT_OUT: Final = ("ConfigMap", "ServingCertificate")
"""Kinds with nothing but names and data."""
_OURS: Final = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "ValidatingAdmissionPolicyBinding")
"""Of these our own are the same everywhere: they stay, without their labels."""
_PUBLIC: Final = frozenset(("PriorityClass", "RuntimeClass", "DeviceClass", "StorageClass"))


def anonymous(snapshot: Snapshot) -> Snapshot:
    """The same cluster, without names. The policy goes too: its ConfigMap is data."""
    hashed = _Hashes()
    for kind, objects in snapshot.objects.items():
        for obj in objects:
            hashed.learn(kind, obj)
    known = {kind: objects for kind, objects in snapshot.objects.items() if kind not in _LEFT_OUT}
    kept = {kind: [_own(kind, obj) or hashed.without(obj) for obj in objects] for kind, objects in known.items()}
    missing = snapshot.missing | {kind: f"an anonymous snapshot has no {kind}" for kind in _LEFT_OUT}
    result = Snapshot(kept, missing, snapshot.taken, snapshot.namespace)
    if measured := snapshot.measured:
        numbers: dict[tuple[str, str], str] = {}
        gpus = [numbers.setdefault(sample[:2], f"gpu-{len(numbers)}") for sample in measured.samples]
        samples = [
            sample._replace(node=hashed.without(sample.node), gpu=gpu)
            for sample, gpu in zip(measured.samples, gpus, strict=True)
        ]
        result.measured = Measured(measured.source, samples)
    return result


def _own(kind: str, obj: Object) -> Object | None:
    name = obj["metadata"]["name"]
    if kind not in _OURS or not name.startswith(OUR_NAMESPACE):
        return None
    return {key: {"name": name} if key == "metadata" else value for key, value in obj.items()}


class _Hashes:
    def __init__(self) -> None:
        self._key = token_bytes(16)
        self._of: dict[str, str] = {}

    def learn(self, kind: str, obj: Object) -> None:
        metadata = obj["metadata"]
        names = [metadata.get("namespace"), metadata.get("uid"), *_values(metadata.get("labels"))]
        names += [reference.get("uid") for reference in metadata.get("ownerReferences") or ()]
        if kind not in _PUBLIC:
            names += [metadata.get("name"), (metadata.get("generateName") or "").rstrip("-")]
        spec = obj.get("spec") or {}
        template = spec.get("template") or {}
        for part in (spec, template.get("spec") or {}):
            names += [*_values(part.get("nodeSelector")), *[c.get("name") for c in part.get("containers") or ()]]
        names += _values((template.get("metadata") or {}).get("labels"))
        for name in names:
            if name and name not in _KEPT and not name.startswith("system-") and name not in self._of:
                self._of[name] = "x" + blake2b(name.encode(), key=self._key, digest_size=5).hexdigest()

    def without(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            if key == "annotations":
                value = {name: text for name, text in value.items() if name == DECISION}
            return {name: self.without(each, name) for name, each in value.items() if name not in _OUT}
        if isinstance(value, list):
            return [self.without(each, key) for each in value]
        if not isinstance(value, str):
            return value
        if key == "image":
            return "image"
        return _TOKEN.sub(lambda match: self._of.get(match[0], match[0]), value) if value else value


def _values(labels: dict[str, str] | None) -> Iterator[str]:
    for key, value in (labels or {}).items():
        named = key in _NAMING or key.startswith(_NAMING_PREFIX)
        if named or not key.rpartition("/")[0].endswith(_KNOWN):
            yield value
