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
from webhook.interface import Context, Finding, Refusal
from webhook.patch import Edit
from webhook.placement import Placer
from webhook.pod import Pod, containers
from webhook.policy import Policy
from webhook.review import Request
from webhook.shape import check
from webhook.templates import Template, checked_by_the_api_server, holder_of, templates

Told = tuple[str, str, Finding]
"""Unit, action, finding."""


def mutate(request: Request, policy: Policy, cluster: Cluster, placer: Placer | None = None) -> Decision:
    """Under mode `fix` a request for GPUs gets the limit that is missing beside it. Under every mode but `off` a template that
    the API server is certain to refuse is refused here, with what every rule has to say.

    Raises BadPod where a template has not the shape of a pod.
    """
    home, found = _changed(request, policy, cluster)
    if home is None or home.settings.shadow:
        return IGNORED
    operations: list[bytes] = []
    if home.settings.templates.mode == "fix" and home.settings.injectors.gpu_resources.enabled:
        operations = [operation for template in found for operation in _with_limits(template, policy)]
    if checked_by_the_api_server(request):
        early = [told for template in found for told in _early(request, template, policy, cluster, home)]
        if early:
            return _judged(request, found, policy, cluster, placer, home, deny=True, early=early)
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
    """What the API server is certain to refuse in the template as it stands there, before any injector."""
    asker = _of_pods(request, template)
    if exempt(asker, template.pod, home):
        return []
    context = _context(asker, template, policy, cluster)
    context.holder = holder_of(template, request)
    found = findings(template.pod, context, policy.early_rules(home.profile))
    return [(name, action, _moved(finding, template)) for name, action, finding in found if action == "deny"]


def validate(request: Request, policy: Policy, cluster: Cluster, placer: Placer | None = None) -> Decision:
    """What the pod hook would refuse or change, said to the person at `kubectl apply`; refused under mode `deny`.

    Raises BadPod where a template has not the shape of a pod.
    """
    home, found = _changed(request, policy, cluster)
    if home is None:
        return IGNORED
    return _judged(request, found, policy, cluster, placer, home, deny=home.settings.templates.mode == "deny")


def _judged(
    request: Request,
    found: list[Template],
    policy: Policy,
    cluster: Cluster,
    placer: Placer | None,
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
        context.fits_empty = fitting(placer, cluster, policy, home)
        context.holder = holder_of(template, request) if early else None  # later the API server has been at it
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
    """Refusals of the injectors, then findings of the rules on the pod as the injectors leave it.

    `changes` gets a line on what they would do, and what they warn about.
    """
    pod = _defaulted(template.pod)
    said: Findings = []
    changes.append(context.workload.warning)
    if context.gpu_names:
        edit, done = Edit(pod), []
        for name, injector in policy.injectors(home.profile):
            try:
                outcome = injector.inject(edit, context)
            except Refusal as refusal:  # the others go on: rules judge the pod as it would have been
                said += [(name, "deny", finding) for finding in refusal.findings]
            else:
                changes.append(outcome.warning)
                if outcome.result in _CHANGED:
                    done.append(name)
        if done:
            changes.append(f"its pods will get: {', '.join(done)}")
    found = list(findings(pod, context, policy.rules(home.profile)))
    if not any(action == "deny" for _, action, _ in found):
        found = [*said, *found]  # no rule says it, because that one is off
    for name, action, finding in found:
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
    path = finding.path
    return finding._replace(path=path[1:] if path.startswith(".") else template.field + path)
