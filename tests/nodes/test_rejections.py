"""Pods that a node rejected: each is counted once, by node and reason."""

import pytest

from tests.controlplane.nodes import node
from tests.state.objects import Object, state, stored
from webhook.nodes.rejections import OTHER, Rejections


def failed(name: str = "p", reason: str = "UnexpectedAdmissionError", on: str = "a") -> Object:
    found = stored(name, on=on, phase="Failed")
    found["status"]["reason"] = reason
    return found


NOT_COUNTED = [
    pytest.param([failed()], id="it failed before we knew it"),
    pytest.param([stored("p", on="a"), failed(reason="Evicted")], id="evicted"),
    pytest.param([stored("p", on="a"), stored("p", on="a", phase="Failed")], id="its program failed"),
    pytest.param([stored("p", on="a"), stored("p", on="a", phase="Succeeded")], id="it ended well"),
    pytest.param([stored("p", on="unknown"), failed(on="unknown")], id="its node is not known"),
    pytest.param([stored("p")], id="it waits"),
]


@pytest.mark.parametrize("events", NOT_COUNTED)
def test_a_pod_is_not_counted(events: list[Object]) -> None:
    of = state([node("a")])
    for event in events:
        of.pod_seen(event, 1.0)
    assert of.nodes.rejections.counts == {}


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
    of = state([node("a")], [stored("p", on="a")])
    for _ in range(3):
        of.pod_seen(failed(reason=reason), 1.0)
    assert of.nodes.rejections.counts == {("a", counted): 1}
    assert of.nodes.columns.pods[of.nodes.row_of["a"]] == 0, "it uses nothing any more"


def test_the_number_of_nodes_is_bounded() -> None:
    rejections = Rejections()
    for number in range(150):
        for _ in range(3):
            rejections.failed("a", f"n{number}", "UnexpectedAdmissionError", 0.0)
    assert len(rejections.counts) == 101
    assert rejections.counts[OTHER, "UnexpectedAdmissionError"] == 150
    assert rejections.counts["n0", "UnexpectedAdmissionError"] == 3
    assert len([*rejections.avoided("a")]) == 100


def rejected(times: int, namespace: str = "a") -> Rejections:
    rejections = Rejections()
    for second in range(times):
        rejections.failed(namespace, "n", "OutOfcpu", second)
    return rejections


def test_a_node_is_avoided_after_several_rejections_and_only_by_that_namespace() -> None:
    assert [*rejected(2).avoided("a")] == []
    assert [*rejected(3).avoided("a")] == ["n"]
    assert [*rejected(3).avoided("b")] == []


def test_it_is_tried_again_after_a_while_without_a_rejection() -> None:
    rejections = rejected(3)
    rejections.expire(2 + 599.0)
    assert [*rejections.avoided("a")] == ["n"]
    rejections.failed("a", "n", "OutOfcpu", 600.0)
    rejections.expire(1199.0)
    assert [*rejections.avoided("a")] == ["n"]
    rejections.expire(1200.0)
    assert [*rejections.avoided("a")] == []
    rejections.failed("a", "n", "OutOfcpu", 1201.0)
    assert [*rejections.avoided("a")] == [], "counted anew"
