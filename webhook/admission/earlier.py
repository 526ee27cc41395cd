"""Chooses nodes for a pod, unless an earlier call of the mutating hook did so for the same pod and the choice still holds.

The API server calls a second time if another hook changed the pod after us. The chosen nodes stay, so that the second call
changes nothing, if the first of them lives and has room for the pod. What the first call reserved there is the pod's own, so only
what it asks for beyond that counts; the pod may ask for more, for example because another hook added a sidecar. A pod that was
copied or restored from a backup has the record of another pod, and nothing is reserved for it: then the node needs room for the
whole pod.

If the choice does not hold, the terms for its nodes are removed and nodes are ranked anew. Anybody can write an annotation. So a
choice counts only if the pod's own affinity names its first node.
"""

from collections.abc import Mapping
from typing import Any

from webhook.errors import QuantityError
from webhook.framework.cluster_view import Placement, Ranked
from webhook.framework.interface import Injector, Outcome
from webhook.framework.node_terms import PREFERRED_TERMS, REQUIRED_TERMS, named_node, remove_terms
from webhook.kube.asked import AskedPod
from webhook.kube.json_patch import Edit
from webhook.kube.pod import CONTAINER_LISTS, DECISION, Pod, annotations_of
from webhook.kube.pod_requests import Demand
from webhook.kube.record import record_of
from webhook.placement.placer import Places
from webhook.placement.strategies import WEIGHTS


class Choice(Places):
    """Chooses nodes for one pod: `framework.interface.Places`."""

    __slots__ = ()

    def choose(self, pod: AskedPod, edit: Edit) -> Placement:
        record = record_of(pod.json)
        if not record.get("nodes"):
            return self.place(pod)
        earlier = _placement(record, self.strategy)
        if _names_first(edit, earlier) and self._holds(pod, earlier):
            return earlier
        done = record.get("units", {}).get("nodeAffinity")
        pinned = isinstance(done, list) and done[:1] == ["required"]
        remove_terms(edit, earlier._replace(weights=WEIGHTS, required=pinned))
        return self.place(AskedPod(edit.object, pod.gpus))

    def _holds(self, pod: AskedPod, earlier: Placement) -> bool:
        node, placer = earlier.nodes[0].node, self.placer
        try:
            requests = pod.demand.requests
        except QuantityError:
            return True  # it is refused for that
        if placer.reserved(pod.identity.key, node):
            before = Demand(earlier.asked)
            requests = tuple([(name, over) for name, asked in requests if (over := asked - before.amount(name)) > 0])
        return placer.has_room(node, Demand(requests), pod.namespace)


def _placement(record: Mapping[str, Any], strategy: str) -> Placement:
    """The choice of an earlier call, from its record."""
    amounts = [(name, amount) for name, amount in record.get("asked", {}).items() if amount]
    return Placement(
        tuple([Ranked(*entry) for entry in record["nodes"]]),
        strategy,
        total=record.get("of", 0),
        numbers=tuple(record.get("by", ())),
        decided=record.get("decided", ""),
        asked=tuple(sorted([*amounts, ("pods", 1)])) if "asked" in record else (),
        kept=True,
    )


def _names_first(edit: Edit, earlier: Placement) -> bool:
    """Whether the affinity of the pod prefers or requires the first node of the choice."""
    preferred = [named_node(term.get("preference")) for term in edit.get(PREFERRED_TERMS) or ()]
    fields = [field for term in edit.get(REQUIRED_TERMS) or () for field in term.get("matchFields") or ()]
    required = [named_node({"matchFields": [field]}) for field in fields]
    return earlier.nodes[0].node in (*preferred, *required)


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
