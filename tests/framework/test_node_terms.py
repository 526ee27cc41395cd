"""Affinity terms that name one node by its name; `tests/admission/test_earlier.py` takes them out of a pod."""

from __future__ import annotations

from typing import Any

import pytest

from webhook.framework.node_terms import named_node, naming

IN_ZONE = {"key": "zone", "operator": "In", "values": ["z1"]}


def is_node(name: str) -> dict[str, Any]:
    return {"key": "metadata.name", "operator": "In", "values": [name]}


@pytest.mark.parametrize(
    "term",
    [
        pytest.param(None, id="null"),
        pytest.param({}, id="an empty term"),
        pytest.param({"matchFields": []}, id="no field"),
        pytest.param({"matchFields": [is_node("a"), is_node("b")]}, id="two fields"),
        pytest.param({"matchFields": [is_node("a")], "matchExpressions": [IN_ZONE]}, id="something else besides"),
        pytest.param({"matchFields": [is_node("a") | {"operator": "NotIn"}]}, id="all nodes but one"),
        pytest.param({"matchFields": [is_node("a") | {"values": ["a", "b"]}]}, id="two names"),
        pytest.param({"matchFields": [is_node("a") | {"values": None}]}, id="no name"),
        pytest.param({"matchExpressions": [is_node("a")]}, id="a label of that name"),
        pytest.param({"matchFields": [is_node("a") | {"key": "metadata.uid"}]}, id="another field"),
    ],
)
def test_this_term_does_not_name_one_node(term: Any) -> None:
    assert named_node(term) is None


@pytest.mark.parametrize(
    "term",
    [{"matchFields": [is_node("a")]}, {"matchFields": [is_node("a")], "matchExpressions": []}],
    ids=["just it", "with an empty list"],
)
def test_this_term_names_one_node(term: Any) -> None:
    assert named_node(term) == "a"


def test_a_term_of_ours_names_its_node() -> None:
    assert naming("a", 7) == {"weight": 7, "preference": {"matchFields": [is_node("a")]}}
