"""Affinity terms that name one node; `tests/admission/test_earlier.py` removes them from a pod."""

from typing import Any

import pytest

from webhook.framework.node_terms import named_node, preferred_node

IN_ZONE = {"key": "zone", "operator": "In", "values": ["z1"]}


def has_name(name: str) -> dict[str, Any]:
    return {"key": "metadata.name", "operator": "In", "values": [name]}


@pytest.mark.parametrize(
    "term",
    [
        pytest.param(None, id="null"),
        pytest.param({}, id="an empty term"),
        pytest.param({"matchFields": []}, id="no field"),
        pytest.param({"matchFields": [has_name("a"), has_name("b")]}, id="two fields"),
        pytest.param({"matchFields": [has_name("a")], "matchExpressions": [IN_ZONE]}, id="another requirement besides"),
        pytest.param({"matchFields": [has_name("a") | {"operator": "NotIn"}]}, id="all nodes but one"),
        pytest.param({"matchFields": [has_name("a") | {"values": ["a", "b"]}]}, id="two names"),
        pytest.param({"matchFields": [has_name("a") | {"values": None}]}, id="no name"),
        pytest.param({"matchExpressions": [has_name("a")]}, id="a label of that name"),
        pytest.param({"matchFields": [has_name("a") | {"key": "metadata.uid"}]}, id="another field"),
    ],
)
def test_this_term_does_not_name_one_node(term: Any) -> None:
    assert named_node(term) is None


@pytest.mark.parametrize(
    "term",
    [{"matchFields": [has_name("a")]}, {"matchFields": [has_name("a")], "matchExpressions": []}],
    ids=["just it", "with an empty list"],
)
def test_this_term_names_one_node(term: Any) -> None:
    assert named_node(term) == "a"


def test_a_term_of_ours_names_its_node() -> None:
    assert preferred_node("a", 7) == {"weight": 7, "preference": {"matchFields": [has_name("a")]}}
