"""One container asks for GPUs of one vendor and of one kind.

A container has one GPU runtime, so no node can give it GPUs of two vendors. Of whole GPUs and parts (MIG slices, shares) CUDA
sees only one kind.

Fields read:   spec.containers[*].resources, spec.initContainers[*].resources, and the claims that these name
Refused:       two vendors; whole GPUs beside parts
DRA:           the drivers of the classes of claims say whose GPUs they are. Whole GPUs and parts by claims may be together
"""

from collections.abc import Iterable, Mapping
from typing import ClassVar

from webhook.framework.interface import Check, Context, Finding, Gpus, Rule
from webhook.kube import cel
from webhook.kube.asked import AskedPod
from webhook.kube.claim_requests import ClaimRequest
from webhook.kube.gpus import vendor
from webhook.kube.pod import Container
from webhook.text import bare, listed, quoted
from webhook.vendors.catalogue import GPU


class GpuMixing(Rule):
    differs: ClassVar[str] = "does not see claims"

    def check(self, pod: AskedPod, context: Context) -> Iterable[Finding]:
        kind = context.gpus.kind
        if len(pod.gpu_names) + len(context.claimed) < 2:
            return
        by_entry: dict[str, list[ClaimRequest]] = {}
        for request in context.claimed:
            by_entry.setdefault(request.entry, []).append(request)
        for container in pod.containers:
            counts, claimed = container.gpu_counts(context.gpus), _claimed(container, by_entry)
            if len(counts) + len(claimed) < 2:
                continue
            path = f"{container.field}.resources.limits"
            where = f" in container {quoted(container.name)}"
            names = listed([*map(bare, counts), *claimed])
            if len({*map(vendor, counts), *claimed.values()}) > 1:
                fix = f"Remove all from the container but those that its image is built for, for example {GPU} for CUDA"
                yield Finding(path, names + where, "GPUs of one vendor", fix)
            elif len({kind(name) == "whole" for name in counts}) > 1:
                yield Finding(
                    path=path,
                    seen=names + where,
                    wanted="either whole GPUs or parts of GPUs",
                    fix="Keep one of them: CUDA does not use whole GPUs and parts of GPUs together",
                )

    def exported(self, gpus: Gpus) -> Iterable[Check]:
        mine = cel.counts("c", gpus)
        vendors = f'{mine}.exists(a, {mine}.exists(b, a.split("/")[0] != b.split("/")[0]))'
        whole = cel.of_kinds("k", gpus, ("whole",))
        kinds = cel.all_of([f"{mine}.exists(k, {whole})", f"{mine}.exists(k, !{whole})"])
        yield Check("container", vendors, "GPUs of one vendor")
        yield Check("container", kinds, "either whole GPUs or parts of GPUs")


def _claimed(container: Container, requests: Mapping[str, list[ClaimRequest]]) -> dict[str, str]:
    """The vendors of the GPUs that a container gets by claims, by what a message calls each. `requests`: by the claim's name in
    the pod."""
    named = (container.spec.get("resources") or {}).get("claims") or () if requests else ()
    found = {}
    for use in named:
        for request in requests.get(use.get("name"), ()):
            if request.vendor and use.get("request") in (None, "", request.name):
                found[f"GPUs of {request.vendor} by {request.claim}"] = request.vendor
    return found
