"""No container asks for more than one share of a shared GPU.

Two shares of time-sliced GPUs are not twice a GPU: both may be of the same one. With MPS the device plugin on the node refuses
a second share: the pod fails, is created again, and fails again.

Fields read:   spec.containers[*].resources, spec.initContainers[*].resources, spec.nodeSelector
Allowed:       one share in a container
Refused:       more than one, if the pod selects nodes with MPS
Warned about:  more than one share that is time-sliced or of unknown kind. If only nodes that share their GPUs offer the number
               that is asked for under a plain name such as nvidia.com/gpu, the rule gpuFits reports it
Not for DRA:   a claim asks for a share in its own way.

Source: NVIDIA/k8s-device-plugin, README (sharing.timeSlicing.renameByDefault, failRequestsGreaterThanOne); labels:
`nvidia.com/gpu.sharing-strategy`, product names that end in `-SHARED`.
"""

from collections.abc import Iterable
from typing import ClassVar

from webhook.framework.interface import Context, Finding, Rule
from webhook.kube.asked import AskedPod
from webhook.text import quoted

_STRATEGY, _PRODUCT = "nvidia.com/gpu.sharing-strategy", "nvidia.com/gpu.product"
_SHARED = ("time-slicing", "mps")


class GpuSharing(Rule):
    not_exported: ClassVar[str] = "is advice by node labels"

    def check(self, pod: AskedPod, context: Context) -> Iterable[Finding]:
        if not pod.gpu_names:
            return
        for container in pod.containers:
            for name, count in container.gpu_counts(context.gpus).items():
                if count < 2:
                    continue
                strategy = self._strategy(name, pod, context)
                if strategy:
                    yield Finding(
                        path=context.field_of(container, name),
                        seen=f"{count} {_SHARES.get(strategy, 'shares of GPUs')} in container {quoted(container.name)}",
                        wanted="1: a second share is no second GPU",
                        fix="Ask for 1, or for whole GPUs",
                        only_warn=strategy != "mps",
                    )

    def _strategy(self, name: str, pod: AskedPod, context: Context) -> str | None:
        """How the GPUs of this name are shared: the value of the node label, or "share" if the pod does not select one; None if
        they are not known to be shared."""
        kind = context.gpus.kind(name)
        if kind == "slice" or not name.startswith("nvidia.com/"):
            return "share" if kind == "share" else None
        selector = pod.spec.get("nodeSelector") or {}
        chosen = selector.get(_STRATEGY)
        if chosen is not None:
            return chosen if chosen in _SHARED else None
        return "share" if kind == "share" or selector.get(_PRODUCT, "").endswith("-SHARED") else None


_SHARES = {"mps": "shares of GPUs by MPS", "time-slicing": "time-sliced shares of GPUs"}
