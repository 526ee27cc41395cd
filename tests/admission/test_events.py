"""Events: when there is none, and their messages."""

from typing import Any

import pytest

from tests.builders import GPUS, request
from tests.controlplane.nodes import Json, node
from tests.state.objects import state, stored
from webhook.admission.decision import Decision, UnitFinding
from webhook.admission.events import MAX_MESSAGE, Involved, bound_elsewhere, refused
from webhook.framework.cluster_view import Placement, Ranked
from webhook.framework.interface import Finding
from webhook.kube.asked import AskedPod
from webhook.kube.review import Request

REFERENCE = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "u-1", "controller": True}
BAD = UnitFinding("gpuZero", "deny", Finding("spec.x", "0 GPUs", "1", "Ask for 1"))
WARNED = UnitFinding("cpuPerGpu", "warn", Finding("spec.y", "1", "2", "Ask for 2"))


def owned(reference: Json | None = None, **changes: Any) -> Request:
    obj = {"metadata": {"ownerReferences": [REFERENCE | (reference or {})]}, "spec": {}}
    return request(obj, **{"namespace": "team", **changes})


def denied(*findings: UnitFinding) -> Decision:
    return Decision("denied", "default", "training", "1f0c", message="pod: bad", findings=findings or (BAD,))


NOT_TOLD = [
    pytest.param(owned(dry_run=True), denied(), id="a dry run"),
    pytest.param(owned(), Decision("allowed", quiet=True), id="a profile in dry run that would do nothing"),
    pytest.param(owned(dry_run=True), Decision("allowed", would="get x", quiet=True), id="a dry run in dry run"),
    pytest.param(owned(), Decision("allowed", findings=(WARNED,)), id="a warning alone"),
    pytest.param(owned(operation="UPDATE"), denied(), id="an update, whose author gets the answer"),
    pytest.param(owned(resource="jobs", kind="Job"), denied(), id="a workload, whose author gets the answer"),
    pytest.param(owned({"controller": False}), denied(), id="a pod without a controller"),
    pytest.param(owned({"kind": "a b\n"}), denied(), id="an invalid kind"),
    pytest.param(owned({"name": "../nodes"}), denied(), id="an invalid name"),
    pytest.param(owned({"apiVersion": "x/y/z"}), denied(), id="an invalid API version"),
    pytest.param(owned({"uid": "u" * 500}), denied(), id="an invalid uid"),
    pytest.param(owned(object={"metadata": {}}), denied(), id="no owner at all"),
]


@pytest.mark.parametrize(("asked", "decision"), NOT_TOLD)
def test_there_is_no_event_about(asked: Request, decision: Decision) -> None:
    assert refused(asked, decision) is None


def test_the_event_of_a_refusal_is_on_the_controller_and_has_the_first_finding_that_refuses() -> None:
    event = refused(owned(), denied(WARNED, BAD))
    assert event is not None
    assert event.involved == Involved("apps/v1", "ReplicaSet", "team", "web-1", "u-1")
    assert (event.type, event.reason, event.repeats) == ("Warning", "PodRefused", True)
    assert event.message == "its pods are refused: spec.x: saw 0 GPUs, wanted 1. Ask for 1. [gpuZero] (policy 1f0c)"


DRY_RUN = "(policy 1f0c, profile quiet in dry run)"
POD = {"metadata": {"name": "chat", "uid": "u-2"}, "spec": {}}
IN_DRY_RUN = [
    pytest.param(owned(), (BAD,), "", "ReplicaSet", "PodWouldBeRefused",
                 f"its pods would be refused: spec.x: saw 0 GPUs, wanted 1. Ask for 1. [gpuZero] {DRY_RUN}", id="a refusal"),
    pytest.param(owned(), (WARNED,), "get tolerations", "ReplicaSet", "PodWouldBeChanged",
                 f"its pods would get tolerations {DRY_RUN}", id="a change"),
    pytest.param(owned(object=POD), (BAD,), "get tolerations", "Pod", "PodWouldBeRefused",
                 f"it would be refused: spec.x: saw 0 GPUs, wanted 1. Ask for 1. [gpuZero] {DRY_RUN}", id="a pod alone"),
    pytest.param(owned(object=POD), (), "get tolerations", "Pod", "PodWouldBeChanged",
                 f"it would get tolerations {DRY_RUN}", id="a change in a pod alone"),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "findings", "would", "kind", "reason", "message"), IN_DRY_RUN)
def test_the_event_of_a_profile_in_shadow_says_what_would_be_done(
    asked: Request, findings: tuple[UnitFinding, ...], would: str, kind: str, reason: str, message: str
) -> None:
    result = "dryRun" if BAD in findings else "allowed"
    event = refused(asked, Decision(result, "quiet", policy="1f0c", findings=findings, quiet=True, would=would))
    assert event is not None
    assert (event.involved.kind, event.reason, event.message) == (kind, reason, message)


