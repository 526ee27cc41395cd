"""No pod joins the process or IPC namespace of the node.

With hostPID a container sees the GPU processes of other pods and can stop them. With hostIPC it reaches the node's MPS server,
and so GPUs that it did not ask for. GPU pods often use hostIPC for shared memory, so they get only a warning.

Fields read:   spec.hostPID, spec.hostIPC, spec.nodeSelector
Allowed:       hostIPC of a pod with a GPU that selects nodes whose GPUs are shared that way (MPS of GKE)
Refused:       hostPID; hostIPC of a pod without a GPU. hostNetwork is not, since multi-node training needs it
Warned about:  hostIPC of a pod with a GPU
DRA:           a claim may be for any device, and does not count as a GPU
"""

from collections.abc import Iterable
from typing import ClassVar

from webhook.framework.interface import Check, Context, Finding, Gpus, Rule
from webhook.kube import cel
from webhook.kube.asked import AskedPod
from webhook.vendors.catalogue import every
from webhook.vendors.model import Divided

_BY_IPC = tuple([each for each in every(Divided) if each.host_ipc])


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
            with_gpu, selector = pod.asks_for_gpu, spec.get("nodeSelector") or {}
            if with_gpu and any([selector.get(each.key) == each.value for each in _BY_IPC]):
                return
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
        shared = [
            f'object.spec.?nodeSelector[?{cel.literal(each.key)}].orValue("") == {cel.literal(each.value)}'
            for each in _BY_IPC
        ]
        wanted = "no hostIPC; for shared memory mount an emptyDir with medium Memory at /dev/shm"
        needless = cel.all_of([ipc, "variables.asksForGpu", f"!({cel.any_of(shared)})"])
        yield Check("pod", needless, wanted, only_warn=True)
