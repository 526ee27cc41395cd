"""A container and a pod ask for no more GPUs than the policy allows, and for a number that fills nodes well.

Fields read:   spec.containers[*].resources, spec.initContainers[*].resources, spec.overhead; the claims that
               spec.resourceClaims names, and claims and their templates when they are created
Allowed:       up to `perContainer` GPUs in a container and `perPod` in the pod, counted as the scheduler does
Refused:       more; with `sizes`, any other number in a container: 3 GPUs on a node of 8 leave some unused
DRA:           `perContainer` and `sizes` hold for each request of a claim, and its devices count for `perPod`: of alternatives
               (`firstAvailable`) the largest, `allocationMode: All` as all matching devices of the node that has most,
               `adminAccess` not at all. If it is not known what a request is for, more than `perContainer` give a warning. A
               resource that a DeviceClass stands for counts as its devices do
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

from pydantic import Field

from webhook.errors import QuantityError
from webhook.framework.interface import Check, Context, Finding, Gpus, Rule
from webhook.kube import cel
from webhook.kube.asked import AskedPod
from webhook.kube.claim_requests import Alternative, ClaimRequest
from webhook.kube.gpus import GpuKind
from webhook.kube.other_gpus import DEVICE_CLASS, GPU_CLASSES
from webhook.kube.pod import Container, positive_counts, requests_of
from webhook.kube.pod_requests import total_requests
from webhook.text import plural, quoted

_MANY = 1_000_000
"""More GPUs than any limit. Counted up to here, no sum overflows."""
_FEWER = "Ask for fewer, or spread the work over several pods, for example by a Job with parallelism"


class GpuLimit(Rule):
    of_claims: ClassVar[bool] = True
    differs: ClassVar[str] = (
        "does not see claims, nor what DeviceClasses are for; rounds fractions of a DeviceClass up for each container, not for "
        "the whole pod"
    )

    per_container: int | None = Field(default=16, ge=1)
    """The limit for one container; null: none. No server in wide use has more than 16 GPUs."""
    per_pod: int | None = Field(default=16, ge=1)
    """The limit for all containers of a pod together; null: none."""
    sizes: tuple[int, ...] = ()
    """The numbers of GPUs that a container may ask for, for example [1, 2, 4, 8]: a pod with 3 GPUs leaves GPUs of a node of 8
    unused. []: any."""
    kinds: tuple[GpuKind, ...] = ("whole",)
    """The kinds of GPU that are counted: whole, slice, share."""

    def check(self, pod: AskedPod, context: Context) -> Iterable[Finding]:
        claims = [(request, self._claimed(request)) for request in context.claimed if not request.admin]
        claimed = sum([count or 0 for _, count in claims])
        too_many, every = False, claimed
        for request, count in claims:
            for finding in self._of_claim(request, count):
                too_many |= finding.cause != ""
                yield finding
        for container in pod.containers:
            for name, count in self._counts(container, context).items():
                known = self._is_known(name, context)
                every += count if known else 0
                over = self.per_container is not None and count > self.per_container
                if not over and (not self.sizes or count in self.sizes or not known):
                    continue
                path, seen = context.field_of(container, name), f"{count} in container {quoted(container.name)}"
                if over:
                    too_many = True
                    yield Finding(path, seen, f"at most {self.per_container} in a container", _FEWER, cause="gpus")
                else:
                    yield self._other_size(path, seen, count)
        if not every or too_many or self.per_pod is None:
            return
        # Without overhead the scheduler's sum is at most `every`, and need not be computed.
        if every > self.per_pod or pod.spec.get("overhead"):
            yield from self._whole_pod(pod, context, claimed, self.per_pod)

    def _of_claim(self, request: ClaimRequest, count: int | None) -> Iterator[Finding]:
        known = count is not None
        if count is None and (count := self._claimed(request, "")) is None:
            return
        every = any([each.devices is None for each in request.alternatives])
        path, seen = request.path, f"{f'all devices of a node, {count}' if every else count} in {request.words}"
        if self.per_container is not None and count > self.per_container:
            wanted = f"at most {plural(self.per_container, 'device')} in a request"
            yield Finding(path, seen, wanted, _FEWER, not known, "gpus" if known else "")
        elif self.sizes and known and count not in self.sizes:
            yield self._other_size(path, seen, count)

    def _claimed(self, request: ClaimRequest, *kinds: str) -> int | None:
        """How many devices of `kinds` a request may get, by default those that are counted. None if it is for none."""
        counts = [_devices(each) for each in request.alternatives if each.kind in (kinds or self.kinds)]
        return max(counts, default=None)

    def _other_size(self, path: str, seen: str, count: int) -> Finding:
        sizes = sorted(self.sizes)
        smaller, larger = [s for s in sizes if s < count], [s for s in sizes if s > count]
        fix = f"Ask for {_either([*smaller[-1:], *larger[:1]])}: other sizes leave GPUs on a node that nobody can use"
        return Finding(path, seen, f"{_either(sizes)} {'GPU' if sizes == [1] else 'GPUs'}", fix)

    def _counts(self, container: Container, context: Context) -> Mapping[str, int]:
        """The GPUs of `kinds` that a container asks for, and the devices of classes that may be such GPUs."""
        counts = {n: c for n, c in container.gpu_counts(context.gpus).items() if context.gpus.kind(n) in self.kinds}
        requests = requests_of(container.spec)
        others = {n: q for n, q in requests.items() if "/" in n and context.gpus.kind(n) is None}
        return counts | positive_counts(others, lambda name: self._may_be_class(name, context)) if others else counts

    def _may_be_class(self, name: str, context: Context) -> bool:
        """Whether a DeviceClass of `kinds`, as far as that is known, serves a resource that is none of the policy's GPUs."""
        kind = context.cluster.class_kind(name)
        return kind in self.kinds if kind else name.startswith(DEVICE_CLASS) and "whole" in self.kinds

    def _is_known(self, name: str, context: Context) -> bool:
        """Whether a resource is for GPUs of `kinds`."""
        kind = context.gpus.kind(name) or context.cluster.class_kind(name) or ("whole" if name in GPU_CLASSES else "")
        return kind in self.kinds

    def _whole_pod(self, pod: AskedPod, context: Context, claimed: int, limit: int) -> Iterable[Finding]:
        try:
            requests = total_requests(pod.json)
        except QuantityError:  # gpuQuantity or the API server reports it
            return
        total = claimed + sum([n for name, n in requests.items() if self._is_known(name, context)])
        if total > limit:
            seen = f"{plural(total, 'GPU')} in the whole {'pod' if pod.spec.get('containers') else 'claim'}"
            yield Finding("spec", seen, f"at most {limit} in a pod", _FEWER, cause="gpus")

    def exported(self, gpus: Gpus) -> Iterable[Check]:
        classes = "whole" in self.kinds
        counted = cel.of_kinds("k", gpus, self.kinds)
        known = cel.any_of([counted, *([f"k in {cel.literal(GPU_CLASSES)}"] if classes else [])])
        asks, count = cel.requests("c"), _count("c")
        if self.per_container is not None:
            every = cel.any_of([counted, *([f"k.startsWith({cel.literal(DEVICE_CLASS)})"] if classes else [])])
            bad = f"{asks}.exists(k, {every} && {count} > {self.per_container})"
            yield Check("container", bad, f"at most {plural(self.per_container, 'GPU')} in a container")
        if self.sizes:
            bad = f"{asks}.exists(k, {known} && {count} > 0 && !({count} in {cel.literal(self.sizes)}))"
            yield Check("container", bad, f"one of {', '.join(map(str, self.sizes))} GPUs in a container")
        if self.per_pod is not None:
            yield Check("pod", _total(known, self.per_pod), f"at most {plural(self.per_pod, 'GPU')} in a pod")


