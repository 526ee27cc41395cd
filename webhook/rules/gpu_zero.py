"""A limit of 0 GPUs is pointed out, since it gives the container none.

Charts write `nvidia.com/gpu: 0` where their GPU is switched off. The injector voidDevices then hides the GPUs of the node.

Fields read:   spec.containers[*].resources, spec.initContainers[*].resources
Warned about:  a limit of 0 GPUs in a container that has no other GPU
DRA:           the same.
"""

from collections.abc import Iterable

from webhook.framework.interface import Action, Check, Context, Finding, Gpus, Rule
from webhook.kube import cel
from webhook.kube.asked import AskedPod
from webhook.kube.pod import is_zero
from webhook.text import quoted


class GpuZero(Rule):
    action: Action = "warn"

    def check(self, pod: AskedPod, context: Context) -> Iterable[Finding]:
        for container in pod.containers:
            resources = container.spec.get("resources")
            limits = resources.get("limits") if resources else None
            if not limits or container.gpu_counts(context.gpus):
                continue
            zeros = [name for name in context.gpus.among(limits) if is_zero(limits[name])]
            if zeros:
                yield Finding(
                    path=context.field_of(container, zeros[0]),
                    seen=f"0 GPUs in container {quoted(container.name)}",
                    wanted="at least 1, or no such line",
                    fix="Ask for 1 if the container needs a GPU, or remove the line",
                    cause=f"GPUs {context.field_of(container, zeros[0])}",
                )

    def exported(self, gpus: Gpus) -> Iterable[Check]:
        zero = f'{cel.limits("c")}.exists(k, {cel.is_gpu("k", gpus)} && c.resources.limits[k] == "0")'
        yield Check("container", cel.all_of([zero, f"!{cel.ASKS}"]), "at least 1 GPU, or no such limit")
