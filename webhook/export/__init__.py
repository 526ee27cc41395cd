"""Exports the static part of a policy as CEL admission policies, which the API server runs while the webhook is unavailable.

The static part is what follows from the pod alone: bans, limits, tolerations, the PriorityClass by label and owner. Each unit
returns its CEL expressions (`exported`), or says why it has none (`not_exported`).

ValidatingAdmissionPolicy needs Kubernetes 1.30, MutatingAdmissionPolicy 1.36. Both run before webhooks: if one of them refuses
a pod, the author sees its short message instead of the webhook's.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from webhook.export.variables import ANNOTATIONS, FOLDERS, MADE, NEW, NOT_A_MIRROR_POD, TOLERATIONS
from webhook.framework import entitlement
from webhook.framework.interface import Action
from webhook.kube.cel import (
    LEFT_ALONE,
    Check,
    all_of,
    any_of,
    asks_for_gpu,
    gpu_containers,
    literal,
    matches,
    names_gpu,
    other_gpus,
)
from webhook.kube.pod import PROFILE_LABEL
from webhook.kube.workload_kinds import MARKS
from webhook.kube.yaml import to_yaml
from webhook.policy.exemptions import Exemption
from webhook.policy.model import DEFAULT_PROFILE, Policy, Profile, named
from webhook.policy.workload_classes import ANY, ClassRule

API_VERSION = "admissionregistration.k8s.io/v1"
EVERYWHERE = "everywhere"
_BRINGS = {
    "name": "brings-something",
    "expression": 'request.operation == "CREATE" || request.?subResource.orValue("") == "ephemeralcontainers" || '
    "object.metadata.?annotations != oldObject.metadata.?annotations || "
    "object.spec.?tolerations != oldObject.spec.?tolerations",
}
"""What an update can bring. All else in a pod stays as it was, or is no concern of any rule."""
_UPDATED = ("pods", "pods/status", "pods/ephemeralcontainers")
"""The subresources by which annotations, tolerations and containers may be added to a pod."""
_PASSES = {
    "pod": 'request.operation != "CREATE" || !({})',
    "annotation": "!variables.annotations.exists(k, {})",
    "toleration": "!variables.tolerations.exists(t, {})",
}
"""When the check of a rule passes, by what it is about."""

Object = dict[str, Any]


def export(
    policy: Policy, *, everywhere: bool = False, exclude: Sequence[str] = (), namespace: str = "gpu-admission"
) -> list[Object]:
    """All profiles as admission policies and bindings, in a fixed order. Those of a profile in dry run only audit.

    `everywhere`: also ban the taking of GPUs in namespaces that have not opted in, with the settings of the profile `default`.
    The namespaces in `exclude` and those of the system are left out; name those of GPU operators in `exclude`. `namespace`: that
    of the webhook.
    """
    system = (namespace, "kube-system")
    other_profiles = sorted(set(policy.file.profiles) - {DEFAULT_PROFILE})
    objects: list[Object] = []
    for name in policy.file.profiles:
        _, profile = policy.profile(name)
        requirement = {"key": PROFILE_LABEL, "operator": "In", "values": [name]}
        selector = [requirement]
        if name == DEFAULT_PROFILE:  # also for a label without a value, or with one that the policy does not know
            selector = [{"key": PROFILE_LABEL, "operator": "Exists"}]
            selector += (
                [{"key": PROFILE_LABEL, "operator": "NotIn", "values": other_profiles}] if other_profiles else []
            )
        selector.append(_not_in(system))
        if not profile.dry_run:
            objects += _mutating(policy, name, profile, selector)
        objects += _validating(policy, name, _title(name), selector)
    if everywhere:
        outside = [{"key": PROFILE_LABEL, "operator": "DoesNotExist"}, _not_in((*system, *exclude))]
        objects += _validating(policy, DEFAULT_PROFILE, f"gpu-admission.{EVERYWHERE}", outside, only_everywhere=True)
    return objects


def export_yaml(
    policy: Policy, *, everywhere: bool = False, exclude: Sequence[str] = (), namespace: str = "gpu-admission"
) -> str:
    """The exported objects as text for `kubectl apply -f -`."""
    _, profile = policy.profile(DEFAULT_PROFILE)
    units = [*named(profile.injectors), *named(profile.rules)]
    differ = [(name, text) for name, unit in units if (text := unit.not_exported or unit.differs)]
    header = (
        f"# The static part of GPU admission policy {policy.hash}: what the API server can decide by itself.\n"
        "# MutatingAdmissionPolicy wants Kubernetes 1.36 or later. Priority classes that are named here must exist.\n"
        "# What is not in here, or differs from the webhook, and why:\n"
        + "".join(f"#   {name}: {text}\n" for name, text in differ)
    )
    objects = export(policy, everywhere=everywhere, exclude=exclude, namespace=namespace)
    return header + "---\n".join(map(to_yaml, objects))


def _mutating(policy: Policy, name: str, profile: Profile, selector: list[Object]) -> Iterator[Object]:
    """The MutatingAdmissionPolicy of a profile, with its binding: one mutation for each expression of an injector."""
    with_gpu = names_gpu("variables.containers", policy.gpus)
    variables = [
        ("containers", f"dyn({MADE})"),
        ("gpuContainers", gpu_containers("variables.containers", policy.gpus)),
        ("kind", _workload_kind()),
        ("class", _by_class(policy.file.classes, lambda rule: literal(rule.name), '"none"')),
        (
            "guessed",
            _by_class(
                policy.file.classes, lambda rule: str(not rule.labels and "*" in rule.namespaces).lower(), "true"
            ),
        ),
        ("withGpu", with_gpu),
        ("otherGpus", other_gpus("variables.containers")),
        *(variable for _, injector in named(profile.injectors) for variable in injector.variables()),
    ]
    mutations = []
    for _, injector in policy.units[name].injectors:
        with_gpu = (
            names_gpu("variables.containers", policy.gpus, zero=True) if injector.protects else "variables.withGpu"
        )
        claims = ["variables.otherGpus"] if injector.handles_claims else []
        applies = "true" if injector.every_pod else any_of([with_gpu, *claims])
        if not injector.protects:
            applies = all_of([applies, f"!{LEFT_ALONE}"])
        for text in injector.exported(policy.gpus):
            expression = f"{applies} ? ({text}) : []"
            mutations.append({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}})
    if not mutations:
        return
    spec = {
        "failurePolicy": "Ignore",
        "reinvocationPolicy": "IfNeeded",
        "matchConstraints": {"resourceRules": [_rule("CREATE", "pods")]},
        "matchConditions": [NOT_A_MIRROR_POD],
        "variables": _variables(variables),
        "mutations": mutations,
    }
    yield from _bound("MutatingAdmissionPolicy", _title(name), spec, selector)


def _validating(
    policy: Policy, name: str, title: str, selector: list[Object], *, only_everywhere: bool = False
) -> Iterator[Object]:
    """A ValidatingAdmissionPolicy for denials and one for warnings, since a binding has one action for its whole policy."""
    _, profile = policy.profile(name)
    checks_by_action: dict[Action, list[tuple[str, Check]]] = {"deny": [], "warn": []}
    for unit, rule in policy.units[name].rules:
        if rule.everywhere or not only_everywhere:
            for check in rule.exported(policy.gpus):
                checks_by_action["warn" if check.only_warn else rule.action].append((unit, check))
    for action, checks in checks_by_action.items():
        if checks:
            spec = _spec(policy, profile, checks, action)
            does = "Audit" if profile.dry_run else action.capitalize()
            yield from _bound(
                "ValidatingAdmissionPolicy", f"{title}.{action}", spec, selector, {"validationActions": [does]}
            )


def _spec(policy: Policy, profile: Profile, checks: list[tuple[str, Check]], action: Action) -> Object:
    variables = [
        ("all", f"dyn({MADE} + object.spec.?ephemeralContainers.orValue([]))"),
        ("containers", NEW),
        ("annotations", ANNOTATIONS),
        ("tolerations", TOLERATIONS),
        (
            "running",
            "dyn(object.spec.containers + object.spec.?initContainers.orValue([])"
            '.filter(c, c.?restartPolicy.orValue("") == "Always"))',
        ),
        ("gpuContainers", gpu_containers("variables.all", policy.gpus)),
        ("asksForGpu", asks_for_gpu(policy.gpus)),
        ("hostFolders", FOLDERS),
    ]
    validations = []
    for number, (rule, check) in enumerate(checks):
        label = f"{check.wanted} [{rule}]"
        if check.subject != "container":
            expression = _PASSES[check.subject].format(check.bad)
            validations.append({"expression": expression, "reason": "Forbidden", "message": f"wanted {label}"})
            continue
        variable = f"{rule}{number}"
        variables.append((variable, f"variables.containers.filter(c, {check.bad}).map(c, c.name)"))
        message = f'"container " + variables.{variable}.join(", ") + {literal(f": wanted {label}")}'
        expression = f"variables.{variable}.size() == 0"
        validations.append({"expression": expression, "reason": "Forbidden", "messageExpression": message})
    return {
        "failurePolicy": "Fail" if action == "deny" else "Ignore",
        "matchConstraints": {"resourceRules": [_rule("CREATE", "pods"), _rule("UPDATE", *_UPDATED)]},
        "matchConditions": [NOT_A_MIRROR_POD, _BRINGS, *_not_exempt(profile.exempt)],
        "variables": _variables(variables),
        "validations": validations,
    }


def _bound(kind: str, name: str, spec: Object, selector: list[Object], extra: Object | None = None) -> Iterator[Object]:
    yield {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}
    matched = {"namespaceSelector": {"matchExpressions": selector}}
    binding = {"policyName": name, **(extra or {}), "matchResources": matched}
    yield {"apiVersion": API_VERSION, "kind": f"{kind}Binding", "metadata": {"name": name}, "spec": binding}


def _rule(operation: str, *resources: str) -> Object:
    return {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "resources": [*resources],
        "operations": [operation],
        "scope": "Namespaced",
    }


def _variables(expressions: Iterable[tuple[str, str]]) -> list[Object]:
    return [{"name": name, "expression": expression} for name, expression in expressions]


def _not_in(namespaces: Sequence[str]) -> Object:
    return {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": sorted(set(namespaces))}


def _not_exempt(exempt: tuple[Exemption, ...]) -> Iterator[Object]:
    for number, exemption in enumerate(exempt):
        terms = [matches("request.namespace", exemption.namespaces)]
        if exemption.service_accounts:
            account = 'object.spec.?serviceAccountName.orValue("default")'
            terms.append(matches(account, exemption.service_accounts))
        if exemption.users:
            terms.append(matches("request.userInfo.username", exemption.users))
        if exemption.groups:
            terms.append(f"request.userInfo.groups.exists(g, {matches('g', exemption.groups)})")
        yield {"name": f"not-exempt-{number}", "expression": f"!{all_of(terms)}"}


def _title(profile: str) -> str:
    """The name of a profile's objects, with a hash if the name of the profile is not possible or not unique there."""
    plain = re.sub(r"[^a-z0-9-]", "-", profile.lower()).strip("-")
    if plain == profile != EVERYWHERE:
        return f"gpu-admission.{plain}"
    return f"gpu-admission.{plain}-{hashlib.sha256(profile.encode()).hexdigest()[:6]}"


