"""Counts the GPUs of the cluster for the metrics: by state, model, namespace and node, and how they are used.

Of each resource, allocated + promised + free + unusable is what the nodes have in all. Each count is bounded: the largest are
named, and the others are counted together under OTHER. All nodes are counted at once, with numpy: 5,000 take a few milliseconds.

What counts as a GPU, and under which name: see `state.gpu_amounts`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from webhook.devices.types import DRA, PUBLISHED, WHOLE
from webhook.kube.gpus import SILICON, Gpus
from webhook.nodes.rejections import OTHER
from webhook.nodes.table import Columns, Floats
from webhook.nodes.utilisation import IDLE_FOR, NodeUse
from webhook.placement.feasible import for_any_pod
from webhook.placement.settings import Health
from webhook.placement.use import usable_gpus
from webhook.state.gpu_amounts import GpuAmounts, Models, gpu_amounts, gpu_number, models_of, parts
from webhook.state.state import ClusterState

SEVERAL: Final = "_several"
"""Stands for the namespaces of a node whose idle GPUs may be those of any of them."""
_MAX_NAMES: Final = 50
"""Maximum number of models, of namespaces, and of nodes with one problem."""


_Numbers = dict[tuple[str, ...], float]
_Promise = tuple[str, str, float]
"""Namespace, resource and amount of what is promised."""


class GpuCounts(NamedTuple):
    """Numbers by labels."""

    gpus: Mapping[tuple[str, ...], float]
    """By resource, model and state."""
    empty_nodes: Mapping[tuple[str, ...], float]
    """Nodes whose GPUs are all free, by resource and model."""
    namespaces: Mapping[tuple[str, ...], float]
    """By namespace, resource and state: allocated or promised."""
    idle: Mapping[tuple[str, ...], float]
    """Allocated GPUs that are idle, by namespace and by how long they have been: `window` (of the policy) or one of IDLE_FOR."""
    utilisation: Mapping[str, float]
    """By model, the mean utilisation of allocated GPUs, 0 to 1."""
    problems: Mapping[tuple[str, ...], float]
    """GPUs by node and problem."""


class _Held(NamedTuple):
    """What bound pods have, one entry for each namespace, resource and node."""

    keys: list[tuple[str, str]]
    """Namespaces and resources."""
    key: NDArray[np.intp]
    row: NDArray[np.intp]
    amount: Floats


def count(state: ClusterState, gpus: Gpus, health: Health, uses: Mapping[str, NodeUse]) -> GpuCounts:
    """All counts. `uses`: the GPU metrics of the nodes that have any."""
    columns, amounts = state.nodes.columns, gpu_amounts(state, gpus)
    held, models = _held(state, amounts), models_of(state)
    total, taken, withdrawn = (np.zeros(columns.size) for _ in range(3))
    for name, each in amounts.items():
        if (first := SILICON.get(name, (name,))[0]) != name and first in amounts:
            continue  # the same devices
        total += each.offered
        taken += each.allocated
        withdrawn += each.installed - each.offered
    whole = np.floor(np.where(columns.one > 0, 0, taken))
    shut = for_any_pod(health).shut(state.nodes, slice(0, columns.size))
    by_model, empty = _by_model(state, gpus, amounts, shut, models)
    return GpuCounts(
        _named(by_model, 1),
        _named(empty, 1, zeros=True),
        _named(_by_namespace(held, _promised(state, amounts)), 0),
        _named(_idle(state, held, uses, total, whole), 0),
        _utilisation(columns, whole, models),
        _named(_problems(columns, uses, withdrawn), 0),
    )


def _by_model(
    state: ClusterState, gpus: Gpus, amounts: Mapping[str, GpuAmounts], shut: NDArray[np.bool_], models: Models
) -> tuple[_Numbers, _Numbers]:
    """GPUs by resource, model and state, and nodes that are all free. `shut`: nodes whose free GPUs are not usable."""
    columns = state.nodes.columns
    found: _Numbers = {}
    empty: _Numbers = {}
    rows = np.arange(columns.size)
    resources = (*gpus.among(columns.capacity), *[name for name in columns.capacity if name.startswith(PUBLISHED)])
    for name, of in amounts.items():
        free, unit = of.free, 1
        resource = name
        if name not in columns.free:
            resource, unit = PUBLISHED + name, WHOLE
        if state.nodes.metered and resource in columns.free:
            unfit = columns.free[resource] - usable_gpus(columns, rows, resources, resource)
            free = free - np.maximum(unfit, 0) // unit
        free = np.where(shut, 0, np.maximum(free, 0))
        unusable = np.maximum(of.installed - of.allocated - of.promised - free, 0)
        states = {"allocated": of.allocated, "promised": of.promised, "free": free, "unusable": unusable}
        present = np.unique(models.number[of.installed + of.allocated + of.promised > 0]).tolist()
        for word, by_row in states.items():
            sums = np.bincount(models.number, by_row, len(models.names)).tolist()
            found.update({(name, models.names[model], word): gpu_number(sums[model]) for model in present})
        whole = np.bincount(models.number, (free > 0) & (free == of.installed), len(models.names)).tolist()
        empty.update({(name, models.names[model]): int(whole[model]) for model in present})
    return found, empty


def _held(state: ClusterState, amounts: Mapping[str, GpuAmounts]) -> _Held:
    """On nodes that are there. What a node does not offer under a name is left out: it counts under another one."""
    by_key: dict[tuple[str, str], dict[int, float]] = {
        key: dict(rows) for key, rows in state.holdings.items() if key[1] in amounts
    }
    for part in parts(state):
        pod = state.pods.get(part.holder)  # type: ignore[call-overload]
        namespace = str(part.holder).partition("/")[0] if part.source == DRA else pod[1].namespace if pod else ""
        for driver, has in part.gpus.items():
            rows = by_key.setdefault((namespace, driver), {})
            rows[part.row] = rows.get(part.row, 0) + has
    keys, sizes = list(by_key), [len(rows) for rows in by_key.values()]
    row = np.fromiter(chain.from_iterable(by_key.values()), np.intp, sum(sizes))
    amount = np.fromiter(chain.from_iterable(rows.values() for rows in by_key.values()), np.float64, sum(sizes))
    key = np.repeat(np.arange(len(keys)), sizes)
    counted = state.nodes.columns.alive[row]
    for name, counts in amounts.items():
        of = np.array([resource == name for _, resource in keys], bool)[key]
        counted &= ~of | (counts.allocated[row] > 0)
    return _Held(keys, key[counted], row[counted], amount[counted])


def _promised(state: ClusterState, amounts: Mapping[str, GpuAmounts]) -> Iterator[_Promise]:
    """What is promised on each node, divided by namespace: of devices as many parts as pods wait for them."""
    asking: dict[tuple[int, str], Counter[str]] = {}
    for row, kind in (*state.promised(), *[each for each in state.pods.values() if each[1].pod_requests.devices]):
        asked = [(name.removeprefix(PUBLISHED), amount) for name, amount in kind.gpus]
        asked += [(claim.source, 1) for claim in kind.pod_requests.devices if claim.source]
        for name, amount in asked:
            asking.setdefault((row, name), Counter())[kind.namespace] += amount
    for name, of in amounts.items():
        for at in of.promised.nonzero()[0].tolist():
            by = asking.get((at, name), Counter())
            for namespace, amount in by.items():
                yield namespace, name, float(of.promised[at]) * amount / by.total()


def _by_namespace(held: _Held, promised: Iterable[_Promise]) -> _Numbers:
    sums = np.bincount(held.key, held.amount, len(held.keys)).tolist()
    found: _Numbers = {(*key, "allocated"): gpu_number(amount) for key, amount in zip(held.keys, sums, strict=True)}
    for namespace, resource, amount in promised:
        key = namespace, resource, "promised"
        found[key] = gpu_number(found.get(key, 0) + amount)
    return found


def _idle(
    state: ClusterState, held: _Held, uses: Mapping[str, NodeUse], total: Floats, allocated: Floats
) -> Counter[tuple[str, ...]]:
    """A namespace is named for the idle GPUs that its pods have by the labels of metrics, unless these say more than it has on
    the node. Of the GPUs without such labels it is named for what is idle even if all those that others have on the node are
    among the idle ones; the rest is counted under SEVERAL."""
    namespaces = sorted({namespace for namespace, _ in held.keys})
    index = {name: number for number, name in enumerate(namespaces)}
    by_key = np.array([index[namespace] for namespace, _ in held.keys], np.intp)
    pair, place = np.unique(by_key[held.key] * state.nodes.columns.size + held.row, return_inverse=True)
    amount = np.bincount(place, held.amount, len(pair))
    who, row = np.divmod(pair, state.nodes.columns.size)
    measured = [
        (state.nodes.row_of[name], use) for name, use in uses.items() if use.idle and name in state.nodes.row_of
    ]
    named = _by_labels(state, measured, pair, index)
    named[:, (named[0] > amount) | (state.nodes.columns.one[row] > 0)] = 0
    size, unused = state.nodes.columns.size, np.maximum(total - allocated, 0)
    rest, own = allocated - np.bincount(row, named[0], size), amount - named[0]
    found: Counter[tuple[str, ...]] = Counter()
    for each, word in enumerate(("window", *IDLE_FOR)):
        idle = np.zeros(size)
        for at, use in measured:
            idle[at] = (use.idle, *use.idle_for)[each]
        theirs = named[1 + each]
        idle = np.minimum(rest, np.maximum(idle - np.bincount(row, theirs, size) - unused, 0))
        surely = np.maximum(idle[row] - np.maximum(rest[row] - own, 0), 0)
        for name, gpus in zip(namespaces, np.bincount(who, surely + theirs, len(namespaces)).tolist(), strict=True):
            found[name, word] = int(gpus)
        found[SEVERAL, word] = int(idle.sum() - surely.sum())
    return found


def _by_labels(
    state: ClusterState, measured: list[tuple[int, NodeUse]], pairs: NDArray[np.intp], index: Mapping[str, int]
) -> Floats:
    """For each of `pairs`, a namespace and a node: how many GPUs its pods have by labels, then how many of these are idle, for
    each of the words of `_idle`."""
    place, size = {pair: number for number, pair in enumerate(pairs.tolist())}, state.nodes.columns.size
    at, numbers = list[int](), list[tuple[int, ...]]()
    for row, use in measured:
        for each in use.pods:
            namespace = index.get(each.pod.partition("/")[0], -1)
            if (pair := place.get(namespace * size + row)) is not None:
                at.append(pair)
                numbers.append((each.gpus, each.idle, *each.idle_for))
    found = np.zeros((len(pairs), 2 + len(IDLE_FOR)))
    if at:
        np.add.at(found, at, np.array(numbers))
    return found.T


def _utilisation(columns: Columns, allocated: Floats, models: Models) -> dict[str, float]:
    """Free GPUs are taken to do nothing."""
    counted = np.where(columns.measured > 0, allocated, 0)
    work: Floats = np.minimum(columns.utilisation * columns.measured, counted)
    sums = [np.bincount(models.number, each, len(models.names)).tolist() for each in (work, counted)]
    pairs = zip(models.names[: _MAX_NAMES + 1], *sums, strict=False)
    return {model: done / gpus for model, done, gpus in pairs if gpus}


def _problems(columns: Columns, uses: Mapping[str, NodeUse], withdrawn: Floats) -> Counter[tuple[str, ...]]:
    names = columns.name
    found: Counter[tuple[str, ...]] = Counter(
        {(names[row], "withdrawn"): int(withdrawn[row]) for row in withdrawn.nonzero()[0].tolist()}
    )
    for name, use in uses.items():
        if use.hot or use.sick or use.full:
            found.update({(name, "hot"): use.hot, (name, "sick"): use.sick, (name, "memoryFull"): use.full})
    return found


def _named(counts: Mapping[tuple[str, ...], float], at: int, *, zeros: bool = False) -> dict[tuple[str, ...], float]:
    """The counts by labels. The label at this place stays if it is one of those with the most, else it becomes OTHER. Labels
    whose counts are all 0 are left out, unless `zeros`."""
    sums: dict[str, float] = {}
    for labels, number in counts.items():
        sums[labels[at]] = sums.get(labels[at], 0) + number
    kept = {name for name, number in sorted(sums.items(), key=lambda each: -each[1])[:_MAX_NAMES] if number or zeros}
    named: _Numbers = {}
    for labels, number in counts.items():
        name = labels[at] if labels[at] in kept else OTHER
        if sums[labels[at]] or zeros:
            key = (*labels[:at], name, *labels[at + 1 :])
            named[key] = gpu_number(named.get(key, 0) + number)
    return named
