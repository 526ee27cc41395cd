"""From review to binding: the ledger matches a reservation to its pod when the pod is seen, also if another webhook made the pod
larger after us, and the API server calls our hook again.

Covers admission.earlier, nodes.ledger.
"""

from typing import Any

import jsonpatch
import orjson
import pytest

from tests.builders import request
from tests.controlplane.nodes import node
from tests.placement.placed import affinity, expression
from tests.state.objects import free, placer, state, stored
from webhook.admission.pods import mutate
from webhook.kube.pod import DECISION
from webhook.kube.record import record_of
from webhook.nodes.ledger import Counts
from webhook.policy.model import Policy
from webhook.state.state import ClusterState

PREFERRED = Policy.load("{}")
REQUIRED = Policy.load("profiles: {default: {injectors: {nodeAffinity: {mode: required}}}}")
NODES = [node(name, taints=[{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]) for name in ("gpu-a", "gpu-b")]
SIDECAR = {"name": "proxy", "resources": {"limits": {"cpu": "4"}, "requests": {"cpu": "4"}}}
POLICIES = pytest.mark.parametrize("policy", [PREFERRED, REQUIRED], ids=["preferred", "required"])


def call(of: ClusterState, made: dict[str, Any], policy: Policy) -> dict[str, Any]:
    """The pod after one call of the mutating hook, as the handlers make it."""
    decision = mutate(request(made), policy, of.view(0), placer(of))
    if decision.reservation and decision.placement:
        of.reserve(decision.reservation, decision.placement, 0)
    after: dict[str, Any] = jsonpatch.apply_patch(made, orjson.loads(decision.patch or b"[]"))
    return after


def admit(of: ClusterState, name: str, policy: Policy) -> dict[str, Any]:
    """Admit a pod as a ReplicaSet creates it, without a name, and return it as the API server stores it."""
    made = stored(name, owner="web-7f")
    template = {k: v for k, v in made["metadata"].items() if k not in ("name", "uid")}
    answered = call(of, {"metadata": template, "spec": made["spec"]}, policy)
    answered["metadata"] |= {"name": name, "uid": f"uid-{name}"}
    return {**answered, "status": {"phase": "Pending"}}


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
    answered = [admit(of, f"p{i}", policy) for i in range(6)]
    assert of.ledger.counts == Counts(6, 0)
    assert (free(of, "gpu-a"), free(of, "gpu-b")) == (5, 5)
    for made in answered:
        of.pod_seen(made, 1)
    assert of.ledger.counts == Counts(0, 6)
    assert (free(of, "gpu-a"), free(of, "gpu-b")) == (5, 5)
    for made in answered:
        of.pod_seen({**made, "spec": {**made["spec"], "nodeName": "gpu-a"}}, 2)
    assert of.ledger.counts == Counts(0, 0)
    assert (free(of, "gpu-a"), free(of, "gpu-b")) == (2, 8)
    assert of.ledger.honoured == {"first": 3, "ranked": 0, "other": 0, elsewhere: 3}


@POLICIES
def test_nothing_is_reserved_for_a_pod_that_brings_the_terms_itself(policy: Policy) -> None:
    """Its author knows the node, and nothing was decided here that a watch would show."""
    made = stored("p", owner="web-7f")
    made["metadata"]["labels"] = {"workload-type": "training"}
    answered = call(state(NODES), made, policy)
    del answered["metadata"]["annotations"][DECISION]
    for constraints in ([], answered["spec"].pop("topologySpreadConstraints", [])):
        of = state(NODES)
        second = call(of, {**answered, "spec": answered["spec"] | {"topologySpreadConstraints": constraints}}, policy)
        assert record_of(second)["units"]["nodeAffinity"] == ["present"]
        assert (nodes_of(second)[0], second["spec"]["affinity"]) == ("gpu-a", answered["spec"]["affinity"])
        assert of.ledger.counts == Counts(0, 0)


def test_nothing_is_chosen_or_reserved_where_the_policy_switches_it_off() -> None:
    of = state(NODES)
    answered = admit(of, "p", Policy.load("profiles: {default: {injectors: {nodeAffinity: {enabled: false}}}}"))
    assert (nodes_of(answered), of.ledger.counts) == ([], Counts(0, 0))


# --- second calls -----------------------------------------------------------------------------------------------------


def with_sidecar(made: dict[str, Any]) -> dict[str, Any]:
    return {**made, "spec": {**made["spec"], "containers": [*made["spec"]["containers"], SIDECAR]}}


def nodes_of(made: dict[str, Any]) -> list[str]:
    record = orjson.loads(made["metadata"]["annotations"][DECISION])
    return [name for name, *_ in record.get("nodes", ())]


@POLICIES
def test_a_pod_that_grew_stays_on_its_node_if_that_has_room(policy: Policy) -> None:
    of = state([node("gpu-a", cpu="16"), node("gpu-b", cpu="64")])
    of.usage.seen_from("team-a")
    first = call(of, stored("p", 8, owner="o"), policy)
    assert call(of, first, policy) == first
    second = call(of, with_sidecar(first), policy)
    assert (nodes_of(second), second["spec"]["affinity"]) == (nodes_of(first), first["spec"]["affinity"])
    assert of.ledger.counts == Counts(1, 0)
    chosen = nodes_of(first)[0]
    before = free(of, chosen, "cpu")
    of.pod_seen(second, 1)
    assert free(of, chosen, "cpu") == before - 4000, "once it is seen, all of it is held"


@POLICIES
def test_a_pod_that_grew_beyond_its_node_is_ranked_again(policy: Policy) -> None:
    of = state([node("gpu-a", cpu="6"), node("gpu-b", cpu="64", taints=[{"key": "other", "effect": "NoSchedule"}])])
    first = call(of, stored("p", 1, owner="o"), policy)
    assert nodes_of(first) == ["gpu-a"]
    of.node_seen(node("gpu-b", cpu="64"))
    second = call(of, with_sidecar(first), policy)
    assert nodes_of(second) == ["gpu-b"]
    assert "gpu-a" not in orjson.dumps(second["spec"]["affinity"]).decode()
    assert of.ledger.counts == Counts(2, 0), "the first one expires: nobody can tell who called"
    of.pod_seen(second, 1)
    of.expire(10)
    assert of.ledger.counts == Counts(0, 1)


@POLICIES
def test_a_node_that_its_author_requires_stays_required(policy: Policy) -> None:
    of = state([node("gpu-a", cpu="6"), node("gpu-b", cpu="64")])
    own = affinity(expression("metadata.name", "In", "gpu-a", part="matchFields"))
    first = call(of, stored("p", 1, owner="o", affinity=own), policy)
    assert nodes_of(first) == ["gpu-a"]
    second = call(of, with_sidecar(first), policy)
    assert nodes_of(second) == []
    assert second["spec"]["affinity"] == own


def test_a_pod_that_no_node_has_room_for_gets_no_node() -> None:
    of = state([node("gpu-a", cpu="6")])
    second = call(of, with_sidecar(call(of, stored("p", 1, owner="o"), PREFERRED)), PREFERRED)
    assert nodes_of(second) == []
    assert "affinity" not in second["spec"]
