"""The choice of an earlier call of the hook for the same pod, and when it no longer holds.

Covers kube.record.
"""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import GPU, GPUS, preferred_node
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from tests.state.objects import placer, state, stored
from webhook.admission.earlier import Choice
from webhook.admission.record import encoded, record
from webhook.framework.cluster_view import Placement, Ranked
from webhook.framework.interface import Outcome
from webhook.framework.node_terms import REQUIRED_TERMS, has_name
from webhook.kube.asked import AskedPod
from webhook.kube.json_patch import Edit
from webhook.kube.pod import DECISION, Pod
from webhook.kube.pod_requests import pod_requests_of
from webhook.placement.settings import PlacementSettings
from webhook.state.state import ClusterState

REQUIRED = REQUIRED_TERMS[-2]
AFFINITY = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [preferred_node("a1", 100), preferred_node("a2", 35)]
    }
}


STRATEGY = "spread"
DONE = {"nodeAffinity": Outcome("preferred", 2)}


def choosing(of: ClusterState, strategy: str) -> Choice:
    return Choice(placer(of), of.view(0), PlacementSettings(), strategy, "")


def choose(of: ClusterState, edit: Edit, strategy: str = STRATEGY) -> Placement:
    return choosing(of, strategy).choose(AskedPod(edit.object, GPUS), edit)


def read(strategy: str = STRATEGY) -> str:
    """What is read of a pod without nodes."""
    return choosing(state([]), strategy).read(AskedPod(pod(), GPUS))


def recorded(text: str | None) -> Placement | None:
    """The choice of an earlier call that this record tells, if it counts; on two nodes that have room."""
    rest = f'{{"units":{{"nodeAffinity":["preferred",2]}},"read":"{read()}",'
    annotations = {} if text is None else {DECISION: text.replace("{", rest, 1) if text.startswith('{"') else text}
    edit = Edit(pod(annotations=annotations, affinity=AFFINITY))
    found = choose(state([node("a1"), node("a2")]), edit)
    return found if found.kept else None


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(None, id="none"),
        pytest.param("{", id="no JSON"),
        pytest.param("[]", id="a list"),
        pytest.param("{}", id="without nodes"),
        pytest.param('{"nodes":null}', id="nodes of null"),
        pytest.param('{"nodes":{"a1":1}}', id="nodes as a map"),
        pytest.param('{"nodes":["a1"]}', id="a node without numbers"),
        pytest.param('{"nodes":[["a1",8,0,1.0,5]]}', id="a number too many"),
        pytest.param('{"nodes":[["b",8,0,1.0],["a1",8,0,1.0]]}', id="a first node that the affinity does not name"),
        pytest.param('{"nodes":[[5,8,0,1.0]]}', id="a node that is a number"),
        pytest.param('{"nodes":[["a1",8.5,0,1.0]]}', id="half a GPU"),
        pytest.param('{"nodes":[["a1",-1,0,1.0]]}', id="less than no GPU"),
        pytest.param('{"nodes":[["a1",18446744073709551616,0,1.0]]}', id="a number beyond 64 bits"),
        pytest.param('{"nodes":[["a1",8,0,1.0]],"of":"all"}', id="a total that is text"),
        pytest.param('{"nodes":[["a1",8,0,1e308]]}', id="a score that no ranking gives"),
        pytest.param("[" * 2000, id="deep nesting"),
        pytest.param('{"nodes":[["a1",8,0,1.0]],"x":"' + "y" * 2048 + '"}', id="larger than our records are"),
    ],
)
def test_a_record_that_is_not_ours_does_not_count(text: str | None) -> None:
    assert recorded(text) is None


def test_a_record_that_the_affinity_confirms_is_the_earlier_choice() -> None:
    before = Placement((Ranked("a2", 8, 0, 1.0), Ranked("b", 6, 1, 0.5)), "spread", total=12, read=read(), kept=True)
    assert recorded(encoded(record("p", "default", "c", DONE, before))) == before


def test_the_strategy_comes_from_the_policy_and_not_from_the_record() -> None:
    """The strategy is the label of a metric, so a tenant must not choose it."""
    found = recorded('{"strategy":"tenant text","nodes":[["a1",8,0,1]]}')
    assert found == Placement((Ranked("a1", 8, 0, 1.0),), "spread", read=read(), kept=True)


@given(
    st.recursive(
        st.none() | st.integers() | st.floats() | st.text(), lambda i: st.lists(i) | st.dictionaries(st.text(), i)
    )
)
def test_any_annotation_can_be_recorded_again_or_does_not_count(value: Any) -> None:
    for text in (json.dumps(value), json.dumps({"nodes": value}), json.dumps({"nodes": [["a1", value, 0, value]]})):
        found = recorded(text)
        if found is not None:
            encoded(record("p", "d", "c", {}, found))


