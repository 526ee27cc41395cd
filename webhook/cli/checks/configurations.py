"""The two webhook configurations, compared with those that this version ships; and who else changes pods."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

from webhook.admission.context import PROFILE_LABEL
from webhook.cli.checks.result import APPLY, NAME, Result
from webhook.cli.cluster.snapshot import Object, Snapshot
from webhook.cli.selecting import selects
from webhook.kube.yaml import parse_documents
from webhook.policy.model import Policy
from webhook.text import bare, listed

KINDS: Final = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
_SHIPPED: Final = {KINDS[0]: "80-mutating.yaml", KINDS[1]: "90-validating.yaml"}
_APART: Final = ("name", "clientConfig", "failurePolicy", "matchConditions")
"""Fields of a webhook that have a check of their own."""
_EVERY_POD: Final = ("mutate.gpu-admission.io", "asks-for-a-device")
"""The condition that the component `every-pod` takes away."""
_MEANT: Final = f"{APPLY}, if nobody meant it"
_OURS: Final = re.compile(
    r"\b(tolerations|affinity|nodeSelector|topologySpreadConstraints|priorityClassName|resources|schedulerName|env)\b"
)
"""Fields of a pod that injectors write, or that decide where it goes."""


def hooks_of(snapshot: Snapshot, kind: str) -> dict[str, Object]:
    """The webhooks of our configuration, by name; none where it is not there."""
    configuration = snapshot.named(kind).get(("", NAME), {})
    return {str(hook.get("name")): hook for hook in configuration.get("webhooks") or ()}


@cache
def shipped(kind: str) -> Mapping[str, Object]:
    """The webhooks that the manifests of this version install, by name."""
    text = files("webhook.defaults").joinpath(_SHIPPED[kind]).read_bytes()
    (configuration,) = parse_documents(text)
    return {hook["name"]: hook for hook in configuration["webhooks"]}


def webhooks(snapshot: Snapshot, policy: Policy) -> Iterator[Result]:
    """Both configurations are there, with every webhook, asked about what they should be asked about."""
    wrong = False
    for kind in KINDS:
        hooks = hooks_of(snapshot, kind)
        if not hooks:
            wrong = True
            yield Result("webhooks", "broken", f"{kind} {NAME} is not there: the webhook is never asked", APPLY)
            continue
        for name, differs in _differing(kind, hooks):
            wrong = True
            yield Result("webhooks", "warn", f"{bare(name)}: {differs}", _MEANT)
    if not wrong:
        yield Result("webhooks", "ok", "both configurations are there, and ask as shipped")


def _differing(kind: str, hooks: Mapping[str, Object]) -> Iterator[tuple[str, str]]:
    for name, wanted in shipped(kind).items():
        hook = hooks.get(name)
        if hook is None:
            yield name, "is not there"
            continue
        keys = [key for key in wanted if key not in _APART and hook.get(key) != wanted[key]]
        keys += [key for key in ("objectSelector",) if hook.get(key)]
        if keys:
            yield name, f"{listed(keys)} not as shipped"
    for name in hooks.keys() - shipped(kind).keys():
        yield name, "is none of ours"


def failure_policies(snapshot: Snapshot, policy: Policy) -> Iterator[Result]:
    """What becomes of a pod while nobody answers."""
    by_hook = {}
    for kind in KINDS:
        for name, hook in hooks_of(snapshot, kind).items():
            by_hook[name] = seen = hook.get("failurePolicy", "Fail")
            wanted = shipped(kind).get(name, {}).get("failurePolicy", seen)
            if seen != wanted:
                text = f"{name}: failurePolicy {seen}, shipped is {wanted}"
                yield Result("failurePolicies", "warn", text, _MEANT)
    if all(by_hook.get(name) == shipped(kind)[name]["failurePolicy"] for kind in KINDS for name in shipped(kind)):
        yield Result("failurePolicies", "ok", listed([f"{name} {how}" for name, how in by_hook.items()], len(by_hook)))


def match_conditions(snapshot: Snapshot, policy: Policy) -> Iterator[Result]:
    """Which requests never reach the webhook: as this version wants it, and as the policy does."""
    wrong, every_pod = False, False
    for kind in KINDS:
        hooks = hooks_of(snapshot, kind)
        for name in hooks.keys() & shipped(kind).keys():
            seen, wanted = (_conditions(each[name]) for each in (hooks, shipped(kind)))
            if seen != wanted and name == _EVERY_POD[0] and _EVERY_POD[1] not in seen:
                every_pod = True
                wanted.pop(_EVERY_POD[1])
            if differences := _compared(seen, wanted):
                wrong = True
                yield Result("matchConditions", "warn", f"{name}: {listed(differences)}", _MEANT)
    profiles = [name for name in policy.file.profiles if _wants_every_pod(policy, name)]
    if profiles and not every_pod and hooks_of(snapshot, KINDS[0]):
        wrong = True
        text = (
            f"everyPod in profile {listed(profiles)} has no effect: the condition {_EVERY_POD[1]} keeps other pods away"
        )
        yield Result("matchConditions", "warn", text, "install the component manifests/components/every-pod")
    if not wrong:
        more = ", with the component every-pod" if every_pod else ""
        yield Result("matchConditions", "ok", f"as the manifests of this version have them{more}")


def _conditions(hook: Mapping[str, Any]) -> dict[str, str]:
    return {each["name"]: " ".join(each["expression"].split()) for each in hook.get("matchConditions") or ()}


def _compared(seen: Mapping[str, str], wanted: Mapping[str, str]) -> list[str]:
    differences = [f"{bare(name)} is missing" for name in wanted if name not in seen]
    differences += [f"{bare(name)} is another" for name in wanted if seen.get(name, wanted[name]) != wanted[name]]
    return differences + [f"{bare(name)} is none of ours" for name in seen if name not in wanted]


def _wants_every_pod(policy: Policy, name: str) -> bool:
    _, profile = policy.profile(name)
    void = profile.injectors.void_devices
    return profile.placement.every_pod or (void.enabled and void.every_pod)


def templates(snapshot: Snapshot, policy: Policy) -> Iterator[Result]:
    """The custom resources whose templates the policy knows are sent to the webhook."""
    hook = hooks_of(snapshot, KINDS[1]).get("templates.validate.gpu-admission.io")
    if hook is None:
        return
    asked = {
        (group, resource)
        for rule in hook.get("rules") or ()
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    groups = {group for group, _ in asked}
    lacking = dict.fromkeys(
        f"{custom.kind}.{custom.group}"
        for _, profile in (policy.profile(name) for name in policy.file.profiles)
        for custom in profile.templates.custom
        if profile.templates.mode != "off" and custom.group not in groups and "*" not in groups
    )
    if lacking:
        text = f"templates.custom names {listed(list(lacking))}, which the webhook {hook['name']} is not asked about"
        step = "add their groups and resources to its rules, as in manifests/90-validating.yaml"
        yield Result("templates", "warn", text, step)
    else:
        yield Result("templates", "ok", "the webhook is asked about every kind of templates.custom")


def other_webhooks(snapshot: Snapshot, policy: Policy) -> Iterator[Result]:
    """Other mutating webhooks for pods of namespaces that opted in: called in the order of the names of their configurations."""
    opted = [n["metadata"].get("labels") or {} for n in snapshot.of("Namespace")]
    opted = [labels for labels in opted if PROFILE_LABEL in labels]
    names = sorted(
        configuration["metadata"]["name"]
        for configuration in snapshot.of(KINDS[0])
        if configuration["metadata"]["name"] != NAME
        and any(_takes_pods(hook, opted) for hook in configuration.get("webhooks") or ())
    )
    before, after = ([n for n in names if n < NAME], [n for n in names if n > NAME])
    again = hooks_of(snapshot, KINDS[0]).get(_EVERY_POD[0], {}).get("reinvocationPolicy") == "IfNeeded"
    order = f"before us: {listed(before) or 'none'}; after us: {listed(after) or 'none'}"
    if after and not again:
        text = f"{order}: what they change we never see, since our reinvocationPolicy is not IfNeeded"
        yield Result("otherWebhooks", "warn", text, _MEANT)
    else:
        yield Result(
            "otherWebhooks", "ok", f"{order}{', and we are asked again where they change a pod' if after else ''}"
        )


def _takes_pods(hook: Mapping[str, Any], opted: list[Mapping[str, str]]) -> bool:
    selector = hook.get("namespaceSelector") or {}
    if opted and not any(selects(selector, labels) for labels in opted):
        return False
    return any(
        {"pods", "*", "*/*"} & set(rule.get("resources") or ()) and {"CREATE", "*"} & set(rule.get("operations") or ())
        for rule in hook.get("rules") or ()
    )


def mutating_policies(snapshot: Snapshot, policy: Policy) -> Iterator[Result]:
    """MutatingAdmissionPolicies for pods: the API server applies them before it asks any webhook."""
    bound = {binding["spec"].get("policyName") for binding in snapshot.of("MutatingAdmissionPolicyBinding")}
    touching: dict[str, list[str]] = {}
    for admission_policy in snapshot.of("MutatingAdmissionPolicy"):
        spec, name = admission_policy["spec"], admission_policy["metadata"]["name"]
        rules = (spec.get("matchConstraints") or {}).get("resourceRules") or ()
        if name in bound and _takes_pods({"rules": rules}, []):
            touching[name] = sorted(set(_OURS.findall(str(spec.get("mutations")))))
    same = {name: fields for name, fields in touching.items() if fields}
    for name, fields in same.items():
        text = f"{bare(name)} changes {listed(fields)} of pods before we are asked: what is there we keep"
        step = f"see whether both are meant: kubectl get mutatingadmissionpolicy {bare(name)} -o yaml"
        yield Result("mutatingPolicies", "warn", text, step)
    if not same:
        yield Result(
            "mutatingPolicies",
            "ok",
            f"none changes the fields that we do; others: {listed(sorted(touching)) or 'none'}",
        )
