"""A GPU quantity is a whole number, not negative, and the same in requests and limits.

The API server refuses the rest too, but reports one number at a time, and writes "500m" for 0.5.

Fields read:   spec.containers[*].resources, spec.initContainers[*].resources, spec.resources
Refused:       fractions (but not "2000m", which is 2); negative numbers; text that is no quantity; a request without a limit,
               or that differs from it; GPUs in pod-level resources
Not for DRA:   claims count devices in their own way

Source: ValidateResourceRequirements and validatePodResources, pkg/apis/core/validation/validation.go.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from webhook.errors import QuantityError
from webhook.framework.interface import Context, Finding, Rule
from webhook.kube.asked import AskedPod
from webhook.kube.gpus import vendor
from webhook.kube.pod import Container
from webhook.kube.quantity import Number, parse_quantity
from webhook.text import bare, listed, quoted


class GpuQuantity(Rule):
    not_exported: ClassVar[str] = "the API server refuses the same by itself"

    early: ClassVar[bool] = True

    def check(self, pod: AskedPod, context: Context) -> Iterable[Finding]:
        for container in pod.containers if context.pod.gpu_names else ():  # injectors add no other name
            resources = container.spec.get("resources") or {}
            limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
            for name in context.gpus.among(limits):
                if not _is_right(limits[name]):
                    yield _number(limits[name], context.field_of(container, name), container, name, context)
            for name in context.gpus.among(requests):
                if requests[name] != limits.get(name):
                    yield from _request(limits, requests[name], container, name, context)
        of_pod = pod.spec.get("resources") or {}
        for part in ("limits", "requests") if of_pod else ():
            for name in context.gpus.among(of_pod.get(part) or ()):
                path, seen = f"spec.resources.{part}[{bare(name)}]", "a GPU among the resources of the whole pod"
                fix = "Move it to the container that uses the GPU"
                yield Finding(path, seen, "GPUs in the resources of a container", fix)


def _request(
    limits: Mapping[str, Any], request: Any, container: Container, name: str, context: Context
) -> Iterator[Finding]:
    """The violation of a request that is not written like its limit, if it is one."""
    limit, where = limits.get(name), f" in container {quoted(container.name)}"
    path = f"{container.field}.resources.requests[{bare(name)}]"
    if not _is_right(request):
        yield _number(request, path, container, name, context)
    elif limit is None:
        seen = f"a request of {quoted(request)} without a limit{where}"
        fix = f"Write it under limits; {bare(name)} needs no request"
        yield Finding(path, seen, "the same number as limit: GPUs cannot be overcommitted", fix)
    elif _is_right(limit) and _value(limit) != _value(request):
        seen = f"a request of {quoted(request)} beside a limit of {quoted(limit)}{where}"
        fix = f"Keep only limits.{bare(name)}, with the number of GPUs the container needs"
        yield Finding(path, seen, "the same number in both", fix)


def _value(quantity: Any) -> Number | None:
    """The number that a quantity stands for; None if it is no quantity."""
    try:
        return parse_quantity(quantity)
    except QuantityError:
        return None


def _is_right(quantity: Any) -> bool:
    """Whether the quantity is a whole number that is not negative."""
    value = _value(quantity)
    return isinstance(value, int) and value >= 0


def _number(quantity: Any, path: str, container: Container, name: str, context: Context) -> Finding:
    """The violation of a quantity that is no valid number of GPUs."""
    where, wanted = f" in container {quoted(container.name)}", "a whole number of GPUs"
    seen, value = f"{quoted(quantity)}{where}", _value(quantity)
    if value is None:
        return Finding(path, seen, wanted, "Write a number without a unit, for example 1")
    if value < 0:
        fix = "Ask for the number of GPUs that the container needs, or remove the line"
        return Finding(path, seen, f"{wanted}, not below zero", fix)
    plain, below = f"{float(value):g}", int(value)
    if plain != str(quantity):
        seen = f"{quoted(quantity)}, the API server's spelling of {plain},{where}"
    ask = f"Ask for {below} or {below + 1}" if below else "Ask for 1"
    return Finding(path, seen, wanted, f"{ask}, {_parts(name, context)}")


def _parts(name: str, context: Context) -> str:
    """Words about the parts of GPUs that this cluster offers, those of the same vendor first."""
    resources = context.cluster.resources()
    offered = [r for r in resources if context.gpus.kind(r) in ("slice", "share") and resources[r] > 0]
    if offered:
        offered.sort(key=lambda resource: (vendor(resource) != vendor(name), resource))
        return f"or for a part of a GPU that this cluster offers: {listed(map(bare, offered), where='kubectl describe nodes')}"
    if context.cluster.fresh:
        return "since this cluster offers no parts of GPUs: no MIG profiles and no shared GPUs"
    return "or for a MIG profile or a shared GPU if the cluster offers them"
