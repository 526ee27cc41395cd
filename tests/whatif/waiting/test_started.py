"""Pods that have their node and do not run: what they wait for there."""

from pathlib import Path

import pytest

from tests.cli.objects import Json, call, document, of_job, placed, write
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


def ended(reason: str, message: str = "", **spec: object) -> Json:
    return placed(pod("starts", **spec), "a", phase="Failed", reason=reason, message=message)


def container(state: Json, **status: object) -> Json:
    return {"name": "main", "state": state, **status}


def deleted(since: str, **metadata: object) -> Json:
    found = placed(pod("starts"), "a")
    found["metadata"] |= {"deletionTimestamp": since, **metadata}
    return found


LOOPS = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}}
KILLED = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}
AGAIN = "it never runs again, and nobody makes another: create it again"


@pytest.mark.parametrize(
    ("made", "said"),
    [
        pytest.param(
            ended("OutOfnvidia.com/gpu", "Pod was rejected: used: 8,\ncapacity: 8"),
            f"Failed on a: OutOfnvidia.com/gpu; Pod was rejected: used: 8, capacity: 8; {AGAIN}", id="its node rejected it",
        ),
        pytest.param(placed(pod("starts"), "a", phase="Failed", containerStatuses=[container(KILLED)]), f'Failed on a: container "main" ended: OOMKilled, exit code 137; {AGAIN}', id="it ended with an error"),
        pytest.param(placed(pod("starts"), "a", phase="Succeeded", containerStatuses=[container({"terminated": {"reason": "Completed", "exitCode": 0}})]), "Succeeded on a", id="it ended well"),
        pytest.param(of_job(ended("Evicted", "The node was low on resource")), "Failed on a: Evicted; The node was low on resource", id="its controller makes another"),
        pytest.param(
            placed(pod("starts"), "a", containerStatuses=[container(LOOPS, restartCount=12, lastState=KILLED)]),
            'Running on a: container "main" does not run: CrashLoopBackOff, 12 restarts; it ended last: OOMKilled, exit code 137; its last output: kubectl logs starts -c main --previous -n team', id="it crashes",
        ),
        pytest.param(placed(pod("starts"), "a", containerStatuses=[container({"running": {}}, ready=False)]), "Running on a: container \"main\" is not ready", id="it does not answer its probe"),
        pytest.param(deleted(LONG_AGO, finalizers=["example.com/hold"]), f"being deleted on a: its grace period ended at {LONG_AGO}; a finalizer keeps it: example.com/hold", id="a finalizer"),
        pytest.param(deleted("2026-11-18T11:07:10Z"), "being deleted on a", id="it has time"),
        pytest.param(placed(pod("starts"), "a", containerStatuses=[container({"running": {}}, ready=True)]), "Running on a", id="it runs"),
    ],
)  # fmt: skip
def test_by_name_it_is_told_what_a_pod_does_that_does_not_wait(tmp_path: Path, made: Json, said: str) -> None:
    file = write(tmp_path, node("a"), made)
    (found,) = document("why", "starts", "--from", file)
    assert found["decision"]["state"] == f"it does not wait: it is {said}"
    assert f"  it does not wait: it is {said}\n" in call("why", "starts", "--from", file).stdout
    assert document("why", "--from", file) == []


def test_of_pods_of_one_workload_those_that_live_come_first(tmp_path: Path) -> None:
    pods = [of_job(placed(pod(name), "a", phase=phase)) for name, phase in (("p-0", "Failed"), ("p-1", "Running"))]
    (found,) = document("why", "job/train", "-n", "team", "--from", write(tmp_path, node("a"), *pods))
    assert found["name"] == "p-1"


def test_the_row_of_one_that_waits_on_its_node_says_for_what(tmp_path: Path) -> None:
    file = write(tmp_path, node("a"), started(containerStatuses=[stuck("ImagePullBackOff")]))
    assert (
        "see what its kubelet says of ImagePullBackOff: kubectl describe pod starts -n team"
        in call("why", "--from", file).stdout
    )


@pytest.mark.parametrize(("since", "enough"), [(LONG_AGO, False), ("2026-11-18T11:07:10Z", True)])
def test_a_pod_waits_for_those_that_it_preempts_as_long_as_they_have_time(
    tmp_path: Path, since: str, enough: bool
) -> None:
    victim, urgent = placed(pod("victim", 8), "a"), placed(pod("starts", 8, priority=9), None, nominatedNodeName="a")
    victim["metadata"]["deletionTimestamp"] = since
    (found,) = document("why", "--from", write(tmp_path, node("a"), victim, urgent))
    (fix, *_) = found["causes"][0]["fixes"]
    assert (found["causes"][0]["cause"], fix["enough"]) == ("preempting", enough)
    assert (fix.get("command") or [])[:4] == ([] if enough else ["kubectl", "describe", "pod", "victim"])
