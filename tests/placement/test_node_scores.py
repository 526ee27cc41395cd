"""The best rows are found, whatever changed since the last refresh."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cluster.objects import GPU, node, pod, state
from tests.effort import times
from webhook.cluster.node_table import Columns, Floats, Rows, View
from webhook.cluster.state import ClusterState
from webhook.kube.pod_requests import Demand
from webhook.placement.constraints import compiled
from webhook.placement.criteria import smallest
from webhook.placement.feasible import Feasible, Switches
from webhook.placement.node_scores import NodeScores
from webhook.placement.settings import Health

DEMAND = Demand(((GPU, 1), ("pods", 1)))
HEALTH = Health(labels={"sick": ("true",)}, conditions={"GpuBroken": "True"})


class ByFree:
    """Scores free GPUs in coarse steps, so that many rows tie. The version of the view decides the direction."""

    keeps_apart = False

    def __call__(self, columns: Columns, rows: Rows, demand: Demand, view: View) -> Floats:
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
                of.pod_seen(pod(f"p{step}", data.draw(st.integers(0, 8)), on=name), 0)
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
        made: dict[str, Any] = pod("p", 8, on="n000")
        kind = of.usage.take(of.nodes.row_of["n001"], of.usage.kind(DEMAND, ""))
        of.usage.give_back(of.nodes.row_of["n001"], kind)
    of.pod_seen(made, 0)
    kept.refresh(of.nodes, View(1, (GPU,)))
    assert of.nodes.columns.name[best(kept, of, 1)[0]] == "n001"


# --- cached and new scores --------------------------------------------------------------------------------------------

_TERM = {"matchExpressions": [{"key": "fast", "operator": "Exists"}]}
_FIELD = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n3"]}]}
SPECS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "a selector": {"nodeSelector": {"pool": "a"}},
    "a node by name": {
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_FIELD]}}
        }
    },
    "a preference": {
        "affinity": {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "preference": _TERM}],
            }
        },
        "tolerations": [{"operator": "Exists"}],
    },
}
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


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
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
                of.pod_seen(pod("p", on=made["metadata"]["name"]), 0)
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
