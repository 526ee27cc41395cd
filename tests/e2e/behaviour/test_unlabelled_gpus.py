"""Whole GPUs without labels beside time-sliced ones: GPU Feature Discovery does not run on every node."""

from __future__ import annotations

import pytest

from tests.controlplane.nodes import node
from tests.controlplane.objects import job, pod
from tests.e2e.behaviour.case import Case, Json, counts, not_told, on, refused, told
from tests.e2e.behaviour.made import taken
from tests.e2e.behaviour.play import Played, judged

pytestmark = pytest.mark.controlplane


def bare(name: str, gpus: int = 8) -> Json:
    """A node with whole GPUs that nothing labelled."""
    return node(name, 0, resources={"nvidia.com/gpu": str(gpus)})


SLICED = node("a", 8, replicas=4)
CASES = [
    Case(
        "a pod of two goes to whole GPUs, and hears nothing of shares",
        [SLICED, bare("b")],
        [pod("one", 2)],
        [on("b"), not_told("one", "share")],
    ),
    Case(
        "a pod of eight goes to whole GPUs, and hears nothing of shares",
        [SLICED, bare("b")],
        [pod("one", 8)],
        [on("b"), not_told("one", "share")],
    ),
    Case(
        "a pod of two goes to whole GPUs, though the sliced node is fuller",
        [SLICED, bare("b")],
        [pod("one", 2)],
        [on("b")],
        there=[taken("a", 30)],
    ),
    Case(
        "a Job of pods of four fills whole GPUs",
        [SLICED, bare("b"), bare("c")],
        [job("train", 4, 4)],
        [counts(b=2, c=2)],
    ),
    Case(
        "a pod of two that can only go to slots is told",
        [SLICED],
        [pod("one", 2)],
        [on("a"), told("one", "share")],
    ),
    Case(
        "a pod of twelve is refused",
        [SLICED, bare("b")],
        [pod("one", 12)],
        [refused("one", "at most 8")],
        fewer="32 slots of 8 GPUs are not 12 GPUs",
    ),
]


def test_with_us_and_without(case: Case, played: dict[str, Played]) -> None:
    judged(case, played)
