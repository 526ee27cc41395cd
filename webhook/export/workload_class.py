"""The class of workload of a pod, in CEL."""

from __future__ import annotations

from webhook.framework import entitlement
from webhook.kube import cel
from webhook.policy.workload_classes import ClassRule


def workload_class(rules: tuple[ClassRule, ...]) -> str:
    """The expression for the class that `Policy.classify` gives."""
    labels = "object.metadata.?labels.orValue({})"
    owners = "object.metadata.?ownerReferences.orValue([])"
    expression = '"none"'
    for rule in reversed(rules):
        terms = []
        if rule.labels:
            label_terms = [
                f'{labels}[?{cel.literal(k)}].orValue("") in {cel.literal(v)}' for k, v in rule.labels.items()
            ]
            terms.append(cel.any_of(label_terms))
        if rule.owner_kinds:
            terms.append(
                f"{owners}.exists(o, o.?controller.orValue(false) && o.kind in {cel.literal(rule.owner_kinds)})"
            )
        if "*" not in rule.namespaces:
            terms.append(entitlement.in_cel(rule.namespaces))
        expression = f"{cel.all_of(terms)} ? {cel.literal(rule.name)} :\n{expression}"
    return expression
