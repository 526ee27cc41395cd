"""Adds topology spread constraints that agree with the chosen node.

Replicas of one owner are spread over hosts and zones, unless the pod has a constraint on that key. There are three cases:

- No node was chosen (no state, strategy `off`): constraints with the `maxSkew` of the policy. The scheduler spreads the pods.
- A node was chosen by a strategy that keeps the owner's pods apart (`spread`, `apart`). The ranking has already counted these
  pods on every node, admitted ones included. The scheduler counts later, and with maxSkew 1 one more pod on a node weighs up
  to 200 points, as much as our whole preference. The two would work against each other (measured: 6/2 where each alone gives
  4/4). The scheduler's score is 100 * (max + min - s) / max with s = pods * ln(domains + 2) + maxSkew - 1
  (podtopologyspread/scoring.go), so with a large maxSkew all nodes score nearly the same. So maxSkew is 100: the constraint is
  there, and the ranking decides.
- A node was chosen by another strategy (`pack`): one constraint over hosts that selects no pod. A pod without any constraint
  gets the scheduler's default ones (hosts and zones, ScheduleAnyway), which work against packing. A constraint in the pod
  switches them off.

A pod with pod affinity gets no constraint: it wants to be near other pods. Nor does one of a pod group (KEP-4671).

By default all constraints are ScheduleAnyway, so that no pod waits because of us. The selector has the pod's labels without
those that differ between pods or revisions. `matchLabelKeys` tells revisions apart if the pod has such a label. In mode
`antiAffinity` the pod gets a preferred pod anti-affinity over hosts instead, with the same selector.

Fields: spec.topologySpreadConstraints, or spec.affinity.podAntiAffinity. KEP-895, KEP-3243.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field

from webhook.framework.interface import Context, Edit, Injector, LabelKey, Outcome, Pod, Settings
from webhook.kube.pod import PREFERRED, claims_devices, in_pod_group, labels_of

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
_CONSTRAINTS = ("spec", "topologySpreadConstraints")
_ANTI_AFFINITY = ("spec", "affinity", "podAntiAffinity", PREFERRED)
NEUTRAL = {"gpu-admission.io/selects": "nothing"}
_AGREEING_SKEW = 100
"""The maxSkew with which the scheduler's score does not work against the chosen node."""
_MAX_SKEW = 2**31 - 1
_REVISION_LABELS = ("pod-template-hash", "controller-revision-hash")
"""Labels whose value is the same for all pods of one revision."""
_POD_LABELS = frozenset(
    (
        *_REVISION_LABELS,
        "pod-template-generation",
        "statefulset.kubernetes.io/pod-name",
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-completion-index",
        "batch.kubernetes.io/controller-uid",
        "controller-uid",
        "job-name",  # batch.kubernetes.io/job-name has the same value
        "leaderworkerset.sigs.k8s.io/worker-index",
        "training.kubeflow.org/replica-index",
    )
)
"""Labels that differ between the pods or revisions of a workload, or that repeat its identity."""
_MAX_LABELS = 16


class Constraint(Settings):
    """The spread over the values of one node label."""

    key: LabelKey
    max_skew: int = Field(default=1, ge=1, le=_MAX_SKEW)
    when_unsatisfiable: Literal["ScheduleAnyway", "DoNotSchedule"] = "ScheduleAnyway"
    """ScheduleAnyway (a preference) | DoNotSchedule (pods may stay pending; not together with nodeAffinity mode required)"""

    def in_pod(self, skew: int, selector: Mapping[str, str], revision: Sequence[str] = ()) -> dict[str, Any]:
        """The constraint for a pod. `skew` raises maxSkew of a preference; `revision` is for matchLabelKeys."""
        soft = self.when_unsatisfiable == "ScheduleAnyway"
        return {
            "maxSkew": max(skew, self.max_skew) if soft else self.max_skew,
            "topologyKey": self.key,
            "whenUnsatisfiable": self.when_unsatisfiable,
            "labelSelector": {"matchLabels": dict(selector)},
        } | ({"matchLabelKeys": [*revision]} if revision else {})


def _each_key_once(constraints: tuple[Constraint, ...]) -> tuple[Constraint, ...]:
    keys = [constraint.key for constraint in constraints]
    if twice := sorted({key for key in keys if keys.count(key) > 1}):
        raise ValueError(f"{', '.join(twice)} stands here twice: keep one constraint for each key")
    return constraints


_Constraints = Annotated[tuple[Constraint, ...], AfterValidator(_each_key_once)]


class TopologySpread(Injector):
    """Spreads the replicas of one owner over hosts and zones, unless the pod has a constraint on that key."""

    needs_placement: ClassVar[bool] = True
    not_exported: ClassVar[str] = "must agree with the chosen node"
    sentences: ClassVar[Mapping[str, str]] = {
        "nodeIsFixed": "not spread: one node is required",
        "noOwner": "not spread: no controller made it, so it has no replicas",
        "podAffinity": "not spread: it says itself which pods it wants to be near",
        "podGroup": "not spread: the scheduler places its pod group as a whole",
        "claims": "not spread: it asks for devices or parts of GPUs, and no node was chosen for it",
        "noLabels": "not spread: it has no labels that select its replicas",
        "present": "it has topology spread or anti-affinity of its own",
        "neutral": "the scheduler's default spread was switched off, since it could work against the chosen node",
        "antiAffinity": "it prefers nodes without its replicas",
        "added": "it got topology spread over {}",
    }

    mode: Literal["constraints", "antiAffinity"] = "constraints"
    """constraints (topologySpreadConstraints) | antiAffinity (a preferred pod anti-affinity over hosts instead)"""
    constraints: _Constraints = (Constraint(key=HOST), Constraint(key=ZONE))

    def inject(self, edit: Edit, context: Context) -> Outcome:
        if context.node_is_fixed(edit.object):
            return Outcome("nodeIsFixed")
        if in_pod_group(edit.object):
            return Outcome("podGroup")
        placement = context.placement
        chosen = placement is not None and bool(placement.nodes)
        if placement and chosen and not placement.apart:
            if edit.get(_CONSTRAINTS):
                return Outcome("present")
            edit.set(_CONSTRAINTS, [Constraint(key=HOST).in_pod(1, NEUTRAL)])
            return Outcome("neutral")
        if context.owner is None:
            return Outcome("noOwner")
        if not (chosen or context.gpu_names) and (claims_devices(edit.object) or context.other_gpus):
            return Outcome("claims")
        if edit.get(("spec", "affinity", "podAffinity")):
            return Outcome("podAffinity")
        selector = _stable_labels(edit.object)
        if not selector:
            return Outcome("noLabels")
        if self.mode == "antiAffinity":
            return _anti_affinity(edit, selector)
        present = {c.get("topologyKey") for c in edit.get(_CONSTRAINTS) or ()}
        revision = [key for key in _REVISION_LABELS if key in labels_of(edit.object)]
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
    """Whether the key has at least two values on GPU nodes. A node without it gets no score, or no pod with DoNotSchedule."""
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


def _stable_labels(pod: Pod) -> dict[str, str]:
    """The labels that all pods of the owner share: sorted, the first _MAX_LABELS of them."""
    stable = sorted([(key, value) for key, value in labels_of(pod).items() if key not in _POD_LABELS])
    return dict(stable[:_MAX_LABELS])
