"""The best rows are found, whatever changed since the last refresh.

Rows have the same state number if and only if they are equal, whatever changed.
"""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.controlplane.nodes import node
from tests.effort import times
from tests.state.objects import GPU, state, stored
from webhook.kube.pod_requests import PodRequests
from webhook.nodes.popular import View
from webhook.nodes.table import Columns, Floats, Rows
from webhook.placement import scores as module
from webhook.placement.constraints import compiled
from webhook.placement.feasible import Feasible, Switches
from webhook.placement.order import smallest
from webhook.placement.scores import NodeScores, states
from webhook.placement.settings import Health
from webhook.state.state import ClusterState

DEMAND = PodRequests(((GPU, 1), ("pods", 1)))
HEALTH = Health(labels={"sick": ("true",)}, conditions={"GpuBroken": "True"})
RESOURCES = ("cpu", "nvidia.com/gpu")
_amounts = st.tuples(*[st.integers(-2, 2)] * 5)
_state_steps = st.lists(st.lists(st.tuples(st.integers(0, 9), _amounts), max_size=6), max_size=8)


class ByFree:
    """Scores free GPUs in coarse steps, so that many rows tie. The version of the view decides the direction."""

    spreads = False
    keeps_whole_nodes = False

    def __call__(self, columns: Columns, rows: Rows, pod_requests: PodRequests, view: View) -> Floats:
        scores: Floats = (columns.free[GPU][rows] // 2).astype(float)
        return scores if view.version % 2 else -scores

    def score_key(self, view: View) -> object:
        return view.version


def scores(spec: dict[str, Any] | None = None) -> NodeScores:
    constraints = compiled({"nodeSelector": {"pool": "a"}} if spec is None else spec)
    assert constraints is not None
    return NodeScores(Feasible(constraints, DEMAND, Switches(health=HEALTH)), ByFree(), GPU)


def best(kept: NodeScores, of: ClusterState, count: int) -> list[int]:
    fits = np.flatnonzero(kept.score > -np.inf)
    found: list[int] = kept.rows[smallest(count, [-kept.score], fits)].tolist()
    return found


def expected(of: ClusterState, version: int, count: int) -> list[int]:
    columns, found = of.nodes.columns, []
    for name, row in of.nodes.row_of.items():
        free = int(columns.free[GPU][row])
        if columns.alive[row] and free >= 1 and of.nodes.labels.get(row).get("pool") == "a":
            found.append((-(free // 2) if version % 2 else free // 2, name, row))
    return [row for _, _, row in sorted(found)][:count]


@given(st.data())
@times(0.6)
def test_the_best_rows_are_found_after_any_changes(data: st.DataObject) -> None:
    number = data.draw(st.integers(1, 70))
    of = state([node(f"n{i * 37 % 71:02}", 8, labels={"pool": "ab"[i % 3 == 0]}) for i in range(number)])
    kept = scores()
    names = sorted(of.nodes.row_of)
    for step in range(data.draw(st.integers(1, 12))):
        for _ in range(data.draw(st.integers(0, 4))):
            name = data.draw(st.sampled_from(names))
            what = data.draw(st.integers(0, 3))
            if what == 0:
                of.node_gone(name)
            elif what == 1:
                of.node_seen(node(name, data.draw(st.integers(0, 8)), labels={"pool": "a"}))
            else:
                of.pod_seen(stored(f"p{step}", data.draw(st.integers(0, 8)), on=name), 0)
        kept.refresh(of.nodes, View(1, (GPU,)))
        count = data.draw(st.integers(1, 5))
        assert best(kept, of, count) == expected(of, 1, count)


def test_a_new_view_scores_every_row_again() -> None:
    of = state([node(f"n{i:03}", i % 9, labels={"pool": "a"}) for i in range(500)])
    kept = scores()
    kept.refresh(of.nodes, View(1, (GPU,)))
    kept.refresh(of.nodes, View(2, (GPU,)))
    assert best(kept, of, 10) == expected(of, 2, 10)
    assert best(kept, of, 10) != expected(of, 1, 10)


def test_new_nodes_keep_the_order_by_name() -> None:
    of = state([node(name, labels={"pool": "a"}) for name in ("0", "a", "z")])
    kept = scores()
    for i in range(120):
        of.node_seen(node(f"n{999 - i}", labels={"pool": "a"}))
        kept.refresh(of.nodes, View(1, (GPU,)))
        assert best(kept, of, 3) == expected(of, 1, 3)


def test_more_changes_than_the_journal_keeps_are_applied() -> None:
    of = state([node(f"n{i:03}", labels={"pool": "a"}) for i in range(70)])
    kept = scores()
    kept.refresh(of.nodes, View(1, (GPU,)))
    for _ in range(40_000):
        made: dict[str, Any] = stored("p", 8, on="n000")
        kind = of.usage.take(of.nodes.row_of["n001"], of.usage.kind(DEMAND))
        of.usage.give_back(of.nodes.row_of["n001"], kind)
    of.pod_seen(made, 0)
    kept.refresh(of.nodes, View(1, (GPU,)))
    assert of.nodes.columns.name[best(kept, of, 1)[0]] == "n001"


# --- cached and new scores --------------------------------------------------------------------------------------------

_TERM = {"matchExpressions": [{"key": "fast", "operator": "Exists"}]}
_FIELD = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n3"]}]}
SPECS = [
    pytest.param({}, id="nothing"),
    pytest.param({"nodeSelector": {"pool": "a"}}, id="a selector"),
    pytest.param(
        {
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_FIELD]}}
            }
        },
        id="a node by name",
    ),
    pytest.param(
        {
            "affinity": {
                "nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "preference": _TERM}]
                }
            },
            "tolerations": [{"operator": "Exists"}],
        },
        id="a preference",
    ),
]
_nodes = st.builds(
    lambda number, labels, taints, conditions, cordoned, named: (
        node(f"n{number}", labels=labels, taints=taints, conditions=conditions, cordoned=cordoned),
        named,
    ),
    st.integers(0, 5),
    st.dictionaries(st.sampled_from(["pool", "sick", "fast"]), st.sampled_from(["a", "true"])),
    st.sampled_from([(), ({"key": "k", "value": "v", "effect": "NoSchedule"},)]),
    st.sampled_from([{}, {"Ready": "False"}, {"GpuBroken": "True"}]),
    st.booleans(),
    st.booleans(),
)
_steps = st.lists(st.lists(st.tuples(st.sampled_from(["seen", "gone", "pod"]), _nodes), max_size=4), max_size=8)


