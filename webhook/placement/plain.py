"""The cost of one node in plain numbers, to the bit what `fragmentation.Outlook` works out for many as arrays.

One state takes a tenth of the time so: numpy needs thirty calls for it, whatever the number of states.
"""

from __future__ import annotations

from math import inf
from typing import Final

import numpy as np
from numpy.typing import NDArray

from webhook.cluster.columns import Floats

ALMOST: Final = 1 - 1e-5
"""A whole part, but for what rounding takes off."""
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

    def cost(self, state: list[int], asked: list[int], weights: list[float]) -> float:
        """Of one state, as `States.amounts`. `asked`, `weights`: by resource, what the pod takes, and what a unit costs that
        stays free."""
        kinds = len(asked)
        free, model = state[:kinds], state[-1]
        after = [amount - taken for amount, taken in zip(free, asked, strict=True)]
        cost = 0.0
        for amount, weight in zip(after, weights, strict=True):
            cost += amount * weight
        if self._gpus and self._demands:
            empty = self._parts(state[kinds:-1])
            able = [number for number, part in enumerate(empty) if part >= ALMOST and self._reach.item(number, model)]
            for before_worth, after_worth in zip(self._worth(free, able), self._worth(after, able), strict=True):
                cost = cost + before_worth - after_worth
        return cost

    def _worth(self, amounts: list[int], able: list[int]) -> list[float]:
        """For each GPU resource, what such a state is worth. `able`: the demands that the node could hold when empty."""
        parts, have = self._parts(amounts), [max(amount, EMPTY) for amount in amounts]
        held = [(number, min(parts[number], 1.0) * min(parts[number], 1.0)) for number in able]
        gpus, rest = 0.0, inf
        for amount, left in zip(have, self._units, strict=False):
            gpus += amount * left
        for amount, each in zip(have[self._gpus :], self._eaches, strict=True):
            rest = min(rest, amount * each)
        fed = min(rest / gpus, 1.0) + 1
        worths = []
        for price, amount in zip(self._prices, have, strict=False):
            total = 0.0
            for number, part in held:
                total += part * price[number]
            worths.append(total * (fed * amount))
        return worths

    def _parts(self, amounts: list[int]) -> list[float]:
        """For each demand, how much of it these amounts could hold."""
        have = [max(amount, EMPTY) for amount in amounts]
        return [min([per * amount for per, amount in zip(pers, have, strict=True)]) for pers in self._demands]
