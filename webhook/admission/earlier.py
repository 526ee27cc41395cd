"""Reads what an earlier call of the mutating hook chose for the same pod.

The API server calls a second time if another hook changed the pod after us. The chosen nodes stay, so that the second call
changes nothing. The pod may ask for more than at the first call, for example because another hook added a sidecar. If the first
node has no room for the rest, the terms for these nodes are removed and nodes are ranked again.

Anyone can write an annotation. So it counts only if the pod's own affinity names its first node.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from webhook.cluster.node_table import Demand
from webhook.cluster.pods import demand_of
from webhook.errors import QuantityError
from webhook.framework.cluster_view import Placement, Ranked
from webhook.framework.interface import Injector, Outcome
from webhook.framework.node_terms import PREFERRED_TERMS, REQUIRED_TERMS, named_node
from webhook.kube.json_patch import Edit
from webhook.kube.pod import CONTAINER_LISTS, DECISION, Pod, annotations_of
from webhook.kube.record import record_of
from webhook.placement.strategies import keeps_apart


class Earlier(NamedTuple):
    """The choice of an earlier call."""

    placement: Placement
    asked: Demand | None
    """The demand of the pod at that call; None if the record does not contain it."""
    pinned: bool = False
    """Whether that call required the first node; else its author did."""

    def more(self, pod: Pod) -> Demand | None:
        """What `pod` asks for beyond the demand at that call; None if nothing, or if that is not known."""
        if self.asked is None:
            return None
        try:
            requests = demand_of(pod).requests
        except QuantityError:
            return None
        more = tuple([(name, over) for name, amount in requests if (over := amount - self.asked.amount(name)) > 0])
        return Demand(more) if more else None


def earlier_choice(edit: Edit, strategy: str) -> Earlier | None:
    """The choice of an earlier call for this pod; None if there is none. `strategy`: from the policy."""
    record = record_of(edit.object)
    if not (nodes := record.get("nodes")):
        return None
    preferred = {named_node(term.get("preference")) for term in edit.get(PREFERRED_TERMS) or ()}
    fields = [field for term in edit.get(REQUIRED_TERMS) or () for field in term.get("matchFields") or ()]
    if nodes[0][0] not in preferred | {named_node({"matchFields": [field]}) for field in fields}:
        return None
    placement = Placement(
        tuple([Ranked(*entry) for entry in nodes]),
        strategy,
        total=record.get("of", 0),
        numbers=tuple(record.get("by", ())),
        decided=record.get("decided", ""),
        apart=keeps_apart(strategy),
    )
    amounts = [(name, amount) for name, amount in record.get("asked", {}).items() if amount]
    asked = Demand(tuple(sorted([*amounts, ("pods", 1)]))) if "asked" in record else None
    done = record.get("units", {}).get("nodeAffinity")
    return Earlier(placement, asked, isinstance(done, list) and done[:1] == ["required"])


def outcomes_of_earlier(pod: Pod, idle: Mapping[str, Injector]) -> dict[str, Outcome]:
    """What an earlier call did by the injectors that are `idle` in this one. Only the new record repeats it, and only results
    that the injector has: anybody can write a record."""
    units = record_of(pod).get("units", {})
    found = {name: entry for name in idle if isinstance(entry := units.get(name), list) and entry}
    known = {name: entry for name, entry in found.items() if entry[0] in list(idle[name].sentences)}
    return {name: Outcome(*entry[:2]) for name, entry in known.items()}


def as_written(pod: Pod) -> Pod:
    """The pod as its author wrote it, as far as `Context.field_of` needs it.

    That is the pod without any resources if the mutating hook added GPU limits to requests: then the author wrote the requests.
    """
    if '"gpuResources":["limitsFilled"' not in annotations_of(pod).get(DECISION, ""):
        return pod
    lists: dict[str, Any] = {kind: [{} for _ in pod["spec"].get(kind) or ()] for kind in CONTAINER_LISTS}
    return {**pod, "spec": lists}
