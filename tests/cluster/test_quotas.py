"""Which ResourceQuota counts pods of one PriorityClass and not of another."""

from typing import Any

import pytest

from tests.cluster.objects import state
from webhook.cluster.state import ClusterState


def quota(*expressions: dict[str, Any], name: str = "gpus", namespace: str = "team-a", **spec: Any) -> dict[str, Any]:
    scoped = {"scopeSelector": {"matchExpressions": [*expressions]}} if expressions else {}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"hard": {"pods": "4"}, **scoped, **spec}}


def scope(operator: str, *values: str, of: str = "PriorityClass") -> dict[str, Any]:
    return {"scopeName": of, "operator": operator} | ({"values": [*values]} if values else {})


def with_quotas(*quotas: dict[str, Any]) -> ClusterState:
    of = state()
    of.replace("resourcequotas", quotas, 0)
    return of


@pytest.mark.parametrize(
    ("scoped", "enters", "leaves"),
    [
        pytest.param(quota(), False, False, id="not scoped: it counts both"),
        pytest.param(quota(scope("In", "ours", "x")), True, False, id="In, with the class"),
        pytest.param(quota(scope("In", "x")), False, False, id="In, without the class"),
        pytest.param(quota(scope("NotIn", "ours")), False, True, id="NotIn counts pods without a class"),
        pytest.param(quota(scope("NotIn", "x")), False, False, id="NotIn, another class"),
        pytest.param(quota(scope("Exists")), True, False, id="Exists"),
        pytest.param(quota(scopes=["PriorityClass"]), True, False, id="the short form of Exists"),
        pytest.param(quota(scope("DoesNotExist")), False, True, id="DoesNotExist"),
        pytest.param(quota(scope("Exists"), scope("NotIn", "ours")), False, False, id="both must hold"),
        pytest.param(quota(scope("Exists", of="Terminating")), False, False, id="another scope"),
        pytest.param(quota(scopes=["BestEffort"]), False, False, id="another scope in the short form"),
        pytest.param(quota(scope("Exists"), namespace="team-b"), False, False, id="another namespace"),
    ],
)
def test_a_class_moves_a_pod_into_a_quota_or_out_of_it(scoped: dict[str, Any], enters: bool, leaves: bool) -> None:
    seen = with_quotas(scoped).view(0)
    assert seen.quota_covering("team-a", "ours", but="") == ("gpus" if enters else "")
    assert seen.quota_covering("team-a", "", but="ours") == ("gpus" if leaves else "")


def test_a_quota_that_is_gone_or_changed_counts_no_longer() -> None:
    of = with_quotas(quota(scope("Exists")), quota(scope("Exists"), name="more"))
    of.seen("resourcequotas", quota(), 0)
    assert of.view(0).quota_covering("team-a", "ours", but="") == "more"
    of.forget("resourcequotas", "team-a/more")
    assert of.view(0).quota_covering("team-a", "ours", but="") == ""
    assert of.known("resourcequotas") == []