# --- whether it holds -------------------------------------------------------------------------------------------------

CHOSEN = Placement(
    (Ranked("a1", 8, 0, 1.0), Ranked("a2", 6, 1, 0.5)), "pack", weights=(100, 35), total=12, read=read("pack")
)


def asking(limits: dict[str, str]) -> dict[str, Any]:
    return {"name": "main", "image": "i", "resources": {"limits": limits}}


SMALL = asking({GPU: "6", "cpu": "4"})
NODES = [node("a1", 8, cpu=8), node("a2", 8, cpu=8)]
TAKEN = stored("x", 3, on="a1")


def called_again(*containers: dict[str, Any], **changes: Any) -> Pod:
    """A pod for which nodes were ranked when it had the container SMALL, and which has `containers` now."""
    text = encoded(record("p", "default", "c", DONE, CHOSEN, pod_requests_of(pod(containers=[SMALL]))))
    return pod(containers=containers, annotations={DECISION: text}, **({"affinity": AFFINITY} | changes))


def first_node(of: ClusterState, found: Pod) -> tuple[str, bool]:
    """The first node, and whether it is that of the earlier choice."""
    edit = Edit(found)
    placement = choose(of, edit, "pack")
    if not placement.kept:
        assert "affinity" not in edit.object["spec"], "the terms for the old nodes are gone"
    return placement.nodes[0].node, placement.kept


def reserved() -> ClusterState:
    """What the first call reserved is there."""
    of = state(NODES)
    of.reserve(AskedPod(pod(containers=[SMALL]), GPUS), CHOSEN, 0)
    return of


@pytest.mark.parametrize(
    "containers",
    [
        pytest.param([SMALL], id="nothing"),
        pytest.param([SMALL, asking({})], id="a container that asks for nothing"),
        pytest.param([asking({GPU: "6", "cpu": "2"})], id="less CPU"),
        pytest.param([SMALL, asking({GPU: "2"})], id="more, for which there is room"),
    ],
)
def test_a_pod_that_asks_for_no_more_than_there_is_keeps_its_nodes(containers: list[dict[str, Any]]) -> None:
    assert first_node(reserved(), called_again(*containers)) == ("a1", True)


@pytest.mark.parametrize("more", [pytest.param({GPU: "3"}, id="GPUs"), pytest.param({"cpu": "5"}, id="CPU")])
def test_a_pod_that_outgrows_its_node_is_ranked_again(more: dict[str, str]) -> None:
    of = state([*NODES, node("b", 16, cpu=16)])
    of.reserve(AskedPod(pod(containers=[SMALL]), GPUS), CHOSEN, 0)
    assert first_node(of, called_again(SMALL, asking(more))) == ("b", False)


def test_a_sidecar_counts() -> None:
    found = called_again(SMALL)
    found["spec"]["initContainers"] = [asking({GPU: "3"}) | {"restartPolicy": "Always"}]
    assert not choose(reserved(), Edit(found)).kept


COPIED = [
    pytest.param(state(NODES), ("a1", True), id="its node has room for all of it"),
    pytest.param(state(NODES, [TAKEN]), ("a2", False), id="its node is full"),
    pytest.param(state(NODES[1:]), ("a2", False), id="its node is gone"),
]


@pytest.mark.parametrize(("of", "want"), COPIED)
def test_a_copied_pod_keeps_a_choice_only_where_there_is_room_for_the_whole_pod(
    of: ClusterState, want: tuple[str, bool]
) -> None:
    assert first_node(of, called_again(SMALL)) == want


def test_a_copied_pod_is_not_pinned_to_the_old_node_for_ever() -> None:
    found = called_again(
        SMALL, affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": [has_name("a1")]}]}}}
    )
    found["metadata"]["annotations"][DECISION] = found["metadata"]["annotations"][DECISION].replace(
        '"preferred",2', '"required","a1"'
    )
    assert first_node(state(NODES[1:]), found) == ("a2", False)


@pytest.mark.parametrize(
    "asked", ["null", "5", '"x"', "[]", '{"nvidia.com/gpu":"1"}', '{"nvidia.com/gpu":-1}', '{"nvidia.com/gpu":true}']
)
def test_a_record_with_a_demand_that_is_none_does_not_count(asked: str) -> None:
    assert recorded(f'{{"nodes":[["a1",8,0,1.0]],"of":1,"asked":{asked}}}') is None
