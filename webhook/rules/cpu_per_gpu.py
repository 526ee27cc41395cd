"""A container with GPUs requests enough CPU and memory for them.

The scheduler counts requests. A GPU container without a CPU request may run on a node whose CPUs are used by other pods, and
its GPU waits for data. The injector of the same name can add the missing requests; it is off by default.

Fields read:   requests of CPU and memory of spec.containers[*] and sidecars with whole GPUs; spec.resources
Allowed:       at least the minimum of the class in `classes`, per GPU
Warned about:  less, or none
Not for:       pods of a class that `classes` does not name; parts of GPUs; DRA, where the number of GPUs is in the claim
"""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from webhook.errors import QuantityError
from webhook.framework.interface import Action, Context, Finding, Rule
from webhook.framework.resources_per_gpu import CLASSES, PerGpu, containers_with_whole_gpus
from webhook.kube.asked import AskedPod
from webhook.kube.pod import Container, requests_of
from webhook.kube.quantity import milli, whole
from webhook.text import amount_number, amount_words, plural, quoted


class CpuPerGpu(Rule):
    not_exported: ClassVar[str] = "compares quantities by class of workload"

    action: Action = "warn"
    classes: dict[str, PerGpu] = CLASSES
    """By class of workload: [minimum, usual maximum] for each GPU. Pods of other classes are not checked."""

    def check(self, pod: AskedPod, context: Context) -> Iterable[Finding]:
        workload = context.workload.name
        per = self.classes.get(workload)
        if per is None or not pod.gpu_names:
            return
        of_pod = requests_of(pod.spec) if pod.spec.get("resources") else {}
        for container, gpus in containers_with_whole_gpus(pod.containers, context.gpus):
            requests = {**of_pod, **requests_of(container.spec)}
            if finding := self._finding(container, requests, sum(gpus.values()), per, workload):
                yield finding

    def _finding(
        self, container: Container, requests: Mapping[str, Any], gpus: int, per: PerGpu, workload: str
    ) -> Finding | None:
        try:
            cpu, memory = milli(requests.get("cpu", 0)), whole(requests.get("memory", 0))
        except QuantityError:
            return None
        least_cpu, least_memory = (per.least[resource] * gpus for resource in ("cpu", "memory"))
        if cpu >= least_cpu and memory >= least_memory:
            return None
        need = f'cpu: "{amount_number("cpu", least_cpu)}" and memory: {amount_number("memory", least_memory)}'
        has = f"{amount_words('cpu', cpu) if cpu else 'no CPU'} and {amount_number('memory', memory) if memory else 'no memory'}"
        return Finding(
            path=f"{container.field}.resources.requests",
            seen=f"{has} for {plural(gpus, 'GPU')} in container {quoted(container.name)}",
            wanted=f"{' to '.join(per.cpu)} CPUs and {' to '.join(per.memory)} per GPU for {workload}",
            fix=f"Request at least {need}",
        )
