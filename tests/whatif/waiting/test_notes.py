"""What is said of a waiting pod beside its causes: preemption, who is ahead, whether a node will come, and opting in.

Covers kube.schedulers.
"""

from pathlib import Path

import pytest

from tests.cli.objects import Json, namespace, placed
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from tests.whatif.waiting.waits import answer, held, obj, waiting


def event(reason: str, component: str) -> Json:
    about = {"kind": "Pod", "namespace": "team", "name": "waits"}
    said = {"reason": reason, "message": "2 max node group size reached", "source": {"component": component}}
    return obj("Event", "e", involvedObject=about, **said)


NEVER = {"preemptionPolicy": "Never", "priority": 9}
BY_KAI = {"schedulerName": "kai-scheduler"}


SICK = {"nvidia.com/gpu-driver-upgrade-state": "upgrade-failed"}
NOBODY_SAID = "whether a node will come is not known: no autoscaler has written an Event about it"


@pytest.mark.parametrize(
    ("objects", "notes"),
    [
        pytest.param(
            [node("a"), placed(pod("one", 4), "a"), placed(pod("two", 4, priority=5), "a"), waiting(2, priority=9)],
            ["by its priority 9 it may preempt 1 pod on node a: team/one (priority 0)"], id="the lowest priority goes first",
        ),
        pytest.param(
            [node("a"), held(4, "a"), node("b"), held(8, "b", priority=3), waiting(8, priority=9)],
            ["by its priority 9 it may preempt 1 pod on node a: team/on-a (priority 0)"], id="the node whose pods matter least",
        ),
        pytest.param([node("a"), held(8, "a"), waiting(2, **NEVER)], [], id="a class that never preempts: a cause says so"),
        pytest.param(
            [node("a"), held(8, "a", priority=9), waiting(2, **NEVER, priorityClassName="low")],
            ["it preempts nobody: preemptionPolicy Never of priority class low"], id="one that never preempts, and nobody is below it",
        ),
        pytest.param(
            [node("a", 0), waiting(), placed(pod("urgent", 8, priority=7), None), placed(pod("cpu", 0, priority=7), None)],
            ["ahead of it by priority: 1 pod with GPUs (team/urgent)"], id="pods that are ahead",
        ),
        pytest.param(
            [
                node("a"), placed(pod("low", 8, **BY_KAI), "a"), waiting(8, **BY_KAI, priority=9, preemptionPolicy="Never"),
                placed(pod("urgent", 8, priority=99), None),
            ],
            ["who goes first and who is preempted for it is up to the queues of kai-scheduler"], id="a scheduler with an order of its own",
        ),
        pytest.param(
            [node("a", 0), waiting(), placed(pod("urgent", 8, priority=7, **BY_KAI), None)], [], id="who waits for another scheduler is not ahead",
        ),
        pytest.param(
            [node("a", 0), waiting(), event("Nominated", "karpenter")],
            ["a node will come, says karpenter: 2 max node group size reached"], id="Karpenter",
        ),
        pytest.param([node("a", 0), waiting(), event("FailedScheduling", "default-scheduler")], [], id="the scheduler is no autoscaler"),
        pytest.param(
            [node("a", labels=SICK), held(4, "a"), waiting(8)],
            ["a is unhealthy, so the webhook never chooses it; the scheduler may", "it can preempt nobody: no pod has a priority below its own, 0, on node a"],
            id="a fix that leads to an unhealthy node",
        ),
    ],
)  # fmt: skip
def test_what_a_person_asks_next(tmp_path: Path, objects: list[Json], notes: list[str]) -> None:
    found = answer(tmp_path, *objects)
    full = {cause.cause for cause in found.causes} & {"gpusTaken", "gpusFragmented"}
    told = any("node will come" in note or "node came" in note for note in notes)
    assert found.notes == [*notes, *([NOBODY_SAID] if full and not told else [])]


TAINTED = "nvidia.com/gpu=:NoSchedule"
OPT_IN = ", or opt in, and create the pod again: kubectl label namespace team gpu-admission.io/profile=default"


@pytest.mark.parametrize(
    ("objects", "labels", "told"),
    [
        pytest.param(
            [node("a", taints=[TAINTED]), waiting()], {"gpu-admission.io/profile": ""}, False, id="it has opted in"
        ),
        pytest.param(
            [node("a", taints=["team=x:NoSchedule"]), waiting()], {}, False, id="a taint that the webhook leaves alone"
        ),
        pytest.param([node("a", taints=[TAINTED]), held(8, "a"), waiting()], {}, False, id="the node is full"),
        pytest.param([node("a", taints=[TAINTED]), waiting(hostPID=True)], {}, False, id="the webhook would refuse it"),
        pytest.param([node("a", taints=[TAINTED]), waiting()], {}, True, id="the webhook would add the toleration"),
    ],
)
def test_opting_in_is_told_where_it_would_do(
    tmp_path: Path, objects: list[Json], labels: dict[str, str], told: bool
) -> None:
    causes = answer(tmp_path, *objects, namespace(**labels)).causes
    (tainted,) = [cause for cause in causes if cause.cause == "untoleratedTaint"]
    assert tainted.fix.endswith(OPT_IN) == told
    assert ("opt in" in tainted.fix) == told


@pytest.mark.parametrize(
    ("bound", "told"),
    [((2, 2), True), ((4, 2), False), ((2, 0), False)],
    ids=["two halves", "one is whole", "one alone"],
)
def test_groups_that_wait_for_each_other_are_told(tmp_path: Path, bound: tuple[int, int], told: bool) -> None:
    """A LeaderWorkerSet with groups of four, each pod on a node of its own."""
    lws = "leaderworkerset.sigs.k8s.io"
    pods = []
    for group, count in enumerate(bound):
        for number in range(4):
            on = f"n{group}{number}" if number < count else None
            made = placed(
                pod(f"vllm-{group}-{number}", 8, labels={f"{lws}/name": "vllm", f"{lws}/group-index": str(group)}), on
            )
            made["metadata"]["annotations"] = {f"{lws}/size": "4"}
            pods.append(made)
    pods.append(waiting(8))
    pods[-1]["metadata"] |= {"labels": pods[0]["metadata"]["labels"], "annotations": {f"{lws}/size": "4"}}
    nodes = [node(each["spec"]["nodeName"]) for each in pods if each["spec"].get("nodeName")]
    notes = [note for note in answer(tmp_path, *nodes, *pods).notes if "groups" in note]
    assert notes == (
        [
            "its groups 0 (2), 1 (2) hold GPUs, and none has the 4 pods of a group: with one replica less (replicas: 1) what that one holds is for the others"
        ]
        if told
        else []
    )
