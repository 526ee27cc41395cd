"""Replicas that may all run on one node."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import Case, case, container, pod
from webhook.rules.spread_missing import SpreadMissing

RULE = SpreadMissing(action="warn")


def template(
    replicas: int | None = 4,
    owned_by: str = "Deployment",
    gpu: int | None = 1,
    rule: SpreadMissing | None = None,
    **spec: Any,
) -> Case:
    return case(pod(container(gpu=gpu), owned_by=owned_by, **spec), template=True, replicas=replicas, rule=rule)


ALLOWED: dict[str, Case] = {
    "one replica": template(1),
    "an unknown number": template(None),
    "spread over nodes": template(topologySpreadConstraints=[{"topologyKey": "kubernetes.io/hostname"}]),
    "kept apart": template(affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}),
    "a Job, whose pods talk to each other": template(owned_by="Job"),
    "without a GPU": template(gpu=None),
    "a pod, whose workload is not asked about": case(pod(owned_by="ReplicaSet"), replicas=4),
    "fewer than the policy calls many": case(
        pod(owned_by="Deployment"), template=True, replicas=4, rule=SpreadMissing(action="warn", replicas=5)
    ),
}

REFUSED: dict[str, tuple[Case, list[str]]] = {
    "as few as the policy calls many": (
        template(2),
        [
            "spec.topologySpreadConstraints: saw 2 replicas without topology spread or pod anti-affinity, wanted replicas on several nodes: one node that fails would take all of them. "
            "Add a topologySpreadConstraint over kubernetes.io/hostname with the labels of the pods."
        ],
    ),
    "one that an autoscaler may make many, where the policy asks for it": (
        template(None, rule=SpreadMissing(action="warn", replicas=1)),
        [
            "spec.topologySpreadConstraints: saw 1 replica without topology spread or pod anti-affinity, wanted replicas on several nodes: one node that fails would take all of them. "
            "Add a topologySpreadConstraint over kubernetes.io/hostname with the labels of the pods."
        ],
    ),
    "four replicas": (
        template(),
        [
            "spec.topologySpreadConstraints: saw 4 replicas without topology spread or pod anti-affinity, wanted replicas on several nodes: one node that fails would take all of them. "
            "Add a topologySpreadConstraint over kubernetes.io/hostname with the labels of the pods."
        ],
    ),
}


def test_it_is_off_unless_the_policy_turns_it_on() -> None:
    assert SpreadMissing().action == "off"


@pytest.mark.parametrize("allowed", ALLOWED.values(), ids=ALLOWED)
def test_what_is_allowed(allowed: Case) -> None:
    assert allowed.messages(RULE) == []


@pytest.mark.parametrize(("refused", "messages"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(refused: Case, messages: list[str]) -> None:
    assert refused.messages(RULE) == messages
    assert not any(finding.only_warn for finding in refused.findings(RULE))
