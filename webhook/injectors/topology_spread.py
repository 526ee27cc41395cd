"""Adds topology spread constraints to replicas whose strategy spreads them.

The strategies `apart` and `spread` spread replicas (`placement.strategies`). The choice of a node follows, and takes hosts and
zones with fewest pods of the owner first, so the constraints and the chosen node agree. They count where the pod goes
elsewhere: no node could be chosen, or it was full.

Any constraint in a pod switches off the scheduler's default ones. So the `maxSkew` of the policy is that of these defaults, 3
over hosts and 5 over zones: replicas are spread as well as without us. A smaller one would outweigh the chosen node, since the
scheduler does not take pods in the order in which they were admitted (measured: 6/2 with maxSkew 1, where each alone gives 4/4).
Its score is 100 * (max + min - s) / max with s = pods * ln(domains + 2) + maxSkew - 1 (podtopologyspread/scoring.go).

A ScheduleAnyway constraint over a label is left out if a node lacks it that could take the pod: the scheduler scores such a node
last, so the chosen node alone spreads the replicas over the others. A node that has just come, and gets its labels from the
cloud, does not count.

A pod keeps its own constraint on a key. One that an earlier call wrote is not its own: it is decided anew if another webhook has
changed the pod since. A pod with pod affinity gets none: it wants to be near other pods. Nor does one of a pod group (KEP-4671)
or gang, or one whose class is packed.

The selector is the label by which the controller tells the pods of one revision from all others: `pod-template-hash` of a
ReplicaSet, `controller-revision-hash` of a StatefulSet, the uid of a Job. Labels that differ from pod to pod would give each pod
another signature, and who groups pods by it (Kueue) would refuse them. A pod of another controller gets no constraint.

By default all constraints are ScheduleAnyway, so that no pod waits because of us. Karpenter takes even these as requirements, and
would add a machine for every few pods. So where it makes nodes only those with DoNotSchedule are added, and pods are spread by
the chosen node alone. The same holds for other schedulers: what they do with a preference is not known, and slurm-bridge refuses
pods with any constraint (internal/admission/admission.go). In mode `antiAffinity` the pod gets a preferred pod anti-affinity over
hosts instead, with the same selector.

Fields: spec.topologySpreadConstraints, or spec.affinity.podAntiAffinity. KEP-895, KEP-3243.

Read by:
    kube-scheduler: scores nodes by it; filters them with `DoNotSchedule`
    cluster-autoscaler: reads `DoNotSchedule` only
    Karpenter: first treats `ScheduleAnyway` as required, so where it runs we add only `DoNotSchedule`
    Kueue, KAI, Volcano, YuniKorn: pods of other schedulers get only `DoNotSchedule`. Volcano scores nodes by it, YuniKorn
      filters them, KAI does not read it
    descheduler: [may evict by it](#descheduler)
    quotas and others: the scheduler does not place pods with a constraint as one batch (KEP-5598)
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field

from webhook.framework.interface import Context, Edit, Injector, LabelKey, Outcome, Settings
from webhook.framework.node_terms import CONSTRAINTS, NEUTRAL
from webhook.kube.asked import AskedPod
from webhook.kube.pod import HOSTNAME as HOST
from webhook.kube.pod import PREFERRED, SCHEDULER, ZONE, Owner, in_pod_group
from webhook.kube.record import outcome_of
from webhook.kube.workload_kinds import GANGS, REVISION_LABELS, workload_kind

_ANTI_AFFINITY = ("spec", "affinity", "podAntiAffinity", PREFERRED)
_MAX_SKEW = 2**31 - 1
_LABELS = frozenset([label for labels in REVISION_LABELS.values() for label in labels])


class Constraint(Settings):
    """The spread over the values of one node label."""

    key: LabelKey
    max_skew: int = Field(default=1, ge=1, le=_MAX_SKEW)
    when_unsatisfiable: Literal["ScheduleAnyway", "DoNotSchedule"] = "ScheduleAnyway"
    """ScheduleAnyway (a preference) | DoNotSchedule (pods may stay pending, also because zones without GPUs count as zones with 0
    pods; not together with nodeAffinity mode required)"""

    def in_pod(self, selector: Mapping[str, str]) -> dict[str, Any]:
        """The constraint as a pod has it."""
        return {
            "maxSkew": self.max_skew,
            "topologyKey": self.key,
            "whenUnsatisfiable": self.when_unsatisfiable,
            "labelSelector": {"matchLabels": dict(selector)},
        }


def _each_key_once(constraints: tuple[Constraint, ...]) -> tuple[Constraint, ...]:
    keys = [constraint.key for constraint in constraints]
    if twice := sorted({key for key in keys if keys.count(key) > 1}):
        raise ValueError(f"{', '.join(twice)} stands here twice: keep one constraint for each key")
    return constraints


_Constraints = Annotated[tuple[Constraint, ...], AfterValidator(_each_key_once)]


class TopologySpread(Injector):
    """Spreads the replicas of one owner over hosts and zones, unless the pod has a constraint on that key."""

    handles_claims: ClassVar[bool] = True
    not_exported: ClassVar[str] = "depends on the zones of the nodes with GPUs"
    sentences: ClassVar[Mapping[str, str]] = {
        "packed": "not spread: pods of its class are packed",
        "nodeIsFixed": "not spread: one node is required",
        "noOwner": "not spread: no controller made it, so it has no replicas",
        "podAffinity": "not spread: it has pod affinity of its own",
        "otherScheduler": "not spread by constraints: another scheduler places it",
        "podGroup": "not spread: the scheduler places its pod group as a whole",
        "parts": "not spread: it asks for parts of GPUs, which another scheduler may place",
        "gang": "not spread: its pods work together",
        "autoscaler": "not spread by constraints, which Karpenter would require",
        "noLabels": "not spread: no label tells which pods are its replicas",
        "present": "it has topology spread or anti-affinity of its own",
        "antiAffinity": "it got a preferred anti-affinity to its replicas",
        "added": "it got topology spread over {}",
    }

    mode: Literal["constraints", "antiAffinity"] = "constraints"
    """constraints (topologySpreadConstraints) | antiAffinity (a preferred pod anti-affinity over hosts instead)"""
    constraints: _Constraints = (Constraint(key=HOST, max_skew=3), Constraint(key=ZONE, max_skew=5))

    def inject(self, edit: Edit, context: Context) -> Outcome:
        if outcome_of(context.pod.record, "topologySpread")[:1] not in (["added"], ["antiAffinity"]):
            return self._spread(edit, context)
        anew = Edit(edit.object)
        for path in (CONSTRAINTS, _ANTI_AFFINITY):
            anew.put(path, [each for each in edit.get(path) or () if not self._is_ours(each)])
        outcome = self._spread(anew, context)
        for path in (CONSTRAINTS, _ANTI_AFFINITY):
            before, after = edit.get(path) or [], anew.get(path) or []
            if len(before) != len(after) or any([each not in before for each in after]):
                edit.put(path, after)
        return outcome

    def _is_ours(self, entry: Mapping[str, Any]) -> bool:
        """Whether a constraint, or a term of preferred anti-affinity, is what this injector writes."""
        selector = (entry.get("podAffinityTerm") or entry).get("labelSelector") or {}
        labels = selector.get("matchLabels") or {}
        ours = [_avoided(labels), *[each.in_pod(labels) for each in self.constraints]]
        return labels.keys() <= _LABELS and entry in ours

    def _spread(self, edit: Edit, context: Context) -> Outcome:
        if context.pod.node_is_fixed:
            return Outcome("nodeIsFixed")
        if in_pod_group(edit.object):
            return Outcome("podGroup")
        if not context.spreads:
            return Outcome("packed")
        if context.pod.owner is None:
            return Outcome("noOwner")
        if not (context.pod.gpu_names or context.pod.claims_devices):
            return Outcome("parts")
        if edit.get(("spec", "affinity", "podAffinity")):
            return Outcome("podAffinity")
        if workload_kind(context.pod.labels, context.pod.owner.kind) in GANGS:
            return Outcome("gang")
        wanted = self.constraints
        other = (context.pod.spec.get("schedulerName") or SCHEDULER) != SCHEDULER
        if other or context.cluster.requires_preferences:
            hard = [each for each in wanted if each.when_unsatisfiable == "DoNotSchedule"]
            wanted = tuple(hard) if self.mode == "constraints" else ()
            if not wanted:
                return Outcome("otherScheduler" if other else "autoscaler")
        selector = _selector(context, context.pod.owner)
        if not selector:
            return Outcome("noLabels")
        if self.mode == "antiAffinity":
            return _anti_affinity(edit, selector)
        others = [each for each in edit.get(CONSTRAINTS) or () if each != NEUTRAL]
        present = {each.get("topologyKey") for each in others}
        added = [
            constraint.in_pod(selector)
            for constraint in wanted
            if constraint.key not in present and _useful(constraint, edit, context)
        ]
        if not added:
            return Outcome("present")
        edit.put(CONSTRAINTS, [*others, *added])
        return Outcome("added", [value["topologyKey"] for value in added])


def _useful(constraint: Constraint, edit: Edit, context: Context) -> bool:
    """Whether the key has at least two values on GPU nodes, and every node that could take the pod has one of them. A node
    without it gets no score (podtopologyspread/scoring.go, IgnoredNodes), or no pod with DoNotSchedule."""
    soft, of = constraint.when_unsatisfiable == "ScheduleAnyway", (constraint.key, context.gpus)
    if constraint.key == HOST and soft:
        return True
    if not (context.cluster.fresh and context.cluster.domains(*of) > 1):
        return False
    if not (soft and context.cluster.unlabelled(*of)):
        return True
    pod = AskedPod(edit.object, context.gpus)
    values = context.nodes.labels(pod, (constraint.key,)) if context.nodes is not None else frozenset()
    return bool(values) and ("",) not in values


def _anti_affinity(edit: Edit, selector: dict[str, str]) -> Outcome:
    for term in edit.get(_ANTI_AFFINITY) or ():
        if (term.get("podAffinityTerm") or {}).get("topologyKey") == HOST:
            return Outcome("present")
    edit.extend(_ANTI_AFFINITY, [_avoided(selector)])
    return Outcome("antiAffinity")


def _avoided(selector: Mapping[str, str]) -> dict[str, Any]:
    return {"weight": 100, "podAffinityTerm": {"topologyKey": HOST, "labelSelector": {"matchLabels": dict(selector)}}}


def _selector(context: Context, controller: Owner) -> dict[str, str]:
    """The label that its replicas have and no other pods; {} if none is known. The pods of a template will have it."""
    keys, labels = REVISION_LABELS.get(controller.kind, ()), context.pod.labels
    found = [(key, labels.get(key, "")) for key in keys if key in labels or context.template is not None]
    return dict(found[:1])
