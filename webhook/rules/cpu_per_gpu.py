"""A container with GPUs requests enough CPU and memory for them.

Otherwise it may come to a node whose CPUs are in use, and its GPU waits for data. The injector of the same name, off by
default, can add the missing requests.

Fields read:   requests of CPU and memory of spec.containers[*] and sidecars with whole GPUs; spec.resources
Allowed:       at least the minimum of the class in `classes`, per GPU; where nodes have less per GPU, the pod's share of the
               node that has least (`nodeShare`)
Warned about:  less, or none
Not for:       pods of a class that `classes` does not name; parts of GPUs; DRA, where the number of GPUs is in the claim
"""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self

from pydantic import Field

from webhook.errors import QuantityError
from webhook.framework.interface import Action, Context, Finding, ProfileView, Rule
from webhook.framework.resources_per_gpu import CLASSES, PerGpu
from webhook.kube.asked import AskedPod
from webhook.kube.pod import Container, requests_of
from webhook.kube.quantity import milli, quantity_text, whole
from webhook.text import amount_number, amount_words, plural, quoted

_STEPS = {"cpu": 100, "memory": 2**29}
"""Amounts for each GPU are rounded down to a multiple of this: thousandths of a CPU, bytes. They can then be written exactly."""


class CpuPerGpu(Rule):
    of_whole_pods: ClassVar[bool] = True
    not_exported: ClassVar[str] = "compares quantities by class of workload"

    action: Action = "warn"
    classes: dict[str, PerGpu] = CLASSES
    """By class of workload: [minimum, usual maximum] for each GPU. Pods of other classes are not checked."""
    node_share: int | None = Field(default=None, ge=1, le=100)
    """The largest part of its share of a node that a pod needs to request, in percent. null: `nodeShare` of the injector
    cpuPerGpu."""

    def completed(self, profile: ProfileView) -> Self:
        if self.node_share is not None:
            return self
        return self.model_copy(update={"node_share": profile.injectors["cpuPerGpu"].node_share})

    def check(self, pod: AskedPod, context: Context) -> Iterable[Finding]:
        workload = context.workload.name
        per = self.classes.get(workload)
        if per is None or not pod.gpu_names:
            return
        of_pod = requests_of(pod.spec) if pod.spec.get("resources") else {}
        asked = [(each, count, {**of_pod, **requests_of(each.spec)}) for each, count in pod.whole_gpus]
        if not any([self._finding(*each, per.least, "") for each in asked]):  # most pods: nodes do not matter
            return
        share = self._share(pod, context)
        least = {name: min(amount, share[name]) if share else amount for name, amount in per.least.items()}
        wanted = f"{' to '.join(per.cpu)} CPUs and {' to '.join(per.memory)} per GPU for {workload}"
        if least != per.least:
            cpu, memory = amount_words("cpu", least["cpu"]), amount_number("memory", least["memory"])
            wanted = f"{cpu} and {memory} per GPU, which every node with as many GPUs can give"
        for each in asked:
            if finding := self._finding(*each, least, wanted):
                yield finding

    def _share(self, pod: AskedPod, context: Context) -> Mapping[str, int] | None:
        """For each GPU, what a container with GPUs can request on every node with as many GPUs as the pod asks for: CPU in
        thousandths, bytes of memory. None if no node has as many now, or that cannot be told."""
        try:
            total = dict(pod.pod_requests.requests)
            of_having = [requests_of(container.spec) for container, _ in pod.whole_gpus]
            own = {"cpu": sum([milli(each.get("cpu", 0)) for each in of_having])}
            own["memory"] = sum([whole(each.get("memory", 0)) for each in of_having])
        except QuantityError:
            return None
        names = [name for name in total if total[name] > 0 and context.gpus.kind(name) == "whole"]
        if len(names) != 1 or not context.cluster.fresh or self.node_share is None:
            return None
        gpus = total[names[0]]
        if (offered := context.cluster.least_per_gpu(names[0], gpus)) is None:
            return None
        others = {name: max(total.get(name, 0) - own[name], 0) for name in _STEPS}
        return {
            name: max(offered[name] * gpus * self.node_share // 100 - others[name], 0) // gpus // step * step
            for name, step in _STEPS.items()
        }

    def _finding(
        self, container: Container, gpus: int, requests: Mapping[str, Any], least: Mapping[str, int], wanted: str
    ) -> Finding | None:
        try:
            cpu, memory = milli(requests.get("cpu", 0)), whole(requests.get("memory", 0))
        except QuantityError:
            return None
        least_cpu, least_memory = (least[resource] * gpus for resource in ("cpu", "memory"))
        if cpu >= least_cpu and memory >= least_memory:
            return None
        need = f'cpu: "{amount_number("cpu", least_cpu)}" and memory: {quantity_text("memory", least_memory)}'
        has = f"{amount_words('cpu', cpu) if cpu else 'no CPU'} and {amount_number('memory', memory) if memory else 'no memory'}"
        return Finding(
            path=f"{container.field}.resources.requests",
            seen=f"{has} for {plural(gpus, 'GPU')} in container {quoted(container.name)}",
            wanted=wanted,
            fix=f"Request at least {need}",
        )
