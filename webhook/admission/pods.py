"""Decides about pods: a request, a policy and the cluster at one moment in; a decision out. No I/O, no clock, no randomness.

A mutation has two halves. `prepare` does all that does not depend on which nodes are free: it is the same for every replica
of a template. `complete` chooses the node, and does the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import orjson

from webhook.admission import record as explain
from webhook.admission.context import (
    NamespaceProfile,
    context_of,
    denials,
    excessive,
    exempt,
    findings,
    pod_of,
    profile_of,
    refused,
)
from webhook.admission.decision import IGNORED, Decision
from webhook.admission.earlier import Earlier, Outgrown, earlier_choice, outgrown
from webhook.admission.reduced import as_json, reduced
from webhook.cluster.pods import reservation_request
from webhook.framework.cluster_view import Cluster, Placement
from webhook.framework.interface import Context, Injector, Outcome
from webhook.injectors.node_affinity import withdraw
from webhook.kube import bounds
from webhook.kube.json_patch import Edit, apply
from webhook.kube.pod import DECISION, Pod, annotations_of
from webhook.kube.review import Request
from webhook.placement.placer import PlacementRequest, Placer, placement_request
from webhook.placement.strategies import WEIGHTS, keeps_apart
from webhook.policy.model import Policy

_MOST_GPU_NAMES = 64
"""Of one pod. With more it is left unchanged here; the validating hook reports it."""
_ANNOTATION = ("metadata", "annotations", DECISION)
_Injectors = tuple[tuple[str, Injector], ...]
"""By name, in run order."""
_GATED = "gpu-admission: internal error, the pod was left as it was: please report this"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A pod on its way: what was done to it before a node is chosen."""

    source: bytes
    """The pod as it was received (reduced), as JSON."""
    edit: Edit
    context: Context
    profile: NamespaceProfile
    outcomes: dict[str, Outcome]
    warnings: tuple[str | None, ...]
    to_place: PlacementRequest | Placement
    """The request; or the Placement of an earlier call, or one that says why no node is chosen."""
    earlier: Earlier | None
    """The choice of an earlier call of the hook, where it still holds."""
    outgrown: Outgrown | None
    """That choice, where it does not."""
    remaining: _Injectors
    """The injectors that need the placement, in run order."""

    @property
    def settled(self) -> bool:
        """Whether the next pod of the template gets the same."""
        return all([outcome.settled for outcome in self.outcomes.values()])


Prepare = Callable[[Request, Policy, Cluster, Placer | None], Prepared | Decision]


def prepare(request: Request, policy: Policy, cluster: Cluster, placer: Placer | None) -> Prepared | Decision:
    """The half that is the same for all replicas: a decision where there is nothing to place. `request`: a reduced one."""
    profile = profile_of(request.namespace, policy, cluster)
    if profile is None:
        return IGNORED
    pod = pod_of(request.object)
    context = context_of(request, pod, policy, cluster, profile, placer)
    if len(context.gpu_names) > _MOST_GPU_NAMES:
        return IGNORED
    claims = bool(pod["spec"].get("resourceClaims"))
    injectors = policy.injectors_for(profile.name, gpu=bool(context.gpu_names), claims=claims)
    if not injectors:  # it has no GPU that we know, but may have claims or other devices
        return _refused_early(request, Edit(pod), context, policy, profile, ()) or IGNORED
    settings, workload = profile.settings.placement, context.workload.name
    context.strategy = settings.strategy(workload) if context.gpu_names else "pack"
    context.keeps_apart = keeps_apart(context.strategy)
    if placer is not None:
        context.place = partial(
            placer.place,
            cluster=cluster,
            settings=settings,
            strategy=context.strategy,
            gpus=policy.gpus,
            workload=workload,
        )
    edit = Edit(pod)
    first = next((n for n, (_, injector) in enumerate(injectors) if injector.needs_placement), len(injectors))
    outcomes = {name: injector.inject(edit, context) for name, injector in injectors[:first]}
    if refusal := _refused_early(request, edit, context, policy, profile, injectors[first:]):
        return refusal
    earlier = earlier_choice(edit, context.strategy)
    grown = outgrown(pod, earlier) if earlier else None
    if earlier and grown:
        withdraw(edit, earlier.placement._replace(weights=WEIGHTS))
        earlier = None
    to_place = placement_request(edit.object, settings, context.strategy, policy.gpus, workload)
    return Prepared(
        source=as_json(pod),
        edit=edit,
        context=context,
        profile=profile,
        outcomes=outcomes,
        warnings=(profile.warning, context.workload.warning, *[outcome.warning for outcome in outcomes.values()]),
        to_place=earlier.placement if earlier else to_place,
        earlier=earlier,
        outgrown=grown,
        remaining=injectors[first:],
    )


def _refused_early(
    request: Request, edit: Edit, context: Context, policy: Policy, profile: NamespaceProfile, remaining: _Injectors
) -> Decision | None:
    """A refusal, by all rules, where the API server would refuse the pod before it calls the validating hook; else None."""
    early = findings(edit.object, context, policy.early_rules(profile.name))
    if not denials(list(early)) or exempt(request, edit.object, profile):
        return None
    for _, injector in remaining:
        injector.inject(edit, context)
    found = list(findings(edit.object, context, policy.rules(profile.name)))
    decision = refused(request, found, policy, profile, context.workload.name)
    return replace(decision, warnings=_without_none(profile.warning, context.workload.warning))


