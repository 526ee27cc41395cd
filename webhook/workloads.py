"""Decides about workloads (Deployments, Jobs, …) what will become of their pods. No I/O, no clock, no randomness.

A template is looked at when it comes or changes, never on an update of other fields: a controller that writes status or
scales must not be stopped by what was admitted before.
"""

from __future__ import annotations

from collections.abc import Iterator

import orjson

from webhook import explain
from webhook.admission import IGNORED, Decision, Home, context_of, findings, fitting, home_of
from webhook.interface import Cluster, Context, Finding, Refusal
from webhook.patch import Edit
from webhook.pod import Pod
from webhook.policy import Policy
from webhook.review import Request
from webhook.shape import check
from webhook.templates import Template, templates
from webhook.text import quoted


def mutate(request: Request, policy: Policy, cluster: Cluster) -> Decision:
    """Under mode `fix`: GPU requests and limits of templates are made equal, as the API server demands of pods.

    Raises BadPod where a template has not the shape of a pod.
    """
    home, found = _changed(request, policy, cluster)
    if home is None or home.settings.templates.mode != "fix":
        return IGNORED
    injector = home.settings.injectors.gpu_resources
    operations: list[bytes] = []
    for template in found:
        context = context_of(request, template.pod, policy, cluster)
        edit = Edit(template.pod, template.path)
        try:
            if injector.enabled and context.gpu_names:
                injector.inject(edit, context)
        except Refusal:
            continue  # which number was meant is for the user to say; the validating hook tells
        operations.extend(edit.operations)
    if not operations:
        return IGNORED
    return Decision("patched", home.profile, patch=b"[%b]" % b",".join(operations))


def validate(request: Request, policy: Policy, cluster: Cluster) -> Decision:
    """What the pod hook would refuse or change, said to the person at `kubectl apply`; refused under mode `deny`.

    Raises BadPod where a template has not the shape of a pod.
    """
    home, found = _changed(request, policy, cluster)
    if home is None:
        return IGNORED
    decision = Decision("allowed", home.profile, unknown_profile=home.unknown)
    changes: list[str] = []
    for template in found:
        if any(exemption.covers(request, template.pod) for exemption in home.settings.exempt):
            continue
        context = context_of(request, template.pod, policy, cluster)
        context.template, context.replicas = True, template.replicas
        context.fits_empty = fitting(cluster, policy, home)
        decision.workload = context.workload.name
        decision.findings += _findings(template, context, policy, home, changes)
    deny = home.settings.templates.mode == "deny"
    denials = [(unit, finding) for unit, action, finding in decision.findings if action == "deny"]
    if denials and deny:
        decision.message = explain.refusal(_title(request), denials, policy.hash)
        decision.result = "shadow" if home.settings.shadow else "denied"
    if not deny:
        decision.findings = [(u, "foretold" if action == "deny" else action, f) for u, action, f in decision.findings]
    decision.warnings = [home.warning, *changes]
    return decision


def _changed(request: Request, policy: Policy, cluster: Cluster) -> tuple[Home | None, list[Template]]:
    """The templates of a new object, or those that an update changed; the home is None where none is to be looked at."""
    home = home_of(request.namespace, policy, cluster) if request.operation in ("CREATE", "UPDATE") else None
    if home is None or home.settings.templates.mode == "off" or request.object is None or request.subresource:
        return None, []
    settings = home.settings.templates
    before = (
        [t.pod["spec"] for t in templates(request.old, request.group, request.kind, settings)] if request.old else []
    )
    found = []
    for number, template in enumerate(templates(request.object, request.group, request.kind, settings)):
        if number < len(before) and before[number] == template.pod["spec"]:
            continue
        check(template.pod)
        found.append(template)
    return (home, found) if found else (None, [])


def _findings(
    template: Template, context: Context, policy: Policy, home: Home, changes: list[str]
) -> Iterator[tuple[str, str, Finding]]:
    """Refusals of the injectors, then findings of the rules on the pod as the injectors leave it.

    `changes` gets a line on what they would do.
    """
    pod: Pod = orjson.loads(orjson.dumps(template.pod))
    if context.gpu_names:
        edit, done = Edit(pod), []
        for name, injector in policy.injectors(home.profile):
            try:
                outcome = injector.inject(edit, context)
            except Refusal as refusal:
                yield from ((name, "deny", _moved(finding, template)) for finding in refusal.findings)
                break
            if outcome.result in ("filled", "added", "set"):
                done.append(name)
        if done:
            changes.append(f"its pods will get: {', '.join(done)}")
    for name, action, finding in findings(pod, context, policy.rules(home.profile)):
        yield name, action, _moved(finding, template)


def _title(request: Request) -> str:
    metadata = (request.object or {}).get("metadata") or {}
    return f"{request.kind} {quoted(metadata.get('name') or metadata.get('generateName') or '')}"


def _moved(finding: Finding, template: Template) -> Finding:
    return finding._replace(path=template.field + finding.path)
