"""Reads fields of a pod. The pod stays a plain dict that nothing here changes, so unknown fields survive.

A tenant wrote the pod, but the API server has decoded it. These functions therefore trust the type of every field. If one of them
fails, `pod_schema.check` says whether the pod is malformed.
"""

from collections.abc import Callable, Iterator, Mapping
from posixpath import normpath
from typing import Any, NamedTuple

import orjson

from webhook.errors import QuantityError
from webhook.kube.gpus import Gpus
from webhook.kube.json_patch import Path
from webhook.kube.quantity import parse_quantity, whole
from webhook.vendors.catalogue import resources

Pod = dict[str, Any]

DECISION = "gpu-admission.io/decision"
NODE_CHOICE, INJECTION, OFF = "gpu-admission.io/node-choice", "gpu-admission.io/injection", "off"
"""Annotations of pods, and the value that they may have: see `admission.switches`."""
PROFILE_LABEL = "gpu-admission.io/profile"
"""The namespace label that opts in. Its value names a profile."""
KUEUE = "kueue.x-k8s.io/queue-name"
"""The label by which Kueue manages a pod."""
OF_KUEUE = (KUEUE, "kueue.x-k8s.io/managed", "kueue.x-k8s.io/pod-group-name")
"""Labels of pods that Kueue manages. It writes the first two itself where a namespace has a default queue; of the pods of a group
it compares the specs (pkg/controller/jobs/pod/pod_webhook.go)."""
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
"""The affinity field with terms that only add to a node's score."""
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
"""The affinity field with terms that a node must meet."""
HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
MIRROR = "kubernetes.io/config.mirror"
"""The annotation of a mirror pod, by which a kubelet shows a static pod."""
_STEMS = {"gpu", *[each.name.removesuffix("*").lower() for each in resources("whole", "slice", "share", "part")]}
GPU_WORDS = tuple([stem for stem in sorted(_STEMS) if not any([other in stem for other in _STEMS - {stem}])])
"""Parts of the names of resources for GPUs and their like, of all vendors, in lower case."""
SCHEDULER = "default-scheduler"
FINISHED = frozenset(("Succeeded", "Failed"))
"""The phases of pods that have ended."""
MAX_NAME = 253
"""Maximum length of a name or label value that is kept."""
CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")


class Container:
    """One container of a pod. `list_name`: "containers", "initContainers" or "ephemeralContainers". `sidecar`: it is an init
    container that keeps running."""

    __slots__ = ("_counts", "list_name", "position", "sidecar", "spec")

    def __init__(self, spec: dict[str, Any], list_name: str, position: int, sidecar: bool) -> None:
        self.spec = spec
        self.list_name = list_name
        self.position = position
        self.sidecar = sidecar
        self._counts: Mapping[str, int] | None = None

    def gpu_counts(self, gpus: Gpus) -> Mapping[str, int]:
        """The result of the function `gpu_counts`, cached."""
        if self._counts is None:
            self._counts = gpu_counts(self.spec, gpus)
        return self._counts

    def has_gpu(self, gpus: Gpus) -> bool:
        """Whether the container asks for at least one GPU. A claim does not count: it may be for any device."""
        return bool(self.gpu_counts(gpus))

    @property
    def path(self) -> Path:
        return ("spec", self.list_name, self.position)

    @property
    def field(self) -> str:
        """The field as kubectl names it: `spec.containers[0]`."""
        return f"spec.{self.list_name}[{self.position}]"

    @property
    def name(self) -> str:
        return str(self.spec.get("name", ""))


class Owner(NamedTuple):
    """The controller that owns a pod."""

    kind: str
    name: str
    uid: str


def containers(pod: Pod) -> Iterator[Container]:
    """All containers: first init containers and sidecars, then containers, then ephemeral containers."""
    spec = pod["spec"]
    for kind in CONTAINER_LISTS:
        if listed := spec.get(kind):
            for index, container in enumerate(listed):
                sidecar = kind == "initContainers" and container.get("restartPolicy") == "Always"
                yield Container(container, kind, index, sidecar)


def container_specs(pod: Pod) -> list[Mapping[str, Any]]:
    """The specs alone of all containers, in the same order."""
    spec = pod["spec"]
    return [container for kind in CONTAINER_LISTS for container in spec.get(kind) or ()]


def requests_of(container: Mapping[str, Any]) -> Mapping[str, Any]:
    """The requests of a container. A limit also counts as the request where that is missing.

    Source: SetDefaults_Pod in core/v1/defaults.go.
    """
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits"), resources.get("requests")
    if not limits:
        return requests or {}
    return {**limits, **requests} if requests else limits


def with_requests(pod: Pod) -> Pod:
    """A copy of the pod with the requests that the API server derives from limits. It does so in pods only, not in templates."""
    copied: Pod = orjson.loads(orjson.dumps(pod))
    for container in container_specs(copied):
        if (resources := container.get("resources")) and resources.get("limits"):
            resources["requests"] = {**requests_of(container)}
    return copied


