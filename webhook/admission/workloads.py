"""Decides about the pod templates of workloads (Deployments, Jobs, …).

A template is checked when it is created or changed, but not on an update of other fields: a controller that writes the status
or scales the workload must not be refused for what was admitted earlier.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import orjson

from webhook.admission.annotations import annotation_warning
from webhook.admission.context import (
    MAX_FINDINGS,
    NamespaceProfile,
    context_of,
    decided,
    denials,
    exempt,
    findings_of,
    injected,
    profile_of,
    size_findings,
    without_none,
)
from webhook.admission.decision import IGNORED, Decision, UnitFinding
from webhook.framework import interface
from webhook.framework.as_stored import UNIT, as_stored
from webhook.framework.cluster_view import Cluster
from webhook.framework.interface import Context
from webhook.framework.limit_ranges import beyond_limits
from webhook.kube import bounds
from webhook.kube.asked import AskedPod
from webhook.kube.json_patch import Edit, Operation
from webhook.kube.pod import Pod, containers
from webhook.kube.pod_schema import check
from webhook.kube.review import Request
from webhook.placement.placer import Placer
from webhook.policy.model import Policy
from webhook.policy.templates import Template, is_workload, templates


class _Review(NamedTuple):
    """The input of the decision about the templates of one object."""

    request: Request
    policy: Policy
    cluster: Cluster
    placer: Placer | None
    profile: NamespaceProfile

    def pod_request(self, template: Template) -> Request:
        """The later request for a pod of the template. It comes from the controller, not from the author of the template."""
        return self.request._replace(operation="CREATE", user=template.creator, groups=())

    def exempts(self, template: Template) -> bool:
        return exempt(self.pod_request(template), template.pod, self.profile)

    def context(self, template: Template, pod: Pod, placer: Placer | None) -> Context:
        """The context of `pod`: the pod in the template, or as the API server stores it."""
        request = self.pod_request(template)
        built_in = is_workload(request.group, request.kind)
        stated = interface.Template(template.replicas, request.kind if built_in else "")
        return context_of(
            request,
            pod,
            self.policy,
            self.cluster,
            self.profile,
            placer,
            written=template.pod,
            template=stated,
        )


def mutate(request: Request, policy: Policy, cluster: Cluster, placer: Placer | None) -> Decision:
    """In mode `fix`: add the GPU limits that are missing beside requests. In every mode but `off`: give a Job that makes a
    PodGroup its PriorityClass, and refuse a GPU quantity that the API server would refuse anyway, with the findings of all rules.

    Raises BadPod if a template is malformed.
    """
    profile, changed, excesses = _changed(request, policy, cluster)
    if profile is None or profile.settings.dry_run or excesses:
        return IGNORED
    review = _Review(request, policy, cluster, placer, profile)
    operations: list[Operation] = []
    warnings: list[str | None] = []
    for number, template in enumerate(changed):
        edit = Edit(template.pod, template.path)
        if profile.settings.templates.mode == "fix" and profile.settings.injectors.gpu_resources.enabled:
            _add_limits(edit, template, policy)
        warnings.append(_give_class(edit, template, review))
        operations += edit.operations
        changed[number] = template._replace(pod=edit.object)
    if is_workload(request.group, request.kind):
        early = [finding for template in changed for finding in _early(review, template)]
        if early:
            return _decide(review, changed, early, deny=True)
    if not operations:
        return IGNORED
    patch = orjson.dumps(operations)
    return Decision("patched", profile.name, policy=policy.hash, patch=patch, warnings=without_none(*warnings))


def _add_limits(edit: Edit, template: Template, policy: Policy) -> None:
    """Add GPU limits beside requests without a limit. A limit without a request is valid and stays as it is."""
    for container in containers(template.pod) if template.holds == "template" else ():
        resources = container.spec.get("resources") or {}
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        for name in policy.gpus.among(requests):
            if name not in limits:
                edit.set((*container.path, "resources", "limits", name), requests[name])


def _give_class(edit: Edit, template: Template, review: _Review) -> str | None:
    """Set the PriorityClass in the template of a new Job from which its PodGroup and its pods both get theirs."""
    injector, request = review.profile.settings.injectors.priority_class, review.request
    new_job = (request.group, request.kind, request.operation) == ("batch", "Job", "CREATE")
    if not (new_job and injector.enabled and review.cluster.fresh):
        return None
    context = review.context(template, edit.object, None)
    if not injector.gives_group(request.object or {}, context.workload):
        return None
    outcome = injector.inject(edit, context)
    return f"its PodGroup and its pods get priority class {outcome.detail}" if outcome.result == "set" else None


def _early(review: _Review, template: Template) -> list[UnitFinding]:
    """The findings that the API server would refuse as well, in the template as it is before any injector."""
    if review.exempts(template):
        return []
    rules = review.policy.units[review.profile.name].early
    context = review.context(template, template.pod, None)
    denied = denials(findings_of(context.pod, context, rules))
    return [_in_template(finding, template) for finding in denied]


def validate(request: Request, policy: Policy, cluster: Cluster, placer: Placer | None) -> Decision:
    """Warn the author of a workload about what would be refused in its pods; in mode `deny` refuse the workload.

    Raises BadPod if a template is malformed.
    """
    profile, changed, excesses = _changed(request, policy, cluster)
    if profile is None:
        return IGNORED
    review = _Review(request, policy, cluster, placer, profile)
    if excesses and changed and all(review.exempts(template) for template in changed):
        return Decision("allowed", profile.name, policy=policy.hash)
    deny = profile.settings.templates.mode == "deny"
    return _decide(review, [] if excesses else changed, size_findings(excesses), deny=deny)


def _decide(review: _Review, changed: list[Template], early: Sequence[UnitFinding], *, deny: bool) -> Decision:
    """The decision by the findings in `early` and those of all rules on the templates."""
    policy, profile, workload = review.policy, review.profile, ""
    findings = [*early]
    warnings: list[str | None] = []
    for template in changed:
        if review.exempts(template):
            continue
        stored, refusals = as_stored(template.pod, review.request.namespace, review.cluster)
        context = review.context(template, stored, review.placer)
        workload = context.workload.name
        found = (
            _of_part(template.pod, context, policy, profile, warnings)
            if template.completed
            else [
                *[UnitFinding(UNIT, "foretold", refusal) for refusal in refusals],
                *_findings(context, policy, profile, warnings),
            ]
        )
        in_template = [_in_template(each, template) for each in found]
        findings += [each for each in in_template if each not in early]
    refused = any(each.action != "warn" for each in findings)
    said = without_none(profile.warning, *(() if refused else warnings))
    if not deny:
        findings = [each._replace(action="foretold") if each.action == "deny" else each for each in findings]
    return decided(review.request, findings, policy, profile, workload)._replace(warnings=said)


def _changed(
    request: Request, policy: Policy, cluster: Cluster
) -> tuple[NamespaceProfile | None, list[Template], list[bounds.Excess]]:
    """The namespace's profile, the templates that are new or changed, and the bounds that they exceed.

    The profile is None if there is nothing to decide. If a bound is exceeded, no template may be walked.
    """
    if request.operation not in ("CREATE", "UPDATE") or request.object is None or request.subresource:
        return None, [], []
    profile = profile_of(request.namespace, policy, cluster)
    if profile.settings.templates.mode == "off":
        return None, [], []
    if excesses := bounds.exceeded_by_size(request.size):  # then the object is not searched for templates
        differs = request.old is None or request.old.get("spec") != request.object.get("spec")
        return (profile, [], excesses) if differs else (None, [], [])
    settings, old = profile.settings.templates, request.old or {}
    before = [_compared(template) for template in templates(old, request.group, request.kind, settings)] if old else []
    now = templates(request.object, request.group, request.kind, settings)
    changed = [template for number, template in enumerate(now) if before[number : number + 1] != [_compared(template)]]
    if not changed:
        return None, [], []
    excesses = bounds.exceeded_by_workload(request.object) + bounds.exceeded_by_templates(
        [template.pod for template in changed]
    )
    if len(changed) > (limit := bounds.LIMITS["templates"]):
        excesses.append(bounds.Excess("spec", len(changed), "templates", limit))
    for template in changed if not excesses else ():
        check(template.pod)
    return profile, changed, excesses


def _compared(template: Template) -> tuple[Any, Any]:
    """The parts in which a change counts. Not the annotations, since `kubectl rollout restart` writes one."""
    return template.pod["spec"], template.pod["metadata"].get("labels")


def _of_part(
    pod: Pod, context: Context, policy: Policy, profile: NamespaceProfile, warnings: list[str | None]
) -> list[UnitFinding]:
    """The findings on a template that its controller completes: only what holds for whatever is added to it."""
    warnings += [context.workload.warning, annotation_warning(pod)]
    return [*findings_of(AskedPod(pod, policy.gpus), context, policy.units[profile.name].of_parts)]


def _findings(
    context: Context, policy: Policy, profile: NamespaceProfile, warnings: list[str | None]
) -> Iterator[UnitFinding]:
    """The findings of the rules on the pod after the injectors, and what the API server refuses then.

    The warnings of the injectors are appended to `warnings`; what they would add gives none.
    """
    pod = context.pod
    warnings += [context.workload.warning, annotation_warning(pod.json)]
    if injectors := policy.injectors_for(profile.name, pod):
        found = injected(injectors, Edit(pod.json), context)
        warnings += [outcome.warning for outcome in found.outcomes.values()]
        pod = found.pod
    context = context._replace(claimed=context.cluster.claimed(pod.json, context.namespace))
    yield from findings_of(pod, context, policy.units[profile.name].checks)
    beyond = beyond_limits(pod.json, context.cluster.limit_ranges(context.namespace))
    for finding in islice(beyond, MAX_FINDINGS):
        yield UnitFinding(UNIT, "foretold", finding)


def _in_template(unit_finding: UnitFinding, template: Template) -> UnitFinding:
    return unit_finding._replace(finding=unit_finding.finding._replace(path=template.field(unit_finding.finding.path)))
