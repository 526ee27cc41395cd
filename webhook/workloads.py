"""Decides about workloads (Deployments, Jobs, …) what will become of their pods. No I/O, no clock, no randomness.

A template is looked at when it comes or changes, never on an update of other fields: a controller that writes status or
scales must not be stopped by what was admitted before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from webhook import explain
from webhook.decision import IGNORED, Decision, Findings, Home, context_of, exempt, findings, fitting, home_of
from webhook.facts import Cluster
from webhook.interface import Context, Finding
from webhook.patch import Edit
from webhook.pod import Pod, containers
from webhook.policy import Policy
from webhook.review import Request
from webhook.shape import check
from webhook.templates import Template, is_workload, templates

Told = tuple[str, str, Finding]
"""Unit, action, finding."""


def mutate(request: Request, policy: Policy, cluster: Cluster) -> Decision:
    """Under mode `fix` a request for GPUs gets the limit that is missing beside it. Under every mode but `off` a quantity of
    GPUs that the API server would refuse is refused here, with what every rule has to say.

    Raises BadPod where a template has not the shape of a pod.
    """
    home, found = _changed(request, policy, cluster)
    if home is None or home.settings.shadow:
        return IGNORED
    operations: list[bytes] = []
    if home.settings.templates.mode == "fix" and home.settings.injectors.gpu_resources.enabled:
        operations = [operation for template in found for operation in _with_limits(template, policy)]
    if is_workload(request.group, request.kind):
        early = [told for template in found for told in _early(request, template, policy, cluster, home)]
        if early:
            return _judged(request, found, policy, cluster, home, deny=True, early=early)
    if not operations:
        return IGNORED
    decision = Decision("patched", home.profile)
    decision.patch = b"[%b]" % b",".join(operations)
    return decision


def _with_limits(template: Template, policy: Policy) -> list[bytes]:
    """Only what the API server would refuse: a limit without a request is right, and stays as it is."""
    edit = Edit(template.pod, template.path)
    for container in containers(template.pod):
        resources = container.spec.get("resources") or {}
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        for name in policy.gpus.among(requests):
            if name not in limits:
                edit.set((*container.path, "resources", "limits", name), requests[name])
    return edit.operations


def _early(request: Request, template: Template, policy: Policy, cluster: Cluster, home: Home) -> Findings:
    """What the API server would refuse in the template as it stands there, before any injector."""
    asker = _of_pods(request, template)
    if exempt(asker, template.pod, home):
        return []
    context = _context(asker, template, policy, cluster)
    found = findings(template.pod, context, policy.early_rules(home.profile))
    return [(name, action, _moved(finding, template)) for name, action, finding in found if action == "deny"]


def validate(request: Request, policy: Policy, cluster: Cluster) -> Decision:
    """What the pod hook would refuse or change, said to the person at `kubectl apply`; refused under mode `deny`.

    Raises BadPod where a template has not the shape of a pod.
    """
    home, found = _changed(request, policy, cluster)
    if home is None:
        return IGNORED
    return _judged(request, found, policy, cluster, home, deny=home.settings.templates.mode == "deny")


def _judged(
    request: Request,
    found: list[Template],
    policy: Policy,
    cluster: Cluster,
    home: Home,
    *,
    deny: bool,
    early: Sequence[Told] = (),
) -> Decision:
    decision = Decision("allowed", home.profile, findings=list(early), unknown_profile=home.unknown)
    changes: list[str | None] = []
    for template in found:
        asker = _of_pods(request, template)
        if exempt(asker, template.pod, home):
            continue
        context = _context(asker, template, policy, cluster)
        context.fits_empty = fitting(cluster, policy, home)
        decision.workload = context.workload.name
        later = _findings(template, context, policy, home, changes)
        decision.findings += [told for told in later if told not in early]
    denials = [(unit, finding) for unit, action, finding in decision.findings if action == "deny"]
    if denials and deny:
        decision.complaint = explain.complaint(denials, policy.hash)
        decision.result = "shadow" if home.settings.shadow else "denied"
    if not deny:
        decision.findings = [(u, "foretold" if action == "deny" else action, f) for u, action, f in decision.findings]
    decision.warnings = [home.warning, *(() if denials else changes)]
    return decision


def _of_pods(request: Request, template: Template) -> Request:
    """The request that will come for the pods: their controller asks for them, and not who applies the template."""
    return request._replace(operation="CREATE", user=template.maker, groups=())


def _context(asker: Request, template: Template, policy: Policy, cluster: Cluster) -> Context:
    context = context_of(asker, template.pod, policy, cluster)
    context.template, context.replicas = True, template.replicas
    context.template_of = asker.kind if asker.group == "apps" else ""
    return context


def _changed(request: Request, policy: Policy, cluster: Cluster) -> tuple[Home | None, list[Template]]:
    """The templates of a new object, or those that an update changed; the home is None where none is to be looked at."""
    home = home_of(request.namespace, policy, cluster) if request.operation in ("CREATE", "UPDATE") else None
    if home is None or home.settings.templates.mode == "off" or request.object is None or request.subresource:
        return None, []
    settings = home.settings.templates
    before = (
        [_looked_at(t) for t in templates(request.old, request.group, request.kind, settings)] if request.old else []
    )
    found = []
    for number, template in enumerate(templates(request.object, request.group, request.kind, settings)):
        if number < len(before) and before[number] == _looked_at(template):
            continue
        check(template.pod)
        found.append(template)
    return (home, found) if found else (None, [])


def _looked_at(template: Template) -> tuple[Any, Any]:
    """Not the annotations: `kubectl rollout restart` writes one."""
    return template.pod["spec"], template.pod["metadata"].get("labels")


def _findings(
    template: Template, context: Context, policy: Policy, home: Home, changes: list[str | None]
) -> Iterator[Told]:
    """Findings of the rules on the pod as the injectors leave it.

    `changes` gets a line on what they would do, and what they warn about.
    """
    pod = _defaulted(template.pod)
    changes.append(context.workload.warning)
    if context.gpu_names:
        edit, done = Edit(pod), []
        for name, injector in policy.injectors(home.profile):
            outcome = injector.inject(edit, context)
            changes.append(outcome.warning)
            if outcome.result in _CHANGED:
                done.append(name)
        if done:
            changes.append(f"its pods will get: {', '.join(done)}")
    for name, action, finding in findings(pod, context, policy.rules(home.profile)):
        yield name, action, _moved(finding, template)


def _defaulted(template: Pod) -> Pod:
    """A copy with the requests that the API server fills in from limits, in pods alone (SetDefaults_Pod)."""
    pod: Pod = orjson.loads(orjson.dumps(template))
    for container in containers(pod):
        if (resources := container.spec.get("resources")) and resources.get("limits"):
            resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
    return pod


_CHANGED = ("filled", "filledLess", "added", "set", "neutral", "antiAffinity")
"""Words of injectors for: the pod is another than before."""


def _moved(finding: Finding, template: Template) -> Finding:
    return finding._replace(path=template.field + finding.path)