def _by_class(rules: tuple[ClassRule, ...], value: Callable[[ClassRule], str], otherwise: str) -> str:
    """The expression for a value of the entry that gives a pod its class in `Policy.classify`."""
    labels = "object.metadata.?labels.orValue({})"
    expression = otherwise
    for rule in reversed(rules):
        terms = []
        if rule.labels:
            terms.append(any_of(_has(labels, key, values) for key, values in rule.labels.items()))
        if rule.owner_kinds:
            any_kind = ANY in rule.owner_kinds
            terms.append('variables.kind != ""' if any_kind else f"variables.kind in {literal(rule.owner_kinds)}")
        if rule.restart_policies:
            terms.append(f'object.spec.?restartPolicy.orValue("Always") in {literal(rule.restart_policies)}')
        if "*" not in rule.namespaces:
            terms.append(entitlement.in_cel(rule.namespaces))
        expression = f"{all_of(terms)} ? {value(rule)} :\n{expression}"
    return expression


def _has(labels: str, key: str, values: Sequence[str]) -> str:
    if ANY in values:
        return f"{literal(key)} in {labels}"
    return f'{labels}[?{literal(key)}].orValue("") in {literal(values)}'


def _workload_kind() -> str:
    """The expression for the kind that `workload_kind` gives."""
    owners, labels = "object.metadata.?ownerReferences.orValue([])", "object.metadata.?labels.orValue({})"
    controller = f'({owners}.filter(o, o.?controller.orValue(false)).map(o, o.kind) + [""])[0]'
    marked = [
        f"{controller} == {literal(owner)} && {literal(label)} in {labels} ? {literal(kind)} :"
        for owner, marks in MARKS.items()
        for label, kind in marks
    ]
    return "\n".join([*marked, controller])
