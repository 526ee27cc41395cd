"""Adds up the resource requests of a pod in the same way as the scheduler."""

from collections.abc import Mapping
from math import ceil
from typing import Any, Final

from webhook.errors import QuantityError
from webhook.kube.pod import Pod, requests_of
from webhook.kube.quantity import Number, parse_quantity, thousandths

_MAX_REQUESTS: Final = 4096
"""Maximum number of containers plus the resource names that they request, in a whole pod. Pods that were stored without this
webhook are added up too, so nothing else bounds them."""


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


def as_given(pod: Pod) -> Pod:
    """The pod as the scheduler counts it on its node: without what a resize asks for, if the kubelet says that it cannot give it.

    Source: IsPodResizeInfeasible and PodRequests with UseStatusResources, in the same file.
    """
    status, spec = pod.get("status") or {}, pod["spec"]
    conditions = [(each.get("type"), each.get("reason")) for each in status.get("conditions") or ()]
    if ("PodResizePending", "Infeasible") not in conditions:
        return pod
    of_containers = (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ()))
    given = {each["name"]: each.get("allocatedResources") or {} for each in of_containers}
    changed = {
        kind: [
            {**container, "resources": {"requests": _resized(requests_of(container), given.get(container["name"], {}))}}
            for container in spec.get(kind) or ()
        ]
        for kind in ("containers", "initContainers")
    }
    whole = {"requests": status.get("allocatedResources") or {}} if spec.get("resources") else None
    return {**pod, "spec": {**spec, **changed, "resources": whole}}


def _resized(requests: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Only CPU and memory can be resized."""
    kept = {name: amount for name, amount in requests.items() if name not in ("cpu", "memory")}
    return kept | {name: given[name] for name in ("cpu", "memory") if name in given}


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
