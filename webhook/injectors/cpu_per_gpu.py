"""Adds missing CPU and memory requests to containers with whole GPUs. Off by default.

A GPU container without requests may run on a busy node, where its GPU waits for data. The rule `cpuPerGpu` warns about it;
this injector adds the requests. The amount is the minimum of the class for each GPU. It is never more than the pod's share of
the node that has least per GPU, among the nodes with as many GPUs as the pod asks for:

    GPUs of the pod / GPUs of the node * allocatable * nodeShare - what the pod requests already

So every node that could take the pod when empty still can, and no GPUs are left unused because the CPUs are used up. If the
share is smaller than the minimum of the class, the container gets the share (`filledLess`), or nothing if nothing is left.

What it never does: it does not change a request or a limit, and adds no limits. It adds no request beside a limit, since the
API server does that (SetDefaults_Pod, pkg/apis/core/v1/defaults.go). It does not change a pod with pod-level resources
(spec.resources, KEP-2837). It adds nothing if the pod would then fit no node although one has room now. It adds nothing if the
effect is not known: without fresh state, without a node with as many GPUs, for a pod with GPUs of several names, for a pod
whose node is fixed, and for a pod with an earlier decision. Nor to pods of schedulers that hold room for a gang by its template:
YuniKorn cancels a placeholder that is smaller than the pod (yunikorn-core pkg/scheduler/objects/application.go).

It is off because it has other effects. A pod without any request changes from BestEffort to Burstable. A ResourceQuota of
requests.cpu or requests.memory counts the added requests (podEvaluator.Constraints, pkg/quota/v1/evaluator/core/pods.go). A
LimitRange of type Pod with `max` sums up requests after us and may refuse the pod (plugin/pkg/admission/limitranger). Kueue
counts a Job by its template, without the added requests. A pod that waits for GPUs also waits for its share of the CPU.

Fields: resources.requests of spec.containers and of sidecars. Not for other init containers, which run earlier and alone, not
for parts of GPUs, and not for GPUs by DRA, whose number is in the claim.

Read by:
    kube-scheduler: counts the requests
    cluster-autoscaler: counts the requests
    Karpenter: chooses machines by requests
    Kueue, KAI, Volcano, YuniKorn: Kueue reserves only what the template asks for; pods of the others get none
    descheduler: `NodeUtilization` plugins add up requests
    quotas and others: ResourceQuota counts the requests; LimitRange refuses those above its maximum
"""

from collections.abc import Iterator, Mapping
from typing import ClassVar, Self

from pydantic import Field

from webhook.errors import QuantityError
from webhook.framework.interface import Context, Edit, Injector, Outcome, ProfileView
from webhook.framework.resources_per_gpu import PerGpu
from webhook.kube.asked import AskedPod
from webhook.kube.json_patch import Path
from webhook.kube.pod import DECISION, Container, requests_of
from webhook.kube.quantity import quantity_text
from webhook.kube.schedulers import queueing

_STEPS = {"cpu": 1, "memory": 2**20}
"""Amounts are rounded down to a multiple of this: thousandths of a CPU, bytes."""


