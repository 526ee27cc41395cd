"""What the free resources of a node are worth to the demands seen lately.

To one demand a node is worth its free GPUs, times the part of the demand that it could hold (the least part over
everything that is asked for), squared: half a node is worth a quarter, so the last steps to a whole one count most. A
node that could not hold it when empty is worth nothing to it. A demand has a price: its part of all GPUs that are asked
for, over what all nodes together are worth to it now. So a pod costs most where it takes what is much asked for and rare:
the last whole nodes, the CPU that free GPUs need, the models that other pods are confined to.

The sum of the losses over all demands is the gradient of Σ part · log(worth): proportional fairness. With a threshold in
place of the square, and equal prices, it would be FGD (Weng et al., USENIX ATC'23, section 4).
"""

from __future__ import annotations

from collections.abc import Callable
from math import isnan
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from webhook.cluster.columns import Columns, Demand, Floats, Integers, Popular, Rows, View
from webhook.placement.plain import ALMOST, EMPTY, Plain
from webhook.placement.states import States, states

CPU: Final = "cpu"
_PODS: Final = "pods"
_CORES: Final = 16_000.0
"""Thousandths of a core that go with a GPU where nothing was seen yet."""
_COVERED: Final = 0.99
_MOST: Final = 32
"""Demands looked at: those that ask for most GPUs, until they ask for so much of all, at most so many."""
_DEMANDS: Final = 512
_FEW: Final = 8
_SAMPLED: Final = 4096
"""Rows from which prices are estimated, at most: they need not be exact."""
_NOTHING: Final = 1e-9


