"""Reads a pod that stays a plain dict. Nothing here changes it, so fields that we do not know survive.

A tenant wrote the pod, but the API server has decoded it, so the readers trust the type of every field. If one of them fails,
`pod_schema.check` says whether the pod is malformed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from posixpath import normpath
from typing import Any, NamedTuple

from webhook.errors import QuantityError
from webhook.kube.gpus import Gpus
from webhook.kube.json_patch import Path
from webhook.kube.quantity import parse_quantity, whole

Pod = dict[str, Any]

DECISION = "gpu-admission.io/decision"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
"""Of an affinity: the terms that only weigh."""
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
"""Of an affinity: the terms that must hold."""
MIRROR = "kubernetes.io/config.mirror"
CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")


class Container:
    """One container of any kind. `path` leads to it; `sidecar` is an init container that keeps running."""

    __slots__ = ("_counts", "kind", "position", "sidecar", "spec")

    def __init__(self, spec: dict[str, Any], kind: str, position: int, sidecar: bool) -> None:
        self.spec = spec
        self.kind = kind
        self.position = position
        self.sidecar = sidecar
        self._counts: Mapping[str, int] | None = None

    def gpu_counts(self, gpus: Gpus) -> Mapping[str, int]:
        """As the function of that name, counted once."""
        if self._counts is None:
            self._counts = gpu_counts(self.spec, gpus)
        return self._counts

    def has_gpu(self, gpus: Gpus) -> bool:
        """Whether it asks for at least one GPU. A claim does not count: it may be of any device."""
        return bool(self.gpu_counts(gpus))

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


def containers(pod: Pod) -> Iterator[Container]:
    """Every container: init containers and sidecars, containers, ephemeral containers, in this order."""
    spec = pod["spec"]
    for kind in CONTAINER_LISTS:
        if listed := spec.get(kind):
            for index, container in enumerate(listed):
                sidecar = kind == "initContainers" and container.get("restartPolicy") == "Always"
                yield Container(container, kind, index, sidecar)


def requests_of(container: Mapping[str, Any]) -> Mapping[str, Any]:
    """What one container requests; a limit stands in for a missing request (SetDefaults_Pod, core/v1/defaults.go)."""
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits"), resources.get("requests")
    if not limits:
        return requests or {}
    return {**limits, **requests} if requests else limits


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


def gpu_names(pod: Pod, gpus: Gpus) -> frozenset[str]:
    """The GPU resources that any container asks for, in whatever quantity but zero.

    0 GPUs are none: such a pod has no business on a node with GPUs.
    """
    names = set()
    for container in containers(pod):
        resources = container.spec.get("resources") or {}
        for part in ("limits", "requests"):
            for name, quantity in (resources.get(part) or {}).items():
                if gpus.kind(name) is not None and not is_zero(quantity):
                    names.add(name)
    return frozenset(names)


def is_zero(quantity: Any) -> bool:
    """Whether a quantity is zero; what is no quantity is not."""
    try:
        return parse_quantity(quantity) == 0
    except QuantityError:
        return False  # a rule says what is wrong with it


def asks_for_gpu(container: Mapping[str, Any], gpus: Gpus) -> bool:
    """Whether one container asks for at least one GPU, or one of a resource that the policy does not know but whose name says
    GPU (`volcano.sh/vgpu-number`): no such container runs where a node does not offer it."""
    if gpu_counts(container, gpus):
        return True
    requests = requests_of(container)
    return any(["gpu" in name.lower() and gpus.kind(name) is None and _is_some(requests[name]) for name in requests])


def _is_some(quantity: Any) -> bool:
    try:
        return parse_quantity(quantity) > 0
    except QuantityError:
        return False


def claims_devices(pod: Pod) -> bool:
    """Whether the pod asks for devices by DRA (spec.resourceClaims)."""
    return bool(pod["spec"].get("resourceClaims"))


def controller_reference(pod: Pod) -> Mapping[str, Any] | None:
    """The controlling owner reference, as metav1.GetControllerOf finds it."""
    for reference in pod["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            controller: Mapping[str, Any] = reference
            return controller
    return None


def owner(pod: Pod) -> Owner | None:
    if (reference := controller_reference(pod)) is None:
        return None
    return Owner(str(reference.get("kind", "")), str(reference.get("name", "")), str(reference.get("uid", "")))


def labels_of(pod: Pod) -> Mapping[str, str]:
    return pod["metadata"].get("labels") or {}


def annotations_of(pod: Pod) -> Mapping[str, str]:
    return pod["metadata"].get("annotations") or {}


def clean_path(path: str) -> str:
    """A path as a container runtime takes it: absolute, without `//`, `.` and `..`; `/var/run` is a link to `/run`."""
    cleaned = "/" + normpath("/" + path).lstrip("/")
    return cleaned[4:] if cleaned == "/var/run" or cleaned.startswith("/var/run/") else cleaned
