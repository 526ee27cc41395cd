"""Affinity to the nodes that placement ranked for the pod.

`preferred` (default): one preferred term per ranked node, the weights falling so that the scheduler's other scores do not
turn the order round. The scheduler may take another node; the pod never waits because of us. `required`: the first node,
added to every term of the required affinity that there is. Terms are ORed, so a term of our own beside them would widen
the user's choice; an empty term matches nothing, and the pin would make it match, so it is left alone.

Fields: spec.affinity.nodeAffinity. Sources: k8s.io/component-helpers scheduling/corev1/nodeaffinity,
pkg/scheduler/framework/plugins/nodeaffinity (scores are normalised to the best feasible node).
"""

from __future__ import annotations

from typing import Any, Literal

from webhook.interface import Context, Injector, Outcome, Placement
from webhook.patch import Edit

_NODE = ("spec", "affinity", "nodeAffinity")
PREFERRED = (*_NODE, "preferredDuringSchedulingIgnoredDuringExecution")
REQUIRED = (*_NODE, "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")


class NodeAffinity(Injector):
    """The chosen nodes are preferred, or the first of them is required."""

    mode: Literal["preferred", "required"] = "preferred"

    def inject(self, edit: Edit, context: Context) -> Outcome:
        placement = context.placement
        if placement is None or not placement.nodes:
            return Outcome("none", placement.reason if placement else "no placement")
        if self.mode == "required":
            return _require(edit, placement)
        present = edit.get(PREFERRED)
        here = {named_node(term.get("preference")) for term in present} if present else ()
        terms = preferences(placement)
        if here:
            terms = [term for term in terms if named_node(term["preference"]) not in here]
        if not terms:
            return Outcome("present")
        edit.extend(PREFERRED, terms)
        return Outcome("preferred", len(terms))


def preferences(placement: Placement) -> list[dict[str, Any]]:
    """The preferred terms that name the ranked nodes, as they stand in a patch."""
    return [
        # as `_is`, spelt out: ten of them in every pod
        {
            "weight": weight,
            "preference": {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [ranked.node]}]},
        }
        for weight, ranked in zip(placement.weights, placement.nodes, strict=False)
    ]


def _require(edit: Edit, placement: Placement) -> Outcome:
    pin = _is(placement.nodes[0].node)
    if edit.get(REQUIRED[:-1]) is None:
        edit.set(REQUIRED, [{"matchFields": [pin]}])
        return Outcome("required", placement.nodes[0].node)
    terms: list[dict[str, Any]] = edit.get(REQUIRED) or []
    pinned = False
    for index, term in enumerate(terms):
        if (term.get("matchExpressions") or term.get("matchFields")) and pin not in (term.get("matchFields") or ()):
            edit.extend((*REQUIRED, index, "matchFields"), [pin])
            pinned = True
    return Outcome("required", placement.nodes[0].node) if pinned else Outcome("present")


def _is(node: str) -> dict[str, Any]:
    return {"key": "metadata.name", "operator": "In", "values": [node]}


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
