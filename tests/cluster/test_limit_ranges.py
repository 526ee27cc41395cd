"""What is kept of LimitRanges and RuntimeClasses, and how much."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.objects import state
from webhook.framework.cluster_view import LimitRange, Limits, RuntimeClass

Json = dict[str, Any]


def made(*limits: Json, name: str = "small", namespace: str = "team-a") -> Json:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"limits": [*limits]}}


CONTAINER = {"type": "Container", "max": {"cpu": "8"}, "min": {"cpu": "1", "memory": "1Gi"}}
"""As a file may state it: without the defaults that the API server stores."""


def test_the_default_limit_is_the_largest_one_and_the_default_request_the_default_limit_or_the_smallest() -> None:
    of = state()
    assert of.view(0).limit_ranges("team-a") == []
    other = {"type": "PersistentVolumeClaim", "max": {"storage": "1Ti"}}
    of.replace("limitranges", [made(CONTAINER, {"type": "Pod", "maxLimitRequestRatio": {"cpu": "2"}}, other)], 0)
    entries = Limits("Container", CONTAINER["min"], CONTAINER["max"], {}), Limits("Pod", {}, {}, {"cpu": "2"})
    expected = LimitRange("small", {"cpu": "8"}, {"cpu": "8", "memory": "1Gi"}, entries)
    assert of.view(0).limit_ranges("team-a") == [expected]
    assert of.view(0).limit_ranges("team-b") == []


def test_what_an_author_states_as_default_counts() -> None:
    of = state()
    stated = {"type": "Container", "max": {"cpu": "8"}, "default": {"cpu": "4"}, "defaultRequest": {"cpu": "2"}}
    of.replace("limitranges", [made(stated)], 0)
    (found,) = of.view(0).limit_ranges("team-a")
    assert (found.limits, found.requests) == ({"cpu": "4"}, {"cpu": "2"})


def test_few_and_small_ones_are_read_the_first_by_name() -> None:
    of = state()
    of.replace("limitranges", [made(CONTAINER, name=f"l{number:02}") for number in reversed(range(20))], 0)
    assert [each.name for each in of.view(0).limit_ranges("team-a")] == [f"l{number:02}" for number in range(8)]
    of.seen(
        "limitranges", made({"type": "Container", "max": {f"example.com/{n}": "1" for n in range(999)}}, name="l00"), 0
    )
    assert of.view(0).limit_ranges("team-a")[0].name == "l01"


@pytest.mark.parametrize("limits", [[None], [{"type": "Container", "max": 7}]])
def test_a_malformed_one_is_an_error(limits: list[Any]) -> None:
    with pytest.raises((TypeError, AttributeError, ValueError)):
        state().seen("limitranges", made(*limits), 0)


def test_runtime_classes_are_known_once_they_are_listed() -> None:
    of = state()
    assert not of.view(0).knows_runtime_classes
    scheduling = {"nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}]}
    overhead = {"podFixed": {"cpu": "1"}}
    full = {"metadata": {"name": "kata"}, "handler": "kata", "scheduling": scheduling, "overhead": overhead}
    of.replace("runtimeclasses", [full, {"metadata": {"name": "runc"}, "handler": "runc"}], 0)
    view = of.view(0)
    assert view.knows_runtime_classes
    assert view.runtime_class("kata") == RuntimeClass(
        "kata", "kata", {"a": "b"}, ({"operator": "Exists"},), {"cpu": "1"}
    )
    assert view.runtime_class("runc") == RuntimeClass("runc", "runc")
    assert view.runtime_class("other") is None
