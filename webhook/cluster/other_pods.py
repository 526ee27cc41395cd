"""What pods say and hold besides resources, as far as it matters to others: whom they keep away from their nodes, what those
that wait are tied to, and which claims are in use.

Only what the watch of pods shows. Nothing here knows rows: nodes are known by name.
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
"""Characters of what a pod that waits states about nodes."""
_MAX_CLAIMS: Final = 16
"""Of one pod."""
ANY: Final = ""
"""In place of a namespace: those that a selector takes."""


class Tied(NamedTuple):
    """What ties a pod that waits to some nodes, or to some pods. Equal for pods of one template."""

    demand: Demand
    stated: bytes
    """Its selector, required node affinity and tolerations, as `placement.request.spec_of` reads them."""
    claims: tuple[str, ...]
    """With the namespace: `team-a/data`."""
    near: tuple[PodTerm, ...]
    """The pods that it must be with."""


class _Held(NamedTuple):
    """What is kept of a pod on a node."""

    node: str
    away: tuple[PodTerm, ...]
    claims: tuple[str, ...]


class OtherPods:
    """One method for each event of a pod."""

    def __init__(self) -> None:
        self.away: dict[str, dict[PodTerm, Counter[str]]] = {}
        """By namespace that a term is about, or ANY: which pods are kept away, and from the domains of which nodes."""
        self.waiting: dict[int | str, Tied] = {}
        """By uid, pods that are tied and have no node, nor a reservation on one."""
        self.used: Counter[str] = Counter()
        """Claims, with the namespace, by how many pods on nodes have them."""
        self.version = 0
        """Rises when `waiting` or `used` changes."""
        self._held: dict[int | str, _Held] = {}

    def bound(self, uid: int | str, node: str, pod: Pod) -> None:
        """The pod is on a node. What is kept of it never changes, so it is read once."""
        if self.waiting.pop(uid, None) is not None:
            self.version += 1
        if uid in self._held:
            return
        held = _Held(node, pod_terms(pod, "podAntiAffinity"), _claims(pod))
        if held.away or held.claims:
            self._held[uid] = held
            self._count(held, 1)

    def waits(self, uid: int | str, pod: Pod, demand: Demand) -> None:
        """The pod has no node, and nothing is reserved for it."""
        if uid in self.waiting or len(self.waiting) >= _MAX_WAITING:
            return
        if (tied := _tied(pod, demand)) is not None:
            self.waiting[uid] = tied
            self.version += 1

    def gone(self, uid: int | str) -> None:
        """It is deleted, or finished, or something is reserved for it."""
        if self.waiting.pop(uid, None) is not None:
            self.version += 1
        held = self._held.pop(uid, None)
        if held is not None:
            self._count(held, -1)

    def _count(self, held: _Held, sign: int) -> None:
        for term in held.away:
            for namespace in term.namespaces if term.by_label is None else (*term.namespaces, ANY):
                terms = self.away.setdefault(namespace, {})
                nodes = terms.setdefault(term, Counter())
                nodes[held.node] += sign
                if not nodes[held.node]:
                    del nodes[held.node]
                if not nodes:
                    del terms[term]
                if not terms:
                    del self.away[namespace]
        for claim in held.claims:
            self.used[claim] += sign
            if not self.used[claim]:
                del self.used[claim]
        self.version += bool(held.claims)


def _tied(pod: Pod, demand: Demand) -> Tied | None:
    """None for a pod that may go to most nodes, as far as it says."""
    spec, near, claims = pod["spec"], pod_terms(pod, "podAffinity"), _claims(pod)
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED)
    selector = spec.get("nodeSelector")
    if not (near or claims or affinity or selector):
        return None
    stated = orjson.dumps([selector, affinity and {REQUIRED: affinity}, spec.get("tolerations")])
    return Tied(demand, stated, claims, near) if len(stated) <= _MAX_CHARACTERS else None


def _claims(pod: Pod) -> tuple[str, ...]:
    """The PersistentVolumeClaims that it names, with the namespace."""
    if not (volumes := pod["spec"].get("volumes")):
        return ()
    named = [(volume.get("persistentVolumeClaim") or {}).get("claimName") for volume in volumes]
    return tuple([f"{namespace_of(pod)}/{name}" for name in named if name][:_MAX_CLAIMS])
