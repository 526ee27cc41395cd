"""A GPU quantity is a whole number, above zero or zero, the same as request and as limit.

GPUs are extended resources: the API server takes only whole numbers of them, and only where the request equals the
limit. It says so with a message about one number at a time, and it shows "500m" where the user wrote 0.5.

Fields read:   spec.containers[*].resources, spec.initContainers[*].resources, spec.resources
Allowed:       whole numbers ("2", "2000m"), in limits, or in limits and requests alike
Refused:       fractions, negative numbers, what is no quantity, a request that differs from its limit or has none,
               GPUs among the resources of the whole pod
Not for DRA:   claims count devices in their own way.

The API server checks the same between the two hooks, so at a pod this rule only speaks if it is asked in the mutating
one. Source: ValidateResourceRequirements and validatePodResources, pkg/apis/core/validation/validation.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from webhook.errors import QuantityError
from webhook.framework.interface import Context, Finding, Rule
from webhook.kube.gpus import vendor
from webhook.kube.pod import Pod
from webhook.kube.quantity import Number, parse_quantity
from webhook.text import bare, listed, quoted


class GpuQuantity(Rule):
    """A GPU quantity is a whole number, not negative, and the same as request and as limit. The API server refuses another in
    any case; this says what to write, and what else is wrong."""

    not_exported: ClassVar[str] = "the API server refuses the same by itself"

    early: ClassVar[bool] = True

    def check(self, pod: Pod, context: Context) -> Iterable[Finding]:
        for container in context.containers(pod) if context.gpu_names else ():
            resources = container.spec.get("resources")
            if resources and not _is_plain(resources, context):
                yield from _resources(resources, container.field, f" in container {quoted(container.name)}", context)
        for part in ("limits", "requests"):
            for name in context.gpus.among((pod["spec"].get("resources") or {}).get(part) or ()):
                yield Finding(
                    path=f"spec.resources.{part}[{bare(name)}]",
                    seen="a GPU among the resources of the whole pod",
                    wanted="GPUs in the resources of a container",
                    fix="Move it to the container that uses the GPU",
                )


def _is_plain(resources: dict[str, Any], context: Context) -> bool:
    """Whether all is as the API server writes what is right: digits, and the same in requests and limits. The fast way."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name in context.gpu_names:
        limit = limits.get(name)
        if limit != requests.get(name) or not (
            limit is None or (isinstance(limit, str) and limit.isascii() and limit.isdigit())
        ):
            return False
    return True


def _resources(resources: dict[str, Any], field: str, where: str, context: Context) -> Iterator[Finding]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    limited: dict[str, Number | None] = {}
    for name in context.gpus.among(limits):
        limited[name], finding = _number(limits[name], f"{field}.resources.limits[{bare(name)}]", where, name, context)
        if finding:
            yield finding
    for name in context.gpus.among(requests):
        path = f"{field}.resources.requests[{bare(name)}]"
        request, limit = requests[name], limits.get(name)
        if name not in limited:
            number, finding = _number(request, path, where, name, context)
            if finding is None:
                yield Finding(
                    path=path,
                    seen=f"a request of {quoted(request)} without a limit{where}",
                    wanted="the same number as limit: GPUs cannot be overcommitted",
                    fix=f"Write it under limits; {bare(name)} needs no request",
                )
            else:
                yield finding
        elif request != limit:
            number, finding = _number(request, path, where, name, context)
            if finding:
                yield finding
            elif limited[name] is not None and number != limited[name]:
                yield Finding(
                    path=path,
                    seen=f"a request of {quoted(request)} beside a limit of {quoted(limit)}{where}",
                    wanted="the same number in both",
                    fix=f"Keep only limits.{bare(name)}, with the number of GPUs the container needs",
                )


def _number(quantity: Any, path: str, where: str, name: str, context: Context) -> tuple[Number | None, Finding | None]:
    """The value of a good quantity, or what is wrong with it."""
    try:
        value = parse_quantity(quantity)
    except QuantityError:
        return None, Finding(
            path, f"{quoted(quantity)}{where}", "a whole number of GPUs", "Write a number without a unit, as 1"
        )
    if value < 0:
        fix = "Ask for the number of GPUs that the container needs, or remove the line"
        return None, Finding(path, f"{quoted(quantity)}{where}", "a whole number of GPUs, not below zero", fix)
    if not isinstance(value, int):
        plain = f"{float(value):g}"
        spelt = "" if plain == str(quantity) else f", the API server's spelling of {plain},"
        below = int(value)
        ask = f"Ask for {below} or {below + 1}" if below else "Ask for 1"
        fix = f"{ask}, {_parts(name, context)}"
        return None, Finding(path, f"{quoted(quantity)}{spelt}{where}", "a whole number of GPUs", fix)
    return value, None


def _parts(name: str, context: Context) -> str:
    """The parts of GPUs that this cluster offers, those of the same vendor first."""
    resources = context.cluster.resources()
    offered = [r for r in resources if context.gpus.kind(r) in ("slice", "share") and resources[r] > 0]
    if offered:
        offered.sort(key=lambda resource: (vendor(resource) != vendor(name), resource))
        return f"or for a part of a GPU that this cluster offers: {listed(map(bare, offered))}"
    if context.cluster.fresh:
        return "since this cluster offers no parts of GPUs: no MIG profiles and no shared GPUs"
    return "or for a MIG profile or a shared GPU if the cluster offers them"
