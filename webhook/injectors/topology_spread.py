"""Topology spread, in agreement with the chosen node.

Replicas of one owner are spread over hosts and zones, unless the pod has a constraint on that key. Three cases:

- No node was chosen (no state, strategy `off`): constraints with `maxSkew` as in the policy. The scheduler spreads.
- A node was chosen by a strategy that keeps the owner's pods apart (`spread`, `apart`): the ranking has already counted these
  on every node, those on their way included. The scheduler counts later, and with maxSkew 1 one pod more on a node is worth up
  to 200 points, as much as our whole preference: the two would fight (measured: 6/2 where each alone gives 4/4). Its score is
  100 * (max + min - s) / max with s = pods * ln(domains + 2) + maxSkew - 1 (podtopologyspread/scoring.go): a large maxSkew
  weighs every node nearly alike. So the constraint gets a maxSkew of 100: it selects and documents, the ranking has the order.
- A node was chosen by another strategy (`pack`): one constraint over hosts that selects nothing. A pod without any constraint
  gets the scheduler's default ones (hosts and zones, ScheduleAnyway), which pull away from a packed choice; having one of its
  own switches them off.

A pod with pod affinity of its own says what it wants to be near: a spread would pull it away from there.

Always ScheduleAnyway by default: a constraint of ours never makes a pod wait. The selector is made of the pod's labels but
for those that differ from pod to pod or from revision to revision; `matchLabelKeys` tells revisions apart where the pod
has the label. By policy a soft pod anti-affinity over hosts with the same selector takes the place of all this.

Fields: spec.topologySpreadConstraints, or spec.affinity.podAntiAffinity. KEP-895, KEP-3243.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from webhook.framework.interface import Context, Injector, Outcome
from webhook.framework.spread_constraints import Constraint, Constraints
from webhook.kube.json_patch import Edit
from webhook.kube.labels import REVISION_LABELS, stable_labels
from webhook.kube.pod import PREFERRED, labels_of

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
_CONSTRAINTS = ("spec", "topologySpreadConstraints")
_ANTI_AFFINITY = ("spec", "affinity", "podAntiAffinity", PREFERRED)
NEUTRAL = {"gpu-admission.io/selects": "nothing"}
_AGREEING_SKEW = 100
"""So large that the scheduler's own counting does not work against the choice."""


class TopologySpread(Injector):
    """Replicas of one owner are spread over hosts and zones, unless the pod says itself how it is spread over them."""

    needs_placement: ClassVar[bool] = True
    not_exported: ClassVar[str] = "must agree with the chosen node"
    sentences: ClassVar[Mapping[str, str]] = {
        "nodeIsFixed": "not spread: one node is required",
        "noOwner": "not spread: no controller made it, so it has no replicas",
        "podAffinity": "not spread: it says itself which pods it wants to be near",
        "noLabels": "not spread: it has no labels to know its replicas by",
        "present": "it has topology spread or anti-affinity of its own",
        "neutral": "the scheduler's own spread was kept from working against the chosen node",
        "antiAffinity": "it prefers nodes without its replicas",
        "added": "it got topology spread over {}",
    }

    mode: Literal["constraints", "antiAffinity"] = "constraints"
    """constraints (topologySpreadConstraints) | antiAffinity (a preferred pod anti-affinity over hosts instead)"""
    constraints: Constraints = (Constraint(key=HOST), Constraint(key=ZONE))

    def inject(self, edit: Edit, context: Context) -> Outcome:
        if context.node_is_fixed(edit.object):
            return Outcome("nodeIsFixed")
        chosen = bool(context.placement and context.placement.nodes)
        if chosen and not context.keeps_apart:
            if edit.get(_CONSTRAINTS):
                return Outcome("present")
            edit.set(_CONSTRAINTS, [Constraint(key=HOST).in_pod(1, NEUTRAL)])
            return Outcome("neutral")
        if context.owner is None:
            return Outcome("noOwner")
        if edit.get(("spec", "affinity", "podAffinity")):
            return Outcome("podAffinity")
        selector = stable_labels(edit.object)
        if not selector:
            return Outcome("noLabels")
        if self.mode == "antiAffinity":
            return _anti_affinity(edit, selector)
        present = {c.get("topologyKey") for c in edit.get(_CONSTRAINTS) or ()}
        revision = [key for key in REVISION_LABELS if key in labels_of(edit.object)]
        skew = _AGREEING_SKEW if chosen else 1
        added = [
            constraint.in_pod(skew, selector, revision)
            for constraint in self.constraints
            if constraint.key not in present and _useful(constraint, context)
        ]
        if not added:
            return Outcome("present")
        edit.extend(_CONSTRAINTS, added)
        return Outcome("added", [value["topologyKey"] for value in added])


def _useful(constraint: Constraint, context: Context) -> bool:
    """A node without the key gets no score (or, with DoNotSchedule, no pod): it must be there on two domains at least."""
    if constraint.key == HOST and constraint.when_unsatisfiable == "ScheduleAnyway":
        return True
    return context.cluster.fresh and context.cluster.domains(constraint.key, context.gpus) > 1


def _anti_affinity(edit: Edit, selector: dict[str, str]) -> Outcome:
    for term in edit.get(_ANTI_AFFINITY) or ():
        if (term.get("podAffinityTerm") or {}).get("topologyKey") == HOST:
            return Outcome("present")
    term = {"weight": 100, "podAffinityTerm": {"topologyKey": HOST, "labelSelector": {"matchLabels": selector}}}
    edit.extend(_ANTI_AFFINITY, [term])
    return Outcome("antiAffinity")
