"""Some node could take the pod if that node were empty.

A pod that asks for more than any node has, or for a label that no node has, stays pending for ever. It is refused if only a
larger machine could take it, and nobody adds machines. If a label, a taint or a device plugin may change that, it gets a
warning, unless `whenItMayChange` says otherwise.

Fields read:   the fields that the scheduler reads: resources of all containers, nodeSelector, node affinity, tolerations; the
               claims that spec.resourceClaims names, and claims and their templates when they are created
Allowed:       a pod that fits on some empty node; where nodes may be added, GPUs that the policy names in full and no node has
               now, and pods whose node label (of the cloud or Karpenter) no node has now; pods of DaemonSets, and those that
               the default scheduler does not place (nodeName, another scheduler, scheduling gates, Kueue); all pods while the
               state of the cluster is not known
Refused:       more GPUs, CPU or memory than any one node has, where nobody adds nodes
Warned about:  the same where nodes may be added (`autoscaler`; some node has `spec.providerID`, or GPUs by DRA), or where a
               node may have GPUs that it does not list now; other resources or labels that no node has; taints that are not
               tolerated; a combination that no single node has
DRA:           a warning for a request of a claim that selects more devices than any node has, or devices that no node has
"""

from collections.abc import Iterable
from typing import ClassVar, Literal

from webhook.framework.cluster_view import Unschedulable
from webhook.framework.interface import Context, Finding, Rule
from webhook.kube.asked import AskedPod
from webhook.kube.pod import requests_of
from webhook.text import bare, listed, matches_any, plural, quoted

_MAX_VALUES = 3
"""Maximum number of attributes whose values are told."""
_DRA = "deviceclass.resource.kubernetes.io/*"


class GpuFits(Rule):
    of_whole_pods: ClassVar[bool] = True
    of_claims: ClassVar[bool] = True
    not_exported: ClassVar[str] = "needs the state of the cluster"

    when_it_may_change: Literal["warn", "deny"] = "warn"
    """warn | deny: the action if the pod may fit later without a change of the pod: after a change of a label or taint, when a
    node comes back, or when a resource is offered later. Pods of a controller are never refused for it."""
    autoscaler: bool | None = None
    """Whether an autoscaler may add nodes that have what all present nodes lack: true | false | null (yes where a node has
    spec.providerID or DRA; on machines of your own that have one, such as those of k3s, set false)."""
    extra: tuple[str, ...] = ()
    """Resources that exist although no node has them now (name patterns): served by DRA, or by node pools that are empty."""

    def check(self, pod: AskedPod, context: Context) -> Iterable[Finding]:
        yield from self._claimed(context)
        if not pod.gpu_names or context.other_gpus or context.nodes is None or pod.claims_devices:
            return
        unschedulable = context.nodes.unschedulable(pod)
        served = (_DRA, *self.extra)
        if any([reason.cause == "resource" and matches_any(served, reason.about) for reason in unschedulable]):
            return
        made_by_controller = pod.owner is not None and not context.template
        may_come = context.cluster.elastic if self.autoscaler is None else self.autoscaler
        for reason in unschedulable:
            of_gpus = reason.cause == "resource" and reason.about in {gpu.name for gpu in context.gpus.names}
            if may_come and (of_gpus or reason.of_new_nodes):
                continue  # a pool of such nodes may be empty now
            lenient = self.when_it_may_change == "warn" or made_by_controller or reason.cause == "shared"
            only_warn = lenient and (may_come or not reason.lasting)
            path, where = _field(reason, pod, context)
            fix = _waiting_first(reason.fix) if may_come and reason.cause != "shared" else reason.fix
            yield Finding(path, reason.seen + where, reason.wanted, fix, only_warn, reason.cause)

    def _claimed(self, context: Context) -> Iterable[Finding]:
        for request in context.claimed:
            found = [(each.devices or 1, each.most) for each in request.alternatives]
            if any([most is None or count <= most for count, most in found]):
                continue
            most = max([most or 0 for _, most in found])
            if most:
                count = min([count for count, most in found if most])
                seen, wanted = f"{plural(count, 'device')} in {request.words}", f"at most {most}, as one node has"
                fewer = f"{most} or fewer" if len(context.claimed) == 1 else "fewer"  # others need some of them too
                fix = f"Ask for {fewer}, or wait if such a node is added"
            else:
                unmet = next((each.unmet for each in request.alternatives if each.unmet), "")
                by = f" by the expression «{bare(unmet)}»" if unmet else ""
                seen = f"{request.words}, which selects{by} devices that no node has"
                values = [each for each in context.cluster.device_values(unmet) if each[1]]
                has = "; ".join(
                    [
                        f"{bare(name)}: {listed(known, where='kubectl get resourceslices -o yaml')}"
                        for name, known in values[:_MAX_VALUES]
                    ]
                )
                wanted = "devices that a node has"
                correct = (
                    f"Correct it: devices have {has}. Or" if has else "Correct the expressions of its selectors, or"
                )
                fix = f"{correct} wait if such a node is added"
            yield Finding(request.path, seen, wanted, fix, True, "gpus")


def _waiting_first(step: str) -> str:
    """The next step if an autoscaler may add what is missing."""
    return f"Wait if the autoscaler adds such a node; otherwise {step[0].lower()}{step[1:]}"


def _field(reason: Unschedulable, pod: AskedPod, context: Context) -> tuple[str, str]:
    """The field to blame, and words that name the container, if a single one asks for the resource, or the whole pod."""
    if reason.cause not in ("gpus", "resource", "shared"):
        return reason.about, ""
    asking = [c for c in pod.containers if reason.about in requests_of(c.spec)]
    if len(asking) != 1:
        return "spec", " in the whole pod"
    return context.field_of(asking[0], reason.about), f" in container {quoted(asking[0].name)}"
