"""Makes GPU requests equal to GPU limits, in containers, init containers and sidecars.

Kubernetes wants the request of an extended resource to equal its limit. For a request without a limit the API server
answers «Limit must be set for non overcommitable resources». Only GPU resources are changed. If request and limit are both
there and differ, nobody can know which one was meant: both stay, and the rule gpuQuantity refuses the pod.

Fields: spec.containers[*].resources, spec.initContainers[*].resources. Source: ValidateResourceRequirements,
pkg/apis/core/validation/validation.go.

Read by:
    kube-scheduler: counts the request
    cluster-autoscaler: counts the request
    Karpenter: chooses machines by requests
    Kueue, KAI, Volcano, YuniKorn: Kueue counts templates, which we do not change; the others count pods
    descheduler: `NodeUtilization` plugins add up requests
    quotas and others: ResourceQuota counts `requests.nvidia.com/gpu`
"""

from collections.abc import Iterable, Mapping
from typing import ClassVar

from webhook.framework.interface import Context, Edit, Gpus, Injector, Outcome
from webhook.kube import cel


class GpuResources(Injector):
    sentences: ClassVar[Mapping[str, str]] = {
        "filled": "GPU requests were filled in from limits in {place}",
        "limitsFilled": "GPU limits were filled in from requests, or requests from limits, in {place}",
        "equal": "GPU requests equal limits already",
    }

    def inject(self, edit: Edit, context: Context) -> Outcome:
        filled, limits_filled = 0, False
        for container in context.pod.containers:
            resources = container.spec.get("resources")
            if not resources or container.list_name == "ephemeralContainers":
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
                    filled, limits_filled = filled + 1, True
        if limits_filled:
            return Outcome("limitsFilled", filled)
        return Outcome("filled", filled) if filled else Outcome("equal")

    def exported(self, gpus: Gpus) -> Iterable[str]:
        """Only limits are written. The API server adds the requests that are missing beside them."""
        for kind in cel.LISTS:
            missing = f"{cel.requests('c')}.filter(k, {cel.is_gpu('k', gpus)} && !(k in {cel.limits('c')}))"
            path = f'"/spec/{kind}/" + string(i) + "/resources/limits"'
            add_limits = f'JSONPatch{{op: "add", path: {path}, value: {{}}}}'
            add_limit = (
                f'JSONPatch{{op: "add", path: {path} + "/" + jsonpatch.escapeKey(k), value: c.resources.requests[k]}}'
            )
            patch = f"(has(c.resources.limits) ? [] : [{add_limits}]) + {missing}.map(k, {add_limit})"
            yield cel.for_each(kind, f"{missing}.size() > 0", patch)
