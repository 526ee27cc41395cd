"""Checks that an object has the types of a pod, in every field that this program reads.

The API server decodes an object before it asks us, so the hooks do not check pods first: they check when a decision has
failed, to tell a malformed pod (400) from a bug of ours (500). Templates of workloads are checked before they are read: a
custom resource may have anything there. So are files on the command line.

The schema is a table of field names and types. Missing fields, nulls, and fields that are not in the table are not looked at.
A unit that reads another field adds one entry.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from webhook.errors import BadPod
from webhook.kube.pod import Pod
from webhook.text import kind, quoted

Checker = Callable[[Any], None]
Fields = dict[str, Checker]


class _Misshapen(Exception):
    """What was wanted and seen. The path is built only when something is wrong."""

    def __init__(self, wanted: str, value: object) -> None:
        super().__init__(f"wanted {wanted}, saw {kind(value)}")
        self.path = ""


def check(pod: object) -> Pod:
    """`pod` itself, if every field that this program reads has the type that the Kubernetes API gives it.

    Raises BadPod with the path.
    """
    if not isinstance(pod, dict):
        raise BadPod(f"object: wanted a Pod, saw {kind(pod)}")
    for key in ("metadata", "spec"):
        if not isinstance(pod.get(key), dict):
            raise BadPod(f"{key}: wanted a map, saw {kind(pod.get(key))}")
    try:
        _fields(pod, _POD)
    except _Misshapen as error:
        raise BadPod(f"{error.path.lstrip('.')}: {error}") from None
    return pod


def _fields(value: dict[str, Any], known: Fields) -> None:
    for key, item in value.items():
        if item is not None and (checker := known.get(key)) is not None:
            try:
                checker(item)
            except _Misshapen as error:
                error.path = f".{key}{error.path}"
                raise


def _string(value: Any) -> None:
    if not isinstance(value, str):
        raise _Misshapen("a string", value)


def _integer(value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _Misshapen("a whole number", value)


def _boolean(value: Any) -> None:
    if not isinstance(value, bool):
        raise _Misshapen("true or false", value)


def _each(value: Any, checker: Checker) -> None:
    """Every value of a map with keys of the tenant's choice."""
    if not isinstance(value, dict):
        raise _Misshapen("a map", value)
    for key, item in value.items():
        try:
            checker(item)
        except _Misshapen as error:
            error.path = f"[{quoted(key)}]{error.path}"
            raise


def _strings(value: Any) -> None:
    _each(value, _string)


def _quantity(value: Any) -> None:
    if not isinstance(value, (str, int, float)) or isinstance(value, bool):
        raise _Misshapen("a quantity", value)


def _quantities(value: Any) -> None:
    _each(value, _quantity)


def _one(known: Fields) -> Checker:
    """A map with these fields."""

    def checker(value: Any) -> None:
        if not isinstance(value, dict):
            raise _Misshapen("a map", value)
        _fields(value, known)

    return checker


def _list(item: Checker) -> Checker:
    """A list of such items."""

    def checker(value: Any) -> None:
        if not isinstance(value, list):
            raise _Misshapen("a list", value)
        for index, one in enumerate(value):
            try:
                item(one)
            except _Misshapen as error:
                error.path = f"[{index}]{error.path}"
                raise

    return checker


def _many(known: Fields) -> Checker:
    return _list(_one(known))


_PLAIN = _many({})
_NAMED = _many({"name": _string})
_ENV = _many({"name": _string, "value": _string, "valueFrom": _one({})})


def _env(value: Any) -> None:
    """Containers have dozens of variables: one pass over the plain ones, a full look only where something is odd."""
    if type(value) is not list or not all(
        [type(e) is dict and type(e.get("name")) is str and type(e.get("value", "")) is str for e in value]
    ):
        _ENV(value)


_RESOURCES = _one({"limits": _quantities, "requests": _quantities, "claims": _NAMED})
_EXPRESSIONS = _many({"key": _string, "operator": _string, "values": _list(_string)})
_TERM: Fields = {"matchExpressions": _EXPRESSIONS, "matchFields": _EXPRESSIONS}
_POD_TERMS = _one(
    {
        "requiredDuringSchedulingIgnoredDuringExecution": _many({"topologyKey": _string}),
        "preferredDuringSchedulingIgnoredDuringExecution": _many({"podAffinityTerm": _one({"topologyKey": _string})}),
    }
)
_CONTAINERS = _many(
    {
        "name": _string,
        "restartPolicy": _string,
        "resources": _RESOURCES,
        "env": _env,
        "envFrom": _many({"prefix": _string, "configMapRef": _one({}), "secretRef": _one({})}),
        "ports": _many({"hostPort": _integer}),
        "volumeMounts": _many({"name": _string, "mountPath": _string, "subPath": _string}),
        "volumeDevices": _many({"name": _string, "devicePath": _string}),
        "securityContext": _one(
            {
                "privileged": _boolean,
                "procMount": _string,
                "capabilities": _one({"add": _list(_string), "drop": _list(_string)}),
                "windowsOptions": _one({"hostProcess": _boolean}),
            }
        ),
    }
)
_POD: Fields = {
    "metadata": _one(
        {
            "name": _string,
            "generateName": _string,
            "namespace": _string,
            "labels": _strings,
            "annotations": _strings,
            "ownerReferences": _many({"kind": _string, "name": _string, "uid": _string}),
        }
    ),
    "spec": _one(
        {
            "containers": _CONTAINERS,
            "initContainers": _CONTAINERS,
            "ephemeralContainers": _CONTAINERS,
            "tolerations": _many({"key": _string, "operator": _string, "value": _string, "effect": _string}),
            "topologySpreadConstraints": _many({"topologyKey": _string, "labelSelector": _one({})}),
            "schedulingGates": _PLAIN,
            "resourceClaims": _NAMED,
            "volumes": _many({"name": _string, "hostPath": _one({"path": _string, "type": _string})}),
            "nodeName": _string,
            "schedulerName": _string,
            "priorityClassName": _string,
            "runtimeClassName": _string,
            "serviceAccountName": _string,
            "serviceAccount": _string,
            "restartPolicy": _string,
            "preemptionPolicy": _string,
            "hostPID": _boolean,
            "hostIPC": _boolean,
            "nodeSelector": _strings,
            "resources": _RESOURCES,
            "overhead": _quantities,
            "securityContext": _one({"windowsOptions": _one({"hostProcess": _boolean})}),
            "affinity": _one(
                {
                    "nodeAffinity": _one(
                        {
                            "preferredDuringSchedulingIgnoredDuringExecution": _many(
                                {"weight": _integer, "preference": _one(_TERM)}
                            ),
                            "requiredDuringSchedulingIgnoredDuringExecution": _one({"nodeSelectorTerms": _many(_TERM)}),
                        }
                    ),
                    "podAffinity": _POD_TERMS,
                    "podAntiAffinity": _POD_TERMS,
                }
            ),
        }
    ),
}
