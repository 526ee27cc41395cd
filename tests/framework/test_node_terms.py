"""Affinity terms that name one node; `tests/admission/test_earlier.py` removes them from a pod."""

from typing import Any

import pytest

from webhook.framework.node_terms import has_name, named_node

A, IN_ZONE = has_name("a"), {"key": "zone", "operator": "In", "values": ["z1"]}
TERMS = {
    "just it": ({"matchFields": [A]}, "a"),
    "with an empty list": ({"matchFields": [A], "matchExpressions": []}, "a"),
    "null": (None, None),
    "an empty term": ({}, None),
    "no field": ({"matchFields": []}, None),
    "two fields": ({"matchFields": [A, has_name("b")]}, None),
    "another requirement besides": ({"matchFields": [A], "matchExpressions": [IN_ZONE]}, None),
    "all nodes but one": ({"matchFields": [A | {"operator": "NotIn"}]}, None),
    "two names": ({"matchFields": [A | {"values": ["a", "b"]}]}, None),
    "no name": ({"matchFields": [A | {"values": None}]}, None),
    "a label of that name": ({"matchExpressions": [A]}, None),
    "another field": ({"matchFields": [A | {"key": "metadata.uid"}]}, None),
}


@pytest.mark.parametrize(("term", "node"), TERMS.values(), ids=TERMS)
def test_a_term_names_one_node(term: Any, node: str | None) -> None:
    assert named_node(term) == node
