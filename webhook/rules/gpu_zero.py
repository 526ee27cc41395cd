"""No container has a limit of 0 GPUs: it may see all GPUs of the node.

With `nvidia.com/gpu: 0` the device plugin is never called, so nothing limits which GPUs the container sees. If the container
runtime reads the environment of the image, it may see every GPU of the node.

Fields read:   spec.containers[*].resources, spec.initContainers[*].resources; env[NVIDIA_VISIBLE_DEVICES]
Refused:       a limit of 0 GPUs in a container that has no other GPU
Warned about:  the same if NVIDIA_VISIBLE_DEVICES is void or none, set by the injector or by the author
DRA:           the same with a claim as without, since a claim may be for any device.

Source: NVIDIA/k8s-device-plugin issue 61, kubernetes/kubernetes issue 59629.
"""

from collections.abc import Iterable
from typing import ClassVar

from webhook.framework.device_variables import HIDDEN, NVIDIA, hides_devices
from webhook.framework.interface import Check, Context, Finding, Gpus, Pod, Rule
from webhook.kube import cel
from webhook.kube.pod import is_zero
from webhook.text import quoted


class GpuZero(Rule):
    everywhere: ClassVar[bool] = True

    def check(self, pod: Pod, context: Context) -> Iterable[Finding]:
        for container in context.containers(pod):
            resources = container.spec.get("resources")
            limits = resources.get("limits") if resources else None
            if not limits or container.gpu_counts(context.gpus):
                continue
            zeros = [name for name in context.gpus.among(limits) if is_zero(limits[name])]
            if zeros:
                hidden = hides_devices(container.spec)
                yield Finding(
                    path=context.field_of(container, zeros[0]),
                    seen=f"0 GPUs in container {quoted(container.name)}",
                    wanted="at least 1, or no such line" + ("" if hidden else ": with 0 nothing hides the node's GPUs"),
                    fix="Remove the line" if hidden else f"Ask for 1, or remove the line and set {NVIDIA} to void",
                    only_warn=hidden,
                )

    def exported(self, gpus: Gpus) -> Iterable[Check]:
        zero = f'{cel.limits("c")}.exists(k, {cel.is_gpu("k", gpus)} && c.resources.limits[k] == "0")'
        wanted = "at least 1 GPU, or no such limit"
        yield Check("container", cel.all_of([zero, f"!{cel.ASKS}", f"!{HIDDEN}"]), wanted)
        yield Check("container", cel.all_of([zero, f"!{cel.ASKS}", HIDDEN]), wanted, only_warn=True)

    def matched(self, gpus: Gpus) -> Iterable[Check]:
        """Nothing: with a limit of 0 a pod asks for a device."""
        return ()