def complete(prepared: Prepared, policy: Policy, cluster: Cluster, placer: Placer | None) -> Decision:
    """Choose the node, and run the injectors that need it. `prepared` may be an earlier replica's."""
    profile, to_place, edit = prepared.profile, prepared.to_place, prepared.edit.copy()
    asked = prepared.earlier.asked if prepared.earlier else None
    if not isinstance(to_place, PlacementRequest):
        placement = to_place
    elif placer is None:
        placement = Placement((), to_place.strategy, "cluster state is not known")
    else:
        asked, placement = to_place.demand, placer.answer(to_place, cluster, profile.settings.placement, policy.gpus)
    context = replace(prepared.context, cluster=cluster, placement=placement)
    outcomes = dict(prepared.outcomes)
    for name, injector in prepared.remaining:
        outcomes[name] = injector.inject(edit, context)
    workload = context.workload.name
    record = explain.encoded(explain.record(policy.hash, profile.name, workload, outcomes, placement, asked))
    decision = Decision(
        "unchanged",
        profile.name,
        workload,
        warnings=_without_none(*prepared.warnings, *[outcomes[name].warning for name, _ in prepared.remaining]),
        record=record,
        outcomes=outcomes,
        placement=placement,
        outgrown=prepared.outgrown,
        unknown_profile=profile.unknown,
    )
    if not edit and (prepared.earlier or DECISION in annotations_of(edit.object)):
        return replace(decision, result="shadow") if profile.settings.shadow else decision
    edit.set(_ANNOTATION, record)
    patch = edit.patch()
    if len(patch) > bounds.LARGEST_PATCH:
        return IGNORED
    if not _holds(patch, prepared.source, edit):
        return replace(decision, result="gated", warnings=(_GATED,))
    if profile.settings.shadow:
        return replace(decision, result="shadow")
    placed = isinstance(to_place, PlacementRequest) and bool(placement.nodes)
    reservation = reservation_request(edit.object) if placed else None
    return replace(decision, result="patched", patch=patch, reservation=reservation)


def _without_none(*warnings: str | None) -> tuple[str, ...]:
    return tuple([warning for warning in warnings if warning])


def _holds(patch: bytes, source: bytes, edit: Edit) -> bool:
    """The gate: a patch that does not apply is a 500 for the user, even under failurePolicy Ignore."""
    try:
        return apply(patch, orjson.loads(source)) == edit.object
    except (LookupError, TypeError, ValueError):
        return False


def mutate(
    request: Request, policy: Policy, cluster: Cluster, placer: Placer | None, prepare: Prepare = prepare
) -> Decision:
    """Decide for a new pod. Nothing is changed in place.

    `prepare`: the function of that name, or one with a cache. Raises BadPod without an object, anything if it is malformed.
    """
    if request.operation != "CREATE" or request.resource != "pods" or request.subresource:
        return IGNORED
    if bounds.of_size(request.size) or bounds.of_pod(request.object):
        return IGNORED  # the validating hook reports it
    prepared = prepare(reduced(request), policy, cluster, placer)
    return prepared if isinstance(prepared, Decision) else complete(prepared, policy, cluster, placer)


def validate(request: Request, policy: Policy, cluster: Cluster, placer: Placer | None) -> Decision:
    """Check a pod. On an UPDATE only new violations count.

    Raises BadPod where there is no object, and anything where it is malformed.
    """
    if request.resource != "pods" or request.subresource not in ("", "ephemeralcontainers"):
        return IGNORED
    if request.operation not in ("CREATE", "UPDATE"):
        return IGNORED
    profile = profile_of(request.namespace, policy, cluster)
    if profile is None:
        return IGNORED
    pod = pod_of(request.object)
    old = request.old
    if (
        old is not None
        and old["spec"] == pod["spec"]
        and old["metadata"].get("annotations") == pod["metadata"].get("annotations")
    ):
        return IGNORED
    if exempt(request, pod, profile):
        return Decision("allowed", profile.name)
    if past := [*bounds.of_size(request.size), *bounds.of_pod(pod)]:
        if old is None or old["spec"] != pod["spec"] or bounds.of_pod(annotated := _annotations_alone(pod)):
            return refused(request, excessive(past), policy, profile)
        pod, old = annotated, _annotations_alone(old)  # the size of a spec that did not change is not held against it
    context = context_of(request, pod, policy, cluster, profile, placer)
    context.old = None if old is None or bounds.of_pod(old) else old  # what is not walked excuses nothing
    found = list(findings(pod, context, policy.rules(profile.name)))
    if denials(found):
        return refused(request, found, policy, profile, context.workload.name)
    return Decision(
        "allowed", profile.name, context.workload.name, findings=tuple(found), unknown_profile=profile.unknown
    )


def _annotations_alone(pod: Pod) -> Pod:
    """What an update can change besides the spec."""
    annotations = pod["metadata"].get("annotations")
    return {"metadata": {"annotations": annotations}, "spec": {"containers": []}}
