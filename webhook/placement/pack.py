"""The strategies `pack` and `apart`. A pod goes where it takes the free resources that running pods could use least, and breaks
no whole node while it fits on a partly used one.

For one kind of pod, the worth of a node is the number of its free GPUs, times the part of such a pod that the node can hold,
squared. That part is the smallest over all requested resources. By the square half a part is worth a quarter, so the
resources that complete a pod count most. A node that could not hold such a pod when empty is worth nothing to it.
GPUs without the CPU and other resources that pods request with them count half.

Each kind of pod has a price: its part of all requested GPUs, divided by its worth of all nodes together. So a pod costs most
on nodes with what many kinds of pods need and few nodes have: the last whole nodes, the CPU that free GPUs need, and the GPU
models that other pods are confined to.

Of CPU only what pods without GPUs will leave counts as free (`placement.cpu_pods`).

The sum of the losses over all kinds of pods is the gradient of Σ part · log(worth): proportional fairness. With a threshold in
place of the square, and equal prices, it would be FGD (Weng et al., USENIX ATC'23, section 4).

Whole nodes have as many free GPUs as the largest nodes have in all. Only these can take the largest pods, which may come
although none runs. Nodes with shared GPUs are no whole nodes. A node whose GPUs will lose their CPU is not kept whole.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from webhook.kube.pod_requests import PodRequests
from webhook.nodes.popular import PopularRequests, View
from webhook.nodes.table import LAST, Columns, Floats, Integers, Rows
from webhook.placement.cpu_pods import CpuLeft, cpu_left

CPU: Final = "cpu"
_PODS: Final = "pods"
_CORES: Final = 16_000.0
"""CPU per GPU, in thousandths, while no GPU pods run."""
_COVERED: Final = 0.99
_MAX_DEMANDS: Final = 32
"""Kinds of pods are used in the order of their GPUs until they cover this part of all requested GPUs, and at most so many."""
_FULLNESS = 1 / 64
"""What a free GPU costs, compared with one that is lost to the average kind of pod. It is small: it decides between nodes that
are equal otherwise, and alone while no GPU pods run."""
_LARGE_CPU: Final = 1.2
"""A pod that requests more than this many times the usual CPU per GPU takes CPU that the other GPUs of the node need."""
_SERVED: Final = 0.75
"""A node is kept whole if the CPU that pods without GPUs will leave serves this part of its free GPUs."""
_WHOLE: Final = 1 - 1e-5
"""1, minus rounding errors."""
_EMPTY: Final = 1e-3
"""Stands for zero free resources, so that nothing is divided by zero."""
_SAMPLED: Final = 4096
"""Maximum number of rows from which prices are estimated: they need not be exact."""
_TINY: Final = 1e-9
_MARGIN: Final = 1e-6
"""Equal parts differ by less, by rounding."""


class Valuation:
    """Values the free resources of nodes for the popular kinds of pods of a view, with matrices that are computed once per view.

    Amounts of a GPU resource are divided by what a pod requests of it on average. So whole GPUs, slices and thousandths
    of a GPU weigh alike.
    """

    def __init__(self, columns: Columns, view: View) -> None:
        gpus = [name for name in view.gpus if name in columns.free]
        popular = [
            entry for entry in view.popular if all(name in columns.free for name, _ in entry.pod_requests.requests)
        ]
        fraction = np.array([entry.weight for entry in popular])
        asked = _matrix(popular, gpus)
        pods = fraction @ (asked > 0)
        unit = np.divide(fraction @ asked, pods, out=np.ones(len(gpus)), where=pods > 0)
        weight = asked / unit * fraction[:, None]
        total = max(float(weight.sum()), _TINY)
        order = np.argsort(-weight.sum(axis=1), kind="stable")
        covered = int(np.searchsorted(np.cumsum(weight.sum(axis=1)[order]), _COVERED * total)) + 1
        kept = order[: min(covered, _MAX_DEMANDS)]
        popular, weight, fraction = [popular[number] for number in kept], weight[kept] / total, fraction[kept] / total
        other_resources = {name for entry in popular for name, _ in entry.pod_requests.requests} - {_PODS, CPU, *gpus}
        self._resources = [*gpus, CPU, *sorted(other_resources)]
        self._gpus = len(gpus)
        need = _matrix(popular, self._resources)
        per_gpu = (fraction @ need)[self._gpus :]
        """Amount of each other resource that pods request per GPU."""
        in_gpus = np.zeros(len(self._resources))
        in_gpus[: self._gpus] = 1 / unit
        in_gpus[self._gpus] = 1 / (per_gpu[0] or _CORES)
        self._in_gpus: Floats = in_gpus[:, None]
        """The GPUs of an average pod that a unit of each resource stands for: of CPU, the GPUs that it serves."""
        self._gpus_served: Floats = (1 / np.maximum(per_gpu, _TINY))[:, None, None]
        self._pods_per_unit: Floats = (1 / np.maximum(need.T, _TINY))[:, :, None, None]
        self._reach = _reach(popular, len(columns.models))
        self._confined = not self._reach.all()
        self._sought = self._sought_models(columns, weight.sum(axis=1))
        """By GPU model, whether some are confined to it; False for all if each model has its part of these."""
        self._cpu_left = CpuLeft()
        self._price: Floats = (weight / unit / 2).T[:, :, None, None]
        """By GPU resource and kind of pod: what a free GPU is worth on a node that can hold the whole pod."""
        if popular and gpus:
            self._price = self._fair_prices(columns)
            self._cpu_left = cpu_left(
                columns, *[self._gpus_of(columns, each, gpus) for each in (columns.capacity, columns.free)]
            )

    def judged(
        self, columns: Columns, rows: Rows, pod_requests: PodRequests
    ) -> tuple[Floats, NDArray[np.bool_], NDArray[np.bool_]]:
        """How much worth each row loses if `pod_requests` goes there, in GPUs of an average pod, plus `_FULLNESS` of what stays
        free; which rows a popular kind of pod needs unchanged; and in which the GPUs keep their CPU.

        It needs them if the pod would leave GPUs with less than half of the CPU that pods request per GPU, so that nobody could
        use them; with less than all of it, if the pod itself requests `_LARGE_CPU` times as much. Or if kinds of pods are
        confined to the row's GPU model, and more to some models than to others.
        """
        requests = dict(pod_requests.requests)
        asked = np.array([[requests.get(name, 0)] for name in self._resources], float)
        free = np.array([columns.free[name][rows] for name in self._resources], float)
        model = columns.model[rows]
        left: Floats = free - asked
        served = np.ones(len(model), bool)
        if self._cpu_left.part < 1:
            most = self._cpu_left.most(columns, rows)
            free[self._gpus], left[self._gpus] = np.minimum(free[self._gpus], most), np.minimum(left[self._gpus], most)
            idle = np.add.reduce(free[: self._gpus] * self._in_gpus[: self._gpus], axis=0)
            served = free[self._gpus] * self._gpus_served[0, 0] >= _SERVED * idle
        left_gpus = left * self._in_gpus
        cost: Floats = np.add.reduce(left_gpus, axis=0) * _FULLNESS
        if self._gpus and self._pods_per_unit.size:
            capacity = [columns.capacity[name][rows] for name in self._resources]
            # One array for all states: the number of numpy calls is the cost.
            for worth in self._worths(np.stack([free, left, capacity], axis=1), model):
                cost += worth[0]
                cost -= worth[1]
        gpus = np.add.reduce(left_gpus[: self._gpus], axis=0)
        cpu_per_gpu = 1 / self._gpus_served[0, 0, 0]
        large = requests.get(CPU, 0) > _LARGE_CPU * cpu_per_gpu * float((asked * self._in_gpus)[: self._gpus].sum())
        of_no_use = (gpus > 0) & (left[self._gpus] < gpus * (cpu_per_gpu if large else cpu_per_gpu / 2) - 1)
        return cost, of_no_use | self._sought[model], served

    def _gpus_of(self, columns: Columns, amounts: Mapping[str, Integers], gpus: list[str]) -> Floats:
        """By row, GPUs of all resources together."""
        found: Floats = self._in_gpus[: self._gpus, 0] @ np.array(
            [amounts[name][: columns.rows] for name in gpus], float
        )
        return found

    def _worths(self, amounts: Floats, model: NDArray[np.int32]) -> list[Floats]:
        """For each GPU resource, what rows are worth: an array by states and rows. `amounts`: by resource, state and row;
        the last state is the empty node."""
        held, usable = self._held(amounts, model), self._usable(amounts[:, :-1])
        return [
            np.add.reduce(held * price, axis=0) * (usable * amounts[number, :-1])
            for number, price in enumerate(self._price)
        ]

    def _held(self, amounts: Floats, model: NDArray[np.int32]) -> Floats:
        """By kind of pod, state and row: the square of the part of the pod that the row can hold; 0 if even the empty node
        cannot hold all of it. Also replaces negative values in `amounts`."""
        np.maximum(amounts, _EMPTY, out=amounts)
        part: Floats = np.minimum.reduce(self._pods_per_unit * amounts[:, None], axis=0)
        possible = part[:, -1] >= _WHOLE
        if self._confined:
            possible &= self._reach[:, model]
        held: Floats = part[:, :-1]
        np.minimum(held, 1, out=held)
        held *= held
        held *= possible[:, None]
        return held

    def _usable(self, free: Floats) -> Floats:
        """By state and row, a factor for free GPUs: 1, plus the part of the CPU and other resources that pods request with
        them, up to 1."""
        gpus = np.add.reduce(free[: self._gpus] * self._in_gpus[: self._gpus, :, None], axis=0)
        usable: Floats = np.minimum.reduce(free[self._gpus :] * self._gpus_served, axis=0)
        usable /= gpus
        np.minimum(usable, 1, out=usable)
        usable += 1
        return usable

    def _sought_models(self, columns: Columns, weight: Floats) -> NDArray[np.bool_]:
        """A kind of pod that is confined counts for its models by their GPUs. If one model gets more than its part of all, whole
        nodes do not come first on any that is sought: the worth of their GPUs decides."""
        part = np.zeros(len(columns.models))
        if not self._confined:
            return part > 0
        for unit, name in zip(self._in_gpus[:, 0], self._resources[: self._gpus], strict=False):
            part += np.bincount(columns.model, columns.capacity[name] * unit, len(part))
        part /= max(float(part.sum()), _TINY)
        confined = weight * ~self._reach[:, part > 0].all(axis=1)
        of_models = self._reach * part
        of_models /= np.maximum(of_models.sum(axis=1, keepdims=True), _TINY)
        wanted = confined @ of_models
        sought: NDArray[np.bool_] = (wanted > 0) & (wanted > (1 + _MARGIN) * confined.sum() * part).any()
        return sought

    def _fair_prices(self, columns: Columns) -> Floats:
        """Divide prices by the worth of all nodes to each kind of pod, or by that of one pod if the nodes are worth less."""
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


def valuation(columns: Columns, view: View) -> Valuation:
    """The valuation of this view, cached in the view: saves 350 µs of each score."""
    cached = view.cache.get("valuation")
    if cached is None:
        cached = view.cache["valuation"] = Valuation(columns, view)
    assert isinstance(cached, Valuation)
    return cached


def _matrix(popular: list[PopularRequests], resources: list[str]) -> Floats:
    amounts = [[entry.pod_requests.amount(name) for name in resources] for entry in popular]
    return np.array(amounts, float).reshape(len(popular), len(resources))


def _reach(popular: list[PopularRequests], models: int) -> NDArray[np.bool_]:
    """By kind of pod and GPU model: whether its pods may go to nodes of the model."""
    reach = [[entry.models is None or model in entry.models for model in range(models)] for entry in popular]
    return np.array(reach, bool).reshape(len(popular), models)


_KEPT: Final = 20
"""One in so many of the largest nodes stays whole, even if replicas then share a node."""


class Whole:
    """The whole nodes of one GPU resource, for one view."""

    def __init__(self, columns: Columns, gpu: str) -> None:
        self.gpu = gpu
        capacity = np.where(columns.one == 0, columns.capacity[gpu], 0)
        self.size = max(1, int(capacity.max(initial=0)))
        """GPUs of the largest nodes: a row with so many free is a whole node."""
        self._kept = int((capacity >= self.size).sum()) // _KEPT

    def among(self, columns: Columns, rows: Rows) -> NDArray[np.bool_]:
        """Which of `rows` are whole nodes."""
        mask: NDArray[np.bool_] = (columns.free[self.gpu][rows] >= self.size) & (columns.one[rows] == 0)
        return mask

    def broken(self, columns: Columns, rows: Rows, pod_requests: PodRequests) -> NDArray[np.bool_]:
        """Which of `rows` are whole nodes that the pod would not fill.

        Nodes with shared or sliced GPUs count as well: no pod is sent there only to keep a node whole.
        """
        least = max(self.size, pod_requests.amount(self.gpu) + 1)
        broken: NDArray[np.bool_] = (columns.free[self.gpu][rows] >= least) | (columns.one[rows] > 0)
        return broken

    def scarce(self, columns: Columns) -> bool:
        """Whether no more whole nodes are left than should stay whole. Nodes that nobody may use now count too."""
        return self._kept > 0 and int(np.count_nonzero(self.among(columns, slice(0, columns.rows)))) <= self._kept


def whole_nodes(columns: Columns, view: View, pod_requests: PodRequests) -> list[Whole]:
    """The whole nodes of each requested GPU resource. Made once for a view, so that all its scores agree."""
    cached: dict[str, Whole] = view.cache.setdefault("whole nodes", {})
    kinds = []
    for name, _ in pod_requests.requests:
        if name in view.gpus and name in columns.free:
            if name not in cached:
                cached[name] = Whole(columns, name)
            kinds.append(cached[name])
    return kinds


class Pack:
    """For pods that may share a node: the node that loses least for popular kinds of pods (`placement.pack`), the fullest among
    equals.

    No whole node is used if the pod fits on a partly used one, unless a popular kind of pod needs what is free there
    (`Valuation.judged`). A score is minus the worth that the node would lose, in GPUs of an average pod. The fullest
    node has the fewest free GPUs, and the least free CPU, counted as the GPUs that it serves: best-fit, which the
    authors of FGD compare with.
    """

    meaning = "partly used nodes first, so that large pods find whole ones"
    spreads = keeps_whole_nodes = False

    def __call__(self, columns: Columns, rows: Rows, pod_requests: PodRequests, view: View) -> Floats:
        cost, needed, served = valuation(columns, view).judged(columns, rows, pod_requests)
        for whole in whole_nodes(columns, view, pod_requests):
            cost += LAST * (whole.broken(columns, rows, pod_requests) & served | needed)
        return -cost

    def score_key(self, view: View) -> object:
        return view.version


class Apart(Pack):
    """For replicas that should not share a node, on a cluster that needs whole nodes too.

    Hosts and zones with fewer pods of the same owner come first (`peer_rules`); then nodes are scored as by `Pack`. (`Spread`
    would use the emptiest nodes, so that large pods find none.) When one in twenty of the largest nodes is left whole, no more
    of them are used only to spread replicas (`Whole.scarce`).
    """

    meaning = (
        "spread the replicas over hosts and zones, then as pack; rather than use the last whole nodes, one in twenty of the "
        "largest, replicas share a node"
    )
    spreads = keeps_whole_nodes = True
