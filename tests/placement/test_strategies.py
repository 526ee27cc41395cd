"""Scores of `spread` and `pack`: what they prefer, and what they may not depend on.

Covers placement.pack.
"""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import times
from webhook.kube.pod_requests import PodRequests
from webhook.nodes.popular import PopularRequests, View
from webhook.nodes.table import LAST, Columns
from webhook.placement.pack import Pack
from webhook.placement.strategies import STRATEGIES, WEIGHTS

GPU, SLICE = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"
Node = tuple[int, int, int, int]
"""Free GPUs, free cores, free GiB, GPU model."""


def pod_requests(gpus: int = 1, cores: int = 8, gib: int = 32, name: str = GPU) -> PodRequests:
    amounts = {"cpu": cores * 1000, "memory": gib << 30, "pods": 1, name: gpus}
    return PodRequests(tuple(sorted((resource, amount) for resource, amount in amounts.items() if amount)))


def popular(*found: tuple[PodRequests, float], models: tuple[int, ...] | None = None) -> tuple[PopularRequests, ...]:
    return tuple(PopularRequests(wanted, models, share) for wanted, share in found)


def columns(*nodes: Node, capacity: tuple[int, int, int] = (8, 96, 768), models: int = 3) -> Columns:
    made = Columns()
    made.rows, made.name = len(nodes), [f"n{number}" for number in range(len(nodes))]
    made.alive[: len(nodes)] = True
    made.models = ["", *(f"model-{number}" for number in range(1, models))]
    scale = {GPU: 1, "cpu": 1000, "memory": 1 << 30}
    for number, (name, unit) in enumerate(scale.items()):
        made.add_resource(name)
        made.capacity[name][: len(nodes)] = capacity[number] * unit
        made.free[name][: len(nodes)] = [node[number] * unit for node in nodes]
    for name in ("pods", SLICE):
        made.add_resource(name)
    made.free["pods"][: len(nodes)] = 110
    made.model[: len(nodes)] = [node[3] for node in nodes]
    return made


def best(of: Columns, wanted: PodRequests, seen: tuple[PopularRequests, ...]) -> int:
    score = STRATEGIES["pack"](of, slice(0, of.rows), wanted, View(1, (GPU,), seen))
    return int(score.argmax())


ONES = popular((pod_requests(), 1.0))
LARGE = popular((pod_requests(), 0.7), (pod_requests(8, 64, 512), 0.3))
RARE = popular((pod_requests(), 0.99), (pod_requests(8, 64, 512), 0.01))
CPU_BOUND = popular((pod_requests(1, 12, 32), 1.0))
HALVES = popular((pod_requests(), 0.4), (pod_requests(4, 32, 128), 0.6))
SOUGHT = (
    popular((pod_requests(), 0.5))
    + popular((pod_requests(), 0.4), models=(2,))
    + popular((pod_requests(), 0.1), models=(1,))
)
EVENLY = (
    popular((pod_requests(), 0.5))
    + popular((pod_requests(), 0.25), models=(2,))
    + popular((pod_requests(), 0.25), models=(1,))
)
PINNED = popular((pod_requests(), 0.5)) + popular((pod_requests(), 0.5), models=(2,))


