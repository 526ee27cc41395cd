"""Checks which other webhooks and admission policies change pods, and whether before or after our webhook."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from webhook.cli.checks.configurations import MUTATE_HOOK, MUTATING, REAPPLY, hooks_of
from webhook.cli.checks.result import NAME, Result, opted_in
from webhook.cli.cluster.snapshot import Snapshot
from webhook.cli.selecting import selects
from webhook.policy.model import Policy
from webhook.text import bare, listed

_OUR_FIELDS: Final = re.compile(
    r"\b(tolerations|affinity|nodeSelector|topologySpreadConstraints|priorityClassName|resources|schedulerName|env)\b"
)
"""Fields of a pod that injectors write, or that decide on which nodes it may run."""


def webhooks(snapshot: Snapshot, policy: Policy) -> Iterator[Result]:
    """Our webhook sees what other mutating webhooks change in pods. The API server calls them in order of name."""
    opted = opted_in(snapshot).values()
    names = sorted(
        configuration["metadata"]["name"]
        for configuration in snapshot.of(MUTATING)
        if configuration["metadata"]["name"] != NAME
        and any(
            _selects_namespace(hook, opted) and _take_pods(hook.get("rules") or ())
            for hook in configuration.get("webhooks") or ()
        )
    )
    before, after = [name for name in names if name < NAME], [name for name in names if name > NAME]
    again = hooks_of(snapshot, MUTATING).get(MUTATE_HOOK, {}).get("reinvocationPolicy") == "IfNeeded"
    order = f"before us: {listed(before) or 'none'}; after us: {listed(after) or 'none'}"
    if after and not again:
        text = f"{order}: what they change we never see, since our reinvocationPolicy is not IfNeeded"
        yield Result("otherWebhooks", "warn", text, REAPPLY)
    else:
        asked_again = ", and we are asked again where they change a pod" if after else ""
        yield Result("otherWebhooks", "ok", f"{order}{asked_again}")


def _selects_namespace(hook: Mapping[str, Any], opted: Collection[Mapping[str, str]]) -> bool:
    """Whether a webhook is for any of the namespaces with these labels. If there are none, it may be for later ones."""
    selector = hook.get("namespaceSelector") or {}
    return not opted or any(selects(selector, labels) for labels in opted)


def _take_pods(rules: Iterable[Mapping[str, Any]]) -> bool:
    """Whether one of the rules of a webhook or policy matches the creation of pods."""
    return any(
        {"pods", "*", "*/*"} & set(rule.get("resources") or ()) and {"CREATE", "*"} & set(rule.get("operations") or ())
        for rule in rules
    )


def policies(snapshot: Snapshot, policy: Policy) -> Iterator[Result]:
    """No MutatingAdmissionPolicy changes our fields of pods: the API server applies these before it calls any webhook."""
    bound = {binding["spec"].get("policyName") for binding in snapshot.of("MutatingAdmissionPolicyBinding")}
    changed_fields: dict[str, list[str]] = {}
    for admission_policy in snapshot.of("MutatingAdmissionPolicy"):
        spec, name = admission_policy["spec"], admission_policy["metadata"]["name"]
        rules = (spec.get("matchConstraints") or {}).get("resourceRules") or ()
        if name in bound and _take_pods(rules):
            changed_fields[name] = sorted(set(_OUR_FIELDS.findall(str(spec.get("mutations")))))
    for name, fields in changed_fields.items():
        if fields:
            text = f"{bare(name)} changes {listed(fields)} of pods before we are asked: what is there we keep"
            step = f"see whether both are meant: kubectl get mutatingadmissionpolicy {bare(name)} -o yaml"
            yield Result("mutatingPolicies", "warn", text, step)
    if not any(changed_fields.values()):
        text = f"none changes the fields that we do; others: {listed(sorted(changed_fields)) or 'none'}"
        yield Result("mutatingPolicies", "ok", text)
