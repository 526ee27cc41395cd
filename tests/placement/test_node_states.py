"""Rows have the same state number if and only if they are equal, whatever changed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import times
from webhook.cluster.node_table import Columns
from webhook.placement import node_states as module
from webhook.placement.node_states import states

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


@pytest.mark.parametrize("dearer", [1, 100], ids=["a few rows by themselves", "always all anew"])
@pytest.mark.parametrize("spare", [-100, 4096], ids=["no room for old ones", "room for old ones"])
@given(steps=_steps)
@times(0.5)
def test_rows_have_the_same_number_if_and_only_if_they_are_equal(dearer: int, spare: int, steps: list[Any]) -> None:
    of = _columns()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "_CHANGED_ROW_COST", dearer)
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
