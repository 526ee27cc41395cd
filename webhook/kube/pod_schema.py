"""Checks the type of every pod field that this program reads.

The API server decodes a pod before it calls the webhook. The hooks therefore check a pod only after a decision failed, to tell a
malformed pod (400) from a bug (500). Templates of workloads are checked before they are read, because a custom resource may hold
anything there. So are files on the command line.

The schema is a table of field names and types. Missing fields, nulls and fields that are not in the table are not checked.
A unit that reads another field adds one entry.
"""

from collections.abc import Callable
from types import NoneType
from typing import Any, Final, NamedTuple, NoReturn, Self

from webhook.errors import BadPod
from webhook.kube.pod import PREFERRED, REQUIRED, Pod
from webhook.kube.selectors import OPERATORS
from webhook.text import json_type, quoted


class _Scalar(frozenset[type]):
    """The types that a value may have."""

    name: str

    def __new__(cls, types: tuple[type, ...], name: str) -> Self:
        made = super().__new__(cls, types)
        made.name = name
        return made


class _MapOf(NamedTuple):
    """A map with any keys."""

    values: _Scalar


class _Checked(NamedTuple):
    """A value that a function checks by itself."""

    check: Callable[[Any, str], None]


STRING = _Scalar((str,), "a string")
INTEGER = _Scalar((int,), "a whole number")
BOOLEAN = _Scalar((bool,), "true or false")
QUANTITY = _Scalar((str, int, float, NoneType), "a quantity")
STRINGS, QUANTITIES = _MapOf(STRING), _MapOf(QUANTITY)
Schema = _Scalar | _MapOf | dict[str, Any] | list[Any] | _Checked
"""A dict describes a map with these fields. A list of one schema describes a list of such values."""


def check(pod: object) -> Pod:
    """`pod` itself, if every field that this program reads has its type in the Kubernetes API. Raises BadPod."""
    if not isinstance(pod, dict):
        raise BadPod(f"object: wanted a Pod, saw {json_type(pod)}")
    for key in ("metadata", "spec"):
        if not isinstance(pod.get(key), dict):
            raise BadPod(f"{key}: wanted a map, saw {json_type(pod.get(key))}")
    conform(pod, POD, "")
    return pod


def conform(value: Any, schema: Schema, path: str) -> None:
    """Check `value`, which stands at `path`, against a schema. Raises BadPod with the path of the first wrong type."""
    if isinstance(schema, dict):
        if not isinstance(value, dict):
            _refuse(path, "a map", value)
        for key, below in schema.items():
            item = value.get(key)
            if item is not None and type(item) not in below:  # only a scalar has types
                conform(item, below, f"{path}.{key}")
    elif isinstance(schema, _Scalar):
        if type(value) not in schema:
            _refuse(path, schema.name, value)
    elif isinstance(schema, list):
        if not isinstance(value, list):
            _refuse(path, "a list", value)
        below = schema[0]
        for index, item in enumerate(value):
            if type(item) not in below:
                conform(item, below, f"{path}[{index}]")
    elif isinstance(schema, _Checked):
        schema.check(value, path)
    else:
        if not isinstance(value, dict):
            _refuse(path, "a map", value)
        for key, item in value.items():
            if type(item) not in schema.values:
                _refuse(f"{path}[{quoted(key)}]", schema.values.name, item)


def _refuse(path: str, wanted: str, seen: object) -> NoReturn:
    raise BadPod(f"{path.lstrip('.')}: wanted {wanted}, saw {json_type(seen)}")


RESOURCES = {"limits": QUANTITIES, "requests": QUANTITIES, "claims": [{"name": STRING}]}


def _expression(*operators: str) -> Schema:
    """An expression of a selector, which must have a key, and an operator: one of these, if there are some."""

    def check_expression(value: Any, path: str) -> None:
        conform(value, {"key": STRING, "operator": STRING, "values": [STRING]}, path)
        for name in ("key", "operator"):
            if value.get(name) is None:
                _refuse(f"{path}.{name}", STRING.name, None)
        if operators and value["operator"] not in operators:
            where, seen = path.lstrip("."), quoted(value["operator"])
            raise BadPod(f"{where}.operator: wanted one of {', '.join(operators)}, saw {seen}")

    return _Checked(check_expression)


_MATCHED = [_expression()]
TERM: Schema = {"matchExpressions": _MATCHED, "matchFields": _MATCHED}
SELECTOR: Final[dict[str, Any]] = {"matchLabels": STRINGS, "matchExpressions": [_expression(*OPERATORS)]}
_POD_TERM = {
    "topologyKey": STRING,
    "labelSelector": SELECTOR,
    "namespaceSelector": SELECTOR,
    "namespaces": [STRING],
}
_POD_TERMS = {REQUIRED: [_POD_TERM], PREFERRED: [{"podAffinityTerm": _POD_TERM}]}

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
        "env": [{"name": STRING, "value": STRING, "valueFrom": {"configMapKeyRef": {"name": STRING}}}],
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
        "volumes": [
            {
                "name": STRING,
                "hostPath": {"path": STRING, "type": STRING},
                "gitRepo": {},
                "persistentVolumeClaim": {"claimName": STRING},
                "emptyDir": {"medium": STRING},
            }
        ],
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
                PREFERRED: [{"weight": INTEGER, "preference": TERM}],
                REQUIRED: {"nodeSelectorTerms": [TERM]},
            },
            "podAffinity": _POD_TERMS,
            "podAntiAffinity": _POD_TERMS,
        },
    },
}