def _devices(alternative: Alternative) -> int:
    return min(alternative.devices or alternative.most or 1, _MANY)


def _count(container: str) -> str:
    """How many of resource `k` a container requests, rounded up and at most _MANY. The API server adds requests to limits."""
    number = f"quantity({container}.resources.requests[k])"
    whole = f"({number}.isInteger() ? {number}.asInteger() : 1 + int({number}.asApproximateFloat()))"
    return f'(!(k in {cel.requests(container)}) ? 0 : {number}.isGreaterThan(quantity("{_MANY}")) ? {_MANY} : {whole})'


def _total(known: str, limit: int) -> str:
    """Whether the pod asks for more GPUs than `limit`, counted as in `total_requests`. First the sum without any order.

    Resource `k` is looked at in the first container that has it. Then the containers that run together are added up, and for
    each init container itself and the sidecars before it.
    """
    init = "dyn(object.spec).?initContainers.orValue([])"
    sidecar = 'd.?restartPolicy.orValue("") == "Always"'
    overhead = "dyn(object.spec).?overhead.orValue({})"
    plain = f"variables.all.map(c, {cel.requests('c')}.filter(k, {known}).map(k, {_count('c')}).sum()).sum()"
    running = f"variables.running.map(d, {_count('d')}).sum()"
    before = f"{init}.transformList(j, d, j < n && {sidecar}, {_count('d')}).sum()"
    waiting = f"{init}.transformList(n, e, {_count('e')} + {before})"
    first = f"!variables.all.exists(j, d, j < i && k in {cel.requests('d')})"
    by_name = f"{cel.requests('c')}.filter(k, {known} && {first}).map(k, ({waiting} + [{running}]).max()).sum()"
    extra = f"{overhead}.filter(k, {known}).map(k, int(quantity({overhead}[k]).asApproximateFloat())).sum()"
    total = f"variables.all.transformList(i, c, {by_name}).sum()"
    return f"{plain} > 0 && {plain} + {extra} > {limit} && {total} + {extra} > {limit}"


def _either(numbers: list[int]) -> str:
    *first, last = map(str, numbers)
    return f"{', '.join(first)} or {last}" if first else last
