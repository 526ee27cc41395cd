"""Constraints between pods: anti-affinity of bound pods, what confines waiting pods, and PersistentVolumeClaims in use.

Everything comes from the watch of pods. Nodes are known by name here, not by row.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

import orjson

from webhook.cluster.node_table import Demand
from webhook.cluster.pod_terms import PodTerm, pod_terms
from webhook.cluster.pods import namespace_of
from webhook.kube.pod import REQUIRED, Pod

_MAX_WAITING: Final = 256
_MAX_CHARACTERS: Final = 4096
"""Maximum length of the node constraints of a waiting pod."""
_MAX_CLAIMS: Final = 16
"""Maximum number of PersistentVolumeClaims of one pod."""
ANY: Final = ""
"""Stands for all namespaces that a selector matches."""


class ConfinedPod(NamedTuple):
    """What confines a waiting pod to some nodes, or to nodes with certain pods. Equal for pods of one template."""

    demand: Demand
    spec_json: bytes
    """Its node selector, required node affinity and tolerations, as `placement.request.spec_of` reads them."""
    volume_claims: tuple[str, ...]
    """Namespace and name of its PersistentVolumeClaims: `team-a/data`."""
    affinity: tuple[PodTerm, ...]
    """Its required pod affinity."""


class _Bound(NamedTuple):
    """What is kept of a bound pod."""

    node: str
    anti_affinity: tuple[PodTerm, ...]
    volume_claims: tuple[str, ...]


class OtherPods:
    """What is kept of the constraints between pods, with one method for each event of a pod."""

    def __init__(self) -> None:
        self.anti_affinity: dict[str, dict[PodTerm, Counter[str]]] = {}
        """Required anti-affinity of pods on nodes: by namespace of the term or ANY, then by term, the number of such pods
        by node."""
        self.waiting: dict[int | str, ConfinedPod] = {}
        """By uid, the confined pods that have neither a node nor a reservation."""
        self.volume_claims_in_use: Counter[str] = Counter()
        """Namespace and name of each PersistentVolumeClaim of pods on nodes, with the number of these pods."""
        self.version = 0
        """Rises when `waiting` or `volume_claims_in_use` changes."""
        self._bound_pods: dict[int | str, _Bound] = {}

    def bound(self, uid: int | str, node: str, pod: Pod) -> None:
        """The pod is bound. What is kept of it never changes, so it is read once."""
        if self.waiting.pop(uid, None) is not None:
            self.version += 1
        if uid in self._bound_pods:
            return
        held = _Bound(node, pod_terms(pod, "podAntiAffinity"), volume_claim_names(pod)[:_MAX_CLAIMS])
        if held.anti_affinity or held.volume_claims:
            self._bound_pods[uid] = held
            self._count(held, 1)

    def waits(self, uid: int | str, pod: Pod, demand: Demand) -> None:
        """The pod has neither a node nor a reservation."""
        if uid in self.waiting or len(self.waiting) >= _MAX_WAITING:
            return
        if (confined := _confined(pod, demand)) is not None:
            self.waiting[uid] = confined
            self.version += 1

    def gone(self, uid: int | str) -> None:
        """The pod is deleted or finished."""
        if self.waiting.pop(uid, None) is not None:
            self.version += 1
        held = self._bound_pods.pop(uid, None)
        if held is not None:
            self._count(held, -1)

    def _count(self, held: _Bound, sign: int) -> None:
        for term in held.anti_affinity:
            for namespace in term.namespaces if term.namespace_selector is None else (*term.namespaces, ANY):
                terms = self.anti_affinity.setdefault(namespace, {})
                nodes = terms.setdefault(term, Counter())
                nodes[held.node] += sign
                if not nodes[held.node]:
                    del nodes[held.node]
                if not nodes:
                    del terms[term]
                if not terms:
                    del self.anti_affinity[namespace]
        for claim in held.volume_claims:
            self.volume_claims_in_use[claim] += sign
            if not self.volume_claims_in_use[claim]:
                del self.volume_claims_in_use[claim]
        self.version += bool(held.volume_claims)


def _confined(pod: Pod, demand: Demand) -> ConfinedPod | None:
    """None if the pod states nothing that confines it, or too much to keep."""
    spec, pod_affinity, claims = pod["spec"], pod_terms(pod, "podAffinity"), volume_claim_names(pod)[:_MAX_CLAIMS]
    node_affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED)
    selector = spec.get("nodeSelector")
    if not (pod_affinity or claims or node_affinity or selector):
        return None
    spec_json = orjson.dumps([selector, node_affinity and {REQUIRED: node_affinity}, spec.get("tolerations")])
    return ConfinedPod(demand, spec_json, claims, pod_affinity) if len(spec_json) <= _MAX_CHARACTERS else None


def volume_claim_names(pod: Pod) -> tuple[str, ...]:
    """Namespace and name of the PersistentVolumeClaims of a pod."""
    if not (volumes := pod["spec"].get("volumes")):
        return ()
    named = [(volume.get("persistentVolumeClaim") or {}).get("claimName") for volume in volumes]
    return tuple([f"{namespace_of(pod)}/{name}" for name in named if name])
