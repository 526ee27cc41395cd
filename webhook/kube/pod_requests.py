"""The requests of a pod, added up in the same way as the scheduler does."""

from collections.abc import Mapping
from functools import lru_cache
from math import ceil
from typing import Any, Final, NamedTuple

import orjson

from webhook.errors import QuantityError
from webhook.kube.pod import Pod, requests_of
from webhook.kube.quantity import Number, parse_quantity, thousandths

_MAX_REQUESTS: Final = 4096
"""Maximum number of containers plus the resource names that they request, in a whole pod. Pods that were stored without this
webhook are added up too, so nothing else bounds them."""
_MAX_AMOUNT: Final = 2**50
"""No node has more of a resource, and sums of thousands of such amounts fit into 64 bits."""
_MAX_RESOURCES: Final = 64
_MAX_NAMES: Final = 2048
"""Maximum number of resources of one pod, and of characters in their names together. Each is compared with every node."""
_MAX_CACHED: Final = 1024
"""Maximum length of requests as written whose sum is cached. Tenants write them: a few MB at most."""
_RESIZE: Final = ("PodResizePending", "PodResizeInProgress")
"""The conditions of a pod during a resize."""


class PodRequests(NamedTuple):
    """The resources that a pod requests in all."""

    requests: tuple[tuple[str, int], ...]
    """(resource, amount), sorted by name; amounts above zero. "cpu" in thousandths, all else in whole units. Every pod
    requests 1 of "pods"."""
    devices: tuple[Any, ...] = ()
    """The devices that it asks for one by one: `devices.types.DeviceClaim` of each."""

    def amount(self, resource: str) -> int:
        """The amount of `resource`; 0 if it is not requested."""
        for name, amount in self.requests:
            if name == resource:
                return amount
        return 0


_ONE_POD: Final = PodRequests((("pods", 1),))


def pod_requests_of(pod: Pod) -> PodRequests:
    """The resources that the scheduler counts for the pod on its node. Raises QuantityError.

    Replicas have equal requests, so the last requests are cached: adding them up is most of the cost of an event.
    """
    try:
        asked = _as_asked(pod["spec"])
    except TypeError:  # a number beyond 64 bits, or a key that is no text
        return _added_up(pod["spec"])
    return _pod_requests(asked) if len(asked) <= _MAX_CACHED else _pod_requests.__wrapped__(asked)


def counted_requests(pod: Pod) -> PodRequests:
    """As `pod_requests_of`, for a pod that exists: one with unreadable quantities counts as one pod and no more.

    So does a pod that requests more kinds of resources than any node has: no kubelet runs it, and nothing large is kept.
    """
    try:
        pod_requests, *others = map(pod_requests_of, _as_counted(pod))
    except (TypeError, QuantityError):
        return _ONE_POD
    if others:
        largest = dict(pod_requests.requests)
        for name, amount in [each for other in others for each in other.requests]:
            largest[name] = max(amount, largest.get(name, 0))
        pod_requests = PodRequests(tuple(sorted(largest.items())))
    return pod_requests if is_bounded(pod_requests) else _ONE_POD


@lru_cache(4096)
def _pod_requests(asked: bytes) -> PodRequests:
    containers, first, resources, overhead = orjson.loads(asked)
    spec = {
        "containers": [{"resources": each} for each in containers],
        "initContainers": [{"resources": each, "restartPolicy": policy} for each, policy in first],
        "resources": resources,
        "overhead": overhead,
    }
    return _added_up(spec)


def _added_up(spec: Mapping[str, Any]) -> PodRequests:
    requests = {name: min(amount, _MAX_AMOUNT) for name, amount in total_requests({"spec": spec}).items() if amount > 0}
    requests["pods"] = 1
    return PodRequests(tuple(sorted(requests.items())))


def _as_asked(spec: Mapping[str, Any]) -> bytes:
    """The fields of a pod that `total_requests` reads, as written. Raises TypeError if they are not JSON."""
    return orjson.dumps(
        (
            [each.get("resources") for each in spec.get("containers") or ()],
            [(each.get("resources"), each.get("restartPolicy")) for each in spec.get("initContainers") or ()],
            spec.get("resources"),
            spec.get("overhead"),
        )
    )