@pytest.mark.parametrize("spec", SPECS)
@given(steps=_steps)
def test_cached_scores_equal_new_ones(spec: dict[str, Any], steps: list[Any]) -> None:
    of, kept, view = state(), scores(spec), View(1, (GPU,))
    of.nodes.columns.add_resource(GPU)
    kept.refresh(of.nodes, view)
    for step in steps:
        for what, (made, named) in step:
            if not named:
                made["metadata"]["labels"] = {}
            if what == "seen":
                of.node_seen(made)
            elif what == "gone":
                of.node_gone(made["metadata"]["name"])
            else:  # the row is there before the node is
                of.pod_seen(stored("p", on=made["metadata"]["name"]), 0)
        kept.refresh(of.nodes, view)
        new = scores(spec)
        new.refresh(of.nodes, view)
        assert (kept.rows.tolist(), kept.score.tolist()) == (new.rows.tolist(), new.score.tolist())
        if kept.preference is not None and new.preference is not None:
            assert kept.preference.tolist() == new.preference.tolist()


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5)), max_size=200), st.integers(1, 12))
def test_the_smallest_are_those_of_a_full_sort(values: list[tuple[int, int]], count: int) -> None:
    order = [(i * 37) % 211 for i in range(len(values))]
    keys = [np.array(key, float) for key in ([v[0] for v in values], [v[1] for v in values], order)]
    among = [i for i in range(len(values)) if i % 7]
    expected = sorted(among, key=lambda i: (*values[i], order[i]))[:count]
    assert smallest(count, keys, np.array(among, np.intp)).tolist() == expected


def _columns() -> Columns:
    made = Columns()
    made.rows = 10
    for resource in RESOURCES:
        made.add_resource(resource)
    return made


def _arrays(of: Columns) -> list[Any]:
    return [*[array[resource] for array in (of.free, of.capacity) for resource in RESOURCES], of.model]


def _put(of: Columns, row: int, amounts: tuple[int, ...]) -> None:
    for array, amount in zip(_arrays(of), amounts, strict=True):
        array[row] = amount
    of.changes.add(row)


def _check(of: Columns) -> None:
    """Check that rows have the same number if and only if they are equal."""
    use = (of.sharing, of.measured, of.idle, of.utilisation)
    amounts = [*of.free.values(), *of.capacity.values(), of.model]
    has = [(*[int(a[row]) for a in amounts], *[repr(float(a[row])) for a in use]) for row in range(of.size)]
    numbers = states(of).of_row.tolist()
    assert len(set(numbers)) == len(set(has)) == len(set(zip(numbers, has, strict=True)))


def test_the_number_of_states_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SPARE", 8)
    of = _columns()
    for amount in range(100):
        _put(of, 0, (amount,) * 5)
        assert states(of).count <= 2 * of.rows + 8 + 1


@pytest.mark.parametrize(
    "dearer", [pytest.param(1, id="a few rows by themselves"), pytest.param(100, id="always all anew")]
)
@pytest.mark.parametrize(
    "spare", [pytest.param(-100, id="no room for old ones"), pytest.param(4096, id="room for old ones")]
)
@given(steps=_state_steps)
@times(0.5)
def test_rows_have_the_same_number_if_and_only_if_they_are_equal(dearer: int, spare: int, steps: list[Any]) -> None:
    of = _columns()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "_NUMBERED_ROW_COST", dearer)
        patched.setattr(module, "_SPARE", spare)
        _check(of)
        for step in steps:
            for row, amounts in step:
                _put(of, row, amounts)
            _check(of)


def test_states_are_cached_in_the_columns_and_numbered_again_for_a_new_resource() -> None:
    of = _columns()
    known, epoch = states(of), states(of).epoch
    of.grow()
    _put(of, 100, (1, 2, 3, 4, 0))
    _check(of)
    of.add_resource("example.com/gpu")
    of.free["example.com/gpu"][3] = 1
    assert states(of).of_row[3] != states(of).of_row[4]
    of.idle[4], of.utilisation[5] = 3.0, 0.25
    of.changes.add(4)
    of.changes.add(5)
    _check(of)
    assert states(of) is known
    assert known.epoch == epoch + 2
