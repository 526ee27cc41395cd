"""The scheduler chooses the node of a pod, not its author.

With spec.nodeName the pod does not pass the scheduler: most taints of the node have no effect, and the pod fails there if its
GPUs are in use.

Fields read:   spec.nodeName of a new pod
Refused:       a node name set by anybody but kubelets (group `system:nodes`)
DRA:           the same.

Source: kubelet pkg/kubelet/lifecycle/predicate.go checks only NoExecute taints.
"""

from collections.abc import Iterable
from typing import ClassVar

from webhook.framework.interface import Check, Context, Finding, Gpus, Rule
from webhook.kube import cel
from webhook.kube.asked import AskedPod
from webhook.text import quoted


class NodeName(Rule):
    everywhere: ClassVar[bool] = True

    groups: tuple[str, ...] = ("system:nodes",)
    """Groups of users that may name a node."""

    def check(self, pod: AskedPod, context: Context) -> Iterable[Finding]:
        name = pod.spec.get("nodeName")
        if not name or context.operation != "CREATE" or any(group in self.groups for group in context.groups):
            return
        yield Finding(
            path="spec.nodeName",
            seen=quoted(name),
            wanted="no node name: it bypasses the scheduler and the taints of the node",
            fix="Remove it; to require a node use nodeSelector, to prefer one node affinity, with kubernetes.io/hostname",
        )

    def exported(self, gpus: Gpus) -> Iterable[Check]:
        by_others = f"!request.userInfo.groups.exists(g, g in {cel.literal(self.groups)})"
        bad = f'(object.spec.?nodeName.orValue("") != "" && {by_others})'
        yield Check("pod", bad, "no node name: it bypasses the scheduler and the taints of the node")
