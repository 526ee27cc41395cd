"""What a HorizontalPodAutoscaler scales, how far, and what is kept of it."""

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
    **status: Any,
) -> dict[str, Any]:
    reference = {"apiVersion": version, "kind": kind, "name": of}
    spec = {"minReplicas": 1, "maxReplicas": most, "scaleTargetRef": reference}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec, "status": status}


def with_autoscalers(*autoscalers: dict[str, Any]) -> ClusterState:
    of = state()
    of.replace("horizontalpodautoscalers", autoscalers, 0)
    return of


NOT_OURS: dict[str, dict[str, Any]] = {
    "of another namespace": autoscaler(namespace="team-b"),
    "of another workload": autoscaler(of="search"),
    "of another kind": autoscaler(kind="StatefulSet"),
    "of a group that has no such kind": autoscaler(version="extensions/v1beta1"),
    "of a group that begins alike": autoscaler(version="apps.kruise.io/v1beta1"),
    "of no group": autoscaler(version=None),
    "of the core group": autoscaler(version="v1"),
}
NOT_KEPT: dict[str, dict[str, Any]] = {
    "another group": autoscaler(version="argoproj.io/v1alpha1", kind="Rollout"),
    "a kind that nobody asks about": autoscaler(kind="D" * 1000),
    "a name that no object has": autoscaler(of="c" * 254),
}


@pytest.mark.parametrize("found", NOT_OURS.values(), ids=NOT_OURS)
def test_what_scales_something_else_is_not_taken_for_ours(found: dict[str, Any]) -> None:
    assert with_autoscalers(found).view(0).autoscaler_of(*CHAT) is None


@pytest.mark.parametrize("found", NOT_KEPT.values(), ids=NOT_KEPT)
def test_what_nobody_will_ask_about_is_not_kept(found: dict[str, Any]) -> None:
    of = with_autoscalers(found)
    assert of.known("horizontalpodautoscalers") == []


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "ReplicaSet"])
@pytest.mark.parametrize("version", ["apps/v1", "apps/v1beta2"])
def test_a_workload_is_known_to_be_scaled(kind: str, version: str) -> None:
    seen = with_autoscalers(autoscaler(kind=kind, version=version)).view(0)
    assert seen.autoscaler_of("team-a", kind, "chat") == Autoscaler("chat", 40)


def test_of_several_the_one_that_goes_furthest_is_told_and_ties_go_by_name() -> None:
    several = [autoscaler(10, "a"), autoscaler(40, "c"), autoscaler(40, "b"), autoscaler(90, "d", of="search")]
    assert with_autoscalers(*several).view(0).autoscaler_of(*CHAT) == Autoscaler("b", 40)


def test_of_more_than_anybody_needs_nothing_is_told() -> None:
    many = [autoscaler(40, f"hpa-{n}") for n in range(101)]
    of = with_autoscalers(*many)
    assert of.view(0).autoscaler_of(*CHAT) is None
    of.autoscalers.gone("team-a/hpa-0")
    assert of.view(0).autoscaler_of(*CHAT) == Autoscaler("hpa-1", 40)


def test_nothing_is_known_before_they_were_listed_nor_from_a_stale_state() -> None:
    of = state()
    of.autoscalers.seen(autoscaler())
    assert of.view(0).autoscaler_of(*CHAT) is None
    of = with_autoscalers(autoscaler())
    assert of.view(0).autoscaler_of(*CHAT)
    assert of.view(1e6).autoscaler_of(*CHAT) is None


def test_those_that_we_may_not_read_any_more_are_forgotten_and_the_state_stays_fresh() -> None:
    of = with_autoscalers(autoscaler())
    of.withdraw("horizontalpodautoscalers")
    assert of.view(0).autoscaler_of(*CHAT) is None
    assert of.view(0).fresh
    of.replace("horizontalpodautoscalers", [autoscaler(7)], 1)
    assert of.view(1).autoscaler_of(*CHAT) == Autoscaler("chat", 7)


def test_one_that_changes_or_goes_is_followed() -> None:
    of = with_autoscalers(autoscaler(), autoscaler(9, "second"))
    of.autoscalers.seen(autoscaler(of="search"))
    assert of.view(0).autoscaler_of(*CHAT) == Autoscaler("second", 9)
    assert of.view(0).autoscaler_of("team-a", "Deployment", "search") == Autoscaler("chat", 40)
    of.autoscalers.seen(autoscaler(9, "second", version="v1"))
    of.autoscalers.gone("team-a/chat")
    of.autoscalers.gone("team-a/chat")
    assert of.known("horizontalpodautoscalers") == []
    assert of.view(0).autoscaler_of(*CHAT) is None


def test_a_list_takes_away_those_that_it_does_not_name() -> None:
    of = with_autoscalers(autoscaler(), autoscaler(namespace="team-b"))
    of.replace("horizontalpodautoscalers", [autoscaler(namespace="team-b")], 1)
    assert of.known("horizontalpodautoscalers") == ["team-b/chat"]


BROKEN: dict[str, dict[str, Any]] = {
    "no target": {"metadata": {"name": "chat", "namespace": "team-a"}, "spec": {"maxReplicas": 3}},
    "a target that is text": autoscaler() | {"spec": {"maxReplicas": 3, "scaleTargetRef": "chat"}},
    "a version that is a number": autoscaler(version=1),
    "a kind that is a list": autoscaler(kind=[]),
    "a name that is a number": autoscaler(of=1),
    "a number that is text": autoscaler("40"),
    "a number without end": autoscaler(float("inf")),
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_what_is_no_autoscaler_changes_nothing(broken: dict[str, Any]) -> None:
    of = with_autoscalers(autoscaler())
    with pytest.raises((LookupError, TypeError, AttributeError)):
        of.autoscalers.seen(broken)
    assert of.view(0).autoscaler_of(*CHAT) == Autoscaler("chat", 40)
