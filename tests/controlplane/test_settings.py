"""The files that the programs are started with."""

import itertools

import yaml

from tests.controlplane import settings
from tests.controlplane.nodes import Json


def _exclude(one: Json, other: Json) -> bool:
    """Whether no object can match both expressions of a Stage."""
    if one["key"] != other["key"]:
        return False
    operators = {one["operator"], other["operator"]}
    if operators == {"In"}:
        return not set(one["values"]) & set(other["values"])
    return operators == {"Exists", "DoesNotExist"} or (
        operators == {"In", "NotIn"} and one["values"] == other["values"]
    )


def test_no_object_matches_two_stages_with_different_outcomes() -> None:
    """kwok would draw one of them by lot: a node that a test made not ready, or a heartbeat that keeps it Ready."""
    for one, other in itertools.combinations(yaml.safe_load_all(settings.STAGES.read_text()), 2):
        first, second = one["spec"], other["spec"]
        if first["resourceRef"] == second["resourceRef"] and first["next"] != second["next"]:
            pairs = itertools.product(first["selector"]["matchExpressions"], second["selector"]["matchExpressions"])
            assert any(_exclude(*pair) for pair in pairs), (one["metadata"], other["metadata"])
