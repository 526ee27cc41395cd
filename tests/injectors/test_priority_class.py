"""The PriorityClass by class of workload."""

from typing import Any

import pytest

from tests.builders import UNKNOWN, ClusterFacts, case
from tests.controlplane.objects import pod
from tests.injectors.applied import applied, unchanged
from webhook.framework.cluster_view import PriorityClass, Workload
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
STALE = cluster(TRAINING, fresh=False)
NUMBERS = {"priority": 0, "preemptionPolicy": "PreemptLowerPriority"}
"""The fields that the API server sets before we are called."""
SET = {"priorityClassName": "gpu-training", "priority": 1000, "preemptionPolicy": "PreemptLowerPriority"}


def test_a_claim_that_may_be_for_something_else_gets_none() -> None:
    made = pod(gpus=0, resourceClaims=[{"name": "c"}])
    assert unchanged(PriorityClassName(), case(made, cluster=KNOWN)) == Outcome("vendor")


@pytest.mark.parametrize(
    ("spec", "facts", "workload", "outcome"),
    [
        pytest.param({}, KNOWN, "none", Outcome("none"), id="no class of workload"),
        pytest.param({}, KNOWN, "notebooks", Outcome("none"), id="a class of workload that the policy does not name"),
        *[
            pytest.param({"priorityClassName": name, **NUMBERS}, KNOWN, "training", Outcome("kept", name), id=why)
            for name, why in (
                ("mine", "the user's own"),
                ("gone", "one that does not exist"),
                ("gpu-training", "the same class: its numbers are set by the API server"),
            )
        ],
        pytest.param(
            {"priorityClassName": "gpu-training", "priority": 3},
            cluster(PriorityClass("gpu-training", 3, "PreemptLowerPriority", True)),
            "training",
            Outcome("kept", "gpu-training"),
            id="the same class, which is the global default",
        ),
        pytest.param(
            SET,
            STALE,
            "training",
            Outcome("kept", "gpu-training"),
            id="at a second call, by a stale state: without the numbers it would be stored, for there is no third call",
        ),
        pytest.param(
            {"schedulingGroup": {"podGroupName": "g"}, **NUMBERS},
            KNOWN,
            "training",
            Outcome("podGroup"),
            id="a pod of a group has the priority of the group",
        ),
        *[
            pytest.param({"schedulerName": name, **NUMBERS}, KNOWN, "training", Outcome("scheduler"), id=name)
            for name in ("kai-scheduler", "runai-scheduler")  # to which 100 and more means: never preempted
        ],
        pytest.param({**NUMBERS}, UNKNOWN, "training", Outcome("unknown", "gpu-training"), id="classes not yet known"),
        pytest.param(
            {**NUMBERS},
            cluster(DEFAULT),
            "training",
            Outcome(
                "missing", "gpu-training", 'PriorityClass "gpu-training" does not exist: the pod keeps its priority'
            ),
            id="a class that does not exist is never set and gives a warning",
        ),
    ],
)
def test_left_alone(spec: dict[str, Any], facts: ClusterFacts, workload: str, outcome: Outcome) -> None:
    assert unchanged(PriorityClassName(), case(pod(**spec), cluster=facts, workload=workload)) == outcome


@pytest.mark.parametrize(
    ("injector", "outcome"),
    [
        pytest.param(
            PriorityClassName(override_global_default=False), Outcome("kept", "everyday"), id="it respects it"
        ),
        pytest.param(PriorityClassName(classes={"training": ""}), Outcome("none"), id="an empty name means no class"),
    ],
)
def test_the_global_default_is_kept_where_the_policy_says_so(injector: PriorityClassName, outcome: Outcome) -> None:
    assert unchanged(injector, case(pod(priorityClassName="everyday", priority=7), cluster=KNOWN)) == outcome


@pytest.mark.parametrize(
    ("before", "facts", "after"),
    [
        pytest.param(NUMBERS, KNOWN, SET, id="the numbers are set from the class"),
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
        pytest.param({"priorityClassName": "", **NUMBERS}, KNOWN, SET, id="an empty name"),
        pytest.param(
            {"priorityClassName": "everyday", "priority": 7},
            KNOWN,
            {"priorityClassName": "gpu-training", "priority": 1000},
            id="the global default counts as not chosen",
        ),
        pytest.param(
            NUMBERS,
            STALE,
            {"priorityClassName": "gpu-training"},
            id="numbers are removed while the class may be stale: the API server computes them again",
        ),
    ],
)
def test_set(before: dict[str, Any], facts: ClusterFacts, after: dict[str, Any]) -> None:
    changed, outcome = applied(PriorityClassName(), case(pod(**before), cluster=facts), OWN)
    assert changed["spec"] == {"containers": pod()["spec"]["containers"], **after}
    assert outcome == Outcome("set", "gpu-training")


# --- a class that was guessed -----------------------------------------------------------------------------------------

