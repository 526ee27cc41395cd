"""Decides about pods, from a request, a policy and the state of the cluster at one moment."""

from functools import partial

from webhook.admission.context import (
    NamespaceProfile,
    context_of,
    decided,
    denials,
    exempt,
    findings_of,
    pod_of,
    profile_of,
    size_findings,
    without_none,
)
from webhook.admission.decision import IGNORED, Decision, Result
from webhook.admission.earlier import Earlier, as_written, earlier_choice, outcomes_of_earlier
from webhook.admission.record import encoded, record
from webhook.admission.switches import switch_warning
from webhook.cluster.device_sources import shared_claims
from webhook.cluster.node_table import Demand
from webhook.cluster.pods import reservation_request
from webhook.framework.cluster_view import Cluster, Placement
from webhook.framework.interface import Context, Injector, Outcome
from webhook.framework.node_terms import remove_terms
from webhook.kube import bounds
from webhook.kube.json_patch import Edit
from webhook.kube.pod import DECISION, Pod, annotations_of, claims_devices, names_zero_gpus
from webhook.kube.review import Request
from webhook.placement.placer import Placer
from webhook.placement.strategies import WEIGHTS
from webhook.policy.model import Policy

_MAX_GPU_NAMES = 64
"""Maximum number of GPU resource names in one pod. A pod with more is not changed."""
_ANNOTATION = ("metadata", "annotations", DECISION)
_Injectors = tuple[tuple[str, Injector], ...]
"""Injectors with their names, in run order."""


def mutate(request: Request, policy: Policy, cluster: Cluster, placer: Placer | None) -> Decision:
    """Decide about a new pod. Nothing is changed in place.

    Raises BadPod if there is no object, and any exception if the object is malformed.
    """
    if request.operation != "CREATE" or request.resource != "pods" or request.subresource:
        return IGNORED
    if bounds.exceeded_by_size(request.size) or bounds.exceeded_by_pod(request.object, request.size):
        return IGNORED  # the validating hook reports it
    profile = profile_of(request.namespace, policy, cluster)
    pod = pod_of(request.object)
    context = context_of(request, pod, policy, cluster, profile, placer, written=as_written(pod))
    if len(context.gpu_names) > _MAX_GPU_NAMES:
        return IGNORED
    edit, first, then = Edit(pod), *_injectors_for(pod, context, policy, profile)
    if not first and not then:  # it has no GPU that we know, but may have claims or other devices
        return _refused_early(request, edit, context, policy, profile, ()) or IGNORED
    outcomes, idle = dict[str, Outcome](), dict[str, Injector]()
    _apply(first, edit, context, outcomes, idle)
    if refusal := _refused_early(request, edit, context, policy, profile, then):
        return refusal
    earlier = _kept(edit, context, profile, placer)
    context = context._replace(placement=earlier.placement if earlier else _placed(edit.object, context, profile))
    _apply(then, edit, context, outcomes, idle)
    return _decision(pod, edit, context, policy, profile, outcomes, idle, earlier)


def _apply(
    injectors: _Injectors, edit: Edit, context: Context, outcomes: dict[str, Outcome], idle: dict[str, Injector]
) -> None:
    """Add the outcomes of these injectors to `outcomes`, and those that changed nothing to `idle`."""
    for name, injector in injectors:
        before = len(edit.operations)
        outcomes[name] = injector.apply(edit, context)
        if len(edit.operations) == before:
            idle[name] = injector


def _injectors_for(
    pod: Pod, context: Context, policy: Policy, profile: NamespaceProfile
) -> tuple[_Injectors, _Injectors]:
    """The injectors that run on this pod, before and after the choice of a node."""
    claims = claims_devices(pod) or bool(context.other_gpus)
    placed = claims_devices(pod) or bool(context.other_gpus and shared_claims(pod))
    gpu, zero = bool(context.gpu_names), not context.gpu_names and names_zero_gpus(pod, policy.gpus)
    every = policy.injectors_for(profile.name, gpu=gpu, claims=claims, placed=placed, zero=zero)
    first = next((number for number, (_, injector) in enumerate(every) if injector.needs_placement), len(every))
    return every[:first], every[first:]


def _strategy(pod: Pod, context: Context, profile: NamespaceProfile) -> str:
    gpus = context.gpu_names or claims_devices(pod)
    return profile.settings.placement.strategy(context.workload.name) if gpus else "pack"


def _placed(pod: Pod, context: Context, profile: NamespaceProfile) -> Placement:
    if context.nodes is None:
        return Placement((), _strategy(pod, context, profile), reason="cluster state is not known")
    return context.nodes.place(pod)


