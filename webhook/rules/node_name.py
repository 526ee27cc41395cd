"""A pod is placed by a scheduler, not by its author.

With spec.nodeName the scheduler is never asked: taints that keep a GPU node for others do not count, and a GPU that is
taken makes the pod fail at the node.

Fields read:   spec.nodeName, when a pod is made
Allowed:       none; pods that kubelets register (group `system:nodes`)
Refused:       a node name by anybody else
DRA:           the same: a claim is only allocated by the scheduler.

Source: kubelet pkg/kubelet/lifecycle/predicate.go checks only NoExecute taints.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from webhook.framework.interface import Context, Finding, Rule
from webhook.kube import cel
from webhook.kube.cel import Check
from webhook.kube.gpus import Gpus
from webhook.kube.pod import Pod
from webhook.text import quoted


class NodeName(Rule):
    """Nobody but kubelets names the node of a new pod: then no scheduler counts its GPUs, and no taint keeps it away."""

    everywhere: ClassVar[bool] = True

    groups: tuple[str, ...] = ("system:nodes",)
    """Groups of users that may."""

    def check(self, pod: Pod, context: Context) -> Iterable[Finding]:
        name = pod["spec"].get("nodeName")
        if not name or context.operation != "CREATE" or any(group in self.groups for group in context.groups):
            return
        yield Finding(
            path="spec.nodeName",
            seen=quoted(name),
            wanted="no node name: it goes past the scheduler, and past the taints of the node",
            fix="Remove it; to prefer a node use nodeSelector or node affinity with kubernetes.io/hostname",
        )

    def exported(self, gpus: Gpus) -> Iterable[Check]:
        by_others = f"!request.userInfo.groups.exists(g, g in {cel.literal(self.groups)})"
        bad = f'(object.spec.?nodeName.orValue("") != "" && {by_others})'
        yield Check("pod", bad, "no node name: it goes past the scheduler and past the taints of the node")