QUIET = PriorityClass("gpu-training", 500, "Never", False)
PAUSE = PriorityClass("overprovisioning", -10, "PreemptLowerPriority", False)
HIGH = PriorityClass("everyday", 700, "PreemptLowerPriority", True)
CALM = PriorityClass("everyday", 7, "Never", True)


def quotas(*classes: str) -> ClusterFacts:
    return ClusterFacts(priority_classes={"gpu-training": QUIET, "everyday": CALM}, quotas={"team-a": classes})


GUESSED = Workload("training", guessed=True)
BY_DEFAULT = {"priorityClassName": "everyday", "priority": 7, "preemptionPolicy": "Never"}


def kept(why: str) -> str:
    return f'PriorityClass "gpu-training" is a guess and is not given: {why}. The pod keeps its priority'


_LOW = kept('it never preempts, and without it a pod takes the place of pods of "overprovisioning" (-10)')
LESS = [
    pytest.param(
        NUMBERS,
        cluster(QUIET, PAUSE),
        Outcome("preempts", "gpu-training", _LOW),
        id="it could no longer take the place of pause pods",
    ),
    pytest.param(
        {},
        cluster(QUIET, PAUSE),
        Outcome("preempts", "gpu-training", _LOW),
        id="the same of a template, whose priority is not known",
    ),
    pytest.param(
        {"priorityClassName": "everyday", "priority": 700, "preemptionPolicy": "PreemptLowerPriority"},
        cluster(QUIET, HIGH),
        Outcome("lower", "gpu-training", kept("its value 500 is below 700, which a pod has without it")),
        id="everybody else has a higher priority",
    ),
    pytest.param(
        BY_DEFAULT,
        quotas("gpu-training"),
        Outcome("quota", "gpu-training", kept('ResourceQuota "gpus" would count the pod')),
        id="a quota would count it",
    ),
    pytest.param(
        BY_DEFAULT,
        quotas("everyday"),
        Outcome("quota", "gpu-training", kept('ResourceQuota "gpus" would no longer count the pod')),
        id="a quota for the global default would no longer count it",
    ),
    *[
        pytest.param(spec, cluster(QUIET), Outcome("ordered", name), id=f"{name} orders pods by it")
        for name, spec in (
            ("Volcano", {"schedulerName": "volcano", **NUMBERS}),
            ("YuniKorn", {"schedulerName": "yunikorn", **NUMBERS}),
        )
    ],
]


@pytest.mark.parametrize(("spec", "facts", "outcome"), LESS)
def test_a_guess_is_not_given_where_the_pod_could_do_less_with_it(
    spec: dict[str, Any], facts: ClusterFacts, outcome: Outcome
) -> None:
    made = case(pod(**spec), cluster=facts)
    assert unchanged(PriorityClassName(), made._replace(context=made.context._replace(workload=GUESSED))) == outcome
    if outcome.warning:
        assert len(f"priorityClass: {outcome.warning}") <= 256


def test_a_guess_is_not_given_to_a_pod_of_kueue() -> None:
    made = case(pod(labels={"kueue.x-k8s.io/queue-name": "team"}, **NUMBERS), cluster=cluster(QUIET))
    guessed = made._replace(context=made.context._replace(workload=GUESSED))
    assert unchanged(PriorityClassName(), guessed) == Outcome("ordered", "Kueue")


@pytest.mark.parametrize(("spec", "facts"), [pytest.param(*row.values[:2], id=row.id) for row in LESS])
def test_a_label_that_asks_for_the_class_gives_it_all_the_same(spec: dict[str, Any], facts: ClusterFacts) -> None:
    _, got = applied(PriorityClassName(), case(pod(**spec), cluster=facts), OWN)
    assert got == Outcome("set", "gpu-training")


@pytest.mark.parametrize(
    ("spec", "facts"),
    [
        pytest.param(NUMBERS, cluster(QUIET, MINE), id="nobody has a lower priority"),
        pytest.param(BY_DEFAULT, cluster(QUIET, CALM, PAUSE), id="the pod preempts nobody without it either"),
        pytest.param(NUMBERS, cluster(TRAINING, PAUSE), id="it preempts as before"),
        pytest.param(BY_DEFAULT, quotas("gpu-training", "everyday"), id="no quota counts it otherwise"),
        pytest.param(BY_DEFAULT, quotas("gpu-inference"), id="a quota of another class"),
        pytest.param({}, cluster(QUIET), id="nothing is known of the pod's priority"),
    ],
)
def test_a_guess_is_given_where_the_pod_can_do_as_much_with_it(spec: dict[str, Any], facts: ClusterFacts) -> None:
    made = case(pod(**spec), cluster=facts)
    _, got = applied(PriorityClassName(), made._replace(context=made.context._replace(workload=GUESSED)), OWN)
    assert got == Outcome("set", "gpu-training")
