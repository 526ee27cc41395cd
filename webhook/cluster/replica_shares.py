"""Which replica of this program fills which node, so that two of them do not choose the same one at the same moment.

A replica learns of another's choice when the pod is in the watch, a tenth of a second later. In a burst, both would fill the
same best node meanwhile. So each node belongs to one replica, by a hash of both names (rendezvous hashing: all replicas
compute the same, and a replica that comes or goes moves as few nodes as possible). A replica fills its own nodes first. It
takes a node of another replica if that is much better, or if its own are full: the emptiest first, since the other fills
the fullest first; of equal ones the one that the other fills last. If its pod is the first on that node in the watch, whose
order is the same for all replicas, the node belongs to it until all GPUs there are free again.

A share is only a preference: the ledger and the scheduler decide what fits. A tenant who pretends to be a replica only
delays when some nodes are filled.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import NDArray

from webhook.cluster.node_table import Floats

Hashes = NDArray[np.uint64]
OTHER_REPLICA: Final = 1.0
"""What a node of another's is worth less, in GPUs of an average pod (`fragmentation`), however much room it has. As much as a
whole node is worth to pods that were not seen (`placement/whole.py`): a replica breaks its own before it takes another's."""
_BETWEEN_EQUALS: Final = 1e-3
"""So much, and less, decides in which order equal nodes are filled by their owner, and taken by others: from both ends."""
_FACTORS: Final = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFT: Final = np.uint64(31)


class Shares:
    """For each row, whether this replica fills it."""

    def __init__(self, replica: str, size: int) -> None:
        self.several = False
        """Whether there is more than one replica."""
        self.penalty: Floats = np.zeros(size)
        """By row, what is taken off its score for this replica: below OTHER_REPLICA where it is this one's to fill."""
        self._replica = _hash(replica)
        self._hashes: list[np.uint64] = []
        self._names: Hashes = np.zeros(size, np.uint64)
        self._by_hash: Floats = np.zeros(size)
        """`penalty` of a row that nobody took."""
        self._order: Floats = np.zeros(size)
        """0 to `_BETWEEN_EQUALS`: which row its owner fills first, the same to all replicas."""
        self._taken: NDArray[np.bool_] = np.zeros(size, bool)

    def named(self, row: int, name: str) -> None:
        """A row is this node's from now on."""
        if self._replica:
            self._names[row] = _hash(name)
            self._share(slice(row, row + 1))

    def share_among(self, replicas: Sequence[str]) -> None:
        """These share the nodes from now on. Who took which from whom is forgotten."""
        self.several = len(replicas) > 1
        self._hashes = [_hash(name) for name in replicas]
        self._share(slice(0, len(self.penalty)))

    def took(self, row: int, *, this: bool) -> bool:
        """This replica, or another, has put a pod with GPUs on a row. Whether nobody had since it was empty."""
        if self._taken[row]:
            return False
        self._taken[row] = True
        self.penalty[row] = self._order[row] if this else OTHER_REPLICA + _BETWEEN_EQUALS - self._order[row]
        return True

    def emptied(self, row: int) -> None:
        """All GPUs of a row are free again."""
        self._taken[row] = False
        self.penalty[row] = self._by_hash[row]

    def grow(self, more: int) -> None:
        self._names = np.concatenate([self._names, np.zeros(more, np.uint64)])
        self._taken = np.concatenate([self._taken, np.zeros(more, bool)])
        self.penalty, self._by_hash, self._order = (
            np.concatenate([array, np.zeros(more)]) for array in (self.penalty, self._by_hash, self._order)
        )

    def _share(self, rows: slice) -> None:
        self._taken[rows] = False
        if not self.several:
            self.penalty[rows] = 0.0
            return
        names = self._names[rows]
        this, most = _mixed(names, self._replica), np.max([_mixed(names, other) for other in self._hashes], axis=0)
        order = names * (_BETWEEN_EQUALS / 2.0**64)
        self._order[rows] = order
        self._by_hash[rows] = np.where(this == most, order, OTHER_REPLICA + _BETWEEN_EQUALS - order)
        self.penalty[rows] = self._by_hash[rows]


def _hash(name: str) -> np.uint64:
    """0 for no name."""
    return np.uint64(int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big") if name else 0)


def _mixed(names: Hashes, replica: np.uint64) -> Hashes:
    """One number for each pair, as good as random (the finaliser of splitmix64)."""
    found = names ^ replica
    for factor in _FACTORS:
        found = (found ^ (found >> _SHIFT)) * factor
    return found ^ (found >> _SHIFT)
