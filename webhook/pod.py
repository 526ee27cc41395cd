"""Reads a pod that stays a plain dict. Nothing here changes it, so fields that we do not know survive.

The pod is written by a tenant: `shape.check` proves the type of every field that is read here, once per review; the
readers then trust it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil
from posixpath import normpath
from typing import Any, NamedTuple

from webhook.errors import QuantityError
from webhook.gpus import Gpus
from webhook.patch import Path
from webhook.quantity import Number, parse, thousandths, whole
from webhook.text import quoted

Pod = dict[str, Any]

DECISION = "gpu-admission.io/decision"
MIRROR = "kubernetes.io/config.mirror"
CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")


class Container(NamedTuple):
    """One container of any kind. `path` leads to it; `sidecar` is an init container that keeps running."""

    spec: dict[str, Any]
    kind: str
    position: int
    sidecar: bool

    @property
    def path(self) -> Path:
        return ("spec", self.kind, self.position)

    @property
    def field(self) -> str:
        """As kubectl names it: `spec.containers[0]`."""
        return f"spec.{self.kind}[{self.position}]"

    @property
    def name(self) -> str:
        return str(self.spec.get("name", ""))


class Owner(NamedTuple):
    """The controller that made the pod."""

    kind: str
    name: str
    uid: str
    api_version: str


def containers(pod: Pod) -> Iterator[Container]:
    """Every container: init containers and sidecars, containers, ephemeral containers, in this order."""
    spec = pod["spec"]
    for kind in CONTAINER_LISTS:
        for index, container in enumerate(spec.get(kind) or ()):
            sidecar = kind == "initContainers" and container.get("restartPolicy") == "Always"
            yield Container(container, kind, index, sidecar)


def requests_of(container: Mapping[str, Any]) -> Mapping[str, Any]:
    """What one container requests; a limit stands in for a missing request (SetDefaults_Pod, core/v1/defaults.go)."""
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits"), resources.get("requests")
    if not limits:
        return requests or {}
    return {**limits, **requests} if requests else limits


def total_requests(pod: Pod) -> dict[str, int]:
    """What the scheduler counts for the whole pod: CPU in thousandths, all else in whole units (bytes, GPUs).

    Containers and sidecars add up; an init container needs what it asks for beside the sidecars started before it; the
    pod needs the larger of the two, and its overhead on top. Pod-level resources replace the sum for what they name.
    Added up exactly, rounded up at the end. Follows k8s.io/component-helpers resource/helpers.go (PodRequests).
    Raises QuantityError.
    """
    spec = pod["spec"]
    total: dict[str, Number] = {}
    for container in spec.get("containers") or ():
        _add(total, requests_of(container))
    peak: dict[str, Number] = {}
    sidecars: dict[str, Number] = {}
    for container in spec.get("initContainers") or ():
        asked = requests_of(container)
        if container.get("restartPolicy") == "Always":
            _add(total, asked)
            _add(sidecars, asked)
            _raise(peak, sidecars)
        else:
            _raise(peak, _add(dict(sidecars), asked))
    _raise(total, peak)
    if pod_level := spec.get("resources"):
        _replace(total, pod_level)
    if overhead := spec.get("overhead"):
        _add(total, overhead)
    return {name: amount if type(amount) is int else ceil(amount) for name, amount in total.items()}


def _add(total: dict[str, Number], asked: Mapping[str, Any]) -> dict[str, Number]:
    for name, quantity in asked.items():
        total[name] = total.get(name, 0) + (thousandths(quantity) if name == "cpu" else parse(quantity))
    return total


def _replace(total: dict[str, Number], pod_level: Mapping[str, Any]) -> None:
    """Pod-level resources, of CPU, memory and huge pages only.

    A limit without a request stands in where no container asks for that resource (always, for huge pages): since 1.37 the
    API server fills requests in after admission (defaultPodRequests, PodLevelResourcesFixDefaulting).
    """
    requests = pod_level.get("requests") or {}
    for name, quantity in {**(pod_level.get("limits") or {}), **requests}.items():
        huge = name.startswith("hugepages-")
        if (huge or name in ("cpu", "memory")) and (huge or name in requests or name not in total):
            total[name] = _add({}, {name: quantity})[name]


def _raise(total: dict[str, Number], floor: Mapping[str, Number]) -> None:
    for name, amount in floor.items():
        if name not in total or amount > total[name]:
            total[name] = amount


def gpu_counts(container: Mapping[str, Any], gpus: Gpus) -> dict[str, int]:
    """How many of each GPU resource one container asks for, its limits first.

    What is not above zero, or no quantity at all, is left out: to the device plugin that is no GPU.
    """
    resources = container.get("resources")
    if not resources:
        return {}
    counts: dict[str, int] = {}
    for part in ("limits", "requests"):
        for name, quantity in (resources.get(part) or {}).items():
            if name not in counts and gpus.kind(name) is not None:
                try:
                    count = whole(quantity)
                except QuantityError:
                    continue
                if count > 0:
                    counts[name] = count
    return counts


def has_gpu(container: Mapping[str, Any], gpus: Gpus) -> bool:
    """Whether one container asks for at least one GPU, or for devices by DRA (which may be GPUs)."""
    resources = container.get("resources")
    return resources is not None and bool(resources.get("claims") or gpu_counts(container, gpus))


def gpu_names(pod: Pod, gpus: Gpus) -> frozenset[str]:
    """The GPU resources that any container asks for, in whatever quantity but zero.

    0 GPUs are none: such a pod has no business on a node with GPUs.
    """
    kind, spec, found = gpus.kind, pod["spec"], []
    for containers_of_a_kind in (spec.get("containers"), spec.get("initContainers"), spec.get("ephemeralContainers")):
        for container in containers_of_a_kind or ():
            if resources := container.get("resources"):
                for part in (resources.get("limits"), resources.get("requests")):
                    if part:
                        found += [name for name in part if kind(name) is not None and not _is_zero(part[name])]
    return frozenset(found)


def _is_zero(quantity: Any) -> bool:
    try:
        return parse(quantity) == 0
    except QuantityError:
        return False  # a rule says what is wrong with it


def uses_gpu(pod: Pod, gpus: Gpus) -> bool:
    """Whether the pod asks for at least one GPU, or for what may be one: devices by DRA, or a resource that the policy
    does not know but whose name says GPU (`volcano.sh/vgpu-number`)."""
    spec = pod["spec"]
    if spec.get("resourceClaims"):
        return True
    return any(
        has_gpu(c, gpus) or any("gpu" in name.lower() and gpus.kind(name) is None for name in requests_of(c))
        for kind in CONTAINER_LISTS
        for c in spec.get(kind) or ()
    )


def claims_devices(pod: Pod) -> bool:
    """Whether the pod asks for devices by DRA (spec.resourceClaims)."""
    return bool(pod["spec"].get("resourceClaims"))


def owner(pod: Pod) -> Owner | None:
    """The controlling owner reference, as metav1.GetControllerOf finds it."""
    for reference in pod["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            return Owner(*(str(reference.get(k, "")) for k in ("kind", "name", "uid", "apiVersion")))
    return None


def labels_of(pod: Pod) -> Mapping[str, str]:
    return pod["metadata"].get("labels") or {}


def annotations_of(pod: Pod) -> Mapping[str, str]:
    return pod["metadata"].get("annotations") or {}


def display_name(pod: Pod) -> str:
    """The name in quotes, or `generateName "x-"` while there is none yet: admission runs before names are made."""
    metadata = pod["metadata"]
    if name := metadata.get("name"):
        return quoted(name)
    return f"generateName {quoted(metadata.get('generateName', ''))}"


def clean_path(path: str) -> str:
    """A path as a container runtime takes it: absolute, without `//`, `.` and `..`; `/var/run` is a link to `/run`."""
    cleaned = "/" + normpath("/" + path).lstrip("/")
    return cleaned[4:] if cleaned == "/var/run" or cleaned.startswith("/var/run/") else cleaned


# --- tolerations ------------------------------------------------------------------------------------------------------


def tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    """Whether one toleration matches one taint (Toleration.ToleratesTaint, k8s.io/api core/v1/toleration.go).

    Operators that we do not know tolerate nothing.
    """
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    operator = toleration.get("operator") or "Equal"
    if operator == "Exists":
        return True
    return (
        operator == "Equal"
        and bool(toleration.get("key"))
        and (toleration.get("value") or "") == (taint.get("value") or "")
    )
