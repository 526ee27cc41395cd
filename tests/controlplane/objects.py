"""The objects that tests create, as plain dicts: change in them what the test is about."""

from collections.abc import Iterable, Mapping
from typing import Any

from tests.controlplane.kinds import KINDS

Json = dict[str, Any]
Text = Mapping[str, str]

IMAGE = "registry.example/app:1"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def made(
    kind: str, name: str = "", *, labels: Text | None = None, annotations: Text | None = None, **fields: Any
) -> Json:
    """An object of any kind in KINDS, with these fields beside its metadata."""
    version = KINDS[kind][0].removeprefix("/apis/").removeprefix("/api/")
    return {"apiVersion": version, "kind": kind, "metadata": _metadata(name, labels, annotations), **fields}


def pod_spec(
    gpus: int | str = 1,
    *,
    resource: str = "nvidia.com/gpu",
    limits: Text | None = None,
    requests: Text | None = None,
    env: Mapping[str, Any] | None = None,
    container: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Json:
    """One container with a GPU limit (none for 0); `limits` and `requests` come on top. `env`: name to value, or to a valueFrom.

    `container` and `spec`: more fields, or other ones.
    """
    asked = {"limits": ({resource: str(gpus)} if gpus else {}) | dict(limits or {}), "requests": dict(requests or {})}
    entries = [{"name": k, "valueFrom" if isinstance(v, Mapping) else "value": v} for k, v in (env or {}).items()]
    resources = {of: amounts for of, amounts in asked.items() if amounts}
    fields = {key: value for key, value in (("resources", resources), ("env", entries)) if value}
    return {"containers": [{"name": "main", "image": IMAGE, **fields, **(container or {})}], **spec}


def pod(
    name: str = "trainer",
    gpus: int | str = 1,
    *,
    containers: Iterable[Mapping[str, Any]] = (),
    init: Iterable[Mapping[str, Any]] = (),
    ephemeral: Iterable[Mapping[str, Any]] = (),
    namespace: str = "",
    labels: Mapping[str, str | None] | None = None,
    annotations: Text | None = None,
    owned_by: str = "",
    **spec: Any,
) -> Json:
    """A pod as a tenant writes it, of one container with GPUs, or of `containers`.

    `labels`: beside app=`name`; None: without this one. `owned_by`: the kind of its controller. `spec`: arguments of pod_spec.
    """
    lists = {"containers": [*containers], "initContainers": [*init], "ephemeralContainers": [*ephemeral]}
    body = pod_spec(gpus, **{of: found for of, found in lists.items() if found}, **spec)
    kept = {key: value for key, value in {"app": name, **(labels or {})}.items() if value is not None}
    found = made("Pod", name, labels=kept, annotations=annotations, spec=body)
    if namespace:
        found["metadata"]["namespace"] = namespace
    if owned_by:
        owner = {"apiVersion": "apps/v1", "kind": owned_by, "name": name, "uid": "u-1", "controller": True}
        found["metadata"]["ownerReferences"] = [owner]
    return found


def workload(
    kind: str,
    name: str,
    gpus: int = 1,
    *,
    of: Mapping[str, Any],
    labels: Text | None = None,
    annotations: Text | None = None,
    **spec: Any,
) -> Json:
    """Its pods are labelled app=`name`; labels, annotations and `spec` are those of its pods. `of`: the rest of its own spec."""
    metadata = _metadata("", {"app": name} | dict(labels or {}), annotations)
    template = {"metadata": metadata, "spec": pod_spec(gpus, **spec)}
    return made(kind, name, labels={"app": name}, spec={**of, "template": template})


def deployment(name: str, replicas: int = 1, gpus: int = 1, kind: str = "Deployment", **of_pods: Any) -> Json:
    """Or a ReplicaSet, or what else selects its pods. `of_pods`: as of `workload`."""
    selector = {"matchLabels": {"app": name}}
    return workload(kind, name, gpus, of={"replicas": replicas, "selector": selector}, **of_pods)


def job(name: str, pods: int = 1, gpus: int = 1, **of_pods: Any) -> Json:
    """A Job of `pods` pods at once. They run until they are deleted."""
    of = {"parallelism": pods, "completions": pods}
    return workload("Job", name, gpus, of=of, **{"restartPolicy": "Never"} | of_pods)


def volume(name: str, at: str = "", key: str = "topology.kubernetes.io/zone", **spec: Any) -> Json:
    """A PersistentVolume. `at`: the value of the node label `key` of all nodes that can use it; "": any node can."""
    asked: Json = {"capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    asked["persistentVolumeReclaimPolicy"] = "Retain"
    if "csi" not in spec:
        asked["hostPath"] = {"path": "/mnt/disk"}
    if at:
        asked["nodeAffinity"] = {"required": required(key, "In", at)["nodeAffinity"][REQUIRED]}
    return made("PersistentVolume", name, spec=asked | spec)


def volume_claim(name: str, of: str = "", **spec: Any) -> Json:
    """A PersistentVolumeClaim. `of`: the volume to which it is bound."""
    asked = {"accessModes": ["ReadWriteOnce"], "storageClassName": "", **({"volumeName": of} if of else {})}
    return made("PersistentVolumeClaim", name, spec={**asked, "resources": {"requests": {"storage": "10Gi"}}, **spec})


def custom(kind: str, group: str, version: str) -> Json:
    """The definition of a kind whose objects have any fields."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"plural": f"{kind.lower()}s", "singular": kind.lower(), "kind": kind}
    versions = [{"name": version, "served": True, "storage": True, "schema": schema}]
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": versions}
    return made("CustomResourceDefinition", f"{names['plural']}.{group}", spec=spec)


def required(key: str, operator: str, *values: str, part: str = "matchExpressions") -> Json:
    """To nodes by a label, or by a field of theirs: the `affinity` of a pod."""
    term = {part: [{"key": key, "operator": operator, "values": list(values)}]}
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}


def preferred(key: str, operator: str, *values: str, weight: int = 1) -> Json:
    """The same, if there is room."""
    term = {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}
    return {"nodeAffinity": {PREFERRED: [{"weight": weight, "preference": term}]}}


def _metadata(name: str, labels: Text | None, annotations: Text | None) -> Json:
    found = {"name": name, "labels": dict(labels or {}), "annotations": dict(annotations or {})}
    return {key: value for key, value in found.items() if value}
