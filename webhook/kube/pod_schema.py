"""Checks that an object has the types of a pod, in every field that this program reads.

The API server decodes an object before it asks us, so the hooks do not check pods first: they check when a decision has
failed, to tell a malformed pod (400) from a bug of ours (500). Templates of workloads are checked before they are read: a
custom resource may have anything there. So are files on the command line.

The schema is a table of field names and types. Missing fields, nulls, and fields that are not in the table are not looked at.
A unit that reads another field adds one entry.
"""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn

from webhook.errors import BadPod
from webhook.kube.pod import Pod
from webhook.text import kind, quoted


class _Scalar(NamedTuple):
    types: tuple[type, ...]
    name: str


class _MapOf(NamedTuple):
    """A map with keys of the tenant's choice."""

    values: _Scalar


_STRING = _Scalar((str,), "a string")
_INTEGER = _Scalar((int,), "a whole number")
_BOOLEAN = _Scalar((bool,), "true or false")
_QUANTITY = _Scalar((str, int, float), "a quantity")
_STRINGS, _QUANTITIES = _MapOf(_STRING), _MapOf(_QUANTITY)
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
    _check(pod, _POD, ())
    return pod


def _check(value: Any, schema: Schema, path: tuple[str, ...]) -> None:
    """`path`: the parts of the path to `value`, as they are written."""
    if isinstance(schema, _Scalar):
        if type(value) not in schema.types:
            _refuse(path, schema.name, value)
    elif isinstance(schema, list):
        if not isinstance(value, list):
            _refuse(path, "a list", value)
        for index, item in enumerate(value):
            _check(item, schema[0], (*path, f"[{index}]"))
    elif not isinstance(value, dict):
        _refuse(path, "a map", value)
    elif isinstance(schema, _MapOf):
        for key, item in value.items():
            _check(item, schema.values, (*path, f"[{quoted(key)}]"))
    else:
        for key, item in value.items():
            if item is not None and key in schema:
                _check(item, schema[key], (*path, f".{key}"))


def _refuse(path: tuple[str, ...], wanted: str, seen: object) -> NoReturn:
    raise BadPod(f"{''.join(path).lstrip('.')}: wanted {wanted}, saw {kind(seen)}")


_RESOURCES = {"limits": _QUANTITIES, "requests": _QUANTITIES, "claims": [{"name": _STRING}]}
_EXPRESSIONS = [{"key": _STRING, "operator": _STRING, "values": [_STRING]}]
_TERM: Schema = {"matchExpressions": _EXPRESSIONS, "matchFields": _EXPRESSIONS}
_POD_TERMS = {
    "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": _STRING}],
    "preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": {"topologyKey": _STRING}}],
}

_CONFINED: dict[str, Schema] = {
    "windowsOptions": {"hostProcess": _BOOLEAN},
    "seccompProfile": {"type": _STRING},
    "appArmorProfile": {"type": _STRING},
    "seLinuxOptions": {"type": _STRING},
}
_CONTAINERS = [
    {
        "name": _STRING,
        "restartPolicy": _STRING,
        "resources": _RESOURCES,
        "command": [_STRING],
        "args": [_STRING],
        "env": [{"name": _STRING, "value": _STRING, "valueFrom": {}}],
        "envFrom": [{"prefix": _STRING, "configMapRef": {}, "secretRef": {}}],
        "ports": [{"hostPort": _INTEGER}],
        "volumeMounts": [{"name": _STRING, "mountPath": _STRING, "subPath": _STRING}],
        "volumeDevices": [{"name": _STRING, "devicePath": _STRING}],
        "securityContext": {
            "privileged": _BOOLEAN,
            "procMount": _STRING,
            "capabilities": {"add": [_STRING], "drop": [_STRING]},
            **_CONFINED,
        },
    }
]
_POD: Schema = {
    "metadata": {
        "name": _STRING,
        "generateName": _STRING,
        "namespace": _STRING,
        "labels": _STRINGS,
        "annotations": _STRINGS,
        "ownerReferences": [{"kind": _STRING, "name": _STRING, "uid": _STRING}],
    },
    "spec": {
        "containers": _CONTAINERS,
        "initContainers": _CONTAINERS,
        "ephemeralContainers": _CONTAINERS,
        "tolerations": [{"key": _STRING, "operator": _STRING, "value": _STRING, "effect": _STRING}],
        "topologySpreadConstraints": [{"topologyKey": _STRING, "labelSelector": {}}],
        "schedulingGates": [{}],
        "resourceClaims": [{"name": _STRING}],
        "volumes": [{"name": _STRING, "hostPath": {"path": _STRING, "type": _STRING}, "gitRepo": {}}],
        "nodeName": _STRING,
        "schedulerName": _STRING,
        "priorityClassName": _STRING,
        "runtimeClassName": _STRING,
        "serviceAccountName": _STRING,
        "serviceAccount": _STRING,
        "restartPolicy": _STRING,
        "preemptionPolicy": _STRING,
        "hostPID": _BOOLEAN,
        "hostIPC": _BOOLEAN,
        "nodeSelector": _STRINGS,
        "resources": _RESOURCES,
        "overhead": _QUANTITIES,
        "securityContext": _CONFINED,
        "affinity": {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": _INTEGER, "preference": _TERM}],
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_TERM]},
            },
            "podAffinity": _POD_TERMS,
            "podAntiAffinity": _POD_TERMS,
        },
    },
}
