"""Checks who can preempt the pods of others by a PriorityClass that the policy gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from webhook.cli.checks.result import Result, opted_in
from webhook.cli.cluster.snapshot import Snapshot
from webhook.framework import entitlement
from webhook.kube.pod import PROFILE_LABEL
from webhook.policy.model import Policy
from webhook.rules.priority_class import PriorityClassAllowed
from webhook.text import bare, listed

GUARD: Final = "gpu-admission-preemption"
_ENTITLED: Final = f"{entitlement.CLASS_LABELS}inference-critical"


def preemption(snapshot: Snapshot, policy: Policy) -> Iterator[Result]:
    """The namespaces that can preempt others are those that the policy entitles and the guard of the API server lets through."""
    guarded, critical = _guarded(snapshot)
    given = {name for each in policy.file.profiles.values() for name in each.injectors.priority_class.classes.values()}
    found, wrong = [], False
    for (_, name), priority_class in sorted(snapshot.named("PriorityClass").items()):
        if name not in given or priority_class.get("preemptionPolicy") == "Never":
            continue
        if f"'{name}'" not in guarded:
            wrong = True
            text = f"every namespace may use {bare(name)}, which preempts: {GUARD} does not name it"
            yield Result("preemption", "warn", text, "add it there: manifests/70-guards.yaml")
        may = []
        for namespace, labels in sorted(opted_in(snapshot).items()):
            if f"'{name}'" not in critical or _ENTITLED in labels:
                may += [namespace] if _may_name(name, namespace, labels, policy) else []
            elif _is_given(name, namespace, labels, policy):
                wrong = True
                text = f"the policy gives {bare(name)} to pods of namespace {namespace}; the API server refuses them"
                yield Result("preemption", "warn", text, f"kubectl label namespace {namespace} {_ENTITLED}=")
        found.append(f"by {bare(name)}: {listed(may, 10) or 'none'}")
    if not wrong:
        yield Result(
            "preemption", "ok", f"namespaces that can preempt others {'; '.join(found) or 'by our classes: none'}"
        )


def _guarded(snapshot: Snapshot) -> tuple[str, str]:
    """The expressions of the guard that name all classes, and those for entitled namespaces."""
    for (_, name), guard in snapshot.named("ValidatingAdmissionPolicy").items():
        if name == GUARD:
            spec = guard["spec"]
            every = [each.get("expression") or "" for each in spec.get("matchConditions") or ()]
            some = [v.get("expression") or "" for v in spec.get("variables") or () if v.get("name") == "critical"]
            return " ".join(every), " ".join(some)
    return "", ""


def _may_name(name: str, namespace: str, labels: Mapping[str, str], policy: Policy) -> bool:
    """Whether the rule priorityClass lets pods of this namespace name this class."""
    profile, settings = policy.profile(labels[PROFILE_LABEL])
    rule = dict(policy.rules(profile)).get("priorityClass")
    if not isinstance(rule, PriorityClassAllowed) or rule.action != "deny" or settings.shadow:
        return True
    return rule.reserved_for(name, namespace, labels) is None


def _is_given(name: str, namespace: str, labels: Mapping[str, str], policy: Policy) -> bool:
    """Whether pods of this namespace can get this class from the injector."""
    _, settings = policy.profile(labels[PROFILE_LABEL])
    injector = settings.injectors.priority_class
    return (injector.enabled and not settings.shadow) and any(
        injector.classes.get(rule.name) == name and entitlement.covers(rule.namespaces, namespace, labels)
        for rule in policy.file.classes
    )
