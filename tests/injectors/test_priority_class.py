from typing import Any

import pytest

from tests.builders import UNKNOWN, ClusterFacts, case, pod
from tests.injectors.applied import applied, unchanged
from webhook.framework.cluster_view import PriorityClass
from webhook.framework.interface import Outcome
from webhook.injectors.priority_class import PriorityClassName

OWN = r"/spec/(priorityClassName|priority|preemptionPolicy)"
TRAINING = PriorityClass("gpu-training", 1000, "PreemptLowerPriority", False)
GENTLE = PriorityClass("gpu-training", 500, "Never", False)
DEFAULT = PriorityClass("everyday", 7, "PreemptLowerPriority", True)
MINE = PriorityClass("mine", 9, "PreemptLowerPriority", False)


def cluster(*classes: PriorityClass, fresh: bool = True) -> ClusterFacts:
    return ClusterFacts(fresh=fresh, priority_classes={c.name: c for c in classes})


KNOWN = cluster(TRAINING, DEFAULT, MINE)
NUMBERS = {"priority": 0, "preemptionPolicy": "PreemptLowerPriority"}
"""The fields that the API server sets before we are called."""


@pytest.mark.parametrize(
    ("spec", "facts", "workload", "outcome"),
    [
        pytest.param({}, KNOWN, "none", Outcome("none"), id="no class of workload"),
        pytest.param({}, KNOWN, "notebooks", Outcome("none"), id="a class of workload that the policy does not name"),
        pytest.param(
            {"priorityClassName": "mine", **NUMBERS}, KNOWN, "training", Outcome("kept", "mine"), id="the user's own"
        ),
        pytest.param(
            {"priorityClassName": "gone"}, KNOWN, "training", Outcome("kept", "gone"), id="one that does not exist"
        ),
        pytest.param(
            {"priorityClassName": "system-node-critical"},
            KNOWN,
            "training",
            Outcome("kept", "system-node-critical"),
            id="one that a rule will check",
        ),
        pytest.param(
            {"priorityClassName": "gpu-training", "priority": 3},
            KNOWN,
            "training",
            Outcome("kept", "gpu-training"),
            id="the same class: its numbers are set by the API server",
        ),
        pytest.param(
            {"priorityClassName": "gpu-training", "priority": 3},
            cluster(PriorityClass("gpu-training", 3, "PreemptLowerPriority", True)),
            "training",
            Outcome("kept", "gpu-training"),
            id="the same class, which is the global default",
        ),
        pytest.param(
            {"schedulingGroup": {"podGroupName": "g"}, **NUMBERS},
            KNOWN,
            "training",
            Outcome("podGroup"),
            id="a pod of a group has the priority of the group",
        ),
        pytest.param({**NUMBERS}, UNKNOWN, "training", Outcome("unknown", "gpu-training"), id="classes not yet known"),
    ],
)
def test_left_alone(spec: dict[str, Any], facts: ClusterFacts, workload: str, outcome: Outcome) -> None:
    assert unchanged(PriorityClassName(), case(pod(**spec), cluster=facts, workload=workload)) == outcome


def test_a_class_that_does_not_exist_is_never_set_and_gives_a_warning() -> None:
    outcome = unchanged(PriorityClassName(), case(pod(**NUMBERS), cluster=cluster(DEFAULT)))
    assert outcome == Outcome(
        "missing", "gpu-training", 'PriorityClass "gpu-training" does not exist: the pod keeps its priority'
    )


def test_the_global_default_is_kept_where_the_policy_respects_it() -> None:
    injector = PriorityClassName(override_global_default=False)
    outcome = unchanged(injector, case(pod(priorityClassName="everyday", priority=7), cluster=KNOWN))
    assert outcome == Outcome("kept", "everyday")


def test_an_empty_name_means_no_class() -> None:
    assert unchanged(PriorityClassName(classes={"training": ""}), case(pod(), cluster=KNOWN)) == Outcome("none")


@pytest.mark.parametrize(
    ("before", "facts", "after"),
    [
        pytest.param(
            NUMBERS,
            KNOWN,
            {"priorityClassName": "gpu-training", "priority": 1000, "preemptionPolicy": "PreemptLowerPriority"},
            id="the numbers are set from the class",
        ),
        pytest.param(
            NUMBERS,
            cluster(GENTLE),
            {"priorityClassName": "gpu-training", "priority": 500, "preemptionPolicy": "Never"},
            id="a class that does not preempt",
        ),
        pytest.param({}, KNOWN, {"priorityClassName": "gpu-training"}, id="numbers that are not there are not added"),
        pytest.param(
            {"priority": None},
            KNOWN,
            {"priorityClassName": "gpu-training", "priority": 1000},
            id="a number of null is set",
        ),
        pytest.param(
            {"priorityClassName": "", **NUMBERS},
            KNOWN,
            {"priorityClassName": "gpu-training", "priority": 1000, "preemptionPolicy": "PreemptLowerPriority"},
            id="an empty name",
        ),
        pytest.param(
            {"priorityClassName": "everyday", "priority": 7},
            KNOWN,
            {"priorityClassName": "gpu-training", "priority": 1000},
            id="the global default counts as not chosen",
        ),
        pytest.param(
            NUMBERS,
            cluster(TRAINING, fresh=False),
            {"priorityClassName": "gpu-training"},
            id="numbers are removed while the class may be stale: the API server computes them again",
        ),
    ],
)
def test_set(before: dict[str, Any], facts: ClusterFacts, after: dict[str, Any]) -> None:
    changed, outcome = applied(PriorityClassName(), case(pod(**before), cluster=facts), OWN)
    containers = pod()["spec"]["containers"]
    assert changed["spec"] == {"containers": containers, **after}
    assert outcome == Outcome("set", "gpu-training")


def test_the_second_call_keeps_what_the_api_server_computed_from_the_class() -> None:
    """If the numbers were removed at each call, the pod would be stored without a priority: there is no third call."""
    computed = {"priorityClassName": "gpu-training", "priority": 1000, "preemptionPolicy": "PreemptLowerPriority"}
    stale = cluster(TRAINING, fresh=False)
    assert unchanged(PriorityClassName(), case(pod(**computed), cluster=stale)) == Outcome("kept", "gpu-training")
