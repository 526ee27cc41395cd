"""Chooses nodes for a pod, unless an earlier call of the mutating webhook did so for the same pod and its choice still holds.

The API server calls a second time if another webhook changed the pod after us. The choice holds if the fields that it was made
by have not changed (`read` in the record), and the first node exists and has room for the pod. The reservation of the first
call is the pod's own, so room is needed only for what the pod asks for beyond it, for example if another webhook added a
sidecar. A pod that was copied or restored from a backup has the record of another pod and no reservation: then the node needs
room for the whole pod.

If the choice does not hold, nodes are ranked again: for the pod without what the first call wrote, and without its reservation.
Anybody can write an annotation, so a choice counts only if the pod's own affinity names its first node.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from webhook.errors import QuantityError
from webhook.framework.cluster_view import Cluster, Placement, Ranked, Unschedulable
from webhook.framework.interface import Injector, Outcome
from webhook.framework.node_terms import PREFERRED_TERMS, REQUIRED_TERMS, named_node, preferred_terms, remove_terms
from webhook.kube.asked import AskedPod
from webhook.kube.gpus import MODEL_LABELS
from webhook.kube.json_patch import Edit
from webhook.kube.pod import CONTAINER_LISTS, DECISION, Pod, annotations_of
from webhook.kube.pod_requests import PodRequests
from webhook.kube.record import outcome_of
from webhook.placement.placer import Placer
from webhook.placement.request import placement_request
from webhook.placement.settings import PlacementSettings


class Choice(NamedTuple):
    """Chooses nodes for one pod by the settings of its profile: `framework.interface.Places`."""

    placer: Placer
    cluster: Cluster
    settings: PlacementSettings
    strategy: str
    workload: str

    def place(self, pod: AskedPod) -> Placement:
        return self.placer.place(pod, self.cluster, self.settings, self.strategy, self.workload)

    def read(self, pod: AskedPod) -> str:
        """A hash of what nodes are chosen by for this version of the pod, except its requests; "" if no node is chosen."""
        request = placement_request(pod, self.settings, self.strategy, self.workload)
        return "" if isinstance(request, Placement) else request.read

    def unschedulable(self, pod: AskedPod) -> tuple[Unschedulable, ...]:
        return self.placer.unschedulable(pod, self.cluster, self.settings)

    def labels(self, pod: AskedPod, keys: tuple[str, ...]) -> frozenset[tuple[str, ...]]:
        return self.placer.labels(pod, self.cluster, self.settings, keys)

    def choose(self, pod: AskedPod, edit: Edit) -> Placement:
        record = pod.record
        if not record:
            return self.place(pod)
        earlier = _placement(record, self.strategy)
        terms, pinned = self._written(pod.json, record)
        before = Edit(pod.json)
        remove_terms(before, terms, pinned)
        bare = pod.changed(before.object)
        if earlier.nodes and self._holds(edit, bare, earlier):
            return earlier
        first = earlier.nodes[0].node if earlier.nodes else ""
        with self.placer.without_reservation(pod.identity.key, first) as reserved:
            placement = self.place(bare)
        if pinned or preferred_terms(placement, self.cluster) != terms:
            remove_terms(edit, terms, pinned)
        same = [each.node for each in placement.nodes[:1]] == [first]
        return placement._replace(kept=reserved and same, left=earlier.left if same else first or earlier.left)

    def _written(self, pod: Pod, record: Mapping[str, Any]) -> tuple[list[Any], str]:
        """The preferred terms that an earlier call wrote, and the node that it pinned the pod to; "" if it did not.

        The record says how many terms these are: the last ones that name a node, or are about labels that the policy prefers by.
        """
        result, detail = (*outcome_of(record, "nodeAffinity"), None, None)[:2]
        nodes = [entry[0] for entry in record.get("nodes", ())]
        if result == "required":
            return [], nodes[0] if nodes else ""
        count = detail[-1] if isinstance(detail, list) and detail else detail
        if result not in ("preferred", "preferredPools", "notPinned") or not isinstance(count, int) or count < 1:
            return [], ""
        keys = {*MODEL_LABELS, *[key for each in self.settings.preferences for key in each.keys]}

        def is_ours(preference: Mapping[str, Any]) -> bool:
            found = {expression.get("key") for expression in preference.get("matchExpressions") or ()}
            return named_node(preference) is not None or (bool(found) and found <= keys)

        terms = Edit(pod).get(PREFERRED_TERMS) or ()
        return [term for term in terms if is_ours(term.get("preference") or {})][-count:], ""

    def _holds(self, edit: Edit, pod: AskedPod, earlier: Placement) -> bool:
        """Whether an earlier choice holds for a pod, given without what was written for it."""
        node, placer = earlier.nodes[0].node, self.placer
        if not _names_first(edit, earlier) or self.read(pod) != earlier.read:
            return False
        try:
            requests = pod.pod_requests.requests
        except QuantityError:
            return True  # it is refused for that
        if placer.reserved(pod.identity.key, node):
            before = PodRequests(earlier.asked)
            requests = tuple([(name, over) for name, asked in requests if (over := asked - before.amount(name)) > 0])
        return placer.has_room(node, PodRequests(requests), pod.namespace)


def _placement(record: Mapping[str, Any], strategy: str) -> Placement:
    """The choice of an earlier call, from its record."""
    amounts = [(name, amount) for name, amount in record.get("asked", {}).items() if amount]
    return Placement(
        tuple([Ranked(*entry) for entry in record.get("nodes", ())]),
        strategy,
        total=record.get("of", 0),
        numbers=tuple(record.get("by", ())),
        decided=record.get("decided", ""),
        asked=tuple(sorted([*amounts, ("pods", 1)])) if "asked" in record else (),
        read=record.get("read", ""),
        kept=True,
        left=record.get("left", ""),
    )


def _names_first(edit: Edit, earlier: Placement) -> bool:
    """Whether the affinity of the pod prefers or requires the first node of the choice."""
    preferred = [named_node(term.get("preference")) for term in edit.get(PREFERRED_TERMS) or ()]
    fields = [field for term in edit.get(REQUIRED_TERMS) or () for field in term.get("matchFields") or ()]
    required = [named_node({"matchFields": [field]}) for field in fields]
    return earlier.nodes[0].node in (*preferred, *required)


def outcomes_of_earlier(record: Mapping[str, Any], idle: Mapping[str, Injector]) -> dict[str, Outcome]:
    """What an earlier call did by the injectors that are `idle` in this one. Only the new record repeats it, and only results
    that the injector has: anybody can write a record."""
    found = {name: entry for name in idle if (entry := outcome_of(record, name))}
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
