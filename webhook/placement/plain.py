"""The cost of one node in plain numbers, to the bit what `fragmentation.Outlook` works out for many as arrays.

One state takes a tenth of the time so: numpy needs thirty calls for it, whatever the number of states.
"""

from __future__ import annotations

from math import inf
from operator import mul, sub
from typing import Final

import numpy as np
from numpy.typing import NDArray

from webhook.cluster.columns import Floats

ALMOST: Final = 1 - 1e-5
"""A whole part, but for what rounding takes off."""
_NODES: Final = 4096
EMPTY: Final = 1e-3
"""What stands for a demand of nothing, and for nothing free: any row holds nothing, and nothing is divided by zero."""


class Plain:
    """An outlook's numbers as lists. See there what they mean."""

    def __init__(
        self, gpus: int, per: Floats, price: Floats, each: Floats, left: Floats, reach: NDArray[np.bool_]
    ) -> None:
        self._gpus = gpus
        self._demands: list[list[float]] = per[:, :, 0, 0].T.tolist()
        self._prices: list[list[float]] = price[:, :, 0, 0].tolist()
        self._eaches: list[float] = each[:, 0, 0].tolist()
        self._units: list[float] = left[:gpus, 0].tolist()
        self._reach = reach
        self._able: dict[tuple[int, ...], list[int]] = {}
        """The demands that a node could hold when empty, by what it has in all and its model."""

    def cost(self, state: list[int], asked: list[int], weights: list[float]) -> float:
        """Of one state, as `States.amounts`. `asked`, `weights`: by resource, what the pod takes, and what a unit costs that
        stays free."""
        kinds = len(asked)
        free = state[:kinds]
        after = list(map(sub, free, asked))
        cost = 0.0
        for part in map(mul, after, weights):
            cost += part
        if self._gpus and self._demands:
            able = self._able_of(tuple(state[kinds:]))
            for before_worth, after_worth in zip(self._worth(free, able), self._worth(after, able), strict=True):
                cost = cost + before_worth - after_worth
        return cost

    def _able_of(self, node: tuple[int, ...]) -> list[int]:
        found = self._able.get(node)
        if found is None:
            if len(self._able) >= _NODES:
                self._able.clear()
            *capacity, model = node
            have = [max(amount, EMPTY) for amount in capacity]
            found = self._able[node] = [
                number
                for number, pers in enumerate(self._demands)
                if min(map(mul, pers, have)) >= ALMOST and self._reach.item(number, model)
            ]
        return found

    def _worth(self, amounts: list[int], able: list[int]) -> list[float]:
        """For each GPU resource, what such a state is worth. `able`: the demands that the node could hold when empty."""
        have, demands = [max(amount, EMPTY) for amount in amounts], self._demands
        parts = [min(1.0, *map(mul, demands[number], have)) for number in able]
        gpus, rest = 0.0, inf
        for amount, left in zip(have, self._units, strict=False):
            gpus += amount * left
        for amount, each in zip(have[self._gpus :], self._eaches, strict=True):
            rest = min(rest, amount * each)
        fed = min(rest / gpus, 1.0) + 1
        worths = []
        for price, amount in zip(self._prices, have, strict=False):
            total = 0.0
            for number, part in zip(able, parts, strict=True):
                total += part * part * price[number]
            worths.append(total * (fed * amount))
        return worths
