"""The list of the best holds all rows up to its reach, in order, whichever rows changed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.placement import top as module
from webhook.placement.top import Top

ROWS = 40
_score = st.one_of(st.just(-np.inf), st.integers(0, 4).map(float))
_changes = st.dictionaries(st.integers(0, ROWS - 1), _score, max_size=12)


@pytest.mark.parametrize("longest", [8, 2048], ids=["a short list", "a long list"])
@given(
    st.lists(_score, min_size=ROWS, max_size=ROWS),
    st.permutations(range(ROWS)),
    st.integers(1, 12),
    st.lists(st.tuples(st.sampled_from(["one by one", "at once"]), _changes, st.integers(1, 12)), max_size=8),
)
def test_the_list_is_what_sorting_all_rows_begins_with(
    longest: int, scores: list[float], order: list[int], count: int, steps: list[tuple[str, dict[int, float], int]]
) -> None:
    score, orders, top = np.array(scores), np.array(order, float), Top()

    def check() -> None:
        places = sorted((-score[row], orders[row], row) for row in range(ROWS) if score[row] > -np.inf)
        assert top.rows == [row for _, _, row in places][: len(top.rows)]
        assert all(place >= top.reach for place in places[len(top.rows) :])
        assert not top.whole or len(top.rows) == len(places)

    rows = np.flatnonzero(score > -np.inf)
    top.fill(rows, score[rows], orders[rows], count)
    check()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "_LONGEST", longest)
        for how, changes, most in steps:
            if how == "one by one":
                for row, value in changes.items():
                    score[row] = value
                    top.move(row, value, orders.item(row))
            else:
                score[list(changes)] = list(changes.values())
                near = [row for row in top.rows if row not in changes]
                near += [row for row in changes if score[row] >= top.least]
                found = np.array(near, np.intp)
                top.renew(found, score[found], orders[found], most)
            check()
