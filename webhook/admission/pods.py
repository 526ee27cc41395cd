"""Decides about pods, from a request, a policy and the state of the cluster at one moment."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from webhook.admission.context import (
    NamespaceProfile,
    context_of,
    denials,
    exempt,
    findings_of,
    pod_of,
    profile_of,
    refused,
    size_findings,
    without_none,
)
from webhook.admission.decision import IGNORED, Decision, Result
from webhook.admission.earlier import Earlier, Outgrown, as_written, earlier_choice, outgrown
from webhook.admission.record import encoded, record
from webhook.admission.switches import switch_warning
from webhook.cluster.node_table import Demand
from webhook.cluster.pods import reservation_request
from webhook.framework.cluster_view import Cluster, Placement
from webhook.framework.interface import Context, Injector, Outcome
from webhook.framework.node_terms import remove_terms
from webhook.kube import bounds
from webhook.kube.json_patch import DOES_NOT_APPLY, Edit, apply
from webhook.kube.pod import DECISION, Pod, annotations_of
from webhook.kube.review import Request
from webhook.placement.placer import Placer
from webhook.placement.strategies import WEIGHTS, keeps_apart
from webhook.policy.model import Policy

_MAX_GPU_NAMES = 64
"""Maximum number of GPU resource names in one pod. A pod with more is not changed; the validating hook reports it."""
_ANNOTATION = ("metadata", "annotations", DECISION)
_Injectors = tuple[tuple[str, Injector], ...]
"""Injectors with their names, in run order."""
_GATED = "gpu-admission: internal error, the pod was left as it was: please report this"


def mutate(request: Request, policy: Policy, cluster: Cluster, placer: Placer | None) -> Decision:
    """Decide about a new pod. Nothing is changed in place.

    Raises BadPod if there is no object, and any exception if the object is malformed.
    """
    if request.operation != "CREATE" or request.resource != "pods" or request.subresource:
        return IGNORED
    if bounds.exceeded_by_size(request.size) or bounds.exceeded_by_pod(request.object):
        return IGNORED  # the validating hook reports it
    profile = profile_of(request.namespace, policy, cluster)
    pod = pod_of(request.object)
    context = context_of(request, pod, policy, cluster, profile, placer)
    context.written = as_written(pod)
    if len(context.gpu_names) > _MAX_GPU_NAMES:
        return IGNORED
    edit, injectors = Edit(pod), _injectors_for(pod, context, policy, profile)
    if not injectors:  # it has no GPU that we know, but may have claims or other devices
        return _refused_early(request, edit, context, policy, profile, ()) or IGNORED
    _set_placement(context, policy, profile, placer)
    first = next((n for n, (_, injector) in enumerate(injectors) if injector.needs_placement), len(injectors))
    outcomes = {name: injector.apply(edit, context) for name, injector in injectors[:first]}
    if refusal := _refused_early(request, edit, context, policy, profile, injectors[first:]):
        return refusal
    earlier, grown = earlier_choice(edit, context.strategy), None
    if earlier and (grown := outgrown(pod, earlier)):
        remove_terms(edit, earlier.placement._replace(weights=WEIGHTS))
        earlier = None
    context.placement = earlier.placement if earlier else _placed(edit.object, context)
    outcomes |= {name: injector.apply(edit, context) for name, injector in injectors[first:]}
    return _decision(pod, edit, context, policy, profile, outcomes, earlier, grown)


def _injectors_for(pod: Pod, context: Context, policy: Policy, profile: NamespaceProfile) -> _Injectors:
    """The injectors that run on this pod."""
    claims = bool(pod["spec"].get("resourceClaims") or context.other_gpus)
    return policy.injectors_for(profile.name, gpu=bool(context.gpu_names), claims=claims)


def _set_placement(context: Context, policy: Policy, profile: NamespaceProfile, placer: Placer | None) -> None:
    """Set in the context how the node of this pod is chosen."""
    settings, workload = profile.settings.placement, context.workload.name
    context.strategy = settings.strategy(workload) if context.gpu_names else "pack"
    context.keeps_apart = keeps_apart(context.strategy)
    if placer is not None:
        context.place = partial(
            placer.place,
            cluster=context.cluster,
            settings=settings,
            strategy=context.strategy,
            gpus=policy.gpus,
            workload=workload,
        )


def _placed(pod: Pod, context: Context) -> Placement:
    return context.place(pod) if context.place else Placement((), context.strategy, "cluster state is not known")


def _decision(
    pod: Pod,
    edit: Edit,
    context: Context,
    policy: Policy,
    profile: NamespaceProfile,
    outcomes: dict[str, Outcome],
    earlier: Earlier | None,
    grown: Outgrown | None,
) -> Decision:
    """The decision about a pod on which all injectors have run.

    `earlier`: the choice of an earlier call of the hook, if it still holds; `grown`: see `Decision.outgrown`.
    """
    placement, workload = context.placement, context.workload
    asked = earlier.asked if earlier else Demand(placement.asked) if placement and placement.nodes else None
    reservation = reservation_request(edit.object, asked) if asked and not earlier else None
    text = encoded(record(policy.hash, profile.name, workload.name, outcomes, placement, asked))
    warnings = (
        profile.warning,
        workload.warning,
        switch_warning(pod),
        *[outcome.warning for outcome in outcomes.values()],
    )
    result: Result = "unchanged"
    if edit or DECISION not in annotations_of(pod):
        edit.set(_ANNOTATION, text)
        result = "patched" if _holds(edit, pod) else "gated"
    patch = edit.patch()
    if len(patch) > bounds.MAX_PATCH_BYTES:
        return IGNORED
    if result == "gated":
        warnings = (_GATED,)
    elif profile.settings.shadow:
        result = "shadow"
    return Decision(
        result,
        profile.name,
        workload.name,
        policy.hash,
        patch=patch if result == "patched" else None,
        warnings=without_none(*warnings),
        record=text,
        outcomes=outcomes,
        placement=placement,
        reservation=reservation if result == "patched" else None,
        unknown_profile=profile.unknown,
        outgrown=grown,
        quiet=profile.settings.shadow,
    )


def _holds(edit: Edit, pod: Pod) -> bool:
    """The gate: a patch that does not apply is a 500 for the user, even under failurePolicy Ignore."""
    try:
        return apply(edit.operations, pod) == edit.object
    except DOES_NOT_APPLY:
        return False


def _refused_early(
    request: Request, edit: Edit, context: Context, policy: Policy, profile: NamespaceProfile, remaining: _Injectors
) -> Decision | None:
    """A refusal with the findings of all rules, if the API server would refuse the pod before the validating hook; else None."""
    early = findings_of(edit.object, context, policy.early_rules(profile.name))
    if not denials(list(early)) or exempt(request, edit.object, profile):
        return None
    for _, injector in remaining:
        injector.apply(edit, context)
    findings = list(findings_of(edit.object, context, policy.rules(profile.name)))
    decision = refused(request, findings, policy, profile, context.workload.name)
    return replace(decision, warnings=without_none(profile.warning, context.workload.warning))


def validate(request: Request, policy: Policy, cluster: Cluster, placer: Placer | None) -> Decision:
    """Check a pod. On an UPDATE only new violations count.

    Raises BadPod if there is no object, and any exception if the object is malformed.
    """
    if request.resource != "pods" or request.subresource not in ("", "ephemeralcontainers"):
        return IGNORED
    if request.operation not in ("CREATE", "UPDATE"):
        return IGNORED
    profile = profile_of(request.namespace, policy, cluster)
    pod = pod_of(request.object)
    old = request.old
    if (
        old is not None
        and old["spec"] == pod["spec"]
        and old["metadata"].get("annotations") == pod["metadata"].get("annotations")
    ):
        return IGNORED
    if exempt(request, pod, profile):
        return Decision("allowed", profile.name, policy=policy.hash)
    if excesses := [*bounds.exceeded_by_size(request.size), *bounds.exceeded_by_pod(pod)]:
        if old is None or old["spec"] != pod["spec"] or bounds.exceeded_by_pod(annotated := _annotations_alone(pod)):
            return refused(request, size_findings(excesses), policy, profile)
        pod, old = annotated, _annotations_alone(old)  # the spec is too large, but this update does not change it
    context = context_of(request, pod, policy, cluster, profile, placer)
    context.old = None if old is None or bounds.exceeded_by_pod(old) else old  # an old pod past a bound is not compared
    would = ""
    if profile.settings.shadow and request.operation == "CREATE":
        pod, would = _after_injectors(pod, context, policy, profile, placer)
    context.written = context.written or as_written(pod)
    findings = list(findings_of(pod, context, policy.rules(profile.name)))
    if denials(findings):
        return refused(request, findings, policy, profile, context.workload.name)
    return Decision(
        "allowed",
        profile.name,
        context.workload.name,
        policy.hash,
        findings=tuple(findings),
        unknown_profile=profile.unknown,
        quiet=profile.settings.shadow,
        would=would,
    )


def _after_injectors(
    pod: Pod, context: Context, policy: Policy, profile: NamespaceProfile, placer: Placer | None
) -> tuple[Pod, str]:
    """The pod as the mutating hook would have changed it if the profile were not in shadow; and the change in words."""
    context.written, edit, done = pod, Edit(pod), []
    _set_placement(context, policy, profile, placer)
    for name, injector in _injectors_for(pod, context, policy, profile):
        if injector.needs_placement and context.placement is None:
            context.placement = _placed(edit.object, context)
        before = len(edit.operations)
        injector.apply(edit, context)
        if len(edit.operations) > before:
            done.append(name)
    nodes = context.placement.nodes if context.placement else ()
    first = f"; node {nodes[0].node} would be its first choice" if nodes else ""
    return edit.object, f"get {', '.join(done)}{first}" if done else ""


def _annotations_alone(pod: Pod) -> Pod:
    """A pod with the annotations alone: besides the spec, only these matter in an update."""
    annotations = pod["metadata"].get("annotations")
    return {"metadata": {"annotations": annotations}, "spec": {"containers": []}}
