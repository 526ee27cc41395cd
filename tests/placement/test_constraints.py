"""Selectors and affinity match as in kube-scheduler."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cluster.objects import node, state
from tests.effort import times
from tests.placement.oracle import matches as oracle
from webhook.cluster.nodes import Nodes
from webhook.cluster.state import ClusterState
from webhook.framework.cluster_view import Taint
from webhook.placement.constraints import compiled, matches

KEYS = ("zone", "size", "rare")
VALUES = ("a", "b", "3", "-7", "9000000000000000000", "x1")


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


ZONES = [node("a", labels={"zone": "5"}), node("b", labels={"zone": "x"}), node("c")]


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


_EXPRESSIONS = st.one_of(
    st.builds(
        lambda key, operator, values: {"key": key, "operator": operator, "values": values},
        st.sampled_from(KEYS),
        st.sampled_from(["In", "NotIn"]),
        st.lists(st.sampled_from(VALUES), min_size=1, max_size=3),
    ),
    st.builds(
        lambda key, operator: {"key": key, "operator": operator},
        st.sampled_from(KEYS),
        st.sampled_from(["Exists", "DoesNotExist"]),
    ),
    st.builds(
        lambda key, operator, value: {"key": key, "operator": operator, "values": [str(value)]},
        st.sampled_from(KEYS),
        st.sampled_from(["Gt", "Lt"]),
        st.sampled_from([-7, 0, 3, 4]),
    ),
)
_LABELS = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))


@given(
    st.lists(_LABELS, min_size=1, max_size=12),
    st.lists(_EXPRESSIONS, min_size=1, max_size=2),
    st.data(),
)
@times(1.5)
def test_labels_match_as_computed_node_by_node_also_after_changes(
    labels: list[dict[str, str]], expressions: list[dict[str, Any]], data: st.DataObject
) -> None:
    stated = {"matchExpressions": expressions}
    nodes = {f"n{i}": node(f"n{i}", labels=found) for i, found in enumerate(labels)}
    of = state(nodes.values())
    assert matching(of, stated) == {name for name, made in nodes.items() if oracle(made, stated)}
    for name in data.draw(st.lists(st.sampled_from(sorted(nodes)))):
        nodes[name] = node(name, labels=data.draw(_LABELS))
        of.node_seen(nodes[name])
    for i in range(data.draw(st.sampled_from([0, 0, 80]))):
        nodes[f"m{i}"] = node(f"m{i}", labels=data.draw(_LABELS) if i < 4 else {})
        of.node_seen(nodes[f"m{i}"])
    assert matching(of, stated) == {name for name, made in nodes.items() if oracle(made, stated)}


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


# --- tolerations: the table of k8s.io/api core/v1/toleration_test.go --------------------------------------------------

FOO = {"key": "foo", "value": "bar", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("toleration", "taint"),
    [
        pytest.param(
            {"key": "foo", "operator": "Equal", "value": "value1", "effect": "NoSchedule"}, FOO, id="another value"
        ),
        pytest.param(
            {"key": "foo", "operator": "Equal", "value": "bar", "effect": "NoSchedule"},
            FOO | {"effect": "NoExecute"},
            id="another effect",
        ),
        pytest.param({"key": "fox", "operator": "Exists"}, FOO, id="another key"),
        pytest.param({"key": "foo"}, FOO, id="no value is not any value"),
        pytest.param({"key": "foo", "operator": "exists"}, FOO, id="operators are spelt as they are"),
        pytest.param(
            {"key": "fox", "operator": "Gt", "value": "1"}, FOO | {"value": "5"}, id="a comparison of another"
        ),
        pytest.param({"operator": "Gt", "value": "1"}, FOO, id="no key to compare: the API refuses it"),
        pytest.param({"operator": "Equal", "value": "bar"}, FOO, id="no key without Exists: the API refuses it"),
        pytest.param({}, {"key": "foo", "effect": "NoSchedule"}, id="nothing at all"),
    ],
)
def test_this_toleration_does_not_match(toleration: dict[str, Any], taint: dict[str, Any]) -> None:
    assert not tolerates(toleration, taint)


@pytest.mark.parametrize(
    ("toleration", "taint"),
    [
        pytest.param(
            {"key": "foo", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "foo", "effect": "NoSchedule"},
            id="Exists on a taint without a value",
        ),
        pytest.param({"key": "foo", "operator": "Exists", "effect": "NoSchedule"}, FOO, id="Exists on any value"),
        pytest.param({"key": "", "operator": "Exists", "effect": "NoSchedule"}, FOO, id="an empty key is every key"),
        pytest.param({"operator": "Exists"}, FOO, id="no effect is every effect"),
        pytest.param({"key": "foo", "operator": "Equal", "value": "bar", "effect": "NoSchedule"}, FOO, id="all equal"),
        pytest.param({"key": "foo", "value": "bar"}, FOO, id="no operator is Equal"),
        pytest.param({"key": "foo", "operator": None, "value": "bar", "effect": None}, FOO, id="null is nothing"),
        pytest.param(
            {"key": "foo", "value": ""}, {"key": "foo", "effect": "NoExecute"}, id="an empty value equals a missing one"
        ),
        pytest.param({"key": "foo"}, {"key": "foo", "value": None, "effect": "NoSchedule"}, id="no value on both"),
        pytest.param({"key": "foo", "operator": "Lt", "value": "9"}, FOO | {"value": "5"}, id="a comparison"),
        pytest.param(
            {"key": "foo", "operator": "Gt", "value": "9"},
            FOO | {"value": "5"},
            id="whether a comparison holds is for the scheduler to say",
        ),
    ],
)
def test_this_toleration_matches(toleration: dict[str, Any], taint: dict[str, Any]) -> None:
    assert tolerates(toleration, taint)


def tolerates(toleration: dict[str, Any], taint: dict[str, Any]) -> bool:
    constraints = compiled({"tolerations": [toleration]})
    assert constraints is not None
    return constraints.admits(Taint(taint["key"], taint.get("value") or "", taint["effect"]))
