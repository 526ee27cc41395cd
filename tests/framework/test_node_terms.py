"""Affinity terms that name one node."""

from typing import Any

import pytest

from tests.builders import preferred_node
from tests.controlplane.objects import PREFERRED, REQUIRED, pod
from webhook.framework.node_terms import CONSTRAINTS, NEUTRAL, has_name, named_node, remove_terms
from webhook.kube.json_patch import Edit
from webhook.kube.pod import HOSTNAME

A, IN_ZONE = has_name("a"), {"key": "zone", "operator": "In", "values": ["z1"]}
TERMS = [
    pytest.param({"matchFields": [A]}, "a", id="just it"),
    pytest.param({"matchFields": [A], "matchExpressions": []}, "a", id="with an empty list"),
    pytest.param(None, None, id="null"),
    pytest.param({}, None, id="an empty term"),
    pytest.param({"matchFields": []}, None, id="no field"),
    pytest.param({"matchFields": [A, has_name("b")]}, None, id="two fields"),
    pytest.param({"matchFields": [A], "matchExpressions": [IN_ZONE]}, None, id="another requirement besides"),
    pytest.param({"matchFields": [A | {"operator": "NotIn"}]}, None, id="all nodes but one"),
    pytest.param({"matchFields": [A | {"values": ["a", "b"]}]}, None, id="two names"),
    pytest.param({"matchFields": [A | {"values": None}]}, None, id="no name"),
    pytest.param({"matchExpressions": [A]}, None, id="a label of that name"),
    pytest.param({"matchExpressions": [A | {"key": HOSTNAME}]}, "a", id="its hostname label"),
    pytest.param({"matchExpressions": [A | {"key": HOSTNAME}], "matchFields": [A]}, None, id="both"),
    pytest.param({"matchExpressions": [IN_ZONE]}, None, id="another label"),
    pytest.param({"matchFields": [A | {"key": "metadata.uid"}]}, None, id="another field"),
]


@pytest.mark.parametrize(("term", "node"), TERMS)
def test_a_term_names_one_node(term: Any, node: str | None) -> None:
    assert named_node(term) == node


OWN = {"weight": 50, "preference": {"matchFields": [A]}}
OURS = [preferred_node("a", 100), preferred_node("b", 35)]
MODEL = {"key": "nvidia.com/gpu.product", "operator": "Exists"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param({PREFERRED: OURS}, {}, id="our preferences"),
        pytest.param({PREFERRED: [OWN, *OURS]}, {PREFERRED: [OWN]}, id="not the pod's own"),
        pytest.param({REQUIRED: {"nodeSelectorTerms": [{"matchFields": [A]}]}}, {}, id="our pin"),
        pytest.param(
            {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [MODEL], "matchFields": [A]}, {}]}},
            {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [MODEL]}, {}]}},
            id="our pin in a term of the pod's own",
        ),
        pytest.param({PREFERRED: [OWN]}, {PREFERRED: [OWN]}, id="nothing of ours"),
    ],
)
def test_the_terms_for_nodes_are_removed(before: dict[str, Any], after: dict[str, Any]) -> None:
    own = {**NEUTRAL, "maxSkew": 2}
    edit = Edit(pod(affinity={"nodeAffinity": before}, topologySpreadConstraints=[own, NEUTRAL]))
    remove_terms(edit, OURS, "a")
    assert edit.object["spec"].get("affinity") == ({"nodeAffinity": after} if after else None)
    assert edit.get(CONSTRAINTS) == [own]