class CpuPerGpuRequests(Injector):
    """Adds missing CPU and memory requests to containers with whole GPUs: the minimum of their class for each GPU, but no more
    than the pod's share of the smallest node with as many GPUs. It never changes a request or a limit, and never adds a
    limit. It is off because it has other effects: pods are no longer BestEffort, and quotas of requests.cpu and
    requests.memory count the added requests, as does a LimitRange of type Pod with max. A pod that fits on some node now still
    does, but a pod that waits for GPUs also waits for its share of the CPU."""

    not_exported: ClassVar[str] = "needs the state of the cluster"
    sentences: ClassVar[Mapping[str, str]] = {
        "none": "CPU and memory were left as they are: no container with whole GPUs lacks them, or its class has no numbers",
        "skipped": "CPU and memory were left as they are: {}",
        "filled": "missing CPU and memory requests were added for its GPUs: {}",
        "filledLess": "missing CPU and memory requests were added for its GPUs, less than its class needs: its share of a node "
        "is smaller: {}",
    }

    enabled: bool = False
    classes: dict[str, PerGpu] | None = None
    """Resources per GPU, as in the rule cpuPerGpu below. null: the numbers of that rule."""
    node_share: int = Field(default=80, ge=1, le=100)
    """The largest part of its share of a node that a pod gets, in percent. The rest is for pods of DaemonSets and for pods that
    ask for more."""

    def completed(self, profile: ProfileView) -> Self:
        if self.classes is not None:
            return self
        return self.model_copy(update={"classes": profile.rules["cpuPerGpu"].classes})

    def inject(self, edit: Edit, context: Context) -> Outcome:
        per = (self.classes or {}).get(context.workload.name)
        missing = [*_missing(context.pod)] if per and context.pod.gpu_names else []
        if per is None or not missing:
            return Outcome("none")
        gpus = {r: sum(count for _, count, lacking in missing if r in lacking) for r in _STEPS}
        amounts = self._amounts(gpus, per.least, context)
        if isinstance(amounts, str):
            return Outcome("skipped", amounts)
        filled = {
            (*container.path, "resources", "requests", resource): quantity_text(resource, amounts[resource] * count)
            for container, count, lacking in missing
            for resource in lacking
            if amounts[resource]
        }
        if not _has_room(edit, filled, context):
            return Outcome("skipped", "no node has as much free now")
        for path, quantity in filled.items():
            edit.set(path, quantity)
        below_least = any(amounts[resource] < per.least[resource] for resource in amounts)
        total = {r: quantity_text(r, amounts[r] * gpus[r]) for r in amounts if amounts[r]}
        return Outcome("filledLess" if below_least else "filled", total)

    def _amounts(
        self, missing: Mapping[str, int], least: Mapping[str, int], context: Context
    ) -> Mapping[str, int] | str:
        """The amount to add for each GPU, by resource; or the reason why nothing is added.

        `missing`: for each resource, the number of GPUs whose containers do not request it.
        """
        if reason := _why_not(context):
            return reason
        try:
            requests = dict(context.pod.pod_requests.requests)
        except QuantityError:
            return "a request is not a quantity"
        names = [name for name in requests if context.gpus.kind(name) == "whole"]
        if len(names) != 1:
            return "GPUs of several names"
        gpus = requests[names[0]]
        offered = context.cluster.least_per_gpu(names[0], gpus)
        if offered is None:
            return "no node has as many GPUs"
        amounts = {}
        for resource, count in missing.items():
            if count:
                available = offered[resource] * gpus * self.node_share // 100 - requests.get(resource, 0)
                amounts[resource] = min(
                    least[resource], max(available, 0) // count // _STEPS[resource] * _STEPS[resource]
                )
        return amounts if any(amounts.values()) else "the pod requests its share of a node already"


def _missing(pod: AskedPod) -> Iterator[tuple[Container, int, list[str]]]:
    """Containers with whole GPUs, the number of these, and the requests that they lack: `cpu`, `memory` or both."""
    for container, count in pod.whole_gpus:
        requests = requests_of(container.spec)
        if lacking := [name for name in _STEPS if name not in requests]:
            yield container, count, lacking


def _has_room(edit: Edit, filled: Mapping[Path, str], context: Context) -> bool:
    """Whether a node has room for the pod with these requests too, if one has room without them."""
    after, places = Edit(edit.object), context.nodes
    for path, quantity in filled.items():
        after.set(path, quantity)

    def fits(version: Edit) -> bool:
        return places is None or bool(places.place(AskedPod(version.object, context.gpus)).nodes)

    return fits(after) or not fits(edit)


def _why_not(context: Context) -> str:
    """Why requests are never added to this pod, whatever its containers lack; "" if they may be."""
    pod = context.pod
    if DECISION in pod.annotations:
        return "decided for before"
    if pod.spec.get("resources"):
        return "the pod has resources of its own"
    if pod.node_is_fixed:
        return "its node is fixed"
    if queueing(pod.json):
        return "its scheduler plans by what its template asks for"
    return "" if context.cluster.fresh else "cluster state is stale"
