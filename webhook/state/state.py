"""The state of the cluster: nodes, pods, reservations, and the other objects that placement and the units read.

It is kept up to date by watch events. Objects are plain dicts as the API returns them, and only what is needed of them
is kept. After any events in any order, the state equals one that was filled from a fresh list; only reservations are not
in a list.
"""

from collections.abc import Callable, Iterable, Mapping, Set
from functools import partial
from typing import Any

from webhook.devices.claims import Claims, DeviceRequests, Specs, device_class
from webhook.devices.slices import Slices
from webhook.devices.source_kai import DeviceGroups
from webhook.devices.sources import PART_RESOURCES, SOURCES, shared_claims, uses_of
from webhook.framework.cluster_view import MetricsStatus, Placement
from webhook.kube.asked import AskedPod, identity_of
from webhook.kube.other_gpus import asks_for_part
from webhook.kube.pod import DECISION, FINISHED, PROFILE_LABEL, annotations_of, is_made_for_a_node, namespace_of, pod_id
from webhook.kube.pod_requests import PodRequests, counted_requests, has_extended_resource
from webhook.kube.record import first_node, ranked_nodes, record_of
from webhook.kube.stores import Answers, Grouped
from webhook.nodes.ledger import Ledger
from webhook.nodes.nodes import Nodes
from webhook.nodes.popular import RequestCounts, pinned_models
from webhook.nodes.siblings import Siblings
from webhook.nodes.usage import Nominations, PodKind, Usage, hold, is_unschedulable, nominated_priority
from webhook.state.jobs import Jobs
from webhook.state.objects import (
    Autoscalers,
    ByName,
    Freshness,
    Index,
    LimitRanges,
    ListKind,
    Quotas,
    labels,
    name_of,
    priority_class,
    runtime_class,
    volume_claim,
    volume_terms,
)
from webhook.state.view import StateView

Object = Mapping[str, Any]


