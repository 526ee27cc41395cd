"""Which workload a HorizontalPodAutoscaler scales, to how many replicas, and what is kept of it."""

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
def test_an_autoscaler_of_something_else_does_not_scale_the_workload(found: dict[str, Any]) -> None:
    assert with_autoscalers(found).view(0).autoscaler_of(*CHAT) is None


@pytest.mark.parametrize("found", NOT_KEPT.values(), ids=NOT_KEPT)
def test_autoscalers_of_other_groups_and_kinds_are_not_kept(found: dict[str, Any]) -> None:
    of = with_autoscalers(found)
    assert of.known("horizontalpodautoscalers") == []


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "ReplicaSet"])
@pytest.mark.parametrize("version", ["apps/v1", "apps/v1beta2"])
def test_the_autoscaler_of_a_workload_is_known(kind: str, version: str) -> None:
    seen = with_autoscalers(autoscaler(kind=kind, version=version)).view(0)
    assert seen.autoscaler_of("team-a", kind, "chat") == Autoscaler("chat", 40)


def test_of_several_autoscalers_the_highest_maximum_counts_and_ties_are_broken_by_name() -> None:
    several = [autoscaler(10, "a"), autoscaler(40, "c"), autoscaler(40, "b"), autoscaler(90, "d", of="search")]
    assert with_autoscalers(*several).view(0).autoscaler_of(*CHAT) == Autoscaler("b", 40)


def test_too_many_autoscalers_of_one_workload_are_not_searched() -> None:
    many = [autoscaler(40, f"hpa-{n}") for n in range(101)]
    of = with_autoscalers(*many)
    assert of.view(0).autoscaler_of(*CHAT) is None
    of.autoscalers.gone("team-a/hpa-0")
    assert of.view(0).autoscaler_of(*CHAT) == Autoscaler("hpa-1", 40)


def test_nothing_is_known_before_autoscalers_were_listed_nor_from_a_stale_state() -> None:
    of = state()
    of.autoscalers.seen(autoscaler())
    assert of.view(0).autoscaler_of(*CHAT) is None
    of = with_autoscalers(autoscaler())
    assert of.view(0).autoscaler_of(*CHAT)
    assert of.view(1e6).autoscaler_of(*CHAT) is None


def test_autoscalers_that_we_may_not_read_any_more_are_forgotten_and_the_state_stays_fresh() -> None:
    of = with_autoscalers(autoscaler())
    of.withdraw("horizontalpodautoscalers")
    assert of.view(0).autoscaler_of(*CHAT) is None
    assert of.view(0).fresh
    of.replace("horizontalpodautoscalers", [autoscaler(7)], 1)
    assert of.view(1).autoscaler_of(*CHAT) == Autoscaler("chat", 7)


def test_changes_and_deletions_are_followed() -> None:
    of = with_autoscalers(autoscaler(), autoscaler(9, "second"))
    of.autoscalers.seen(autoscaler(of="search"))
    assert of.view(0).autoscaler_of(*CHAT) == Autoscaler("second", 9)
    assert of.view(0).autoscaler_of("team-a", "Deployment", "search") == Autoscaler("chat", 40)
    of.autoscalers.seen(autoscaler(9, "second", version="v1"))
    of.autoscalers.gone("team-a/chat")
    of.autoscalers.gone("team-a/chat")
    assert of.known("horizontalpodautoscalers") == []
    assert of.view(0).autoscaler_of(*CHAT) is None


def test_autoscalers_that_are_not_in_a_new_list_are_forgotten() -> None:
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
def test_a_malformed_autoscaler_changes_nothing(broken: dict[str, Any]) -> None:
    of = with_autoscalers(autoscaler())
    with pytest.raises((LookupError, TypeError, AttributeError)):
        of.autoscalers.seen(broken)
    assert of.view(0).autoscaler_of(*CHAT) == Autoscaler("chat", 40)
