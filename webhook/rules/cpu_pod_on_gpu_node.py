"""A pod without a GPU stays off GPU nodes.

Taints of GPU nodes keep other pods from using up the CPUs and the memory that GPU pods need.

Fields read:   spec.tolerations, on an UPDATE those that are new; resources of all containers, spec.resourceClaims, annotations
               for parts of GPUs
Allowed:       any toleration of a pod that asks for a GPU; pods of DaemonSets, which run on every node
Warned about:  a toleration of a taint of `taints`, or of everything
DRA:           a claim counts as a GPU
"""

from collections.abc import Iterable
from typing import ClassVar

from webhook.framework.interface import Action, Check, Context, Finding, Gpus, Rule
from webhook.kube import cel
from webhook.kube.asked import AskedPod
from webhook.text import matches_any, quoted
from webhook.vendors.catalogue import taints as gpu_taints


class CpuPodOnGpuNode(Rule):
    of_whole_pods: ClassVar[bool] = True

    action: Action = "warn"
    taints: tuple[str, ...] = tuple([each.key for each in gpu_taints("gpu") if each.value is None])
    """Keys of the taints of GPU nodes (name patterns)."""

    def check(self, pod: AskedPod, context: Context) -> Iterable[Finding]:
        tolerations = pod.spec.get("tolerations")
        if not tolerations or pod.has_gpu:
            return
        if pod.owner is not None and pod.owner.kind == "DaemonSet":
            return
        old = context.old["spec"].get("tolerations") if context.old else ()
        before = {frozenset(toleration.items()) for toleration in old or ()}
        for index, toleration in enumerate(tolerations):
            if before and frozenset(toleration.items()) in before:
                continue
            key, path = toleration.get("key") or "", f"spec.tolerations[{index}]"
            if key and matches_any(self.taints, str(key)):
                seen = f"a toleration of {quoted(key)} in a pod that asks for no GPU"
            elif not key and toleration.get("operator") == "Exists" and toleration.get("effect") != "NoExecute":
                seen = "a toleration of every taint in a pod that asks for no GPU"
            else:
                continue
            wanted = "none for GPU nodes: their CPUs and memory are for pods with GPUs"
            yield Finding(path, seen, wanted, "Remove it, or ask for a GPU in the limits of a container")

    def exported(self, gpus: Gpus) -> Iterable[Check]:
        key = 't.?key.orValue("")'
        everything = f'{key} == "" && t.?operator.orValue("") == "Exists" && t.?effect.orValue("") != "NoExecute"'
        named = f'{key} != "" && {cel.matches(key, self.taints)}'
        owners = "object.metadata.?ownerReferences.orValue([])"
        daemon = f'{owners}.exists(o, o.?controller.orValue(false) && o.kind == "DaemonSet")'
        wanted = "no toleration of the taints of GPU nodes in a pod without a GPU"
        uses = cel.any_of(["variables.asksForGpu", cel.other_gpus("variables.all")])
        yield Check("toleration", f"(({named}) || ({everything})) && !{uses} && !{daemon}", wanted)

    def matched(self, gpus: Gpus) -> Iterable[Check]:
        return self.exported(gpus)
