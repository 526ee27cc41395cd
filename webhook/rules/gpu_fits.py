"""Some node could take the pod if that node were empty.

A pod that asks for more than any node has pends for ever, whatever becomes free.

Fields read:   what the scheduler reads: resources of all containers, nodeSelector, affinity, tolerations
Allowed:       what the largest node has, or less
Refused:       more GPUs than the largest node has; CPU, memory, GPUs and model that no one node has together. Where nodes
               may be added by an autoscaler, or taints are in the way (they come and go), it is a warning. Nothing is said
               while the state of the cluster is not known, nor about pods that the scheduler does not place: with
               nodeName, another scheduler, scheduling gates, and pods of DaemonSets.
Not for DRA:   what a claim needs is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from webhook.errors import QuantityError
from webhook.framework.interface import Context, Finding, Rule
from webhook.kube.pod import Pod, claims_devices
from webhook.kube.pod_requests import total_requests
from webhook.text import bare, quoted

_NAMED = 3
_KNOWN_SCHEDULERS = (None, "", "default-scheduler")


class GpuFits(Rule):
    """Some node could take the pod if that node were empty."""

    not_exported: ClassVar[str] = "needs the state of the cluster"

    autoscaler: bool | None = None
    """As in gpuNames."""

    def check(self, pod: Pod, context: Context) -> Iterable[Finding]:
        cluster = context.cluster
        if not context.gpu_names or not cluster.fresh or _placed_otherwise(pod, context):
            return
        try:
            asked = total_requests(pod)
        except QuantityError:  # another rule says so
            return
        done = claims_devices(pod)
        for name in context.gpus.among(asked):
            largest = cluster.largest(name, _NAMED + 1)
            if not largest:  # no such GPU anywhere, or its device plugin restarts: for another rule, or another moment
                done = True
            elif asked[name] > largest[0][1] and not claims_devices(pod):
                done = True
                yield self._larger(pod, context, name, asked[name], largest)
        if done or context.fits_empty is None:
            return
        rejected = context.fits_empty(pod)
        if rejected:
            nodes = sum(count for _, count in rejected)
            why = ", ".join(f"{count} {reason}" for reason, count in rejected)
            yield Finding(
                path="spec",
                seen=f"a pod that no node could take even if it were empty (0/{nodes} nodes: {why})",
                wanted="a pod that fits a node",
                fix="Ask for less of what is short, or loosen what keeps the pod off the other nodes",
                only_warn=self._may_come(context) or any("taint" in reason for reason, _ in rejected),
            )

    def _may_come(self, context: Context) -> bool:
        return context.cluster.elastic if self.autoscaler is None else self.autoscaler

    def _larger(
        self, pod: Pod, context: Context, name: str, asked: int, largest: tuple[tuple[str, int], ...]
    ) -> Finding:
        most = largest[0][1]
        nodes = [node for node, amount in largest if amount == most]
        path, seen = "spec", f"{asked} {bare(name)} in the whole pod"
        for container in context.containers(pod):
            if container.gpu_counts(context.gpus).get(name) == asked:
                path = f"{container.field}.resources.limits[{bare(name)}]"
                seen = f"{asked} in container {quoted(container.name)}"
        pods = -(-asked // most)
        each = f"{pods} × {most}" if asked % most == 0 else f"{pods} pods with at most {most} each"
        names = ", ".join([*nodes[:_NAMED], *("…" for _ in nodes[_NAMED:])])
        return Finding(
            path=path,
            seen=seen,
            wanted=f"at most {most}, which is what the largest {'node has' if len(nodes) == 1 else 'nodes have'}: {names}",
            fix=f"Ask for {most} or fewer, or use a Job of {each}",
            only_warn=self._may_come(context),
        )


def _placed_otherwise(pod: Pod, context: Context) -> bool:
    spec = pod["spec"]
    return bool(
        spec.get("nodeName")
        or spec.get("schedulingGates")
        or spec.get("schedulerName") not in _KNOWN_SCHEDULERS
        or (context.owner and context.owner.kind == "DaemonSet")
    )
