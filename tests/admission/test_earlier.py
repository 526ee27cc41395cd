"""The choice of an earlier call of the hook for the same pod, and when it no longer holds.

Covers kube.record.
"""

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import pod, preferred_node
from webhook.admission.earlier import earlier_choice
from webhook.admission.record import encoded, record
from webhook.cluster.pods import demand_of
from webhook.framework.cluster_view import Placement, Ranked
from webhook.framework.node_terms import PREFERRED_TERMS, REQUIRED_TERMS, has_name, remove_terms
from webhook.kube.json_patch import Edit
from webhook.kube.pod import DECISION, Pod

AFFINITY = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [preferred_node("a1", 100), preferred_node("a2", 35)]
    }
}


def recorded(text: str | None) -> Placement | None:
    annotations = {} if text is None else {DECISION: text}
    found = earlier_choice(Edit(pod(annotations=annotations, affinity=AFFINITY)), "spread")
    return None if found is None else found.placement


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
    before = Placement((Ranked("a2", 8, 0, 1.0), Ranked("b", 6, 1, 0.5)), "spread", total=12, apart=True)
    text = encoded(record("p", "default", "c", {}, before))
    assert recorded(text) == before


def test_the_strategy_comes_from_the_policy_and_not_from_the_record() -> None:
    """The strategy is the label of a metric, so a tenant must not choose it."""
    found = recorded('{"strategy":"tenant text","nodes":[["a1",8,0,1]]}')
    assert found == Placement((Ranked("a1", 8, 0, 1.0),), "spread", apart=True)


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


# --- a pod that grew --------------------------------------------------------------------------------------------------

CHOSEN = Placement((Ranked("a1", 8, 0, 1.0), Ranked("a2", 6, 1, 0.5)), "pack", weights=(100, 35), total=12)


def asking(limits: dict[str, str]) -> dict[str, Any]:
    return {"name": "main", "image": "i", "resources": {"limits": limits}}


SMALL = asking({"nvidia.com/gpu": "1", "cpu": "4"})


def called_again(*containers: dict[str, Any], before: dict[str, Any] = SMALL, **changes: Any) -> Pod:
    """A pod for which nodes were ranked when it had the container `before`, and which has `containers` now."""
    asked = demand_of(pod(before))
    text = encoded(record("p", "default", "c", {}, CHOSEN, asked))
    return pod(*containers, annotations={DECISION: text}, **({"affinity": AFFINITY} | changes))


def grown(found: Pod) -> bool:
    earlier = earlier_choice(Edit(found), "pack")
    assert earlier is not None
    return earlier.more(found) is not None


@pytest.mark.parametrize(
    "containers",
    [
        pytest.param([SMALL], id="nothing"),
        pytest.param([SMALL, asking({})], id="a container that asks for nothing"),
        pytest.param([asking({"nvidia.com/gpu": "1", "cpu": "2"})], id="less CPU"),
        pytest.param([asking({"nvidia.com/gpu": "1"})], id="no CPU"),
        pytest.param([asking({"nvidia.com/gpu": "one", "cpu": "4"})], id="text that is no quantity"),
    ],
)
def test_a_pod_that_asks_for_no_more_keeps_its_nodes(containers: list[dict[str, Any]]) -> None:
    assert not grown(called_again(*containers))


@pytest.mark.parametrize(
    "containers",
    [
        pytest.param([SMALL, asking({"nvidia.com/gpu": "1"})], id="a GPU more"),
        pytest.param([SMALL, asking({"cpu": "100m"})], id="a little CPU"),
        pytest.param([SMALL, asking({"amd.com/gpu": "1"})], id="another resource"),
        pytest.param([asking({"nvidia.com/gpu": "2", "cpu": "1"})], id="a GPU more and less CPU"),
    ],
)
def test_a_pod_that_asks_for_more_is_ranked_again(containers: list[dict[str, Any]]) -> None:
    assert grown(called_again(*containers))


def test_only_what_is_asked_for_beyond_the_earlier_demand_counts() -> None:
    found = called_again(SMALL, asking({"nvidia.com/gpu": "1"}), owned_by="Job")
    earlier = earlier_choice(Edit(found), "pack")
    assert earlier is not None
    more = earlier.more(found)
    assert more is not None
    assert more.requests == (("nvidia.com/gpu", 1),)


def test_a_sidecar_counts() -> None:
    found = called_again(SMALL)
    found["spec"]["initContainers"] = [asking({"nvidia.com/gpu": "1"}) | {"restartPolicy": "Always"}]
    assert grown(found)


@pytest.mark.parametrize(
    "asked", ["null", "5", '"x"', "[]", '{"nvidia.com/gpu":"1"}', '{"nvidia.com/gpu":-1}', '{"nvidia.com/gpu":true}']
)
def test_a_record_with_a_demand_that_is_none_does_not_count(asked: str) -> None:
    found = called_again(SMALL)
    found["metadata"]["annotations"][DECISION] = f'{{"nodes":[["a1",8,0,1.0]],"of":1,"asked":{asked}}}'
    assert earlier_choice(Edit(found), "pack") is None


def test_an_older_record_without_the_demand_still_holds() -> None:
    found = called_again(SMALL, asking({"nvidia.com/gpu": "7"}))
    text = orjson.loads(found["metadata"]["annotations"][DECISION])
    del text["asked"]
    found["metadata"]["annotations"][DECISION] = orjson.dumps(text).decode()
    assert not grown(found)


# --- removing the terms for the earlier choice ------------------------------------------------------------------------

PREFERRED, REQUIRED = PREFERRED_TERMS[-1], REQUIRED_TERMS[-2]
OWN = {"weight": 50, "preference": {"matchFields": [has_name("a1")]}}
MODEL = {"key": "nvidia.com/gpu.product", "operator": "Exists"}
TERMS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "our preferences": (AFFINITY["nodeAffinity"], {}),
    "not the pod's own": ({PREFERRED: [OWN, preferred_node("a1", 100)]}, {PREFERRED: [OWN]}),
    "our pin": ({REQUIRED: {"nodeSelectorTerms": [{"matchFields": [has_name("a1")]}]}}, {}),
    "our pin in a term of the pod's own": (
        {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [MODEL], "matchFields": [has_name("a1")]}, {}]}},
        {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [MODEL], "matchFields": []}, {}]}},
    ),
}


@pytest.mark.parametrize(("before", "after"), TERMS.values(), ids=TERMS)
def test_the_terms_for_the_nodes_are_removed(before: dict[str, Any], after: dict[str, Any]) -> None:
    edit = Edit(pod(affinity={"nodeAffinity": before}))
    remove_terms(edit, CHOSEN._replace(required=True))
    assert edit.object["spec"]["affinity"] == {"nodeAffinity": after}
