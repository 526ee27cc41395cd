"""Another webhook made a pod larger after us, and the API server calls our hook again.

Covers admission.earlier, cluster.ledger.
"""

from __future__ import annotations

from typing import Any

import jsonpatch
import orjson
import pytest

from tests.cluster.objects import free, node, placer, state
from tests.cluster.objects import pod as stored_pod
from tests.cluster.test_reservations import PREFERRED, REQUIRED, request
from webhook.admission.pods import mutate
from webhook.cluster.ledger import Counts
from webhook.cluster.state import ClusterState
from webhook.kube.pod import DECISION
from webhook.policy.model import Policy

SIDECAR = {"name": "proxy", "resources": {"limits": {"cpu": "4"}, "requests": {"cpu": "4"}}}


def call(of: ClusterState, made: dict[str, Any], policy: Policy) -> dict[str, Any]:
    """The pod after one call of the mutating hook, as the handlers make it."""
    decision = mutate(request(made), policy, of.view(0), placer(of))
    if decision.reservation and decision.placement:
        of.reserve(decision.reservation, decision.placement, 0)
    after: dict[str, Any] = jsonpatch.apply_patch(made, orjson.loads(decision.patch or b"[]"))
    return after


def with_sidecar(made: dict[str, Any]) -> dict[str, Any]:
    return {**made, "spec": {**made["spec"], "containers": [*made["spec"]["containers"], SIDECAR]}}


def nodes_of(made: dict[str, Any]) -> list[str]:
    record = orjson.loads(made["metadata"]["annotations"][DECISION])
    return [name for name, *_ in record.get("nodes", ())]


@pytest.mark.parametrize("policy", [PREFERRED, REQUIRED], ids=["preferred", "required"])
def test_a_pod_that_grew_stays_on_its_node_if_that_has_room(policy: Policy) -> None:
    of = state([node("gpu-a", cpu="16"), node("gpu-b", cpu="64")])
    of.usage.seen_from("team-a")
    first = call(of, stored_pod("p", 8, owner="o"), policy)
    second = call(of, with_sidecar(first), policy)
    assert (nodes_of(second), second["spec"]["affinity"]) == (nodes_of(first), first["spec"]["affinity"])
    assert of.ledger.counts == Counts(1, 0)
    chosen = nodes_of(first)[0]
    before = free(of, chosen, "cpu")
    of.pod_seen(second, 1)
    assert free(of, chosen, "cpu") == before - 4000, "once it is seen, all of it is held"


@pytest.mark.parametrize("policy", [PREFERRED, REQUIRED], ids=["preferred", "required"])
def test_a_pod_that_grew_beyond_its_node_is_ranked_again(policy: Policy) -> None:
    of = state([node("gpu-a", cpu="6"), node("gpu-b", cpu="64", labels={"pool": "b"})])
    of.node_seen(node("gpu-b", cpu="64", taints=[{"key": "other", "effect": "NoSchedule"}]))
    first = call(of, stored_pod("p", 1, owner="o"), policy)
    assert nodes_of(first) == ["gpu-a"]
    of.node_seen(node("gpu-b", cpu="64"))
    second = call(of, with_sidecar(first), policy)
    assert nodes_of(second) == ["gpu-b"]
    assert "gpu-a" not in orjson.dumps(second["spec"]["affinity"]).decode()
    assert of.ledger.counts == Counts(2, 0), "the first one expires: nobody can tell who called"
    of.pod_seen(second, 1)
    assert of.ledger.counts == Counts(1, 1)
    of.expire(10)
    assert of.ledger.counts == Counts(0, 1)


def test_a_pod_that_no_node_has_room_for_gets_no_node() -> None:
    of = state([node("gpu-a", cpu="6")])
    first = call(of, stored_pod("p", 1, owner="o"), PREFERRED)
    second = call(of, with_sidecar(first), PREFERRED)
    assert nodes_of(second) == []
    assert second["spec"]["affinity"] == {"nodeAffinity": {}}