def is_bounded(pod_requests: PodRequests) -> bool:
    """Whether requests are small enough to keep. Tenants write the names of resources, and how many there are."""
    return (
        len(pod_requests.requests) <= _MAX_RESOURCES
        and sum([len(name) for name, _ in pod_requests.requests]) <= _MAX_NAMES
    )


def has_extended_resource(pod_requests: PodRequests) -> bool:
    """Whether the pod requests an extended resource, such as GPUs. Peers and history matter only to such pods."""
    return any(["/" in name for name, _ in pod_requests.requests])


def total_requests(pod: Pod) -> Mapping[str, int]:
    """The requests of a whole pod: CPU in thousandths, everything else in whole units (bytes, GPUs).

    The requests of containers and sidecars add up. An init container needs its own requests plus those of the sidecars started
    before it. The pod needs the larger of both, plus its overhead. Pod-level resources replace the sum for the resources that
    they name. Amounts are added exactly and rounded up at the end.
    Source: PodRequests in k8s.io/component-helpers resource/helpers.go. Raises QuantityError.
    """
    spec = pod["spec"]
    containers, init_containers = spec.get("containers") or (), spec.get("initContainers") or ()
    of_containers = [requests_of(container) for container in (*containers, *init_containers)]
    if len(of_containers) + sum(map(len, of_containers)) > _MAX_REQUESTS:
        raise QuantityError("the pod states more than is added up")
    total: dict[str, Number] = {}
    for requests in of_containers[: len(containers)]:
        _add(total, requests)
    peak: dict[str, Number] = {}
    sidecars: dict[str, Number] = {}
    for container, requests in zip(init_containers, of_containers[len(containers) :], strict=True):
        if container.get("restartPolicy") == "Always":
            _add(total, requests)
            _raise(peak, _add(sidecars, requests))
        else:
            _raise(peak, _add(dict(sidecars), requests))
    _raise(total, peak)
    if pod_level := spec.get("resources"):
        _replace(total, pod_level)
    if overhead := spec.get("overhead"):
        _add(total, overhead)
    return {name: amount if type(amount) is int else ceil(amount) for name, amount in total.items()}


def _as_counted(pod: Pod) -> list[Pod]:
    """The pod as it is; during a resize also with what its kubelet has allocated, and with what its containers have. Of each
    resource the largest amount counts. What is asked for does not, if the kubelet says that it cannot give it.

    Source: IsPodResizeInfeasible and AggregateContainerRequests with UseStatusResources, in the same file.
    """
    status, spec = pod.get("status") or {}, pod["spec"]
    resize = [each.get("reason") for each in status.get("conditions") or () if each.get("type") in _RESIZE]
    if not resize:
        return [pod]
    of_containers = (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ()))
    statuses, feasible = {each["name"]: each for each in of_containers}, "Infeasible" not in resize

    def resized(asked: Mapping[str, Any], said: Mapping[str, Any], *, actual: bool) -> dict[str, Any]:
        """Only CPU and memory can be resized."""
        given = ((said.get("resources") or {}).get("requests") if actual else None) or said.get("allocatedResources")
        kept = {name: amount for name, amount in asked.items() if name not in ("cpu", "memory")}
        given = (asked if feasible else {}) if given is None else given
        return {"requests": kept | {name: given[name] for name in ("cpu", "memory") if name in given}}

    found = [pod] if feasible else []
    for actual in (False, True):
        changed: dict[str, Any] = {
            kind: [
                {**each, "resources": resized(requests_of(each), statuses.get(each["name"], {}), actual=actual)}
                for each in spec.get(kind) or ()
            ]
            for kind in ("containers", "initContainers")
        }
        changed["resources"] = resized(requests_of(spec), status, actual=actual) if spec.get("resources") else None
        found.append({**pod, "spec": {**spec, **changed}})
    return found


def _add(total: dict[str, Number], requests: Mapping[str, Any]) -> dict[str, Number]:
    for name, quantity in requests.items():
        total[name] = total.get(name, 0) + (thousandths(quantity) if name == "cpu" else parse_quantity(quantity))
    return total


def _replace(total: dict[str, Number], pod_level: Mapping[str, Any]) -> None:
    """Apply pod-level resources, which exist for CPU, memory and huge pages only.

    A limit without a request counts as the request if no container asks for that resource, and always for huge pages: since 1.37
    the API server sets these requests after admission (defaultPodRequests, PodLevelResourcesFixDefaulting).
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
