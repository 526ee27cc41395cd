"""No pod joins the process or IPC namespace of the node.

With hostPID a container sees the GPU processes of other pods and can stop them. With hostIPC it reaches the node's MPS server,
and so GPUs that it did not ask for. GPU pods often use hostIPC for shared memory, so they get only a warning.

Fields read:   spec.hostPID, spec.hostIPC
Refused:       hostPID; hostIPC of a pod without a GPU. hostNetwork is not, since multi-node training needs it
Warned about:  hostIPC of a pod with a GPU
DRA:           a claim may be for any device, and does not count as a GPU
"""

from collections.abc import Iterable
from typing import ClassVar

from webhook.framework.interface import Check, Context, Finding, Gpus, Rule
from webhook.kube.asked import AskedPod


class HostNamespaces(Rule):
    everywhere: ClassVar[bool] = True

    def check(self, pod: AskedPod, context: Context) -> Iterable[Finding]:
        spec = pod.spec
        if spec.get("hostPID"):
            yield Finding(
                path="spec.hostPID",
                seen="true",
                wanted="false: it shows the GPU processes of all pods of the node",
                fix="Remove it; use shareProcessNamespace to see the processes of this pod",
            )
        if spec.get("hostIPC"):
            with_gpu = pod.asks_for_gpu
            yield Finding(
                path="spec.hostIPC",
                seen="true" if with_gpu else "true in a pod that asks for no GPU",
                wanted="false: it shares memory with all pods of the node, and reaches its MPS server",
                fix="Remove it; for shared memory mount an emptyDir with medium Memory at /dev/shm",
                only_warn=with_gpu,
            )

    def exported(self, gpus: Gpus) -> Iterable[Check]:
        ipc = "object.spec.?hostIPC.orValue(false)"
        yield Check("pod", "object.spec.?hostPID.orValue(false)", "no hostPID")
        yield Check("pod", f"({ipc} && !variables.asksForGpu)", "no hostIPC in a pod without a GPU")
        wanted = "no hostIPC; for shared memory mount an emptyDir with medium Memory at /dev/shm"
        yield Check("pod", f"({ipc} && variables.asksForGpu)", wanted, only_warn=True)