def test_further_findings_are_counted_and_the_event_says_how_to_see_them() -> None:
    event = refused(owned(), denied(BAD, BAD, BAD))
    assert event is not None
    assert event.message.endswith("[gpuZero] (policy 1f0c) and 2 more problems: gpu-admission try -f FILE shows all")


def test_a_message_is_one_line_and_bounded() -> None:
    long = Finding("spec.x", f"a\nb\x1b{'x' * 9000}", "1", "Ask")
    event = refused(owned(), denied(UnitFinding("gpuZero", "deny", long)))
    assert event is not None
    assert len(event.message) == MAX_MESSAGE + 1
    assert event.message.isprintable()


# --- Bound elsewhere --------------------------------------------------------------------------------------------------

RANKED = ("a", "b")
AS_CHOSEN = [
    pytest.param(stored("p", on="a", ranked=RANKED), id="bound to the first"),
    pytest.param(stored("p", ranked=RANKED), id="not bound"),
    pytest.param(stored("p", on="b"), id="without a decision"),
    pytest.param(stored("p", on="b", ranked=RANKED, prefers=("c",)), id="a decision that the spec does not confirm"),
]


@pytest.mark.parametrize("made", AS_CHOSEN)
def test_there_is_no_event_on_a_pod(made: Json) -> None:
    assert bound_elsewhere(made, state([node("a"), node("b")])) is None


TAINT = {"key": "repair", "value": "now", "effect": "NoSchedule"}
WHY = [
    pytest.param([], "that node is gone", id="gone"),
    pytest.param([node("a", cordoned=True)], "that node is cordoned (spec.unschedulable)", id="cordoned"),
    pytest.param([node("a", conditions={"Ready": "False"})], "that node is not ready", id="not ready"),
    pytest.param(
        [node("a", taints=[TAINT])], "that node has a taint that the pod does not tolerate, repair", id="tainted"
    ),
    pytest.param(
        [node("a", 1)],
        "that node was full by then: the pod asks for 2 nvidia.com/gpu, and it had 1 nvidia.com/gpu left",
        id="too few GPUs",
    ),
    pytest.param(
        [node("a", cpu="2")],
        "that node was full by then: the pod asks for 4 CPUs, and it had 2 CPUs left",
        id="too few CPUs",
    ),
    pytest.param([node("a")], "the scheduler's other scores weighed more", id="room"),
]


@pytest.mark.parametrize(("nodes", "why"), WHY)
def test_why_a_pod_was_bound_elsewhere(nodes: list[Json], why: str) -> None:
    bound = stored("p", 2, on="b", ranked=RANKED)
    event = bound_elsewhere(bound, state([*nodes, node("b")], [bound]))
    assert event is not None
    assert event.involved == Involved("v1", "Pod", "team-a", "p", "uid-p")
    assert (event.type, event.reason, event.repeats) == ("Normal", "BoundElsewhere", False)
    assert event.message == f"bound to b, number 2 of the ranking, not to a: {why}"


def test_a_node_that_is_not_in_the_ranking() -> None:
    event = bound_elsewhere(stored("p", on="c", ranked=RANKED), state([node("a"), node("c")]))
    assert event is not None
    assert event.message.startswith("bound to c, which is not in the ranking, not to a: ")


@pytest.mark.parametrize("last_reviewed", ["", "team-a", "team-b", "team-c"])
@pytest.mark.parametrize(
    ("other_nodes", "gpus", "why"),
    [
        pytest.param(64, 2, "the scheduler's other scores weighed more", id="it counts for all"),
        pytest.param(1, 2, "the scheduler's other scores weighed more", id="it is private to its namespace"),
        pytest.param(1, 3, "the pod asks for 3 nvidia.com/gpu, and it had 2 nvidia.com/gpu left", id="full without it"),
    ],
)
def test_a_reservation_does_not_fill_a_node_for_the_scheduler(
    other_nodes: int, gpus: int, why: str, last_reviewed: str
) -> None:
    """The scheduler knows no reservations. Whose review was the last does not matter: what is private to its namespace counts
    as used until the next review."""
    of = state([node("a", 2), *[node(f"b{number}") for number in range(other_nodes)]])
    for name, on in (("p", "b0"), ("q", "a")):
        asked = stored(name, 2)
        asked["metadata"]["namespace"] = "team-b"
        of.reserve(AskedPod(asked, GPUS), Placement((Ranked(on, 2, 0, 1.0),), "pack"), 0.0)
    of.usage.seen_from(last_reviewed)
    event = bound_elsewhere(stored("p", gpus, on="b0", ranked=("a", "b0")), of)
    assert event is not None
    assert event.message.endswith(why)
