"""Compares our two webhook configurations with those that this version ships, and finds what else changes pods."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any, Final

from webhook.cli.checks.result import All, broken, opted_in, warn
from webhook.export.matching import MUTATE, NEEDED, OTHERS, UPDATES, conditions_for, lacking
from webhook.kube.selectors import matches
from webhook.kube.yaml import parse_documents
from webhook.policy.model import Policy
from webhook.text import bare, listed
from webhook.whatif.cluster.release import NAME
from webhook.whatif.cluster.snapshot import Object, Snapshot
from webhook.whatif.offline import load_policy

MUTATING: Final = "MutatingWebhookConfiguration"
VALIDATING: Final = "ValidatingWebhookConfiguration"
KINDS: Final = (MUTATING, VALIDATING)
_MANIFESTS: Final = {MUTATING: "80-mutating.yaml", VALIDATING: "90-validating.yaml"}
_CHECKED_BY_OTHERS: Final = ("name", "clientConfig", "matchConditions")
"""Fields of a webhook that other checks compare."""
_POD_GROUPS: Final = "gpu-admission-pod-groups"
"""Our own MutatingAdmissionPolicy, of the component `pod-groups`."""
_DEVICE_CONDITION: Final = "asks-for-a-device"
"""The match condition of MUTATE that the component `every-pod` removes."""


def hooks_of(snapshot: Snapshot, kind: str) -> dict[str, Object]:
    """The webhooks of our configuration of this kind, by name; none if there is no such configuration."""
    configuration = snapshot.named(kind).get(("", NAME), {})
    return {str(hook.get("name")): hook for hook in configuration.get("webhooks") or ()}


def our_hooks(snapshot: Snapshot) -> list[Object]:
    """The webhooks of both our configurations."""
    return [hook for kind in KINDS for hook in hooks_of(snapshot, kind).values()]


@lru_cache(maxsize=2)  # three checks ask for both
def _shipped(namespace: str, kind: str) -> Mapping[str, Object]:
    """The webhooks of this kind of configuration in the manifests of this version, by name, for the namespace that it is in."""
    text = files("webhook.defaults").joinpath(_MANIFESTS[kind]).read_bytes()
    text = text.replace(b"values: [gpu-admission", f'values: ["{namespace}"'.encode())
    (configuration,) = parse_documents(text)
    return {hook["name"]: hook for hook in configuration["webhooks"]}


def _again(snapshot: Snapshot) -> str:
    return f"{snapshot.release.apply}, if nobody meant it"


def webhooks(snapshot: Snapshot, policy: Policy) -> All:
    """Both configurations exist, and have all our webhooks, which are called for the same requests as shipped."""
    found = []
    for kind in KINDS:
        if hooks := hooks_of(snapshot, kind):
            alike = dict[str, list[str]]()
            for name, differs in _differing(snapshot, kind, hooks):
                alike.setdefault(differs, []).append(bare(name))
            found += [warn(f"{listed(names)}: {differs}", _again(snapshot)) for differs, names in alike.items()]
        else:
            found.append(broken(f"{kind} {NAME} is not there: the webhook is never asked", snapshot.release.apply))
    shipped = [hook for kind in KINDS for hook in _shipped(snapshot.release.namespace, kind).values()]
    more = set().union(*map(_exempt, our_hooks(snapshot))) - set().union(*map(_exempt, shipped))
    return (
        found
        or f"both configurations are there, and ask as shipped{f', but about nothing in {listed(sorted(more))}' if more else ''}"
    )


def _selector(hook: Object) -> Object:
    return hook.get("namespaceSelector") or {}


def _exempt(hook: Object) -> set[str]:
    """The namespaces that a webhook is never asked about."""
    expressions = _selector(hook).get("matchExpressions") or ()
    return {
        bare(str(name)) for each in expressions if each.get("operator") == "NotIn" for name in each.get("values") or ()
    }


def _as_wide(hook: Object, wanted: Object) -> Object:
    """A webhook without the namespaces that it exempts besides: the chart has a value for them."""
    exempt = _exempt(wanted)
    fewer = [
        {**each, "values": [name for name in each.get("values") or () if name in exempt]}
        if each.get("operator") == "NotIn"
        else each
        for each in _selector(hook).get("matchExpressions") or ()
    ]
    return {**hook, "namespaceSelector": {**_selector(hook), "matchExpressions": fewer}}


def _differing(snapshot: Snapshot, kind: str, hooks: Mapping[str, Object]) -> Iterator[tuple[str, str]]:
    """The name of each webhook that differs from the shipped one, and how."""
    shipped = _shipped(snapshot.release.namespace, kind)
    for name, wanted in shipped.items():
        hook = hooks.get(name)
        if hook is None:
            yield name, "is not there"
            continue
        hook = _as_wide(hook, wanted)
        other = [key for key in wanted if key not in _CHECKED_BY_OTHERS and hook.get(key) != wanted[key]]
        # what it is and was shipped as, if one line can say it
        keys = [
            f"{key} ({bare(str(hook.get(key)))}, shipped is {wanted[key]})"
            if isinstance(wanted[key], int | str)
            else key
            for key in other
        ]
        keys += ["objectSelector"] if hook.get("objectSelector") else []
        if keys:
            yield name, f"{listed(keys)} not as shipped"
    for name in hooks.keys() - shipped.keys():
        yield name, "is none of ours"


def match_conditions(snapshot: Snapshot, policy: Policy) -> All:
    """The conditions under which requests reach the webhook are as shipped, and as the policy needs them."""
    found, every_pod, for_policy = [], False, False
    of_policy = {name: _conditions({"matchConditions": every}) for name, every in conditions_for(policy).items()}
    for kind in KINDS:
        hooks, shipped = hooks_of(snapshot, kind), _shipped(snapshot.release.namespace, kind)
        for name in hooks.keys() & shipped.keys():
            seen, wanted = _conditions(hooks[name]), _conditions(shipped[name])
            if name == MUTATE and _DEVICE_CONDITION not in seen:
                every_pod = True
                wanted.pop(_DEVICE_CONDITION)
            if name in (OTHERS, UPDATES) and seen == of_policy[name]:
                for_policy |= name == OTHERS
            elif differences := _compared(seen, wanted):
                found.append(warn(f"{name}: {listed(differences)}", _again(snapshot)))
    profiles = [name for name in policy.file.profiles if _wants_every_pod(policy, name)]
    if profiles and not every_pod and hooks_of(snapshot, MUTATING):
        text = f"everyPod in profile {listed(profiles)} has no effect: the condition {_DEVICE_CONDITION} keeps other pods away"
        found.append(warn(text, snapshot.release.component("every-pod")))
    if not for_policy and (rules := lacking(policy, load_policy())):
        text = (
            f"{OTHERS}: the policy's {listed(rules)} may refuse pods without devices that the API server does not send"
        )
        found.append(warn(text, f"give it the conditions of this policy: {NEEDED}"))
    more = ", with the component every-pod" if every_pod else ""
    return found or f"as the manifests of this version have them{more}"


def _conditions(hook: Mapping[str, Any]) -> dict[str, str]:
    """The expression of each match condition by its name, with single spaces."""
    return {each["name"]: " ".join(each["expression"].split()) for each in hook.get("matchConditions") or ()}


def _compared(seen: Mapping[str, str], wanted: Mapping[str, str]) -> list[str]:
    """How the match conditions differ, in words."""
    differences = [f"{bare(name)} is missing" for name in wanted if name not in seen]
    differences += [f"{bare(name)} is another" for name in wanted if seen.get(name, wanted[name]) != wanted[name]]
    return differences + [f"{bare(name)} is none of ours" for name in seen if name not in wanted]


def _wants_every_pod(policy: Policy, name: str) -> bool:
    _, profile = policy.profile(name)
    void = profile.injectors.void_devices
    return profile.placement.every_pod or (void.enabled and void.every_pod)


def templates(snapshot: Snapshot, policy: Policy) -> All:
    """The webhook is called for all custom resources whose pod templates the policy names."""
    hook = hooks_of(snapshot, VALIDATING).get("templates.validate.gpu-admission.io")
    if hook is None:
        return []
    groups = {group for rule in hook.get("rules") or () for group in rule["apiGroups"]}
    profiles = [policy.profile(name)[1] for name in policy.file.profiles]
    lacking = dict.fromkeys(
        f"{custom.kind}.{custom.group}"
        for profile in profiles
        for custom in profile.templates.custom
        if profile.templates.mode != "off" and custom.group not in groups and "*" not in groups
    )
    if not lacking:
        return "the webhook is asked about every kind of templates.custom"
    text = f"templates.custom names {listed(list(lacking))}, which the webhook {hook['name']} is not asked about"
    return [warn(text, "add their groups and resources to its rules, as in manifests/90-validating.yaml")]


_OUR_FIELDS: Final = re.compile(
    r"\b(tolerations|affinity|nodeSelector|topologySpreadConstraints|priorityClassName|resources|schedulerName|env)\b"
)
"""Fields of a pod that injectors write, or that decide on which nodes it may run."""


def other_webhooks(snapshot: Snapshot, policy: Policy) -> All:
    """Our webhook sees what other mutating webhooks change in pods. The API server calls them in order of name."""
    opted = opted_in(snapshot).values()
    names = sorted(
        configuration["metadata"]["name"]
        for configuration in snapshot.of(MUTATING)
        if configuration["metadata"]["name"] != NAME
        and any(
            # without any opted in it may be for later ones
            (not opted or any(matches(hook.get("namespaceSelector") or {}, labels) for labels in opted))
            and _take_pods(hook.get("rules") or ())
            for hook in configuration.get("webhooks") or ()
        )
    )
    before, after = [name for name in names if name < NAME], [name for name in names if name > NAME]
    again = hooks_of(snapshot, MUTATING).get(MUTATE, {}).get("reinvocationPolicy") == "IfNeeded"
    order = f"before us: {listed(before) or 'none'}; after us: {listed(after) or 'none'}"
    if after and not again:
        return [
            warn(
                f"{order}: what they change we never see, since our reinvocationPolicy is not IfNeeded",
                _again(snapshot),
            )
        ]
    return f"{order}{', and we are asked again where they change a pod' if after else ''}"


def _take_pods(rules: Iterable[Mapping[str, Any]]) -> bool:
    """Whether one of the rules of a webhook or policy matches the creation of pods."""
    return any(
        {"pods", "*", "*/*"} & set(rule.get("resources") or ()) and {"CREATE", "*"} & set(rule.get("operations") or ())
        for rule in rules
    )


def mutating_policies(snapshot: Snapshot, policy: Policy) -> All:
    """No MutatingAdmissionPolicy changes our fields of pods: the API server applies these before it calls any webhook. Ours gives
    PodGroups a class also where the cluster has a globalDefault."""
    bound = {binding["spec"].get("policyName") for binding in snapshot.of("MutatingAdmissionPolicyBinding")}
    changed_fields: dict[str, list[str]] = {}
    for admission_policy in snapshot.of("MutatingAdmissionPolicy"):
        spec, name = admission_policy["spec"], admission_policy["metadata"]["name"]
        rules = (spec.get("matchConstraints") or {}).get("resourceRules") or ()
        if name in bound and _take_pods(rules):
            fields = _OUR_FIELDS.findall(str(spec.get("mutations"))) if name != _POD_GROUPS else ()
            changed_fields[name] = sorted(set(fields))
    found = [
        warn(
            f"{bare(name)} changes {listed(fields)} of pods before we are asked: what is there we keep",
            "see whether both are meant",
            ("kubectl", "get", "mutatingadmissionpolicy", bare(name), "-o", "yaml"),
        )
        for name, fields in changed_fields.items()
        if fields
    ]
    ours = snapshot.named("MutatingAdmissionPolicy").get(("", _POD_GROUPS))
    defaults = [bare(each["metadata"]["name"]) for each in snapshot.of("PriorityClass") if each.get("globalDefault")]
    if ours and defaults and not any(f"'{name}'" in str(ours["spec"].get("matchConditions")) for name in defaults):
        text = f"{_POD_GROUPS} gives PodGroups no class: they have the globalDefault {listed(defaults)}, as if they named it"
        found.append(
            warn(text, "name it in the condition names-no-class of manifests/components/pod-groups/class.yaml")
        )
    return found or f"none changes the fields that we do; others: {listed(sorted(changed_fields)) or 'none'}"
