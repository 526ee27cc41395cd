"""Checks that an object has the types of a pod, in every field that this program reads.

The API server decodes an object before it asks us, so the hooks do not check pods first: they check when a decision has
failed, to tell a malformed pod (400) from a bug of ours (500). Templates of workloads are checked before they are read: a
custom resource may have anything there. So are files on the command line.

The schema is a table of field names and types. Missing fields, nulls, and fields that are not in the table are not looked at.
A unit that reads another field adds one entry.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, NoReturn

from webhook.errors import BadPod
from webhook.kube.pod import Pod
from webhook.text import kind, quoted


class _Scalar(NamedTuple):
    types: tuple[type, ...]
    name: str


class _MapOf(NamedTuple):
    """A map with keys of the tenant's choice."""

    values: _Scalar


STRING = _Scalar((str,), "a string")
INTEGER = _Scalar((int,), "a whole number")
BOOLEAN = _Scalar((bool,), "true or false")
QUANTITY = _Scalar((str, int, float), "a quantity")
STRINGS, QUANTITIES = _MapOf(STRING), _MapOf(QUANTITY)
Schema = _Scalar | _MapOf | dict[str, Any] | list[Any]
"""A map is a map with these fields; a list, a list of what stands in it."""


def check(pod: object) -> Pod:
    """`pod` itself, if every field that this program reads has the type that the Kubernetes API gives it.

    Raises BadPod with the path.
    """
    if not isinstance(pod, dict):
        raise BadPod(f"object: wanted a Pod, saw {kind(pod)}")
    for key in ("metadata", "spec"):
        if not isinstance(pod.get(key), dict):
            raise BadPod(f"{key}: wanted a map, saw {kind(pod.get(key))}")
    conform(pod, POD, ())
    return pod


def conform(value: Any, schema: Schema, path: tuple[str, ...]) -> None:
    """`path`: the parts of the path to `value`, as they are written. Raises BadPod with the path to what has another type."""
    if isinstance(schema, _Scalar):
        if type(value) not in schema.types:
            _refuse(path, schema.name, value)
    elif isinstance(schema, list):
        if not isinstance(value, list):
            _refuse(path, "a list", value)
        for index, item in enumerate(value):
            conform(item, schema[0], (*path, f"[{index}]"))
    elif not isinstance(value, dict):
        _refuse(path, "a map", value)
    elif isinstance(schema, _MapOf):
        for key, item in value.items():
            conform(item, schema.values, (*path, f"[{quoted(key)}]"))
    else:
        for key, item in value.items():
            if item is not None and key in schema:
                conform(item, schema[key], (*path, f".{key}"))


def _refuse(path: tuple[str, ...], wanted: str, seen: object) -> NoReturn:
    raise BadPod(f"{''.join(path).lstrip('.')}: wanted {wanted}, saw {kind(seen)}")


RESOURCES = {"limits": QUANTITIES, "requests": QUANTITIES, "claims": [{"name": STRING}]}
_EXPRESSIONS = [{"key": STRING, "operator": STRING, "values": [STRING]}]
TERM: Schema = {"matchExpressions": _EXPRESSIONS, "matchFields": _EXPRESSIONS}
SELECTOR: Final[dict[str, Any]] = {
    "matchLabels": STRINGS,
    "matchExpressions": [{"key": STRING, "operator": STRING, "values": [STRING]}],
}
_POD_TERM = {
    "topologyKey": STRING,
    "labelSelector": SELECTOR,
    "namespaceSelector": SELECTOR,
    "namespaces": [STRING],
}
_POD_TERMS = {
    "requiredDuringSchedulingIgnoredDuringExecution": [_POD_TERM],
    "preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": _POD_TERM}],
}

_CONFINED: dict[str, Schema] = {
    "windowsOptions": {"hostProcess": BOOLEAN},
    "seccompProfile": {"type": STRING},
    "appArmorProfile": {"type": STRING},
    "seLinuxOptions": {"type": STRING},
}
_CONTAINERS = [
    {
        "name": STRING,
        "restartPolicy": STRING,
        "resources": RESOURCES,
        "command": [STRING],
        "args": [STRING],
        "env": [{"name": STRING, "value": STRING, "valueFrom": {}}],
        "envFrom": [{"prefix": STRING, "configMapRef": {}, "secretRef": {}}],
        "ports": [{"hostPort": INTEGER}],
        "volumeMounts": [{"name": STRING, "mountPath": STRING, "subPath": STRING}],
        "volumeDevices": [{"name": STRING, "devicePath": STRING}],
        "securityContext": {
            "privileged": BOOLEAN,
            "procMount": STRING,
            "capabilities": {"add": [STRING], "drop": [STRING]},
            **_CONFINED,
        },
    }
]
POD: Final[dict[str, Any]] = {
    "metadata": {
        "name": STRING,
        "generateName": STRING,
        "namespace": STRING,
        "labels": STRINGS,
        "annotations": STRINGS,
        "ownerReferences": [{"kind": STRING, "name": STRING, "uid": STRING}],
    },
    "spec": {
        "containers": _CONTAINERS,
        "initContainers": _CONTAINERS,
        "ephemeralContainers": _CONTAINERS,
        "tolerations": [{"key": STRING, "operator": STRING, "value": STRING, "effect": STRING}],
        "topologySpreadConstraints": [{"topologyKey": STRING, "labelSelector": SELECTOR}],
        "schedulingGates": [{}],
        "resourceClaims": [{"name": STRING}],
        "volumes": [{"name": STRING, "hostPath": {"path": STRING, "type": STRING}, "gitRepo": {}}],
        "nodeName": STRING,
        "schedulerName": STRING,
        "priorityClassName": STRING,
        "runtimeClassName": STRING,
        "serviceAccountName": STRING,
        "serviceAccount": STRING,
        "restartPolicy": STRING,
        "preemptionPolicy": STRING,
        "hostPID": BOOLEAN,
        "hostIPC": BOOLEAN,
        "nodeSelector": STRINGS,
        "resources": RESOURCES,
        "overhead": QUANTITIES,
        "securityContext": _CONFINED,
        "affinity": {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": INTEGER, "preference": TERM}],
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [TERM]},
            },
            "podAffinity": _POD_TERMS,
            "podAntiAffinity": _POD_TERMS,
        },
    },
}
