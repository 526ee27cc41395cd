"""Which workload a HorizontalPodAutoscaler scales, to how many replicas, and what is kept of it.

Covers cluster.grouped.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.objects import state
from webhook.cluster.state import ClusterState
from webhook.framework.cluster_view import Autoscaler

CHAT = ("team-a", "Deployment", "chat")


def autoscaler(
    most: Any = 40,
    name: str = "chat",
    namespace: str = "team-a",
    *,
    kind: Any = "Deployment",
    of: Any = "chat",
    version: Any = "apps/v1",
) -> dict[str, Any]:
    reference = {"apiVersion": version, "kind": kind, "name": of}
    spec = {"minReplicas": 1, "maxReplicas": most, "scaleTargetRef": reference}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def with_autoscalers(*autoscalers: dict[str, Any]) -> ClusterState:
    of = state()
    of.replace("horizontalpodautoscalers", autoscalers, 0)
    return of


@pytest.mark.parametrize(
    ("found", "kept"),
    [
        pytest.param(autoscaler(namespace="team-b"), True, id="of another namespace"),
        pytest.param(autoscaler(of="search"), True, id="of another workload"),
        pytest.param(autoscaler(kind="StatefulSet"), True, id="of another kind"),
        pytest.param(autoscaler(version="extensions/v1beta1"), False, id="of a group that has no such kind"),
        pytest.param(autoscaler(version="apps.kruise.io/v1beta1"), False, id="of a group that begins alike"),
        pytest.param(autoscaler(version=None), False, id="of no group"),
        pytest.param(autoscaler(kind="D" * 1000), False, id="a kind that nobody asks about"),
        pytest.param(autoscaler(of="c" * 254), False, id="a name that no object has"),
    ],
)
def test_an_autoscaler_of_something_else_does_not_scale_the_workload(found: dict[str, Any], kept: bool) -> None:
    of = with_autoscalers(found)
    assert of.view(0).autoscaler_of(*CHAT) is None
    assert bool(of.known("horizontalpodautoscalers")) is kept


@pytest.mark.parametrize(
    ("kind", "version"), [("Deployment", "apps/v1"), ("StatefulSet", "apps/v1beta2"), ("ReplicaSet", "apps/v1")]
)
def test_the_autoscaler_of_a_workload_is_known(kind: str, version: str) -> None:
    seen = with_autoscalers(autoscaler(kind=kind, version=version)).view(0)
    assert seen.autoscaler_of("team-a", kind, "chat") == Autoscaler("chat", 40)


def test_of_several_autoscalers_the_highest_maximum_counts_and_ties_are_broken_by_name() -> None:
    several = [autoscaler(10, "a"), autoscaler(40, "c"), autoscaler(40, "b"), autoscaler(90, "d", of="search")]
    assert with_autoscalers(*several).view(0).autoscaler_of(*CHAT) == Autoscaler("b", 40)


def test_too_many_autoscalers_of_one_workload_are_not_searched() -> None:
    of = with_autoscalers(*[autoscaler(40, f"hpa-{n}") for n in range(101)])
    assert of.view(0).autoscaler_of(*CHAT) is None
    of.autoscalers.gone("team-a/hpa-0")
    assert of.view(0).autoscaler_of(*CHAT) == Autoscaler("hpa-1", 40)


def test_nothing_is_known_before_autoscalers_were_listed_nor_from_a_stale_state() -> None:
    of = state()
    of.autoscalers.seen(autoscaler())
    assert of.view(0).autoscaler_of(*CHAT) is None
    assert with_autoscalers(autoscaler()).view(1e6).autoscaler_of(*CHAT) is None


def test_changes_and_deletions_are_followed() -> None:
    of = with_autoscalers(autoscaler(), autoscaler(9, "second"))
    of.autoscalers.seen(autoscaler(of="search"))
    assert of.view(0).autoscaler_of(*CHAT) == Autoscaler("second", 9)
    assert of.view(0).autoscaler_of("team-a", "Deployment", "search") == Autoscaler("chat", 40)
    of.autoscalers.seen(autoscaler(9, "second", version="v1"))
    for _ in range(2):
        of.autoscalers.gone("team-a/chat")
    assert (of.known("horizontalpodautoscalers"), of.autoscalers.groups) == ([], {})


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param({"metadata": {"name": "chat", "namespace": "team-a"}, "spec": {"maxReplicas": 3}}, id="no target"),
        pytest.param(autoscaler() | {"spec": {"maxReplicas": 3, "scaleTargetRef": "chat"}}, id="a target that is text"),
        pytest.param(autoscaler(version=1), id="a version that is a number"),
        pytest.param(autoscaler(kind=[]), id="a kind that is a list"),
        pytest.param(autoscaler(of=1), id="a name that is a number"),
        pytest.param(autoscaler("40"), id="a number that is text"),
    ],
)
def test_a_malformed_autoscaler_changes_nothing(broken: dict[str, Any]) -> None:
    of = with_autoscalers(autoscaler())
    with pytest.raises((LookupError, TypeError, AttributeError)):
        of.autoscalers.seen(broken)
    assert of.view(0).autoscaler_of(*CHAT) == Autoscaler("chat", 40)