def positive_counts(quantities: Mapping[str, Any], wanted: Callable[[str], object]) -> dict[str, int]:
    """The whole numbers of each resource that is `wanted`, rounded up.

    Zero, negative and malformed quantities are left out: the device plugin gives no GPU for them.
    """
    counts: dict[str, int] = {}
    for name, quantity in quantities.items():
        if wanted(name):
            try:
                count = whole(quantity)
            except QuantityError:
                continue
            if count > 0:
                counts[name] = count
    return counts


def gpu_counts(container: Mapping[str, Any], gpus: Gpus) -> dict[str, int]:
    """The number of each GPU resource that a container asks for. A limit counts before a request."""
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    counts = positive_counts(limits, gpus.kind)
    if requests and requests != limits:
        counts = counts | positive_counts(requests, gpus.kind) | counts  # messages name first what has a limit
    return counts


def is_zero(quantity: Any) -> bool:
    """Whether a quantity is zero. A malformed one is not; a rule reports it."""
    try:
        return parse_quantity(quantity) == 0
    except QuantityError:
        return False


def asks_for_gpu(container: Mapping[str, Any], gpus: Gpus) -> bool:
    """Whether a container asks for a GPU of the policy, or for any other resource with one of GPU_WORDS in its name.

    A container that asks for such a resource (`volcano.sh/vgpu-number`) only runs on a node that offers it.
    """
    others = positive_counts(requests_of(container), lambda name: _sounds_like_gpu(name) and not gpus.knows(name))
    return bool(gpu_counts(container, gpus) or others)


def _sounds_like_gpu(resource: str) -> bool:
    lower = resource.lower()
    return any([word in lower for word in GPU_WORDS])


def in_pod_group(pod: Pod) -> bool:
    """Whether the scheduler places the pod together with its group (KEP-4671; the field was workloadRef in 1.35). It refuses
    the group if the priority of a pod differs from that of the group."""
    return bool(pod["spec"].get("schedulingGroup") or pod["spec"].get("workloadRef"))


def claims_devices(pod: Pod) -> bool:
    """Whether the pod claims devices through DRA (spec.resourceClaims)."""
    return bool(pod["spec"].get("resourceClaims"))


def controller_reference(pod: Pod) -> Mapping[str, Any] | None:
    """The owner reference of the controller, as metav1.GetControllerOf finds it."""
    for reference in pod["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            controller: Mapping[str, Any] = reference
            return controller
    return None


def is_made_for_a_node(pod: Pod) -> bool:
    """Whether it is a static pod or a pod of a DaemonSet."""
    return (controller_reference(pod) or {}).get("kind") in ("DaemonSet", "Node")


def owner(pod: Pod) -> Owner | None:
    if (reference := controller_reference(pod)) is None:
        return None
    return Owner(str(reference.get("kind", "")), str(reference.get("name", "")), str(reference.get("uid", "")))


def labels_of(pod: Pod) -> Mapping[str, str]:
    return pod["metadata"].get("labels") or {}


def annotations_of(pod: Pod) -> Mapping[str, str]:
    return pod["metadata"].get("annotations") or {}


def clean_path(path: str) -> str:
    """A path as a container runtime reads it: absolute, without `//`, `.` and `..`. `/var/run` becomes `/run`, its target."""
    cleaned = "/" + normpath("/" + path).lstrip("/")
    return cleaned[4:] if cleaned == "/var/run" or cleaned.startswith("/var/run/") else cleaned


def namespace_of(pod: Pod) -> str:
    """The namespace; "default" if a manifest in a file has none. The API server sets it before admission."""
    return (pod["metadata"].get("namespace") or "default")[:MAX_NAME]


def priority_of(pod: Pod) -> int:
    """Its priority; 0 if it has none yet."""
    return int(pod["spec"].get("priority") or 0)


def pod_id(metadata: Mapping[str, Any]) -> int | str:
    """The uid as a number, which takes half the memory of its text; namespace and name if there is no uid."""
    uid = metadata.get("uid")
    if not uid:
        return f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
    try:
        return int(uid.replace("-", ""), 16)
    except ValueError:
        return str(uid)


def unmanaged_reason(pod: Pod) -> str:
    """Why this webhook leaves the node of the pod to others; "" if it does not. Looks neither at `nodeName` nor at
    `schedulerName`."""
    spec, kind = pod["spec"], (controller_reference(pod) or {}).get("kind")
    if kind == "DaemonSet":
        return "pod of a DaemonSet"
    if MIRROR in annotations_of(pod) or kind == "Node":
        return "static pod"
    if spec.get("schedulingGates"):
        return "scheduling gates"
    if not labels_of(pod).keys().isdisjoint(OF_KUEUE):
        return "managed by Kueue"
    if in_pod_group(pod):
        return "pod group"
    annotations = annotations_of(pod)
    off = OFF in (annotations.get(NODE_CHOICE), annotations.get(INJECTION))
    return "its annotation leaves it to the scheduler" if off else ""