@pytest.mark.parametrize(
    ("nodes", "wanted", "seen", "first"),
    [
        pytest.param(
            [(8, 96, 768, 0), (2, 30, 200, 0)], pod_requests(), (), 1, id="the fullest while nothing was seen"
        ),
        pytest.param(
            [(4, 90, 700, 0), (4, 40, 700, 0)], pod_requests(), (), 1, id="the fullest by CPU among equal GPUs"
        ),
        pytest.param(
            [(8, 96, 768, 0), (2, 30, 200, 0)], pod_requests(0), (), 1, id="a pod without GPUs goes to the fullest"
        ),
        pytest.param(
            [(8, 96, 768, 0), (2, 30, 200, 0)], pod_requests(), ONES, 1, id="the fullest where all are as useful"
        ),
        pytest.param(
            [(8, 96, 768, 0), (7, 90, 700, 0)], pod_requests(), LARGE, 1, id="a whole node is kept for large pods"
        ),
        pytest.param(
            [(8, 96, 768, 0), (4, 48, 384, 0)],
            pod_requests(),
            HALVES,
            1,
            id="a whole node is kept for large pods not yet seen",
        ),
        pytest.param(
            [(5, 60, 480, 0), (4, 48, 384, 0)], pod_requests(), HALVES, 0, id="half a node is kept for its half"
        ),
        pytest.param(
            [(8, 94, 768, 0), (7, 96, 768, 0)], pod_requests(), RARE, 1, id="large kinds of pods count by their GPUs"
        ),
        *[
            pytest.param(
                [(7, 90, 700, 0), (4, 90, 700, 0)], pod_requests(gpus), LARGE, 1, id=f"a half empty node for {gpus}"
            )
            for gpus in (1, 2)
        ],
        *[
            pytest.param(
                [(8, 96, 768, 0), (left, 48, 384, 0)],
                pod_requests(gpus),
                seen,
                1,
                id=f"{gpus} of {left} before a whole node",
            )
            for left in range(1, 8)
            for gpus in range(1, left + 1)
            for seen in (
                ONES,
                LARGE,
                HALVES,
                popular((pod_requests(left), 1.0)),
                popular((pod_requests(), 0.1), (pod_requests(left), 0.9)),
            )
        ],
        pytest.param(
            [(3, 40, 200, 0), (2, 40, 200, 0)], pod_requests(2), ONES, 1, id="a node filled exactly before a rest"
        ),
        pytest.param(
            [(8, 96, 768, 0), (2, 16, 768, 0)],
            pod_requests(1, 12),
            CPU_BOUND,
            0,
            id="no GPU is left with too little CPU",
        ),
        *[
            pytest.param([(8, 96, 768, 0), (2, cores, 400, 0)], pod_requests(1, asked), CPU_BOUND, first, id=why)
            for cores, asked, first, why in (
                (28, 20, 0, "a pod that asks for more CPU than others leaves them that of the free GPUs"),
                (34, 20, 1, "but where enough is left it breaks no whole node"),
                (20, 12, 1, "a pod that asks for as much as others breaks none for a little CPU"),
            )
        ],
        pytest.param(
            [(7, 90, 768, 0), (2, 60, 64, 0)],
            pod_requests(1, 1, 40),
            ONES,
            0,
            id="no GPU is left with too little memory",
        ),
        pytest.param(
            [(4, 48, 300, 2), (8, 96, 768, 1)], pod_requests(), PINNED, 1, id="a sought-after model is spared"
        ),
        pytest.param(
            [(4, 48, 300, 2), (8, 96, 768, 1)], pod_requests(), ONES, 0, id="no kind of pod is confined to a model"
        ),
        pytest.param([(4, 48, 300, 2), (8, 96, 768, 1)], pod_requests(), SOUGHT, 1, id="also if few seek the other"),
        pytest.param(
            [(4, 48, 300, 2), (8, 96, 768, 1)], pod_requests(), EVENLY, 0, id="but not if both are sought alike"
        ),
    ],
)
def test_pack_prefers(nodes: list[Node], wanted: PodRequests, seen: tuple[PopularRequests, ...], first: int) -> None:
    assert best(columns(*nodes), wanted, seen) == first


def test_kinds_of_pods_for_a_resource_of_no_node_do_not_count() -> None:
    of = columns((8, 96, 768, 0), (2, 30, 200, 0))
    unknown = popular((pod_requests(name="example.com/gpu"), 0.9)) + popular((pod_requests(), 0.1))
    assert best(of, pod_requests(), unknown) == best(of, pod_requests(), ONES)


def test_a_node_that_could_never_hold_a_large_pod_is_not_kept_for_it() -> None:
    of = columns((4, 96, 768, 0), (4, 96, 768, 0))
    of.capacity[GPU][0] = 4
    assert best(of, pod_requests(), LARGE) == 0
    of.capacity[GPU][:2] = 8, 4
    of.changes.add(0)
    of.changes.add(1)
    assert best(of, pod_requests(), LARGE) == 1


def test_the_fewer_whole_nodes_the_higher_the_cost_of_the_next_one() -> None:
    def premium(whole: int) -> float:
        of = columns(*[(8, 96, 768, 0)] * whole, *[(1, 20, 100, 0)] * (20 - whole))
        score = STRATEGIES["pack"](of, slice(0, of.rows), pod_requests(), View(1, (GPU,), LARGE))
        return float(score[-1] - score[0])

    assert premium(1) > premium(2) > premium(10) > 0


def test_weights_fall_strictly_and_the_first_outweighs_an_image() -> None:
    assert all(higher > lower > 0 for higher, lower in pairwise(WEIGHTS))
    assert WEIGHTS[0] == 100
    image = 100
    for here, following in ((0, 1), (1, 2)):  # what the scheduler makes of them: scaled to the best, doubled
        assert 200 - 200 * WEIGHTS[following] // WEIGHTS[here] > image


