"""The reasons in a message of the scheduler."""

from __future__ import annotations

import pytest

from webhook.whatif.waiting.scheduler_message import reasons

CASES = [
    pytest.param("", [], id="nothing"),
    pytest.param(
        "0/5 nodes are available: 1 node(s) were unschedulable, 4 Insufficient nvidia.com/gpu. no new claims to deallocate, "
        "preemption: 0/5 nodes are available: 1 Preemption is not helpful for scheduling, 4 No preemption victims found.",
        [("node(s) were unschedulable", 1), ("Insufficient nvidia.com/gpu", 4)],
        id="a histogram, and what preemption found",
    ),
    pytest.param("0/3 nodes are available: 3 node(s) had untolerated taint {a: b}.", [("node(s) had untolerated taint {a: b}", 3)], id="as Kubernetes 1.34 writes a taint"),
    pytest.param(
        '0/2 nodes are available: persistentvolumeclaim "d" not found. preemption: 0/2 nodes are available: 2 Preemption is not helpful.',
        [('persistentvolumeclaim "d" not found', 2)],
        id="a reason for which no node is looked at",
    ),
    pytest.param("running PreFilter plugin: odd", [("running PreFilter plugin: odd", 0)], id="another form"),
]  # fmt: skip


@pytest.mark.parametrize(("message", "expected"), CASES)
def test_reasons(message: str, expected: list[tuple[str, int]]) -> None:
    assert [(reason.text, reason.nodes) for reason in reasons(message)] == expected
