"""What one tenant leaves in the cluster costs another tenant's reviews little, and takes from him at most what the threat
model says.

Calls are counted, not seconds. `python -m bench.hostile` measures the same cases on large clusters, in CPU time.
"""

from collections.abc import Callable
from functools import cache
from statistics import median

import pytest

from bench.tenant_cases import COSTS, OUTCOMES
from bench.tenant_world import World, cluster_state, ordinary
from tests.test_hostile import counted


def _calls(world: World, before_each: Callable[[World, int], None]) -> list[float]:
    with counted() as calls:
        return world.reviews(10, before_each, lambda: calls.count)


@cache  # most cases are about the same cluster
def _without(cluster: Callable[[World], None]) -> float:
    world = World(cluster_state(200, 8), scale=0.1)
    cluster(world)
    return median(_calls(world, ordinary))


@pytest.mark.parametrize("name", COSTS)
def test_a_review_makes_at_most_three_times_as_many_calls(name: str) -> None:
    world, case = World(cluster_state(200, 8), scale=0.1), COSTS[name]
    case.cluster(world)
    case.leaves(world)
    found = _calls(world, case.before_each)
    assert median(found) <= 3 * _without(case.cluster), found


@pytest.mark.parametrize("name", OUTCOMES)
def test_another_tenant_gets_his_part(name: str) -> None:
    case = OUTCOMES[name]
    worlds = [World(cluster_state(40, 8)) for _ in range(2)]
    for world in worlds:
        case.before(world)
    case.leaves(worlds[1])
    without, with_it = map(case.gets, worlds)
    assert without > 0
    assert with_it >= case.least * without - 1e-6