amounts = st.integers(-2, 8)
nodes = st.lists(
    st.tuples(amounts, st.integers(-8, 96), st.integers(-8, 768), st.integers(0, 2)), min_size=1, max_size=12
)
requested = st.builds(
    pod_requests,
    st.sampled_from([0, 1, 2, 4, 8]),
    st.integers(0, 64),
    st.integers(0, 512),
    st.sampled_from([GPU, SLICE]),
)
views = st.builds(
    lambda gpus, found: View(1, gpus, tuple(PopularRequests(*one) for one in found)),
    st.sampled_from([(GPU, SLICE), (GPU,), ()]),
    st.lists(st.tuples(requested, st.sampled_from([None, (), (1,), (1, 2)]), st.floats(0.001, 1)), max_size=40),
)


uses = st.lists(
    st.tuples(st.integers(0, 8), st.integers(0, 8), st.floats(0, 1), st.sampled_from([1, 2, 4])),
    min_size=12,
    max_size=12,
)


def measure(of: Columns, found: list[tuple[int, int, float, int]]) -> None:
    """GPU metrics of the first rows: measured GPUs, idle ones among them, mean utilisation; and pods that share a GPU."""
    for row, (measured, idle, load, sharing) in enumerate(found[: of.rows]):
        of.sharing[row] = sharing
        of.measured[row] = measured
        of.idle[row], of.utilisation[row] = (min(idle, measured), load) if measured else (0, 0)


@pytest.mark.parametrize("name", STRATEGIES)
@given(nodes, requested, views, uses, st.data())
@times(0.4)
def test_the_score_of_a_row_is_the_same_alone_and_among_others(
    name: str, of: list[Node], wanted: PodRequests, view: View, use: list[Any], data: st.DataObject
) -> None:
    strategy, made = STRATEGIES[name], columns(*of)
    measure(made, use)
    every = strategy(made, slice(0, made.size), wanted, view)
    assert every.shape == (made.size,)
    assert np.isfinite(every).all()
    some = np.array(data.draw(st.lists(st.integers(0, made.size - 1), unique=True, min_size=1)), np.intp)
    assert (strategy(made, some, wanted, view) == every[some]).all()
    assert [strategy(made, np.array([row]), wanted, view).item() for row in range(made.size)] == every.tolist()


@pytest.mark.parametrize("name", STRATEGIES)
@given(nodes, requested, views, views)
@times(0.4)
def test_views_with_the_same_score_key_score_the_same(
    name: str, of: list[Node], wanted: PodRequests, one: View, other: View
) -> None:
    strategy, made = STRATEGIES[name], columns(*of)
    other = View(2, other.gpus, other.popular)
    if strategy.score_key(one) == strategy.score_key(other):
        rows = slice(0, made.rows)
        assert (strategy(made, rows, wanted, one) == strategy(made, rows, wanted, other)).all()


@pytest.mark.parametrize(
    ("free", "measured", "idle", "expected"),
    [
        pytest.param(8, 0, 0, 8, id="nothing is measured: what is free"),
        pytest.param(8, 8, 3, 3, id="all is measured: what is idle"),
        pytest.param(2, 8, 5, 2, id="what is idle but allocated is not to be had"),
        pytest.param(4, 4, 0, 4, id="only the busy half is measured: the other half is idle"),
        pytest.param(4, 2, 1, 4, id="six unmeasured GPUs, of which four are free"),
        pytest.param(6, 6, 1, 3, id="one measured idle GPU and two unmeasured ones"),
        pytest.param(3, 12, 1, 1, id="more is measured than there is"),
    ],
)
def test_unmeasured_free_gpus_count_as_idle(free: int, measured: int, idle: int, expected: int) -> None:
    made = columns((free, 96, 768, 0))
    measure(made, [(measured, idle, 0.0, 1)])
    score = STRATEGIES["spread"](made, slice(0, 1), pod_requests(), View(1, (GPU,)))
    assert score.item() + (0.5 * (1 - free / 8) if not measured else 0) == expected


@given(nodes, st.integers(1, 8))
def test_with_no_history_pack_is_best_fit(of: list[Node], gpus: int) -> None:
    made = columns(*of)
    wanted = pod_requests(gpus)
    score = Pack()(made, slice(0, made.rows), wanted, View(1, (GPU,)))
    left = [free - gpus + (cores - 8) / 16 for free, cores, _, _ in of]
    broken = np.array([free == 8 > gpus for free, *_ in of])
    fits = np.array([cores >= 8 for _, cores, *_ in of])
    assert -64 * (score + LAST * broken)[fits] == pytest.approx(np.array(left)[fits], abs=1e-5)


@pytest.mark.parametrize("name", ["pack", "apart", "spread"])
def test_another_list_of_gpu_resources_has_another_score_key(name: str) -> None:
    assert STRATEGIES[name].score_key(View(1, (GPU,))) != STRATEGIES[name].score_key(View(2, ()))
