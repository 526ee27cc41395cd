"""The list of the best holds all rows up to its reach, in order, whichever rows changed."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.placement import top as module
from webhook.placement.top import Place, Top, smallest

ROWS = 40
_score = st.one_of(st.just(-inf), st.integers(0, 4).map(float))
_changes = st.dictionaries(st.integers(0, ROWS - 1), _score, max_size=12)


@pytest.mark.parametrize("longest", [8, 2048], ids=["a short list", "a long list"])
@given(
    st.lists(_score, min_size=ROWS, max_size=ROWS),
    st.permutations(range(ROWS)),
    st.integers(1, 50),
    st.lists(_changes, max_size=8),
)
def test_the_list_is_what_sorting_all_rows_begins_with(
    longest: int, scores: list[float], order: list[int], count: int, steps: list[dict[int, float]]
) -> None:
    top = Top()

    def place_of(row: int) -> Place | None:
        return (-scores[row], order[row], row) if scores[row] > -inf else None

    def check() -> None:
        places = sorted(place for row in range(ROWS) if (place := place_of(row)) is not None)
        rows = [place[-1] for place in places]
        assert top.rows == rows[: len(top.rows)]
        assert not top.complete or top.rows == rows
        skip, even = set(rows[::3]), np.arange(ROWS) % 2 == 0
        assert top.first(3, skip, even.data) == [r for r in top.rows if r not in skip and r % 2 == 0][:3]

    every = sorted(found for row in range(ROWS) if (found := place_of(row)) is not None)
    top.fill(every[:count], complete=len(every) <= count)
    check()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "_LONGEST", longest)
        for changes in steps:
            for row, score in changes.items():
                scores[row] = score
                top.move(row, place_of(row))
            check()


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5)), max_size=200), st.integers(1, 12))
def test_the_smallest_are_what_sorting_all_gives(values: list[tuple[int, int]], count: int) -> None:
    order = [(i * 37) % 211 for i in range(len(values))]
    keys = [np.array(key, float) for key in ([v[0] for v in values], [v[1] for v in values], order)]
    expected = sorted(range(len(values)), key=lambda i: (*values[i], order[i]))[:count]
    assert smallest(count, keys).tolist() == expected
