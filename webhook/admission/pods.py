"""Decides about pods, from a request, a policy and the state of the cluster at one moment."""

from functools import partial

from webhook.admission.annotations import annotation_warning
from webhook.admission.context import (
    Injected,
    NamespaceProfile,
    context_of,
    decided,
    denials,
    exempt,
    findings_of,
    injected,
    pod_of,
    profile_of,
    size_findings,
    without_none,
)
from webhook.admission.decision import IGNORED, Decision, Result
from webhook.admission.earlier import as_written, outcomes_of_earlier
from webhook.admission.record import encoded, record
from webhook.framework.cluster_view import Cluster
from webhook.framework.interface import Context
from webhook.kube import bounds
from webhook.kube.asked import AskedPod
from webhook.kube.json_patch import Edit
from webhook.kube.pod import DECISION, Pod
from webhook.kube.pod_requests import PodRequests
from webhook.kube.review import Request
from webhook.placement.placer import Placer
from webhook.policy.model import Policy

_MAX_GPU_NAMES = 64
"""Maximum number of GPU resource names in one pod. A pod with more is not changed."""
_ANNOTATION = ("metadata", "annotations", DECISION)


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
    if len(context.pod.gpu_names) > _MAX_GPU_NAMES:
        return IGNORED
    edit, injectors = Edit(pod), policy.injectors_for(profile.name, context.pod)
    found = injected(injectors, edit, context)
    if refusal := _refused_early(request, found.pod, context, policy, profile):
        return refusal
    if not injectors:  # it has no GPU that we know
        return IGNORED
    return _decision(found, edit, context, policy, profile)


def _decision(found: Injected, edit: Edit, context: Context, policy: Policy, profile: NamespaceProfile) -> Decision:
    """The decision about a pod on which all injectors have run."""
    workload, outcomes = context.workload, found.outcomes
    placement = next((outcome.placement for outcome in outcomes.values() if outcome.placement is not None), None)
    asked = PodRequests(placement.asked, placement.devices) if placement and placement.asked else None
    reservation = found.pod if placement is not None and placement.nodes and not placement.kept else None
    describe = partial(record, policy.hash, profile.name, workload.name, placement=placement, asked=asked)
    text = encoded(describe(outcomes))
    warnings = (
        profile.warning,
        workload.warning,
        annotation_warning(context.pod.json),
        *[outcome.warning for outcome in outcomes.values()],
    )
    result: Result = "unchanged"
    if edit or DECISION not in context.pod.annotations:
        kept = outcomes_of_earlier(context.pod.record, found.idle)
        edit.set(_ANNOTATION, encoded(describe(outcomes | kept)) if kept else text)
        result = "patched"
    patch = edit.patch()
    if len(patch) > bounds.MAX_PATCH_BYTES:
        return IGNORED
    if profile.settings.dry_run:
        result = "dryRun"
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
        quiet=profile.settings.dry_run,
    )


def _refused_early(
    request: Request, pod: AskedPod, context: Context, policy: Policy, profile: NamespaceProfile
) -> Decision | None:
    """A refusal with the findings of all rules, if the API server would refuse the pod before the validating hook; else None.
    `pod`: after the injectors."""
    early = findings_of(pod, context, policy.units[profile.name].early)
    if not denials(early) or exempt(request, pod.json, profile):
        return None
    findings = findings_of(pod, context, policy.units[profile.name].checks)
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
    injected = profile.settings.dry_run and request.operation == "CREATE"
    written = pod if injected else as_written(pod)
    claimed = cluster.claimed(pod, request.namespace)
    context = context_of(request, pod, policy, cluster, profile, placer, written=written, old=old, claimed=claimed)
    would = ""
    asked = context.pod
    if injected:
        asked, would = _after_injectors(context, policy, profile)
    findings = findings_of(asked, context, policy.units[profile.name].checks)
    return decided(request, findings, policy, profile, context.workload.name, would)


def _after_injectors(context: Context, policy: Policy, profile: NamespaceProfile) -> tuple[AskedPod, str]:
    """The pod as the mutating hook would have changed it if the profile were not in dry run; and the change in words."""
    edit = Edit(context.pod.json)
    found = injected(policy.injectors_for(profile.name, context.pod), edit, context)
    chosen = [each.nodes[0].node for outcome in found.outcomes.values() if (each := outcome.placement) and each.nodes]
    choice = f"; node {chosen[0]} would be its first choice" if chosen else ""
    return found.pod, f"get {', '.join(found.done)}{choice}" if found.done else ""


def _annotations_alone(pod: Pod) -> Pod:
    """A pod with the annotations alone: besides the spec, only these matter in an update."""
    annotations = pod["metadata"].get("annotations")
    return {"metadata": {"annotations": annotations}, "spec": {"containers": []}}
