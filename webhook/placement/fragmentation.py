"""How much of a node's free GPUs the demands seen lately could not use.

FGD's measure (Weng et al., USENIX ATC'23, section 4) over everything that pods ask for: a node whose CPU or memory
cannot serve a popular demand strands its GPUs for that demand. Demands count by the GPUs they ask for, not by pods, or
the few large jobs would have no say.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from webhook.cluster.columns import Columns, Demand, Floats, Popular, Rows, View

CPU: Final = "cpu"
_PODS: Final = "pods"
_AMPLE: Final = 1.5
"""Nodes have more CPU for each GPU than pods ask for with it; what is more than that is worth less than a GPU."""
_CORES: Final = 16_000.0
"""Thousandths of a core that go with a GPU where nothing was seen yet."""
_MOST: Final = 16
"""Demands looked at, those that ask for most GPUs."""


class Outlook:
    """What is to be known of a view before its rows are scored: matrices over its popular demands.

    Amounts of a GPU resource are divided by what a pod asks for of it on average, so that thousandths of a GPU, slices
    and whole GPUs weigh alike.
    """

    def __init__(self, columns: Columns, view: View) -> None:
        self._gpus = [name for name in view.gpus if name in columns.free]
        popular = [found for found in view.popular if all(name in columns.free for name, _ in found.demand.requests)]
        share = np.array([found.share for found in popular])
        asked = _matrix(popular, self._gpus)
        pods = share @ (asked > 0)
        mean = np.divide(share @ asked, pods, out=np.ones(len(self._gpus)), where=pods > 0)
        self.unit: dict[str, float] = dict(zip(self._gpus, mean.tolist(), strict=True))
        weight = asked / mean * share[:, None]
        cpu = _matrix(popular, [CPU])[:, 0]
        self.cores = _AMPLE * float(share @ cpu) / float(weight.sum()) if cpu.any() and weight.any() else _CORES
        """Thousandths of a core that weigh as much as the GPUs of an average pod."""
        kept = np.argsort(-weight.sum(axis=1), kind="stable")[:_MOST]
        popular, weight = [popular[number] for number in kept], weight[kept]
        self._weight = weight / max(float(weight.sum()), 1e-9)
        """Demands by GPU resources: their part of all GPUs that are asked for."""
        self._total = self._weight.sum(axis=0)
        others = {name for found in popular for name, _ in found.demand.requests} - {_PODS, *self._gpus}
        self._resources = [*self._gpus, *sorted(others)] if popular else []
        self._need = _matrix(popular, self._resources).T.astype(np.int64)[:, :, None]
        reach = [
            [found.models is None or model in found.models for model in range(len(columns.models))] for found in popular
        ]
        self._reach: NDArray[np.bool_] = np.array(reach, bool)
        """Demands by models."""
        self._confined = not self._reach.all()
        self.price = self._prices(columns, popular)
        self.sought = bool(self.price.any())
        """Whether some pods are confined to models."""

    def growth(self, columns: Columns, rows: Rows, demand: Demand) -> Floats:
        """By how much the free GPUs that an average popular demand cannot use grow when `demand` goes to each row."""
        count = len(columns.free[CPU][rows])
        grown: Floats = np.zeros(count)
        if not self._resources:
            return grown
        # Before and after side by side: rows are few most of the time, so the number of numpy calls is what costs.
        free = np.empty((len(self._resources), 2 * count), np.int64)
        fits: NDArray[np.bool_] | None = None
        for number, name in enumerate(self._resources):
            now, after = free[number, :count], free[number, count:]
            now[:] = columns.free[name][rows]
            np.subtract(now, demand.amount(name), out=after)
            enough = free[number] >= self._need[number]
            fits = enough if fits is None else np.logical_and(fits, enough, out=fits)
        assert fits is not None
        if self._confined:
            reach = self._reach[:, columns.model[rows]]
            fits[:, :count] &= reach
            fits[:, count:] &= reach
        for number, name in enumerate(self._gpus):
            useless = free[number] * (self._total[number] - self._weight[:, number] @ fits)
            grown += (useless[count:] - useless[:count]) / self.unit[name]
        return grown

    def _prices(self, columns: Columns, popular: list[Popular]) -> Floats:
        """By model: how much more GPUs of it are asked for by pods confined to it than if those could go anywhere."""
        price = np.zeros(len(columns.models))
        live = slice(0, columns.rows)
        for number, name in enumerate(self._gpus):
            has = np.bincount(columns.model[live], columns.capacity[name][live], len(price))
            for found, weight in zip(popular, self._weight[:, number], strict=True):
                if found.models:
                    chosen = list(found.models)
                    price[chosen] += weight * has.sum() / max(has[chosen].sum(), 1)
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
