"""A container and a pod ask for no more GPUs than the policy allows, and for a number that fills nodes well.

Fields read:   spec.containers[*].resources, spec.initContainers[*].resources
Allowed:       up to `perContainer` GPUs in a container and `perPod` in the pod, counted as the scheduler does: an init
               container uses the GPUs of the containers that start later, a sidecar adds to them
Refused:       more; with `sizes`, any other number in a container: a pod with 3 GPUs on a node of 8 leaves GPUs unused
Not for DRA:   claims count devices in their own way.
"""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import Field

from webhook.errors import QuantityError
from webhook.framework.interface import Context, Finding, Rule
from webhook.kube import cel
from webhook.kube.cel import Check
from webhook.kube.gpus import GpuKind, Gpus
from webhook.kube.pod import Pod
from webhook.kube.pod_requests import total_requests
from webhook.text import plural, quoted

_FEWER = "Ask for fewer, or spread the work over several pods, as a Job with parallelism does"


class GpuLimit(Rule):
    """A container and a pod ask for no more GPUs than this; null: no limit."""

    per_container: int | None = Field(default=16, ge=1)
    """The limit for one container. No server in wide use has more than 16 GPUs."""
    per_pod: int | None = Field(default=16, ge=1)
    """The limit for all containers of a pod together."""
    sizes: tuple[int, ...] = ()
    """The numbers of GPUs that a container may ask for, as [1, 2, 4, 8]: a pod with 3 GPUs leaves GPUs of a node of 8 unused. []:
    any."""
    kinds: tuple[GpuKind, ...] = ("whole",)
    """The kinds of GPU that are counted: whole, slice, share."""

    def check(self, pod: Pod, context: Context) -> Iterable[Finding]:
        too_many, every = False, 0
        for container in context.containers(pod) if context.gpu_names else ():
            for name, count in container.gpu_counts(context.gpus).items():
                if context.gpus.kind(name) not in self.kinds:
                    continue
                every += count
                over = self.per_container is not None and count > self.per_container
                if not over and (not self.sizes or count in self.sizes):
                    continue
                path, seen = context.field_of(container, name), f"{count} in container {quoted(container.name)}"
                if over:
                    too_many = True
                    yield Finding(path, seen, f"at most {self.per_container} in a container", _FEWER, cause="gpus")
                else:
                    sizes = sorted(self.sizes)
                    smaller, larger = [s for s in sizes if s < count], [s for s in sizes if s > count]
                    nearest = _either([*smaller[-1:], *larger[:1]])
                    fix = f"Ask for {nearest}: other sizes leave GPUs on a node that nobody can use"
                    yield Finding(path, seen, f"{_either(sizes)} GPUs", fix)
        if not context.gpu_names or too_many or self.per_pod is None:
            return
        # Without overhead the scheduler's sum is at most `every`, and need not be computed.
        if every > self.per_pod or pod["spec"].get("overhead"):
            yield from self._whole_pod(pod, context, self.per_pod)

    def _whole_pod(self, pod: Pod, context: Context, limit: int) -> Iterable[Finding]:
        try:
            requests = total_requests(pod)
        except QuantityError:  # gpuQuantity or the API server reports it
            return
        total = sum([requests[name] for name in context.gpus.among(requests) if context.gpus.kind(name) in self.kinds])
        if total > limit:
            seen = f"{plural(total, 'GPU')} in the whole pod"
            yield Finding("spec", seen, f"at most {limit} in a pod", _FEWER, cause="gpus")

    def exported(self, gpus: Gpus) -> Iterable[Check]:
        counted = cel.of_kinds("k", gpus, self.kinds)
        count = "quantity(c.resources.limits[k]).asInteger()"
        if self.per_container is not None:
            bad = f"{cel.limits('c')}.exists(k, {counted} && {count} > {self.per_container})"
            yield Check("container", bad, f"at most {self.per_container} GPUs in a container")
        if self.sizes:
            bad = f"{cel.limits('c')}.exists(k, {counted} && {count} > 0 && !({count} in {cel.literal(self.sizes)}))"
            yield Check("container", bad, f"one of {', '.join(map(str, self.sizes))} GPUs in a container")
        if self.per_pod is not None:
            total = f"variables.running.map(c, {cel.limits('c')}.filter(k, {counted}).map(k, {count}).sum()).sum()"
            yield Check("pod", f"{total} > {self.per_pod}", f"at most {self.per_pod} GPUs in a pod")


def _either(numbers: list[int]) -> str:
    *first, last = map(str, numbers)
    return f"{', '.join(first)} or {last}" if first else last
