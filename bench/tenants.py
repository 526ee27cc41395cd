"""The tables of `bench.hostile` of what one tenant leaves for others: the cases are in `bench.tenant_cases`."""

import gc
from typing import Any, Final, NamedTuple

from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench.forked import in_child
from bench.output import percentile
from bench.tenant_cases import COSTS, OUTCOMES
from bench.tenant_world import World, cluster_state, ordinary
from webhook.state.state import ClusterState

_MAX_RATIO: Final = 3.0
"""How many times as long a review may take."""
_SMALL: Final = (40, 8)
"""Nodes, and GPUs of each, where it is counted what another tenant gets."""
_ROUNDING: Final = 1e-6


class Effort(NamedTuple):
    reviews: int
    scale: float
    """The part of what tenants leave."""
    patience: int
    """CPU seconds after which a row is ended."""


Measured = tuple[Table, dict[str, Any], int]
"""A table, its numbers, and how many of its rows are past the bound."""


def reviews(nodes: int, names: list[str], effort: Effort) -> Measured:
    """The CPU time of another tenant's reviews."""
    columns = ("what a tenant leaves", "p50 ms", "with", "p99 ms", "with", "p50 x", "p99 x")
    table, numbers, bad = Table(*columns, title=f"Both reviews of another's pod, {nodes:,} nodes"), dict[str, Any](), 0
    state = cluster_state(nodes, 128)
    gc.collect()
    gc.freeze()
    for name in track(names, "tenants", console=Console(stderr=True)):
        found = in_child(name, 5 * effort.patience, lambda name=name: _costs(state, name, effort))
        numbers[f"{name}, {nodes} nodes"] = found
        if found is None:
            table.add_row(name, f"failed, or over {5 * effort.patience} s")
            bad += 1
            continue
        p50, p50_with, p99, p99_with = found
        ratios = p50_with / p50, p99_with / p99
        bad += ratios[0] > _MAX_RATIO
        table.add_row(name, *[f"{number:.1f}" for number in (*found, *ratios)])
    return table, numbers, bad


def _costs(state: ClusterState, name: str, effort: Effort) -> list[float]:
    world, case = World(state, effort.scale), COSTS[name]
    case.cluster(world)
    without = world.reviews(effort.reviews, ordinary)
    case.leaves(world)
    with_it = world.reviews(effort.reviews, case.before_each)
    return [percentile(times, share) for share in (0.5, 0.99) for times in (without, with_it)]


def outcomes(names: list[str], effort: Effort) -> Measured:
    """What another tenant gets."""
    columns = ("what a tenant leaves", "what another gets", "without", "with", "at least")
    nodes, gpus = _SMALL
    title = f"What another tenant gets, {nodes} nodes of {gpus} GPUs"
    table, numbers, bad = Table(*columns, title=title), dict[str, Any](), 0
    state = cluster_state(nodes, gpus)
    for name in track(names, "tenants", console=Console(stderr=True)):
        case = OUTCOMES[name]
        found = [
            in_child(name, effort.patience, lambda name=name, left=left: [_got(state, name, effort, left)])
            for left in (False, True)
        ]
        numbers[name] = found
        if None in found:
            table.add_row(name, case.what, f"failed, or over {effort.patience} s")
            bad += 1
            continue
        without, with_it = [each[0] for each in found]
        least = case.least * without
        bad += with_it < least - _ROUNDING
        table.add_row(name, case.what, *[f"{number:.3g}" for number in (without, with_it, least)])
    return table, numbers, bad


def _got(state: ClusterState, name: str, effort: Effort, left: bool) -> float:
    """What another tenant gets. `left`: whether the tenant has left what he can leave."""
    world, case = World(state, effort.scale), OUTCOMES[name]
    case.before(world)
    if left:
        case.leaves(world)
    return case.gets(world)