class Outlook:
    """What is to be known of a view before its rows are scored: matrices over its popular demands.

    Amounts of a GPU resource are divided by what a pod asks for of it on average, so that thousandths of a GPU, slices
    and whole GPUs weigh alike.
    """

    def __init__(self, columns: Columns, view: View) -> None:
        gpus = [name for name in view.gpus if name in columns.free]
        popular = [found for found in view.popular if all(name in columns.free for name, _ in found.demand.requests)]
        share = np.array([found.share for found in popular])
        asked = _matrix(popular, gpus)
        pods = share @ (asked > 0)
        unit = np.divide(share @ asked, pods, out=np.ones(len(gpus)), where=pods > 0)
        weight = asked / unit * share[:, None]
        total = max(float(weight.sum()), _NOTHING)
        order = np.argsort(-weight.sum(axis=1), kind="stable")
        covered = int(np.searchsorted(np.cumsum(weight.sum(axis=1)[order]), _COVERED * total)) + 1
        kept = order[: min(covered, _MOST)]
        popular, weight, share = [popular[number] for number in kept], weight[kept] / total, share[kept] / total
        others = {name for found in popular for name, _ in found.demand.requests} - {_PODS, CPU, *gpus}
        self._resources = [*gpus, CPU, *sorted(others)]
        self._gpus = len(gpus)
        need = _matrix(popular, self._resources)
        each = (share @ need)[self._gpus :]
        """How much of the other resources pods ask for with each GPU."""
        left = np.zeros(len(self._resources))
        left[: self._gpus] = 1 / unit
        left[self._gpus] = 1 / (each[0] or _CORES)
        self._left: Floats = left[:, None]
        """What a unit of each resource is in GPUs of an average pod; CPU as so many GPUs as it is there for."""
        self._each: Floats = (1 / np.maximum(each, _NOTHING))[:, None, None]
        self._per: Floats = (1 / np.maximum(need.T, _NOTHING))[:, :, None, None]
        self._reach = _reach(popular, len(columns.models))
        self._confined = not self._reach.all()
        self._price: Floats = (weight / unit / 2).T[:, :, None, None]
        """GPU resources by demands: what a free GPU is worth where all of the demand can be held."""
        if popular and gpus:
            self._price = self._fair(columns)
        self._plain = Plain(self._gpus, self._per, self._price, self._each, self._left, self._reach)
        self._tables: dict[tuple[States, Demand, float], tuple[int, Floats]] = {}
        """Costs by number of the state, NaN where not known, and the epoch of the numbers."""

    def cost(self, columns: Columns, rows: Rows, demand: Demand, fullness: float) -> Floats:
        """How much less each row is worth when `demand` goes there, and `fullness` of all that stays free there, in GPUs
        of an average pod."""
        known = states(columns, tuple(self._resources))
        known.refresh(columns)
        numbers = known.of_row[rows]
        table = self._table(known, demand, fullness)
        found: Floats = table[numbers]
        unknown = np.isnan(found).nonzero()[0]
        if len(unknown):
            which = list(set(numbers[unknown].tolist()))
            if len(which) <= _FEW:
                asked, weights = self._weighed(demand, fullness)
                for number in which:
                    table[number] = self._plain.cost(known.amounts[:, number].tolist(), asked, weights)
            else:
                table[which] = self._cost(known.amounts[:, which], demand, fullness)
            found = table[numbers]
        return found

    def single(self, columns: Columns, demand: Demand, fullness: float) -> Callable[[int], float]:
        """Minus the cost of one row at a time."""
        known, changes = states(columns, tuple(self._resources)), columns.changes
        asked, weights = self._weighed(demand, fullness)
        epoch = -1
        costs: Any = b""

        def score(row: int) -> float:
            nonlocal epoch, costs
            if known.read_to != changes.position:
                known.refresh(columns)
            number: int = known.of_row.item(row)
            if number >= len(costs) or epoch != known.epoch:
                epoch, costs = known.epoch, self._table(known, demand, fullness).data
            cost: float = costs[number]
            if isnan(cost):  # not known yet
                cost = self._plain.cost(known.amounts[:, number].tolist(), asked, weights)
                costs[number] = cost
            return -cost

        return score

    def _weighed(self, demand: Demand, fullness: float) -> tuple[list[int], list[float]]:
        """By resource: how much is asked for, and what a unit that stays free costs."""
        return [demand.amount(name) for name in self._resources], [
            left * fullness for left in self._left[:, 0].tolist()
        ]

    def _table(self, known: States, demand: Demand, fullness: float) -> Floats:
        if len(self._tables) > _DEMANDS:
            self._tables.clear()
        epoch, table = self._tables.get((known, demand, fullness), (-1, np.zeros(0)))
        kept = len(table) if epoch == known.epoch else 0
        if room := known.amounts.shape[1] - kept:
            table = np.concatenate([table[:kept], np.full(room, np.nan)])
            self._tables[known, demand, fullness] = known.epoch, table
        return table

    def _cost(self, found: Integers, demand: Demand, fullness: float) -> Floats:
        """Of these states, as `States.amounts`."""
        kinds = len(self._resources)
        free, capacity, model = found[:kinds], found[kinds:-1], found[-1]
        asked = np.array([[demand.amount(name)] for name in self._resources])
        # Before, after and empty side by side: states are few most of the time, and the number of numpy calls is what costs.
        amounts = np.empty((kinds, 3, found.shape[1]))
        amounts[:, 0] = free
        np.subtract(free, asked, out=amounts[:, 1], casting="unsafe")
        amounts[:, 2] = capacity
        cost: Floats = np.add.reduce(amounts[:, 1] * (self._left * fullness), axis=0)
        if self._gpus and self._per.size:
            for worth in self._worths(amounts, model):
                cost += worth[0]
                cost -= worth[1]
        return cost

    def _worths(self, amounts: Floats, model: Integers | NDArray[np.int32]) -> list[Floats]:
        """For each GPU resource: what rows are worth, by states and rows. `amounts`: resources by states by rows; the
        last state is the empty node."""
        held, fed = self._held(amounts, model), self._fed(amounts[:, :-1])
        return [
            np.add.reduce(held * price, axis=0) * (fed * amounts[number, :-1])
            for number, price in enumerate(self._price)
        ]

    def _held(self, amounts: Floats, model: Integers | NDArray[np.int32]) -> Floats:
        """Demands by states by rows: the part of the demand that the row could hold, squared; 0 where not even the empty
        node could hold it all. Also makes nothing out of what is negative in `amounts`."""
        np.maximum(amounts, EMPTY, out=amounts)
        part = self._per[0] * amounts[0]
        for per, amount in zip(self._per[1:], amounts[1:], strict=True):
            np.minimum(part, per * amount, out=part)
        possible = part[:, -1] >= ALMOST
        if self._confined:
            possible &= self._reach[:, model]
        held: Floats = part[:, :-1]
        np.minimum(held, 1, out=held)
        held *= held
        held *= possible[:, None]
        return held

    def _fed(self, free: Floats) -> Floats:
        """By states and rows: how much of the free GPUs counts. Half, and half as far as the rest that pods ask for with
        them is there."""
        gpus = np.add.reduce(free[: self._gpus] * self._left[: self._gpus, :, None], axis=0)
        fed: Floats = np.minimum.reduce(free[self._gpus :] * self._each, axis=0)
        fed /= gpus
        np.minimum(fed, 1, out=fed)
        fed += 1
        return fed

    def _fair(self, columns: Columns) -> Floats:
        """Prices by what all nodes together are worth to each demand now, at least one pod of it."""
        rows = slice(0, columns.rows, max(1, columns.rows // _SAMPLED))
        free = np.array([columns.free[name][rows] for name in self._resources], float)
        capacity = np.array([columns.capacity[name][rows] for name in self._resources], float)
        amounts = np.stack([free, capacity], axis=1)
        held = self._held(amounts, columns.model[rows])[:, 0]
        fed = self._fed(amounts[:, :-1])[0]
        price = self._price.copy()
        for number in range(self._gpus):
            idle = amounts[number, 0] * fed
            least = np.where(price[number, :, 0, 0] > 0, 1 / self._per[number, :, 0, 0], 1)
            price[number, :, 0, 0] *= float(idle.sum()) / np.maximum(held @ idle, least)
        return price


def outlook(columns: Columns, view: View) -> Outlook:
    """That of this view, made once."""
    made = view.spare.get(__name__)
    if made is None:
        made = view.spare[__name__] = Outlook(columns, view)
    assert isinstance(made, Outlook)
    return made


def _matrix(popular: list[Popular], resources: list[str]) -> Floats:
    amounts = [[found.demand.amount(name) for name in resources] for found in popular]
    return np.array(amounts, float).reshape(len(popular), len(resources))


def _reach(popular: list[Popular], models: int) -> NDArray[np.bool_]:
    """Demands by models: whether the demand may go to nodes of the model."""
    reach = [[found.models is None or model in found.models for model in range(models)] for found in popular]
    return np.array(reach, bool).reshape(len(popular), models)
