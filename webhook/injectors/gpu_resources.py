"""GPU requests equal GPU limits, in containers, init containers and sidecars.

Kubernetes allows an extended resource only where both are there and equal: with a request alone the API server answers
«Limit must be set for non overcommitable resources». Only GPU keys are touched: CPU and memory are the user's. Where both
are there and differ nobody can know which one was meant: the pod is refused here, since the API server would refuse it
before our validating hook is asked, with a message that names only one of the two.

Fields: spec.containers[*].resources, spec.initContainers[*].resources. Source: ValidateResourceRequirements,
pkg/apis/core/validation/validation.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from webhook.errors import QuantityError
from webhook.interface import Context, Finding, Injector, Outcome, Refusal
from webhook.patch import Edit
from webhook.pod import Container, containers
from webhook.quantity import parse
from webhook.text import bare, quoted


class GpuResources(Injector):
    """Requests and limits of GPU resources are made equal."""

    def inject(self, edit: Edit, context: Context) -> Outcome:
        conflicts: list[Finding] = []
        filled = 0
        for container in containers(edit.object):
            resources = container.spec.get("resources")
            if not resources or container.kind == "ephemeralContainers":
                continue
            limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
            if limits == requests:
                continue
            for name in context.gpus.among({**limits, **requests}):
                if name not in requests:
                    edit.set((*container.path, "resources", "requests", name), limits[name])
                    filled += 1
                elif name not in limits:
                    edit.set((*container.path, "resources", "limits", name), requests[name])
                    filled += 1
                elif limits[name] != requests[name] and not _same(limits[name], requests[name]):
                    conflicts.extend(_conflict(container, name, requests[name], limits[name]))
        if conflicts:
            raise Refusal(sorted(conflicts))
        return Outcome("filled", filled) if filled else Outcome("equal")


def _same(one: Any, other: Any) -> bool:
    try:
        return parse(one) == parse(other)
    except QuantityError:
        return True  # not a matter of requests and limits: the rule for quantities says what is wrong


def _conflict(container: Container, name: str, request: Any, limit: Any) -> Iterator[Finding]:
    resource = bare(name)
    yield Finding(
        path=f"{container.field}.resources",
        seen=f"requests {resource}: {quoted(request)} but limits {resource}: {quoted(limit)}",
        wanted="the same number in both",
        fix=f"Keep only limits.{resource} with the number of GPUs that container {quoted(container.name)} needs",
    )
