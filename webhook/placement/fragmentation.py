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

from typing import Final

import numpy as np
from numpy.typing import NDArray

from webhook.cluster.node_table import Columns, Demand, Floats, Popular, Rows, View

CPU: Final = "cpu"
_PODS: Final = "pods"
_CORES: Final = 16_000.0
"""Thousandths of a core that go with a GPU where nothing was seen yet."""
_COVERED: Final = 0.99
_MAX_DEMANDS: Final = 32
"""Demands looked at: those that ask for most GPUs, until they cover _COVERED of all, at most so many."""
_FULLNESS = 1 / 64
"""What a free GPU costs, against one that is lost to average demand. Small: it decides between nodes that are as good
otherwise, and alone while no demand was seen."""
_MUCH: Final = 1.2
"""Times the CPU that pods ask for with a GPU: who asks for more takes what the other GPUs of the node need."""
_WHOLE: Final = 1 - 1e-5
"""A whole part, less rounding."""
_EMPTY: Final = 1e-3
"""Stands for nothing free: a row holds next to nothing of it, and nothing is divided by zero."""
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
        popular = [entry for entry in view.popular if all(name in columns.free for name, _ in entry.demand.requests)]
        share = np.array([entry.share for entry in popular])
        asked = _matrix(popular, gpus)
        pods = share @ (asked > 0)
        unit = np.divide(share @ asked, pods, out=np.ones(len(gpus)), where=pods > 0)
        weight = asked / unit * share[:, None]
        total = max(float(weight.sum()), _NOTHING)
        order = np.argsort(-weight.sum(axis=1), kind="stable")
        covered = int(np.searchsorted(np.cumsum(weight.sum(axis=1)[order]), _COVERED * total)) + 1
        kept = order[: min(covered, _MAX_DEMANDS)]
        popular, weight, share = [popular[number] for number in kept], weight[kept] / total, share[kept] / total
        other_resources = {name for entry in popular for name, _ in entry.demand.requests} - {_PODS, CPU, *gpus}
        self._resources = [*gpus, CPU, *sorted(other_resources)]
        self._gpus = len(gpus)
        need = _matrix(popular, self._resources)
        per_gpu = (share @ need)[self._gpus :]
        """How much of the other resources pods ask for with each GPU."""
        in_gpus = np.zeros(len(self._resources))
        in_gpus[: self._gpus] = 1 / unit
        in_gpus[self._gpus] = 1 / (per_gpu[0] or _CORES)
        self._in_gpus: Floats = in_gpus[:, None]
        """What a unit of each resource is in GPUs of an average pod; CPU as so many GPUs as it is there for."""
        self._gpus_served: Floats = (1 / np.maximum(per_gpu, _NOTHING))[:, None, None]
        self._pods_per_unit: Floats = (1 / np.maximum(need.T, _NOTHING))[:, :, None, None]
        self._reach = _reach(popular, len(columns.models))
        self._confined = not self._reach.all()
        sought: NDArray[np.bool_] = np.any(self._reach[~self._reach.all(axis=1)], axis=0)
        self._sought = np.zeros_like(sought) if sought[1:].all() else sought
        """By model, whether demands are confined to it: to none where that is true of all models that are known."""
        self._price: Floats = (weight / unit / 2).T[:, :, None, None]
        """GPU resources by demands: what a free GPU is worth where all of the demand can be held."""
        if popular and gpus:
            self._price = self._fair(columns)

    def cost(self, columns: Columns, rows: Rows, demand: Demand) -> Floats:
        """How much less each row is worth when `demand` goes there, and `_FULLNESS` of all that stays free there, in GPUs
        of an average pod."""
        free = np.array([columns.free[name][rows] for name in self._resources], float)
        asked = np.array([[demand.amount(name)] for name in self._resources], float)
        capacity = [columns.capacity[name][rows] for name in self._resources]
        amounts: Floats = np.stack(
            [free, free - asked, capacity], axis=1
        )  # together: the number of numpy calls is what costs
        cost: Floats = np.add.reduce(amounts[:, 1] * (self._in_gpus * _FULLNESS), axis=0)
        if self._gpus and self._pods_per_unit.size:
            for worth in self._worths(amounts, columns.model[rows]):
                cost += worth[0]
                cost -= worth[1]
        return cost

    def needed(self, columns: Columns, rows: Rows, demand: Demand) -> NDArray[np.bool_]:
        """Which rows a demand seen lately needs as they are: with less than half of the CPU that pods ask for with a GPU, what
        would be left of theirs is of no use, and a pod that asks for `_MUCH` CPU leaves them all of it; or demands are confined
        to their model, and none to some other model."""
        names = self._resources[: self._gpus + 1]
        left = np.array([columns.free[name][rows] - demand.amount(name) for name in names], float)
        gpus = np.add.reduce(left[:-1] * self._in_gpus[: self._gpus], axis=0)
        cpu_per_gpu = 1 / self._gpus_served[0, 0, 0]
        asked = sum([demand.amount(name) * self._in_gpus[number, 0] for number, name in enumerate(names[:-1])])
        enough = cpu_per_gpu if demand.amount(CPU) > _MUCH * cpu_per_gpu * asked else cpu_per_gpu / 2
        of_no_use = (gpus > 0) & (left[-1] < gpus * enough - 1)
        mask: NDArray[np.bool_] = of_no_use | self._sought[columns.model[rows]]
        return mask

    def _worths(self, amounts: Floats, model: NDArray[np.int32]) -> list[Floats]:
        """For each GPU resource: what rows are worth, by states and rows. `amounts`: resources by states by rows; the
        last state is the empty node."""
        held, usable = self._held(amounts, model), self._usable(amounts[:, :-1])
        return [
            np.add.reduce(held * price, axis=0) * (usable * amounts[number, :-1])
            for number, price in enumerate(self._price)
        ]

    def _held(self, amounts: Floats, model: NDArray[np.int32]) -> Floats:
        """Demands by states by rows: the part of the demand that the row could hold, squared; 0 where not even the empty
        node could hold it all. Also makes nothing out of what is negative in `amounts`."""
        np.maximum(amounts, _EMPTY, out=amounts)
        part = self._pods_per_unit[0] * amounts[0]
        for per, amount in zip(self._pods_per_unit[1:], amounts[1:], strict=True):
            np.minimum(part, per * amount, out=part)
        possible = part[:, -1] >= _WHOLE
        if self._confined:
            possible &= self._reach[:, model]
        held: Floats = part[:, :-1]
        np.minimum(held, 1, out=held)
        held *= held
        held *= possible[:, None]
        return held

    def _usable(self, free: Floats) -> Floats:
        """By states and rows: how much of the free GPUs counts. One, and one more as far as the rest is there that pods ask
        for with them."""
        gpus = np.add.reduce(free[: self._gpus] * self._in_gpus[: self._gpus, :, None], axis=0)
        usable: Floats = np.minimum.reduce(free[self._gpus :] * self._gpus_served, axis=0)
        usable /= gpus
        np.minimum(usable, 1, out=usable)
        usable += 1
        return usable

    def _fair(self, columns: Columns) -> Floats:
        """Prices by what all nodes together are worth to each demand now, at least one pod of it."""
        rows = slice(0, columns.rows, max(1, columns.rows // _SAMPLED))
        free = np.array([columns.free[name][rows] for name in self._resources], float)
        capacity = np.array([columns.capacity[name][rows] for name in self._resources], float)
        amounts = np.stack([free, capacity], axis=1)
        held = self._held(amounts, columns.model[rows])[:, 0]
        usable = self._usable(amounts[:, :-1])[0]
        price = self._price.copy()
        for number in range(self._gpus):
            idle = amounts[number, 0] * usable
            least = np.where(price[number, :, 0, 0] > 0, 1 / self._pods_per_unit[number, :, 0, 0], 1)
            price[number, :, 0, 0] *= float(idle.sum()) / np.maximum(held @ idle, least)
        return price


def outlook(columns: Columns, view: View) -> Outlook:
    """That of this view. Kept beside it: that saves 350 µs of each score."""
    cached = view.spare.get(__name__)
    if cached is None:
        cached = view.spare[__name__] = Outlook(columns, view)
    assert isinstance(cached, Outlook)
    return cached


def _matrix(popular: list[Popular], resources: list[str]) -> Floats:
    amounts = [[entry.demand.amount(name) for name in resources] for entry in popular]
    return np.array(amounts, float).reshape(len(popular), len(resources))


def _reach(popular: list[Popular], models: int) -> NDArray[np.bool_]:
    """Demands by models: whether the demand may go to nodes of the model."""
    reach = [[entry.models is None or model in entry.models for model in range(models)] for entry in popular]
    return np.array(reach, bool).reshape(len(popular), models)
