"""Which replicas of this program run, and which of them fills which node.

Their own pods say that they run, in the one namespace where no tenant can write. A replica learns of another's choice when
the pod is in the watch, a tenth of a second later. In a burst, both would fill the same best node meanwhile: so each node
belongs to one replica, by a hash of both names (rendezvous hashing: all replicas compute the same, and one that comes or goes
moves as few nodes as possible). While pods are on their way, a replica takes a node of another's only where none of its own
takes the pod.

With two replicas in a burst 81 % of the pods went to their first choice without this, and with it all but a few in a thousand.
It is only a preference: the ledger and the scheduler decide what fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

import numpy as np

from webhook.cluster.node_table import LAST, Columns, Demand, Floats, Rows
from webhook.kube.pod import Pod, labels_of

LABEL: Final = ("app.kubernetes.io/name", "gpu-admission")
"""What the Service, the budget and this module recognise a replica by: `manifests/60-deployment.yaml`."""

OTHER_REPLICA: Final = 1.0
"""How much less a node of another replica is worth, in GPUs of an average pod (`fragmentation`), however much room it has."""
_ENOUGH: Final = 6
"""Pods that still fit besides this one: with so many nothing more is taken off."""


def share(node: str, replica: str, replicas: Sequence[str]) -> float:
    """Which of equal nodes goes first: below OTHER_REPLICA where it is this replica's, up to twice that where it is not. Equal
    nodes are filled by their owner, and taken by others, from both ends. 0 for a replica that is alone."""
    if len(replicas) < 2:
        return 0.0
    order = _hash(node) / 2**64
    owner = max(replicas, key=lambda other: _hash(f"{node}/{other}"))
    return OTHER_REPLICA * (order if owner == replica else 2 - order)


def taken_off(columns: Columns, rows: Rows, demand: Demand, gpu: str | None, *, burst: bool) -> Floats:
    """What is taken off the scores of rows. `gpu`: the resource of GPUs that the pod asks for. `burst`: pods are on their way.

    The other replica fills the fullest node that a pod fits, so the less room a node of another's has, the more is taken
    off: each pod like this one that would no longer fit counts, up to `_ENOUGH`.
    """
    of_other_replicas = columns.share[rows] >= OTHER_REPLICA
    off: Floats = np.where(of_other_replicas, OTHER_REPLICA + (LAST if burst else 0), 0.0)
    if gpu in columns.free:
        missing = _ENOUGH + 1 - columns.free[gpu][rows] // demand.amount(gpu)
        off[of_other_replicas] += np.maximum(missing, 0)[of_other_replicas]
    return off


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


class Replicas:
    """Kept by the watch of pods. A replica counts while the Service sends reviews to it: ready, and not terminating.

    `name`: this replica's, which always counts; "" where it has none: then no other counts. `changed` is called with all
    names, sorted, when they change.
    """

    def __init__(self, name: str, namespace: str, changed: Callable[[tuple[str, ...]], None]) -> None:
        self.namespace = namespace if name else None
        """Where they are; None: nowhere."""
        self.names: tuple[str, ...] = (name,)
        self._name = name
        self._changed = changed
        self._named: dict[int | str, str] = {}

    def __iter__(self) -> Iterator[int | str]:
        """The uids of their pods, as `pods.pod_id` gives them."""
        return iter(self._named)

    def seen(self, uid: int | str, pod: Pod) -> None:
        """A pod of the namespace was added or changed."""
        if labels_of(pod).get(LABEL[0]) == LABEL[1] and _serves(pod):
            self._named[uid] = str(pod["metadata"].get("name", ""))
            self._count()
        else:
            self.gone(uid)

    def gone(self, uid: int | str) -> None:
        """The pod is deleted. Nothing happens if it was no replica."""
        if self._named.pop(uid, None) is not None:
            self._count()

    def _count(self) -> None:
        names = tuple(sorted({self._name, *self._named.values()}))
        if names != self.names:
            self.names = names
            self._changed(names)


def _serves(pod: Mapping[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)
    return ready and not pod["metadata"].get("deletionTimestamp")
