"""Containers with whole GPUs get the CPU and memory requests that they lack. Off by default.

A GPU container without requests may run on a busy node, and its GPU waits for data: the rule `cpuPerGpu` warns of it, this
injector adds the requests. Filled in is the lower number of the class for each GPU, and never more than the
GPUs' share of the node that has least per GPU, among the nodes with as many GPUs as the pod asks for:

    GPUs of the pod / GPUs of the node * allocatable * nodeShare, less what the pod requests already

So every node that could take the pod when empty still can, and no GPUs are left over because the CPUs are used up. Where
the share is smaller than the number of the class, that is what the container gets (`filledLess`); where nothing is left of
it, nothing.

Never done: a request or a limit that is there is not changed; a limit without a request is left to the API server, which makes
the request equal (SetDefaults_Pod, pkg/apis/core/v1/defaults.go); no limits are added; a pod with resources of its own
(spec.resources, KEP-2837) is left alone. Nothing is filled in where a node that has room now would have none, and where nobody
can tell: no fresh state, no node with as many GPUs, GPUs of several names in one pod, a pod whose node is fixed, and one that
was decided for before.

What changes besides, and is why this is off: a pod without any request was BestEffort and becomes Burstable. A ResourceQuota of
requests.cpu or requests.memory counts what is filled in (podEvaluator.Constraints, pkg/quota/v1/evaluator/core/pods.go). A
LimitRange of type Pod with `max` sums up requests after us, and may then refuse the pod (plugin/pkg/admission/limitranger).
Kueue counts a Job by its template, without this. And a pod that waits for GPUs may find them free before its share of the CPU
is: then it waits for that too.

Fields: resources.requests of spec.containers and of sidecars. Not for other init containers (they run before, and alone),
for parts of GPUs, and for GPUs by DRA, whose number is in the claim.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

from pydantic import Field

from webhook.errors import QuantityError
from webhook.framework.interface import Context, Injector, Outcome, ProfileView
from webhook.framework.resources_per_gpu import PerGpu, lacking_requests
from webhook.kube.json_patch import Edit
from webhook.kube.pod import DECISION, Pod, annotations_of, containers
from webhook.kube.pod_requests import total_requests
from webhook.kube.quantity import quantity_text

_STEPS = {"cpu": 1, "memory": 2**20}


class CpuPerGpuRequests(Injector):
    """Containers with whole GPUs get the requests of CPU and memory that they lack: for each GPU the lower number of their
    class, but no more than the GPUs' share of the smallest node with as many. Requests and limits that are there are never
    changed, limits never added. Off, for it changes how pods are treated: they are no longer BestEffort; quotas of
    requests.cpu and requests.memory count what is filled in, and so does a LimitRange of type Pod with max. No pod is kept
    from a node that has room for it now; but one that waits for GPUs may find them free before its share of the CPU is, and
    waits for that."""

    not_exported: ClassVar[str] = "needs the state of the cluster"
    sentences: ClassVar[Mapping[str, str]] = {
        "none": "CPU and memory are its own matter: it asks for no whole GPU, or the policy states no share",
        "skipped": "CPU and memory were left as they are: {}",
        "filled": "CPU and memory were filled in by its GPUs: {}",
        "filledLess": "CPU and memory were filled in by its GPUs, less than their share, since no node has more: {}",
    }

    enabled: bool = False
    classes: dict[str, PerGpu] | None = None
    """null: the numbers of the rule cpuPerGpu, below; or others, in the same form."""
    node_share: int = Field(default=80, ge=1, le=100)
    """Percent of its share of a node that a pod gets at most: pods of DaemonSets, and pods that ask for more, need the rest."""

    def completed(self, profile: ProfileView) -> Self:
        if self.classes is not None:
            return self
        return self.model_copy(update={"classes": profile.rules["cpuPerGpu"].classes})

    def inject(self, edit: Edit, context: Context) -> Outcome:
        per = (self.classes or {}).get(context.workload.name)
        lacking = lacking_requests(containers(edit.object), context.gpus) if per and context.gpu_names else []
        if per is None or not lacking:
            return Outcome("none")
        gpus = {r: sum(entry.gpus for entry in lacking if r in entry.resources) for r in _STEPS}
        amounts = self._amounts(edit.object, gpus, per.least, context)
        if isinstance(amounts, str):
            return Outcome("skipped", amounts)
        filled = {
            (*entry.container.path, "resources", "requests", resource): quantity_text(
                resource, amounts[resource] * entry.gpus
            )
            for entry in lacking
            for resource in entry.resources
            if amounts[resource]
        }
        after = Edit(edit.object)
        for path, quantity in filled.items():
            after.set(path, quantity)
        if context.place and not context.place(after.object).nodes and context.place(edit.object).nodes:
            return Outcome("skipped", "no node has as much free now")
        for path, quantity in filled.items():
            edit.set(path, quantity)
        below_least = any(amounts[resource] < per.least[resource] for resource in amounts)
        total = {r: quantity_text(r, amounts[r] * gpus[r]) for r in amounts if amounts[r]}
        return Outcome("filledLess" if below_least else "filled", total)

    def _amounts(
        self, pod: Pod, lacking: Mapping[str, int], least: Mapping[str, int], context: Context
    ) -> Mapping[str, int] | str:
        """What each GPU gets of what is lacking; why it gets nothing. `lacking`: the GPUs that go without, by resource."""
        if reason := _out_of_reach(pod, context):
            return reason
        try:
            requests = total_requests(pod)
        except QuantityError:
            return "a request is not a quantity"
        names = [name for name in requests if requests[name] > 0 and context.gpus.kind(name) == "whole"]
        if len(names) != 1:
            return "GPUs of several names"
        gpus = requests[names[0]]
        offered = context.cluster.least_per_gpu(names[0], gpus)
        if offered is None:
            return "no node has as many GPUs"
        amounts = {}
        for resource, count in lacking.items():
            if count:
                available = offered[resource] * gpus * self.node_share // 100 - requests.get(resource, 0)
                amounts[resource] = min(
                    least[resource], max(available, 0) // count // _STEPS[resource] * _STEPS[resource]
                )
        return amounts if any(amounts.values()) else "the pod requests its share of a node already"


def _out_of_reach(pod: Pod, context: Context) -> str:
    """Why nothing may be filled in, whatever the containers lack; "" where something may."""
    spec = pod["spec"]
    if DECISION in annotations_of(pod):
        return "decided for before"
    if spec.get("resources"):
        return "the pod has resources of its own"
    if context.node_is_fixed(pod):
        return "its node is fixed"
    return "" if context.cluster.fresh else "cluster state is stale"