def _kept(edit: Edit, context: Context, profile: NamespaceProfile, placer: Placer | None) -> Earlier | None:
    """The choice of an earlier call, if it still holds. If not, the terms for its nodes are removed."""
    earlier = earlier_choice(edit, _strategy(edit.object, context, profile))
    if earlier is None or placer is None or (more := earlier.more(edit.object)) is None:
        return earlier
    if placer.has_room(earlier.placement.nodes[0].node, more, context.namespace):
        return earlier
    remove_terms(edit, earlier.placement._replace(weights=WEIGHTS, required=earlier.pinned))
    return None


def _decision(
    pod: Pod,
    edit: Edit,
    context: Context,
    policy: Policy,
    profile: NamespaceProfile,
    outcomes: dict[str, Outcome],
    idle: dict[str, Injector],
    earlier: Earlier | None,
) -> Decision:
    """The decision about a pod on which all injectors have run. `idle`: those that changed nothing; `earlier`: the choice of an
    earlier call, if it still holds."""
    placement, workload = context.placement, context.workload
    asked = (
        earlier.asked
        if earlier
        else Demand(placement.asked, placement.devices)
        if placement and placement.nodes
        else None
    )
    reservation = reservation_request(edit.object, asked) if asked and not earlier else None
    describe = partial(record, policy.hash, profile.name, workload.name, placement=placement, asked=asked)
    text = encoded(describe(outcomes))
    warnings = (
        profile.warning,
        workload.warning,
        switch_warning(pod),
        *[outcome.warning for outcome in outcomes.values()],
    )
    result: Result = "unchanged"
    if edit or DECISION not in annotations_of(pod):
        edit.set(_ANNOTATION, encoded(describe(outcomes | kept)) if (kept := outcomes_of_earlier(pod, idle)) else text)
        result = "patched"
    patch = edit.patch()
    if len(patch) > bounds.MAX_PATCH_BYTES:
        return IGNORED
    if profile.settings.shadow:
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
        quiet=profile.settings.shadow,
    )


def _refused_early(
    request: Request, edit: Edit, context: Context, policy: Policy, profile: NamespaceProfile, remaining: _Injectors
) -> Decision | None:
    """A refusal with the findings of all rules, if the API server would refuse the pod before the validating hook; else None."""
    early = findings_of(edit.object, context, policy.units[profile.name].early_rules)
    if not denials(list(early)) or exempt(request, edit.object, profile):
        return None
    for _, injector in remaining:
        injector.apply(edit, context)
    findings = list(findings_of(edit.object, context, policy.units[profile.name].rules))
    decision = decided(request, findings, policy, profile, context.workload.name)
    return decision._replace(warnings=without_none(profile.warning, context.workload.warning))


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
    if excesses := [*bounds.exceeded_by_size(request.size), *bounds.exceeded_by_pod(pod, request.size)]:
        if old is None or old["spec"] != pod["spec"] or bounds.exceeded_by_pod(annotated := _annotations_alone(pod)):
            return decided(request, size_findings(excesses), policy, profile)
        pod, old = annotated, _annotations_alone(old)  # the spec is too large, but this update does not change it
    if old is not None and bounds.exceeded_by_pod(old, request.size):
        old = None  # it is not compared
    injected = profile.settings.shadow and request.operation == "CREATE"
    written = pod if injected else as_written(pod)
    claimed = cluster.claimed(pod, request.namespace)
    context = context_of(request, pod, policy, cluster, profile, placer, written=written, old=old, claimed=claimed)
    would = ""
    if injected:
        pod, would = _after_injectors(pod, context, policy, profile)
    findings = list(findings_of(pod, context, policy.units[profile.name].rules))
    return decided(request, findings, policy, profile, context.workload.name, would)


def _after_injectors(pod: Pod, context: Context, policy: Policy, profile: NamespaceProfile) -> tuple[Pod, str]:
    """The pod as the mutating hook would have changed it if the profile were not in shadow; and the change in words."""
    edit, done, chosen = Edit(pod), [], ""
    first, then = _injectors_for(pod, context, policy, profile)
    for name, injector in (*first, *then):
        if injector.needs_placement and context.placement is None:
            placement = _placed(edit.object, context, profile)
            context = context._replace(placement=placement)
            chosen = f"; node {placement.nodes[0].node} would be its first choice" if placement.nodes else ""
        before = len(edit.operations)
        injector.apply(edit, context)
        if len(edit.operations) > before:
            done.append(name)
    return edit.object, f"get {', '.join(done)}{chosen}" if done else ""


def _annotations_alone(pod: Pod) -> Pod:
    """A pod with the annotations alone: besides the spec, only these matter in an update."""
    annotations = pod["metadata"].get("annotations")
    return {"metadata": {"annotations": annotations}, "spec": {"containers": []}}
