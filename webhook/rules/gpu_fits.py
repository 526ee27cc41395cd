"""Some node could take the pod if that node were empty.

A pod that asks for more than any node has, or for a label that none has, pends for ever, whatever becomes free. What no
node of this cluster could ever take is refused. What may become possible without a change of the pod only gives a warning,
unless `whenItMayChange` says otherwise: a label or a taint may be changed, a node may come back, a device plugin or another
scheduler may serve a resource later.

Fields read:   what the scheduler reads: resources of all containers, nodeSelector, node affinity, tolerations
Allowed:       what some node has when it is empty. Only CPU, memory, ephemeral storage, pods and GPUs are counted
Refused:       more GPUs, CPU or memory than one node had at any time since this program started
Warned about:  the same where an autoscaler may add nodes; names of resources that are on no node; labels that no node has;
               taints that are not tolerated; what no one node has together. Of pods that a controller makes these are never
               more than a warning: the controller would try again later and later, and the pod would start late
Not for DRA:   what a claim needs is not known here.

Nothing is said while the state of the cluster is not known, nor about pods that the default scheduler does not place as they are:
with nodeName, another scheduler, scheduling gates, Kueue, and pods of DaemonSets.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal

from webhook.framework.cluster_view import Obstacle
from webhook.framework.interface import Context, Finding, Rule
from webhook.kube.pod import Pod, claims_devices, requests_of
from webhook.text import Hint, matches_any, quoted

_DRA = "deviceclass.resource.kubernetes.io/*"


class GpuFits(Rule):
    """Some node could take the pod if that node were empty: what no node ever could is refused."""

    not_exported: ClassVar[str] = "needs the state of the cluster"

    when_it_may_change: Literal["warn", "deny"] = "warn"
    """warn | deny: what is done about what may become true without a change of the pod: a label, a taint, a node that comes
    back, a resource that is served later. Pods that a controller makes are never refused for it."""
    autoscaler: bool | None = None
    """Whether nodes may come that have what those lack that are there: true | false | null (judged by the nodes)."""
    extra: tuple[str, ...] = ()
    """Resources that exist although no node names them (name patterns): served by DRA, or by pools that are empty now."""

    def check(self, pod: Pod, context: Context) -> Iterable[Finding]:
        if not context.gpu_names or context.other_gpus or context.obstacles is None or claims_devices(pod):
            return
        obstacles = context.obstacles(pod)
        if any(
            [
                obstacle.cause == "resource" and matches_any((_DRA, *self.extra), obstacle.about)
                for obstacle in obstacles
            ]
        ):
            return
        made_by_controller = context.owner is not None and not context.template
        may_come = context.cluster.elastic if self.autoscaler is None else self.autoscaler
        for obstacle in obstacles:
            only_warn = self.when_it_may_change == "warn" or made_by_controller
            if obstacle.cause == "shared":
                only_warn = True
            if obstacle.lasting and not may_come:
                only_warn = False
            path, where = _place(obstacle, pod, context)
            fix = _waiting_first(obstacle.fix) if may_come and obstacle.cause != "shared" else obstacle.fix
            yield Finding(path, obstacle.seen + where, obstacle.wanted, fix, only_warn, obstacle.cause)


def _waiting_first(fix: str | Hint) -> str | Hint:
    """What to do where an autoscaler may add what is missing."""
    if isinstance(fix, Hint):
        return fix._replace(start=_waiting(fix.start), otherwise=_waiting(fix.otherwise))
    return _waiting(fix)


def _waiting(step: str) -> str:
    return f"Wait if the autoscaler adds such a node, or {step[0].lower()}{step[1:]}"


def _place(obstacle: Obstacle, pod: Pod, context: Context) -> tuple[str, str]:
    """The field, and the container in words where one container asks for all of the resource."""
    if obstacle.cause not in ("gpus", "resource", "shared"):
        return obstacle.about, ""
    asking = [c for c in context.containers(pod) if obstacle.about in requests_of(c.spec)]
    if len(asking) != 1:
        return "spec", " in the whole pod"
    return context.field_of(asking[0], obstacle.about), f" in container {quoted(asking[0].name)}"
