"""The model of the stock scheduler. The expected scores are those of the Go code for the same input."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.objects import placed, snapshot
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod, preferred
from webhook.whatif import scheduler
from webhook.whatif.offline import load_policy
from webhook.whatif.scheduler import Scheduler
from webhook.whatif.waiting import diagnosis
from webhook.whatif.waiting.situation import Case, Situation

Json = dict[str, Any]


def bound(folder: Path, pods: list[Json], *objects: Json) -> list[str | None]:
    """Where the pods go, one after another."""
    model = Scheduler(Situation(snapshot(folder, *objects), load_policy()))
    stored = [model.bind(placed(each, None)) for each in pods]
    return [each and each["spec"]["nodeName"] for each in stored]


def asking(name: str, cpu: str = "8", memory: str = "64Gi", **spec: Any) -> Json:
    resources = {"requests": {"cpu": cpu, "memory": memory}, "limits": {"nvidia.com/gpu": "1"}}
    return pod(name, container={"resources": resources}, **spec)


BUSY = placed(asking("busy", "64", "512Gi"), "a")


@pytest.mark.parametrize(
    ("made", "where"),
    [
        pytest.param(asking("p"), "b", id="the emptier node"),
        pytest.param(
            asking("p", affinity=preferred("kubernetes.io/hostname", "In", "a")),
            "a",
            id="a preferred node, however little it is preferred",
        ),
        pytest.param(asking("p", nodeSelector={"kubernetes.io/hostname": "a"}), "a", id="the only one that fits"),
        pytest.param(asking("p", "129"), None, id="none"),
        pytest.param(asking("p", schedulingGates=[{"name": "g"}]), None, id="none, of a pod with a gate"),
        pytest.param(asking("p", schedulerName="other"), None, id="none, of a pod of another scheduler"),
    ],
)
def test_which_of_two_nodes_a_pod_is_bound_to(tmp_path: Path, made: Json, where: str | None) -> None:
    assert bound(tmp_path, [made], node("a"), node("b"), BUSY) == [where]


def test_the_first_of_equal_nodes_by_name_is_taken_and_bound_pods_count(tmp_path: Path) -> None:
    pods = [asking(f"p{number}") for number in range(3)]
    assert bound(tmp_path, pods, node("b"), node("a")) == ["a", "b", "a"]


def test_a_soft_taint_is_avoided_unless_it_is_tolerated(tmp_path: Path) -> None:
    soft = node("a", taints=["spot=yes:PreferNoSchedule"])
    tolerates = asking("q", tolerations=[{"key": "spot", "operator": "Exists"}])
    assert bound(tmp_path, [asking("p"), tolerates], soft, node("b")) == ["b", "a"]


def test_pods_that_were_bound_keep_others_away(tmp_path: Path) -> None:
    apart = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"run": "x"}}, "topologyKey": "kubernetes.io/hostname"}
            ]
        }
    }
    pods = [asking(f"p{number}", labels={"run": "x"}, affinity=apart) for number in range(3)]
    assert bound(tmp_path, pods, node("a"), node("b")) == ["a", "b", None]


def test_scores_are_whole_numbers_as_in_go() -> None:
    free = scheduler.resources(np.array([0.5, 0.999]), np.array([0.25, 0.999]))
    assert free.tolist() == [(50 + 25) // 2 + 87, (99 + 99) // 2 + 100]
    assert scheduler.affinity(np.array([3, 1, 0])).tolist() == [200, 66, 0]
    assert scheduler.affinity(np.array([0, 0])).tolist() == [0, 0]
    assert scheduler.taints(np.array([0, 1, 2])).tolist() == [300, 150, 0]


def test_waiting_pods_of_one_shape_are_filtered_once_until_another_pod_is_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filtered: list[str] = []

    def nodes_left(case: Case) -> Any:
        filtered.append(case.pod["metadata"]["name"])
        return diagnosis.Filtered(case)

    monkeypatch.setattr(scheduler, "Filtered", nodes_left)
    near = {"labelSelector": {"matchLabels": {"app": "first"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}
    waiting = [pod(f"waits-{number}", labels={"app": "waits"}, affinity=affinity) for number in range(3)]
    pods = [*waiting[:2], pod("first"), waiting[2], pod("large", 9)]  # for which no node has room
    assert bound(tmp_path, pods, node("a")) == [None, None, "a", "a", None]
    assert filtered == ["waits-0", "first", "waits-2"]
