"""Proves that an object has the shape of a pod, so that everything after it can read a plain dict without looking."""

from __future__ import annotations

from typing import Any

from webhook.errors import BadPod
from webhook.pod import CONTAINER_LISTS, Pod
from webhook.text import quoted


def check(pod: object) -> Pod:
    """`pod` itself, if every field that this program reads has the type that the Kubernetes API gives it.

    The API server has decoded the object before it asks us, so this only ever fails for other callers. Raises BadPod
    with the path.
    """
    if not isinstance(pod, dict):
        raise BadPod(f"object: wanted a Pod, saw {type(pod).__name__}")
    metadata = _typed(pod, "metadata", dict, "", required=True)
    spec = _typed(pod, "spec", dict, "", required=True)
    for key in ("labels", "annotations"):
        _strings(_typed(metadata, key, dict, "metadata."), f"metadata.{key}")
    for key in ("name", "generateName", "namespace"):
        _typed(metadata, key, str, "metadata.")
    _maps(metadata, "ownerReferences", "metadata.")
    for kind in CONTAINER_LISTS:
        for index, container in enumerate(_maps(spec, kind, "spec.")):
            _container(container, f"spec.{kind}[{index}].")
    for key in ("tolerations", "topologySpreadConstraints", "schedulingGates", "resourceClaims", "volumes"):
        _maps(spec, key, "spec.")
    for volume in spec.get("volumes") or ():
        if host := _typed(volume, "hostPath", dict, "spec.volumes."):
            _typed(host, "path", str, "spec.volumes.hostPath.")
    for key in _SPEC_STRINGS:
        _typed(spec, key, str, "spec.")
    _strings(_typed(spec, "nodeSelector", dict, "spec."), "spec.nodeSelector")
    if resources := _typed(spec, "resources", dict, "spec."):
        _resources(resources, "spec.resources.")
    if overhead := _typed(spec, "overhead", dict, "spec."):
        _quantities(overhead, "spec.overhead")
    if affinity := _typed(spec, "affinity", dict, "spec."):
        _affinity(affinity)
    return pod


_SPEC_STRINGS = (
    "nodeName",
    "schedulerName",
    "priorityClassName",
    "runtimeClassName",
    "serviceAccountName",
    "restartPolicy",
    "preemptionPolicy",
)
_NAMES: dict[type[Any], str] = {dict: "a map", list: "a list", str: "a string"}


def _typed(parent: dict[str, Any], key: str, kind: type[Any], where: str, *, required: bool = False) -> Any:
    value = parent.get(key)
    if isinstance(value, kind) or (value is None and not required):
        return value
    raise BadPod(f"{where}{key}: wanted {_NAMES[kind]}, saw {type(value).__name__}")


def _maps(parent: dict[str, Any], key: str, where: str) -> list[dict[str, Any]]:
    values = _typed(parent, key, list, where) or []
    for index, value in enumerate(values):
        if not isinstance(value, dict):
            raise BadPod(f"{where}{key}[{index}]: wanted a map, saw {type(value).__name__}")
    return values


def _strings(values: dict[str, Any] | None, where: str) -> None:
    for key, value in (values or {}).items():
        if not isinstance(value, str):
            raise BadPod(f"{where}[{quoted(key)}]: wanted a string, saw {type(value).__name__}")


def _container(container: dict[str, Any], where: str) -> None:
    _typed(container, "name", str, where)
    if "env" in container:
        _maps(container, "env", where)  # their readers compare names and values, whatever these are
    if "envFrom" in container:
        for source in _maps(container, "envFrom", where):
            _typed(source, "prefix", str, where + "envFrom.")
    if "volumeMounts" in container:
        for mount in _maps(container, "volumeMounts", where):
            _typed(mount, "mountPath", str, where + "volumeMounts.")
    if security := _typed(container, "securityContext", dict, where):
        capabilities = _typed(security, "capabilities", dict, where + "securityContext.") or {}
        for name in _typed(capabilities, "add", list, where + "securityContext.capabilities.") or ():
            if not isinstance(name, str):
                raise BadPod(f"{where}securityContext.capabilities.add: wanted strings, saw {type(name).__name__}")
    if resources := _typed(container, "resources", dict, where):
        _resources(resources, where + "resources.")


def _resources(resources: dict[str, Any], where: str) -> None:
    for part in ("limits", "requests"):
        if quantities := _typed(resources, part, dict, where):
            _quantities(quantities, where + part)


def _quantities(quantities: dict[str, Any], where: str) -> None:
    for name, quantity in quantities.items():
        if not isinstance(quantity, (str, int, float)) or isinstance(quantity, bool):
            raise BadPod(f"{where}[{quoted(name)}]: wanted a quantity, saw {type(quantity).__name__}")


def _affinity(affinity: dict[str, Any]) -> None:
    node = _typed(affinity, "nodeAffinity", dict, "spec.affinity.") or {}
    where = "spec.affinity.nodeAffinity."
    for preferred in _maps(node, "preferredDuringSchedulingIgnoredDuringExecution", where):
        _term(_typed(preferred, "preference", dict, where) or {}, where)
    required = _typed(node, "requiredDuringSchedulingIgnoredDuringExecution", dict, where) or {}
    for term in _maps(required, "nodeSelectorTerms", where):
        _term(term, where)


def _term(term: dict[str, Any], where: str) -> None:
    for part in ("matchExpressions", "matchFields"):
        for expression in _maps(term, part, where):
            for value in _typed(expression, "values", list, where) or ():
                if not isinstance(value, str):
                    raise BadPod(f"{where}{part}.values: wanted strings, saw {type(value).__name__}")
