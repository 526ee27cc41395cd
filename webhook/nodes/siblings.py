"""The replicas of this webhook (siblings), and which nodes each of them should choose first.

A sibling finds the others by their pods, in the one namespace where no tenant can create pods. It learns of another
sibling's choice from the watch of pods, a tenth of a second later. In a burst, all siblings would fill the same best
node until then. So each node belongs to one sibling. The nodes of one GPU model are divided into parts of equal size, in an
order by hash of their names: all siblings compute the same parts, and a node that comes or goes moves few others. During a
burst, a sibling takes another's node only if none of its own fits the pod; with parts of unequal size, those of the smallest
were used up while pods still came, and one pod in ten lost its first choice. It is only a preference: what fits is decided by
the ledger and the scheduler.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from webhook.kube.pod import Pod, labels_of
from webhook.kube.pod_requests import PodRequests
from webhook.nodes.table import LAST, Columns, Floats, Rows

LABEL: Final = ("app.kubernetes.io/name", "gpu-admission")
"""The label of siblings, which the Service and the PodDisruptionBudget select too: `manifests/60-deployment.yaml`."""

OTHER_SIBLING: Final = 1.0
"""Subtracted from the score of a sibling's node, in GPUs of an average pod (`placement.pack`), however many are free."""
_ROOM: Final = 6
"""A node with room for so many pods besides this one gets no extra penalty."""


def place_of(node: str) -> float:
    """The place of a node in an order that is the same for all siblings: 0 to 1."""
    return int.from_bytes(blake2b(node.encode(), digest_size=8).digest(), "big") / 2**64


def order_of(place: Floats, model: NDArray[np.int32], sibling: str, siblings: Sequence[str]) -> Floats:
    """The order of equal nodes, lowest first: below OTHER_SIBLING for this sibling's nodes, up to twice that for others, so
    that a sibling fills its own nodes from one end and takes nodes of others from the other end. 0 if there is one
    sibling. `place`, `model`: of each node."""
    if len(siblings) < 2:
        return np.zeros(len(place))
    owner = np.zeros(len(place), np.intp)
    for number in np.unique(model):
        alike = (model == number).nonzero()[0]
        owner[alike[np.argsort(place[alike])]] = np.arange(len(alike)) * len(siblings) // len(alike)
    return OTHER_SIBLING * np.where(owner == sorted(siblings).index(sibling), place, 2 - place)


def sibling_penalty(columns: Columns, rows: Rows, pod_requests: PodRequests, gpu: str | None, *, burst: bool) -> Floats:
    """What to subtract from the scores of rows. `gpu`: the GPU resource that the pod requests. `burst`: see `Ledger.burst`.

    The other sibling fills the fullest node that a pod fits. So 1 more is subtracted for each pod by which the room on
    another's node, beside this pod, is less than `_ROOM`.
    """
    penalty: Floats | float = OTHER_SIBLING + (LAST if burst else 0)
    if gpu in columns.free:
        penalty += np.maximum(_ROOM + 1 - columns.free[gpu][rows] // pod_requests.amount(gpu), 0)
    return np.where(columns.order[rows] >= OTHER_SIBLING, penalty, 0.0)


class Siblings:
    """The running siblings, kept up to date by the watch of pods.

    A sibling counts while the Service sends reviews to it: it is ready and not terminating. `name`: this sibling, which
    always counts; "" if it has no name, then no other counts. `changed` is called with all names, sorted, when they
    change.
    """

    def __init__(self, name: str, namespace: str, changed: Callable[[tuple[str, ...]], None]) -> None:
        self.namespace = namespace if name else None
        """The namespace of the siblings; None if this sibling has no name."""
        self.names: tuple[str, ...] = (name,)
        self._name = name
        self._changed = changed
        self._named: dict[int | str, str] = {}

    def __iter__(self) -> Iterator[int | str]:
        """The uids of their pods, as `pods.pod_id` returns them."""
        return iter(self._named)

    def seen(self, uid: int | str, pod: Pod) -> None:
        """A pod of the namespace was added or changed."""
        if labels_of(pod).get(LABEL[0]) == LABEL[1] and _serves(pod):
            self._named[uid] = str(pod["metadata"].get("name", ""))
            self._count()
        else:
            self.gone(uid)

    def gone(self, uid: int | str) -> None:
        """The pod was deleted. Does nothing if it was no sibling."""
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
