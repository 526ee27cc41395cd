"""The nodes by how much a pod would like them: found once until a node changes, as long as few pods differ in it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from webhook.cluster.nodes import Nodes
from webhook.placement.gangs import Domain
from webhook.placement.shapes import Shape

_SHAPES = 16
_EACH = 8
"""How much is kept: 16 shapes of 8 levels are 9 MiB for 65,000 nodes. Tenants write shapes."""
_COUNTED = 1 << 16
"""Up to this weight, which tenants write too, counting is cheaper than sorting."""


class Levels:
    """For the pods of one ranker."""

    def __init__(self) -> None:
        self._known: dict[Shape, tuple[int, list[int], list[Domain]]] = {}

    def of(self, shape: Shape, nodes: Nodes) -> Iterator[Domain | None]:
        """Domains, the best first: each has the nodes that the shape wishes for alike. None: no node more than another.

        The shape is up to date. Nodes that it rules out are in none; those that are full are.
        """
        if shape.wish is None:
            yield None
            return
        position = nodes.changes.position
        known = self._known.pop(shape, None)
        if known is None or known[0] != position or len(shape.wish) != nodes.columns.size:
            known = position, _values(shape.wish[shape.mask]), []
        if len(self._known) >= _SHAPES:
            del self._known[next(iter(self._known))]
        self._known[shape] = known
        _, values, domains = known
        for place, value in enumerate(values):
            if place < len(domains):
                yield domains[place]
                continue
            member = shape.mask & (shape.wish == value)
            domain = Domain(np.flatnonzero(member), member)
            if place < _EACH:
                domains.append(domain)
            yield domain


def _values(wish: NDArray[np.int64]) -> list[int]:
    """Each value once, falling."""
    few = wish.max(initial=0) < _COUNTED
    found: list[int] = np.flatnonzero(np.bincount(wish)).tolist() if few else sorted(set(wish.tolist()))
    return found[::-1]
