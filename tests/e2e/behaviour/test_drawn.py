"""Cases drawn by lot: whatever runs without us runs with us. `python -m bench.behaviour` plays more of them."""

from __future__ import annotations

import pytest

from tests.e2e.behaviour.case import Case
from tests.e2e.behaviour.drawn import drawn
from tests.e2e.behaviour.play import Played, judged

pytestmark = pytest.mark.controlplane

CASES = [drawn(seed) for seed in range(8)]


def test_with_us_and_without(case: Case, played: dict[str, Played]) -> None:
    judged(case, played)
