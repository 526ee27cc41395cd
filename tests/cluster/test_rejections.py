"""Pods that a node rejected: each is counted once, by node and reason."""

import pytest

from tests.cluster.objects import Object, node, pod, state
from webhook.cluster.rejections import OTHER, Rejections


def failed(name: str = "p", reason: str = "UnexpectedAdmissionError", on: str = "a") -> Object:
    found = pod(name, on=on, phase="Failed")
    found["status"]["reason"] = reason
    return found


NOT_COUNTED = [
    pytest.param([failed()], id="it failed before we knew it"),
    pytest.param([pod("p", on="a"), failed(reason="Evicted")], id="evicted"),
    pytest.param([pod("p", on="a"), pod("p", on="a", phase="Failed")], id="its program failed"),
    pytest.param([pod("p", on="a"), pod("p", on="a", phase="Succeeded")], id="it ended well"),
    pytest.param([pod("p", on="unknown"), failed(on="unknown")], id="its node is not known"),
    pytest.param([pod("p")], id="it waits"),
]


@pytest.mark.parametrize("events", NOT_COUNTED)
def test_a_pod_is_not_counted(events: list[Object]) -> None:
    of = state([node("a")])
    for event in events:
        of.pod_seen(event, 1.0)
    assert of.rejections.counts == {}


@pytest.mark.parametrize(
    ("reason", "counted"),
    [
        ("UnexpectedAdmissionError", "UnexpectedAdmissionError"),
        ("OutOfnvidia.com/gpu", "OutOf"),
        ("OutOfcpu", "OutOf"),
        ("TopologyAffinityError", "TopologyAffinityError"),
    ],
)
def test_a_pod_that_its_node_rejects_is_counted_once(reason: str, counted: str) -> None:
    of = state([node("a")], [pod("p", on="a")])
    for _ in range(3):
        of.pod_seen(failed(reason=reason), 1.0)
    assert of.rejections.counts == {("a", counted): 1}
    assert of.nodes.columns.pods[of.nodes.row_of["a"]] == 0, "it uses nothing any more"


def test_the_number_of_nodes_is_bounded() -> None:
    rejections = Rejections()
    for number in range(150):
        rejections.failed(f"n{number}", "UnexpectedAdmissionError")
    rejections.failed("n0", "UnexpectedAdmissionError")
    assert len(rejections.counts) == 101
    assert rejections.counts[OTHER, "UnexpectedAdmissionError"] == 50
    assert rejections.counts["n0", "UnexpectedAdmissionError"] == 2