class ClusterState:
    """The state. Events change it through one method each; reviews read it through `view`. Not thread safe: one event loop
    owns it.

    `max_age`: seconds, of the same clock as every `now`; see `Freshness`. `trusted`: whether only API servers can send reviews;
    see `Parts`. `sibling`, `namespace`: see `Siblings`.
    """

    def __init__(
        self,
        *,
        max_age: float = 60.0,
        trusted: bool = False,
        sibling: str = "",
        namespace: str = "gpu-admission",
    ) -> None:
        self.freshness = Freshness(max_age)
        self.nodes = Nodes(sibling)
        self.siblings = Siblings(sibling, namespace, self.nodes.divide)
        self.usage = Usage(self.nodes)
        self.ledger = Ledger(self.usage, trusted=trusted)
        self.nominations = Nominations(self.usage)
        self.request_counts = RequestCounts()
        self.device_groups = DeviceGroups(self.nodes.devices, self.nodes.labels_of)
        self.holdings: dict[tuple[str, str], dict[int, int]] = {}
        """What bound pods have of extended resources, by namespace and resource, then by row. Others only read it."""
        self.priority_classes = ByName(priority_class)
        self.runtime_classes = ByName(runtime_class)
        self.limit_ranges = LimitRanges()
        self.namespaces = ByName(labels)
        self.slices = Slices(self.nodes.dra, self.nodes.devices)
        self.claims = Claims(self.nodes.devices, self._allocated)
        self.claim_templates = Specs()
        self.device_classes = ByName(device_class)
        self.device_requests = DeviceRequests(
            self.nodes.devices, self.claims, self.claim_templates, self.device_classes
        )
        self.quotas = Quotas()
        self.autoscalers = Autoscalers()
        self.jobs = Jobs()
        self.volume_claims = ByName(volume_claim)
        self.volumes = ByName(volume_terms)
        self.node_pools = ByName(labels)
        """Those of Karpenter. Only whether there are any is read."""
        self.indexes: Mapping[ListKind, Index] = {
            "priorityclasses": self.priority_classes,
            "runtimeclasses": self.runtime_classes,
            "limitranges": self.limit_ranges,
            "namespaces": self.namespaces,
            "resourceslices": self.slices,
            "devicetaintrules": self.slices.taint_rules,
            "deviceclasses": self.device_classes,
            "resourceclaims": self.claims,
            "resourceclaimtemplates": self.claim_templates,
            "resourcequotas": self.quotas,
            "horizontalpodautoscalers": self.autoscalers,
            "jobs": self.jobs,
            "persistentvolumeclaims": self.volume_claims,
            "persistentvolumes": self.volumes,
            "nodepools": self.node_pools,
        }
        self.answers = Answers()
        self.gpu_metrics: Callable[[float], MetricsStatus] = lambda _: MetricsStatus()
        """Whether there are GPU metrics to rank by at a time `now`."""
        self.pods: dict[int | str, tuple[int, PodKind]] = {}
        """Row and kind of each bound pod, by uid. Others only read it."""
        self.nowhere = Grouped[int | str, str, PodKind]()
        """Bound pods whose node is not known, by the name that they give: it may come later, and anybody can write any name."""

    def node_seen(self, node: Object) -> None:
        known, name = len(self.nodes.columns.capacity), node["metadata"]["name"]
        self.nodes.seen(node)
        self.device_groups.publish(name)
        for resource in list(self.nodes.columns.capacity)[known:]:
            self.usage.recount(resource, self.holders())
        for uid, kind in [*self.nowhere.groups.get(name, {}).items()]:
            self._put(uid, name, kind)

    def node_gone(self, name: str) -> None:
        self.nodes.gone(name)

    def pod_seen(self, pod: dict[str, Any], now: float) -> None:
        """A pod was added or changed. Finished pods use nothing; terminating ones count until they are deleted."""
        metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
        uid = pod_id(metadata)
        if status.get("phase") in FINISHED:
            if uid in self.pods and (reason := status.get("reason")):
                node = self.nodes.columns.name[self.pods[uid][0]]
                self.nodes.rejections.failed(namespace_of(pod), node, str(reason), now)
            self._forget(uid)
            return
        if metadata.get("namespace") == self.siblings.namespace:
            self.siblings.seen(uid, pod)
        node, pod_requests, held = spec.get("nodeName"), counted_requests(pod), True
        nominated = "" if node else status.get("nominatedNodeName") or ""
        if node:
            self.nominations.gone(uid)
        if spec.get("resourceClaims") or (self.device_classes and has_extended_resource(pod_requests)):
            with_devices = self.device_requests.of_pod(pod, pod_requests, node or first_node(pod))
            pod_requests, held = with_devices or pod_requests, with_devices is not None
            if pod_requests.devices and self.claims.allocated(pod):
                pod_requests = pod_requests._replace(devices=())
        notes = annotations_of(pod)
        if not node and (
            asks_for_part(notes) or not PART_RESOURCES.isdisjoint([name for name, _ in pod_requests.requests])
        ):
            pod_requests = pod_requests._replace(devices=(*pod_requests.devices, *shared_claims(pod)))
        for source, uses in uses_of(pod) if node else ():
            self.nodes.devices.use(source, uid, node, uses)
        reserves = bool(node) and self.device_groups.seen(uid, node, pod)
        if reserves or (not has_extended_resource(pod_requests) and DECISION not in notes):
            self.ledger.gone(uid)  # its author may have taken the record away
            kind = self.usage.kind(pod_requests, roams=not reserves and _roams(pod))
            if node:
                self._put(uid, node, kind)
            else:
                self.nominations.put(uid, nominated, kind, nominated_priority(pod))
            return
        identity, new = identity_of(pod), uid not in self.pods
        key = identity.key
        kind = self.usage.kind(pod_requests, identity.owners, key.namespace)
        # read once: this is a third of the cost of an event
        record = record_of(pod) if new and not self.ledger.waits(uid) else {}
        first = first_node(pod, record)
        self.ledger.left(key, record.get("left", ""), kind)
        if node:
            if status.get("phase") == "Running":  # anybody can bind a pod to a node that does not exist
                self.request_counts.bound(uid, key.namespace, pod_requests, pinned_models(spec))
            counted = new and self.ledger.bound(uid, key, first, kind, node, partial(ranked_nodes, pod))
            self._put(uid, node, kind, counted=counted)
            return
        ours = PROFILE_LABEL in self.namespaces.get(key.namespace, (PROFILE_LABEL,))
        if held and first in self.nodes.row_of and ours:
            self.ledger.seen(uid, key, first, kind, now)
        elif held:
            self.ledger.becomes(uid, kind)
        if nominated or is_unschedulable(pod):
            self.ledger.unschedulable(uid)
        self.nominations.put(uid, nominated, kind, nominated_priority(pod))

    def is_bound(self, pod: Object) -> bool:
        """Whether the pod is known to be bound and not finished."""
        return (uid := pod_id(pod["metadata"])) in self.pods or uid in self.nowhere

    def pod_gone(self, pod: Object) -> None:
        self._forget(pod_id(pod["metadata"]))

    def _put(self, uid: int | str, node: str, kind: PodKind, *, counted: bool = False) -> None:
        self.nowhere.gone(uid)
        if node not in self.nodes.row_of:
            self.nowhere.put(uid, node, kind)
            return
        before, row = self.pods.get(uid), self.nodes.row(node)
        if before is not None:
            if before == (row, kind):
                return
            self._give_back(*before)
            row = self.nodes.row(node)
        self.pods[uid] = row, kind if counted else self.usage.take(row, kind)
        hold(self.holdings, row, kind, 1)

    def _give_back(self, row: int, kind: PodKind) -> None:
        hold(self.holdings, row, kind, -1)
        self.usage.give_back(row, kind)

    def _forget(self, uid: int | str) -> None:
        before = self.pods.pop(uid, None)
        if before is not None:
            self._give_back(*before)
        else:
            self.ledger.gone(uid)
            self.nominations.gone(uid)
        self.nowhere.gone(uid)
        self.request_counts.gone(uid)
        self.siblings.gone(uid)
        self.device_groups.gone(uid)
        for source in SOURCES:
            self.nodes.devices.use(source.name, uid, "", ())

    def _allocated(self, uid: str) -> None:
        """A claim of this pod has devices now, and counts: what was held for the pod does not count besides."""
        key = pod_id({"uid": uid})
        nominated = self.nominations.of(key)
        row, kind = self.pods.get(key, (-1, nominated[1] if nominated else self.ledger.held(key)))
        if kind is None or not kind.pod_requests.devices:
            return
        without = self.usage.kind(kind.pod_requests._replace(devices=()), kind.owners, kind.namespace)
        if nominated is not None:
            self.nominations.put(key, self.nodes.columns.name[nominated[0]], without, nominated[2])
        elif row < 0:
            self.ledger.becomes(key, without)
        else:
            self.usage.give_back(row, kind)
            self.pods[key] = row, self.usage.take(row, without)

    def holders(self) -> list[tuple[int, PodKind]]:
        return [*self.pods.values(), *self.promised()]

    def promised(self) -> list[tuple[int, PodKind]]:
        """Every row and kind that is held for a pod that is not bound: what is private to namespaces is left out."""
        return [*self.ledger.holders(), *self.nominations.holders()]

    def reserve(self, pod: AskedPod, placement: Placement, now: float) -> None:
        """Reserve what a pod requests on the first node of `placement`, if there is one and its namespace has not too many
        open reservations."""
        if not placement.nodes:
            return
        node = placement.nodes[0].node
        pod_requests = PodRequests(placement.asked, placement.devices) if placement.asked else pod.pod_requests
        offering = self.nodes.offering(pod_requests)
        if self.ledger.parts.allows(pod.namespace, node, offering):
            kind = self.usage.kind(pod_requests, pod.identity.owners, pod.namespace)
            self.ledger.reserve(pod.identity.key, node, kind, offering, now)

    def expire(self, now: float) -> None:
        self.ledger.expire(now)
        self.nodes.rejections.expire(now)

    def seen(self, kind: ListKind, obj: dict[str, Any], now: float) -> None:
        """An object was added or changed. Raises if it is malformed."""
        if kind == "pods":
            self.pod_seen(obj, now)
        elif kind == "nodes":
            self.node_seen(obj)
        else:
            self.indexes[kind].seen(obj)

    def forget(self, kind: ListKind, key: Any) -> None:
        """An object is gone. `key`: its `objects.name_of`."""
        if kind == "pods":
            self._forget(key)
        elif kind == "nodes":
            self.node_gone(key)
        else:
            self.indexes[kind].gone(key)

    def known(self, kind: ListKind) -> list[int | str]:
        """The `objects.name_of` of every known object of a kind."""
        if kind == "pods":
            return [*self.pods, *self.nowhere, *self.ledger.waiting(), *self.nominations.uids(), *self.siblings]
        if kind == "nodes":
            return [name for name, row in self.nodes.row_of.items() if self.nodes.columns.alive[row]]
        return [*self.indexes[kind]]

    def replace(self, kind: ListKind, objects: Iterable[dict[str, Any]], now: float) -> None:
        """Apply a full list: objects that are not in it are gone."""
        named = set[int | str]()
        for obj in objects:
            named.add(name_of(kind, obj))
            self.seen(kind, obj, now)
        self.complete(kind, named, now)

    def complete(self, kind: ListKind, named: Set[int | str], now: float) -> None:
        """A list is complete: objects that are not `named` are gone."""
        for key in [key for key in self.known(kind) if key not in named]:
            self.forget(kind, key)
        self.freshness.complete(kind, now)

    def withdraw(self, kind: ListKind) -> None:
        """A kind is not served, or we may not read it: forget its objects."""
        for key in self.known(kind):
            self.forget(kind, key)
        self.freshness.withdraw(kind)

    def fresh(self, now: float) -> bool:
        """Whether the state is complete and recent enough to choose nodes."""
        return self.freshness.fresh(now)

    def view(self, now: float) -> StateView:
        """The cluster as units see it. Ends first what is over by then."""
        self.expire(now)
        self.nodes.devices.allow()
        return StateView(self, self.fresh(now), self.gpu_metrics(now))


def _roams(pod: dict[str, Any]) -> bool:
    """Whether a pod without extended resources is made for no certain node, and claims no device."""
    return not (pod["spec"].get("resourceClaims") or is_made_for_a_node(pod))
