"""What an earlier call of the hook decided for the same pod: the API server calls again where another hook changed it after us.

The nodes stay, so that a second call changes nothing. They do not stay where the pod asks for more than it did then, as with a
sidecar that another hook added: the node that was best for the smaller pod may have no room for this one. Then what was written
for these nodes is taken out, and it is ranked anew as if nothing were reserved for it.

Anyone can write an annotation: it counts only where the first node of it is one that the pod's own affinity names, and what was
reserved for the smaller pod stays until the watch shows the larger one (`cluster.ledger`).
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any, NamedTuple

import orjson

from webhook.admission.record import MAX_RECORD_BYTES, previous
from webhook.cluster.node_table import Demand
from webhook.cluster.pods import PodKey, demand_of, key_of
from webhook.errors import QuantityError
from webhook.framework.cluster_view import Placement
from webhook.framework.node_terms import PREFERRED_TERMS, REQUIRED_TERMS, named_node
from webhook.kube.json_patch import Edit
from webhook.kube.pod import CONTAINER_LISTS, DECISION, Pod, annotations_of


class Outgrown(NamedTuple):
    """A choice that holds no more, and what is reserved for it."""

    key: PodKey
    node: str
    asked: Demand
    """What the pod asked for then."""


class Earlier(NamedTuple):
    """What an earlier call chose."""

    placement: Placement
    asked: Demand | None
    """What the pod asked for then; None where the record does not say."""


def earlier_choice(edit: Edit, strategy: str) -> Earlier | None:
    """The choice of an earlier call for this pod. `strategy` is that of the policy."""
    record = annotations_of(edit.object).get(DECISION)
    if not record or len(record) > MAX_RECORD_BYTES:
        return None
    preferred = {named_node(term.get("preference")) for term in edit.get(PREFERRED_TERMS) or ()}
    fields = [field for term in edit.get(REQUIRED_TERMS) or () for field in term.get("matchFields") or ()]
    named: Container[str | None] = preferred | {named_node({"matchFields": [field]}) for field in fields}
    placement = previous(record, named, strategy)
    return None if placement is None else Earlier(placement, _asked(record))


def outgrown(pod: Pod, earlier: Earlier) -> Outgrown | None:
    """The earlier choice, where `pod` asks for more of something than it did then."""
    if earlier.asked is None:
        return None
    try:
        demand = demand_of(pod)
    except QuantityError:
        return None
    if all([amount <= earlier.asked.amount(name) for name, amount in demand.requests]):
        return None
    return Outgrown(key_of(pod), earlier.placement.nodes[0].node, earlier.asked)


def _asked(record: str) -> Demand | None:
    try:
        requests: dict[str, Any] = orjson.loads(record)["asked"]
        amounts = sorted([(name, amount) for name, amount in requests.items() if type(amount) is int and amount > 0])
    except (ValueError, LookupError, TypeError, AttributeError):
        return None
    return Demand(tuple(sorted([*amounts, ("pods", 1)])))


def as_written(pod: Pod) -> Pod:
    """The pod without limits, if the mutating hook added its GPU limits to the requests that its author wrote."""
    if '"gpuResources":["limitsFilled"' not in annotations_of(pod).get(DECISION, ""):
        return pod
    lists: dict[str, Any] = {kind: [{} for _ in pod["spec"].get(kind) or ()] for kind in CONTAINER_LISTS}
    return {**pod, "spec": lists}
