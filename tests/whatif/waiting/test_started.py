"""Pods that have their node and do not run: what they wait for there."""

from pathlib import Path

import pytest

from tests.cli.objects import Json, call, document, placed, write
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from tests.whatif.waiting.waits import obj

LONG_AGO, JUST_NOW = "2026-11-18T10:00:00Z", "2026-11-18T11:06:30Z"


def started(since: str = LONG_AGO, **status: object) -> Json:
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": since}
    return placed(pod("starts"), "a", phase="Pending", conditions=[scheduled], **status)


def stuck(reason: str, message: str = "") -> Json:
    return {"state": {"waiting": {"reason": reason, "message": message}}}


@pytest.mark.parametrize(
    ("made", "said"),
    [
        pytest.param(started(containerStatuses=[stuck("ImagePullBackOff", "no such image\nx")]), "it has its node, a, and waits there: ImagePullBackOff; no such image x", id="the image"),
        pytest.param(started(initContainerStatuses=[stuck("CrashLoopBackOff")], containerStatuses=[stuck("PodInitializing")]), "waits there: CrashLoopBackOff", id="an init container, whose reason counts"),
        pytest.param(started(containerStatuses=[stuck("ContainerCreating")]), "waits there: ContainerCreating; volume v is attached elsewhere", id="a volume, by its Event"),
    ],
)  # fmt: skip
def test_what_it_waits_for_is_said_without_a_mark(tmp_path: Path, made: Json, said: str) -> None:
    """Nothing was tried, so nothing is marked as enough."""
    about = {"kind": "Pod", "namespace": "team", "name": "starts"}
    event = obj(
        "Event", "e", involvedObject=about, reason="FailedAttachVolume", message="volume v is attached elsewhere"
    )
    events = [event] if "Event" in said or "attached" in said else []
    file = write(tmp_path, node("a"), made, *events)
    (found,) = document("why", "--from", file)
    (cause,) = found["causes"]
    assert (cause["cause"], [fix["enough"] for fix in cause["fixes"]]) == ("bound", [False])
    assert said in cause["text"]
    assert "! " not in call("why", "starts", "--from", file).stdout


def test_a_pod_that_was_bound_a_moment_ago_does_not_wait(tmp_path: Path) -> None:
    file = write(tmp_path, node("a"), started(JUST_NOW, containerStatuses=[stuck("ContainerCreating")]))
    assert document("why", "--from", file) == []
    assert document("why", "starts", "--from", file)[0]["causes"][0]["cause"] == "bound", "by name it is told"


@pytest.mark.parametrize(("ready", "waits"), [(False, ["starts"]), (True, [])])
def test_a_pod_that_cannot_end_since_its_node_is_lost(tmp_path: Path, ready: bool, waits: list[str]) -> None:
    leaves = placed(pod("starts"), "a")
    leaves["metadata"]["deletionTimestamp"] = LONG_AGO
    found = document("why", "--from", write(tmp_path, node("a", ready=ready), leaves))
    assert [each["name"] for each in found] == waits
    assert all("does not answer: its GPUs stay taken" in each["causes"][0]["text"] for each in found)
