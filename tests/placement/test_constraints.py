"""Selectors and affinity match as in kube-scheduler."""

from typing import Any

import pytest

from tests.controlplane.nodes import node
from tests.placement.placed import affinity
from tests.state.objects import state
from webhook.nodes.nodes import Nodes
from webhook.placement.constraints import compiled, matches
from webhook.state.state import ClusterState


def matching(of: ClusterState, term: dict[str, Any]) -> set[str]:
    """Names of the nodes that match one required term."""
    selector = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    constraints = compiled({"affinity": {"nodeAffinity": selector}})
    assert constraints is not None
    assert constraints.required is not None
    return {name for found in constraints.required for name in _named(of.nodes, found)}


def _named(nodes: Nodes, term: Any) -> set[str]:
    rows = slice(0, nodes.columns.rows)
    mask = matches(term, nodes, rows)
    return {name for name, yes in zip(nodes.columns.name, mask.tolist(), strict=True) if yes}


def term(operator: str, *values: str, key: str = "zone") -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


ZONES = [
    node("a", labels={"zone": "5", "ns": "9223372036854775808"}),
    node("b", labels={"zone": "x"}),
    node("c", labels={"ns": "1700000000000000000"}),
]


@pytest.mark.parametrize(
    ("stated", "found"),
    [
        pytest.param({}, "", id="an empty term matches nothing"),
        pytest.param({"matchExpressions": [], "matchFields": None}, "", id="a term of empty lists matches nothing"),
        pytest.param(term("In"), "", id="In without a value does not parse"),
        pytest.param(term("Exists", "x"), "", id="Exists with a value does not parse"),
        pytest.param(term("Gt", "1", "2"), "", id="Gt with two values does not parse"),
        pytest.param(term("Gt", "1.5"), "", id="Gt with a value that is no integer does not parse"),
        pytest.param(term("Like", "x"), "", id="an unknown operator does not parse"),
        pytest.param(
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a", "b"]}]},
            "",
            id="a field with two values does not parse",
        ),
        pytest.param(
            {"matchFields": [{"key": "metadata.name", "operator": "Exists"}]}, "", id="a field allows In and NotIn only"
        ),
        pytest.param(term("In", "5", "7"), "a", id="In"),
        pytest.param(term("NotIn", "5"), "bc", id="NotIn matches nodes without the label"),
        pytest.param(term("Exists"), "ab", id="Exists"),
        pytest.param(term("DoesNotExist"), "c", id="DoesNotExist"),
        pytest.param(term("Gt", "4"), "a", id="Gt leaves out what is no number"),
        pytest.param(term("Gt", "5"), "", id="Gt is strict"),
        pytest.param(term("Lt", "6"), "a", id="Lt"),
        pytest.param(term("Lt", "5"), "", id="Lt is strict"),
        pytest.param(term("Lt", "1700000000000000001", key="ns"), "c", id="Lt compares all digits"),
        pytest.param(term("Gt", "1700000000000000000", key="ns"), "", id="Gt leaves out what is beyond 64 bits"),
        pytest.param(term("Gt", "9223372036854775808"), "", id="Gt with a value beyond 64 bits does not parse"),
        pytest.param(term("NotIn", "x", key="nobody-has-it"), "abc", id="NotIn of a label that no node has"),
        pytest.param(term("DoesNotExist", key="nobody-has-it"), "abc", id="absence of a label that no node has"),
        pytest.param(term("Exists", key="nobody-has-it"), "", id="presence of a label that no node has"),
        pytest.param(
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}, "b", id="a node by name"
        ),
        pytest.param(
            {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["b"]}]}, "ac", id="all but one"
        ),
        pytest.param(
            {"matchFields": [{"key": "metadata.uid", "operator": "In", "values": ["b"]}]}, "", id="no other field"
        ),
        pytest.param({**term("Exists"), "matchFields": []}, "ab", id="an empty list beside a full one adds nothing"),
    ],
)
def test_a_term_matches_as_the_scheduler_matches_it(stated: dict[str, Any], found: str) -> None:
    assert matching(state(ZONES), stated) == set(found)


def test_the_number_of_label_columns_is_bounded_and_dropped_ones_are_built_again() -> None:
    keys = [f"key-{i}" for i in range(700)]
    of = state([node("a", labels=dict.fromkeys(keys, "v")), node("b")])
    for key in keys:
        assert matching(of, term("Exists", key=key)) == {"a"}
    assert len(of.nodes.labels._columns) <= 512
    of.node_seen(node("b", labels={keys[0]: "w"}))
    assert matching(of, term("Exists", key=keys[0])) == {"a", "b"}


def test_label_values_of_deleted_nodes_are_forgotten() -> None:
    of = state([node("a", labels={"boot": "0"})])
    assert matching(of, term("Exists", key="boot")) == {"a"}
    for i in range(1000):
        of.node_seen(
            node("a", labels={"boot": str(i)}, taints=[{"key": "t", "value": str(i), "effect": "PreferNoSchedule"}])
        )
    column = of.nodes.labels.column("boot")
    assert column is not None
    assert len(column.values) < 300
    assert len(of.nodes.statuses) < 400
    assert matching(of, term("In", "999", key="boot")) == {"a"}
    assert of.nodes.statuses[of.nodes.columns.status[0]].taints[0].value == "999"


@pytest.mark.parametrize("weight", [10**12, -1, 0, "1"])
def test_a_weight_that_the_api_server_refuses_does_not_count(weight: Any) -> None:
    constraints = compiled({"affinity": affinity(preferred=[(weight, term("Exists"))])})
    assert constraints is not None
    assert constraints.preferred == ()
