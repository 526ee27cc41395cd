"""Rows have the same number exactly where they have the same, whatever changed since the last look."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.cluster.columns import Columns
from webhook.placement import states as module
from webhook.placement.states import States, states

RESOURCES = ("cpu", "nvidia.com/gpu")
_amounts = st.tuples(*[st.integers(-2, 2)] * 5)
_steps = st.lists(st.lists(st.tuples(st.integers(0, 9), _amounts), max_size=6), max_size=8)


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


def _has(of: Columns, row: int) -> list[int]:
    return [int(array[row]) for array in _arrays(of)]


@pytest.mark.parametrize("many", [0, 3, 256], ids=["always all anew", "many at once", "one at a time"])
@pytest.mark.parametrize("spare", [-100, 4096], ids=["no room for old ones", "room for old ones"])
@given(steps=_steps)
def test_rows_share_a_number_where_they_have_the_same(many: int, spare: int, steps: list[Any]) -> None:
    of = _columns()
    found = States(of, RESOURCES)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "_MANY", many)
        patched.setattr(module, "_SPARE", spare)
        for step in steps:
            for row, amounts in step:
                _put(of, row, amounts)
            found.refresh(of)
            for row in range(of.size):
                assert found.amounts[:, found.of_row[row]].tolist() == _has(of, row)
            assert len(set(found.of_row.tolist())) == len({tuple(_has(of, row)) for row in range(of.size)})


def test_states_that_are_mixed_up_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SALT", np.int64(0))  # only the last array counts
    of = _columns()
    for row in range(10):
        _put(of, row, (row % 3, 1, 2, 3, row % 2))
    found = States(of, RESOURCES)
    found.refresh(of)
    assert all(found.amounts[:, found.of_row[row]].tolist() == _has(of, row) for row in range(of.size))


def test_a_few_sets_of_resources_are_kept_beside_the_columns() -> None:
    of = _columns()
    kept = states(of, RESOURCES)
    assert states(of, RESOURCES) is kept
    for number in range(10):
        states(of, ("cpu", *RESOURCES)[: 1 + number % 3] + ("cpu",) * (number // 3))
    assert len(of.spare[module.__name__]) <= 4


def test_more_rows_are_seen() -> None:
    of = _columns()
    found = states(of, RESOURCES)
    found.refresh(of)
    of.grow()
    _put(of, 100, (1, 2, 3, 4, 0))
    found.refresh(of)
    assert found.amounts[:, found.of_row[100]].tolist() == [1, 2, 3, 4, 0]
