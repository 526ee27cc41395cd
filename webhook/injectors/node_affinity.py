"""Adds node affinity to the nodes that placement ranked for the pod.

Mode `preferred` (default): one preferred term per ranked node. The weights fall far enough that the scheduler's other scores
do not change the order. Lighter terms follow for what the policy and the pod's annotations prefer
(`placement.preferences`). The scheduler may take another node, so the pod never waits because of us. A node is named by its
hostname label: Karpenter from version 1.5 on gives up such terms one by one if it has to make a node, and then reads those of the
author. Versions before make no node for a pod that names one; the record says so (`karpenter`).

Mode `required`: the first node is added to every term of the required affinity. Terms are ORed, so a new term beside the
user's would allow more nodes than the user wanted. An empty term matches no node and is left alone, since with our
requirement it would match one.

By default the scheduler spreads the pods of ReplicaSets, StatefulSets and ReplicationControllers, and those that a Service
selects, over hosts and zones (podtopologyspread/plugin.go, plugins/helper/spread.go). That would work against a choice that
packs. Any constraint of the pod switches it off. So such a pod without constraints gets one over hosts that selects no pod,
together with its preferred nodes, unless its strategy spreads them, as the default does. A pod with `spec.subdomain` is one
that a Service selects.

A node that no pod may name gets no term: GKE Autopilot refuses pods with affinity by any label but a few.

A pod is not pinned if the scheduler also filters nodes for it by something that placement does not check: other pods,
volumes, host ports, claimed devices. The chosen node might never be able to take it. It gets preferences instead, and the
record says `["notPinned", [why, terms]]`.

Nor is one pinned where Karpenter makes nodes, since it makes none for a pod that requires one by name: without us the pod would
get a machine. Pods of the schedulers in `placement.requiredFor` are, which have no other way to hear of our choice.

A pinned pod may have to wait. The order of scheduling is not known at admission: another pod may take the room first, or have
an anti-affinity against this one. Then the event of the pod says «didn't match Pod's node affinity/selector», and its
reservation ends at once (`gpu_admission_reservations_ended_total{end="unschedulable"}`), so that other pods may use the
capacity. The pod runs when its node has room again. In Kubernetes 1.34 the scheduler does not notice that a pod with an
anti-affinity against others is gone: it tries these again within five minutes, or when they are created again
(kubernetes/kubernetes#134393). Where pods cannot wait, use `preferred`.

Fields: spec.affinity.nodeAffinity; spec.topologySpreadConstraints if the pod has none. Sources: k8s.io/component-helpers
scheduling/corev1/nodeaffinity, pkg/scheduler/framework/plugins/nodeaffinity (scores are normalised to the best feasible node),
and the filters in pkg/scheduler/framework/plugins.

Read by:
    kube-scheduler: the named nodes score higher; with `mode: required` it uses no other node
    cluster-autoscaler: ignores preferred nodes. With `mode: required` it adds no node, since a new one has another name. It
      simulates a controller's pods with equal affinity together: ten groups at most, then pod by pod
    Karpenter: first treats the node that is preferred most as required, and drops it if it has to make a machine. Versions
      before 1.5 make no machine. No version makes one for a pod that requires a node, so where Karpenter runs we require
      none, but for `requiredFor`
    Kueue, KAI, Volcano, YuniKorn: their pods get none, unless `requiredFor` names the scheduler
    descheduler: [may evict by it](#descheduler)
    quotas and others: the scheduler does not place pods with different affinity as one batch (KEP-5598)
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Final, Literal, Self

from pydantic import PrivateAttr

from webhook.framework.cluster_view import Placement
from webhook.framework.interface import Context, Edit, Injector, Outcome, ProfileView
from webhook.framework.node_terms import (
    CONSTRAINTS,
    NEUTRAL,
    PREFERRED_TERMS,
    REQUIRED_TERMS,
    has_name,
    preferred_terms,
    unchecked_part,
)
from webhook.kube.asked import AskedPod
from webhook.kube.record import outcome_of, required_nodes
from webhook.text import matches
from webhook.vendors.catalogue import every
from webhook.vendors.model import UnnamedNode

LEAST_KARPENTER: Final = "1.5"
"""Versions before refuse a pod that prefers a node, by its name or its hostname label; none takes one that requires a node
(karpenter/pkg/controllers/provisioning/provisioner.go, validateAffinity)."""
UNNAMED: Final[Mapping[str, str]] = {each.name: each.whose for each in every(UnnamedNode)}
_KARPENTER: Final = "Karpenter makes nodes"
_SPREAD_BY_DEFAULT = frozenset(("ReplicaSet", "StatefulSet", "ReplicationController"))


class NodeAffinity(Injector):
    chooses: ClassVar[bool] = True
    handles_claims: ClassVar[bool] = True
    not_exported: ClassVar[str] = "needs the state of the cluster"
    sentences: ClassVar[Mapping[str, str]] = {
        "none": "no node is preferred: {}",
        "present": "it prefers the chosen nodes already",
        "preferredPools": "no node was chosen ({}), so pools are preferred by label",
        "notPinned": "not pinned to one node ({}), the chosen ones are preferred",
        "preferred": "{node} preferred, the chosen one most",
        "required": "it must run on {}",
    }

    mode: Literal["preferred", "required"] = "preferred"
    """preferred (the scheduler may take another node) | required (the first node only: a pod waits if that node is full. A pod
    with volume claims, host ports or rules about other pods is not pinned, since the node might not be able to take it; nor is
    one where Karpenter makes nodes)"""
    _every_pod: bool = PrivateAttr(default=False)

    def completed(self, profile: ProfileView) -> Self:
        copy = self.model_copy()
        copy._every_pod = profile.places_every_pod
        return copy

    @property
    def every_pod(self) -> bool:
        return self._every_pod

    def inject(self, edit: Edit, context: Context) -> Outcome:
        if context.nodes is None or context.template is not None:
            return Outcome("none", "no placement")
        placement = context.nodes.choose(context.pod, edit)
        for pattern, whose in UNNAMED.items() if placement.nodes else ():
            if matches(pattern, placement.nodes[0].node):
                reason = f"{whose} refuses pods that name a node"
                return Outcome("none", reason, placement=Placement((), placement.strategy, reason=reason))
        outcome = self._written(edit, context, placement)
        if placement.nodes and context.cluster.requires_preferences:
            pinned = required_nodes(edit.object["spec"])
            placement = placement._replace(karpenter="none" if pinned else LEAST_KARPENTER)
        if outcome.result == "present" and not placement.kept:
            placement = placement._replace(kept=True)
        return Outcome(outcome.result, outcome.detail, placement.warning, placement)

    def _written(self, edit: Edit, context: Context, placement: Placement) -> Outcome:
        terms, unchecked = preferred_terms(placement, context.cluster), ""
        if not placement.nodes and not terms:
            return Outcome("none", placement.reason)
        if (self.mode == "required" or placement.required) and placement.nodes:
            makes_nodes = context.cluster.requires_preferences and not placement.required
            unchecked = _KARPENTER if makes_nodes else unchecked_part(edit.object["spec"])
            if not unchecked:
                return _require(edit, placement)
        if present := edit.get(PREFERRED_TERMS):
            terms = [term for term in terms if term not in present]
        if placement.nodes and not (edit.get(CONSTRAINTS) or context.spreads) and _spread_by_default(context.pod):
            edit.set(CONSTRAINTS, [dict(NEUTRAL)])
        if not terms:  # of an earlier call, or of the pod itself
            earlier = outcome_of(context.pod.record, "nodeAffinity")
            return Outcome(*earlier) if earlier[:1] in (["preferred"], ["notPinned"]) else Outcome("present")
        edit.extend(PREFERRED_TERMS, terms)
        if not placement.nodes:
            return Outcome("preferredPools", [placement.reason, len(terms)])
        if unchecked:
            return Outcome("notPinned", [unchecked, len(terms)])
        return Outcome("preferred", len(terms))


def _spread_by_default(pod: AskedPod) -> bool:
    """Whether the scheduler may spread the pod although it has no constraint."""
    return (pod.owner is not None and pod.owner.kind in _SPREAD_BY_DEFAULT) or bool(pod.spec.get("subdomain"))


def _require(edit: Edit, placement: Placement) -> Outcome:
    pin = has_name(placement.nodes[0].node)
    if edit.get(REQUIRED_TERMS[:-1]) is None:
        edit.set(REQUIRED_TERMS, [{"matchFields": [pin]}])
        return Outcome("required", placement.nodes[0].node)
    terms: list[dict[str, Any]] = edit.get(REQUIRED_TERMS) or []
    pinned = False
    for index, term in enumerate(terms):
        if (term.get("matchExpressions") or term.get("matchFields")) and pin not in (term.get("matchFields") or ()):
            edit.extend((*REQUIRED_TERMS, index, "matchFields"), [pin])
            pinned = True
    return Outcome("required", placement.nodes[0].node) if pinned else Outcome("present")
