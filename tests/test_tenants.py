"""What one tenant leaves in the cluster costs another tenant's reviews little, and takes from him at most what SECURITY.md says.

Calls are counted, not seconds. `python -m bench.hostile` measures the same cases on large clusters, in CPU time.
"""

from statistics import median

import pytest

from bench.tenant_cases import COSTS, OUTCOMES
from bench.tenant_world import World, cluster_state, ordinary
from tests.test_hostile import counted


@pytest.mark.parametrize("name", COSTS)
def test_a_review_makes_at_most_three_times_as_many_calls(name: str) -> None:
    world, case = World(cluster_state(200, 8), scale=0.1), COSTS[name]
    case.cluster(world)
    with counted() as calls:
        without = median(world.reviews(20, ordinary, lambda: calls.count))
    case.leaves(world)
    with counted() as calls:
        with_it = median(world.reviews(20, case.before_each, lambda: calls.count))
    assert with_it <= 3 * without


@pytest.mark.parametrize("name", OUTCOMES)
def test_another_tenant_gets_his_part(name: str) -> None:
    case = OUTCOMES[name]
    worlds = [World(cluster_state(40, 8)) for _ in range(2)]
    for world in worlds:
        case.before(world)
    case.leaves(worlds[1])
    without, with_it = map(case.gets, worlds)
    assert with_it >= case.least * without - 1e-6
