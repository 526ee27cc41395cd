"""Affinity terms that name nodes: as the ranked nodes stand in a pod, how they are found there, and how they are taken out."""

from __future__ import annotations

from typing import Any

from webhook.framework.cluster_view import Placement
from webhook.kube.json_patch import Edit
from webhook.kube.pod import PREFERRED, REQUIRED

_NODE = ("spec", "affinity", "nodeAffinity")
PREFERRED_TERMS = (*_NODE, PREFERRED)
REQUIRED_TERMS = (*_NODE, REQUIRED, "nodeSelectorTerms")


def preferences(placement: Placement) -> list[dict[str, Any]]:
    """The preferred terms that name the ranked nodes, and what else is preferred in a node, as they stand in a patch."""
    terms = [naming(ranked.node, weight) for weight, ranked in zip(placement.weights, placement.nodes, strict=False)]
    for preferred in placement.preferred:
        term: dict[str, Any] = {}
        for key, operator, values, field in preferred.expressions:
            expression = {"key": key, "operator": operator} | ({"values": list(values)} if values else {})
            term.setdefault("matchFields" if field else "matchExpressions", []).append(expression)
        terms.append({"weight": preferred.weight, "preference": term})
    return terms


def naming(node: str, weight: int) -> dict[str, Any]:
    """The preferred term for one node."""
    return {"weight": weight, "preference": {"matchFields": [is_node(node)]}}


def withdraw(edit: Edit, placement: Placement) -> None:
    """Take out what was written for the ranked nodes of `placement`, preferred and required."""
    terms = preferences(placement)
    if any([term in terms for term in edit.get(PREFERRED_TERMS) or ()]):
        remaining = [term for term in edit.get(PREFERRED_TERMS) if term not in terms]
        if remaining:
            edit.set(PREFERRED_TERMS, remaining)
        else:
            edit.remove(PREFERRED_TERMS)
    pin = is_node(placement.nodes[0].node)
    if edit.get(REQUIRED_TERMS) == [{"matchFields": [pin]}]:
        edit.remove(REQUIRED_TERMS[:-1])
    for index, term in enumerate(edit.get(REQUIRED_TERMS) or ()):
        if pin in (fields := term.get("matchFields") or ()):
            edit.set((*REQUIRED_TERMS, index, "matchFields"), [field for field in fields if field != pin])


def named_node(term: Any) -> str | None:
    """The node that a term names by metadata.name and nothing else, as our own terms do."""
    fields = term.get("matchFields") if isinstance(term, dict) else None
    if not fields or len(fields) != 1 or term.get("matchExpressions"):
        return None
    field = fields[0]
    values = field.get("values") or []
    if field.get("key") == "metadata.name" and field.get("operator") == "In" and len(values) == 1:
        return str(values[0])
    return None


def is_node(node: str) -> dict[str, Any]:
    """The requirement that a node has this name."""
    return {"key": "metadata.name", "operator": "In", "values": [node]}
