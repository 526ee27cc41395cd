"""From review to binding: the ledger matches a reservation to its pod when the pod is seen."""

from __future__ import annotations

from typing import Any

import jsonpatch
import orjson
import pytest

from tests.builders import request
from tests.cluster.objects import free, node, placer, pod, state
from webhook.admission.pods import mutate
from webhook.cluster.ledger import Counts
from webhook.cluster.state import ClusterState
from webhook.policy.model import Policy

PREFERRED = Policy.load("{}")
REQUIRED = Policy.load("profiles: {default: {injectors: {nodeAffinity: {mode: required}}}}")
NODES = [node(name, taints=[{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]) for name in ("gpu-a", "gpu-b")]


def template(name: str) -> dict[str, Any]:
    """A pod as a ReplicaSet creates it: without a name."""
    made = pod(name, owner="web-7f")
    return {"metadata": {k: v for k, v in made["metadata"].items() if k not in ("name", "uid")}, "spec": made["spec"]}


def admit(of: ClusterState, name: str, policy: Policy) -> dict[str, Any]:
    """Admit a pod as the handlers do, and return it as the API server stores it."""
    made = template(name)
    asked = request(made)
    decision = mutate(asked, policy, of.view(0), placer(of))
    assert decision.reservation is not None
    assert decision.placement is not None
    assert decision.patch is not None
    of.reserve(decision.reservation, decision.placement, 0)
    stored = jsonpatch.apply_patch(orjson.loads(orjson.dumps(template(name))), orjson.loads(decision.patch))
    stored["metadata"] |= {"name": name, "uid": f"uid-{name}"}
    return {**stored, "status": {"phase": "Pending"}}


@pytest.mark.parametrize(
    ("policy", "elsewhere"),
    [
        pytest.param(PREFERRED, "ranked", id="preferred: the second node is ranked too"),
        pytest.param(REQUIRED, "other", id="required: only the first is in the spec"),
    ],
)
def test_a_burst_of_one_owner_is_reserved_seen_and_bound_without_counting_anything_twice(
    policy: Policy, elsewhere: str
) -> None:
    of = state(NODES)
    of.usage.seen_from("team-a")
    stored = [admit(of, f"p{i}", policy) for i in range(6)]
    assert of.ledger.counts == Counts(6, 0)
    assert (free(of, "gpu-a"), free(of, "gpu-b")) == (5, 5)
    for made in stored:
        of.pod_seen(made, 1)
    assert of.ledger.counts == Counts(0, 6)
    assert (free(of, "gpu-a"), free(of, "gpu-b")) == (5, 5)
    for made in stored:
        of.pod_seen({**made, "spec": {**made["spec"], "nodeName": "gpu-a"}}, 2)
    assert of.ledger.counts == Counts(0, 0)
    assert (free(of, "gpu-a"), free(of, "gpu-b")) == (2, 8)
    assert of.ledger.honoured == {"first": 3, "ranked": 0, "other": 0, elsewhere: 3}


def test_another_replica_learns_of_the_reservation_when_the_pod_is_seen() -> None:
    here, there = state(NODES, replica="here"), state(NODES, replica="there")
    stored = [admit(here, f"p{i}", PREFERRED) for i in range(4)]
    for made in stored:
        here.pod_seen(made, 1)
        there.pod_seen(made, 1)
    assert there.ledger.counts == here.ledger.counts == Counts(0, 4)
    assert [free(there, n) for n in ("gpu-a", "gpu-b")] == [free(here, n) for n in ("gpu-a", "gpu-b")] == [6, 6]


def test_a_second_call_reserves_nothing() -> None:
    of = state(NODES)
    once = admit(of, "p", PREFERRED)
    assert mutate(request(once), PREFERRED, of.view(0), placer(of)).reservation is None
    assert of.ledger.counts == Counts(1, 0)
