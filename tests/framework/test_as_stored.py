"""A new pod as the API server brings it to webhooks, and what it refuses. On a real API server: tests/e2e/test_as_stored.py."""

from dataclasses import replace
from typing import Any

import pytest

from tests.builders import GPU, UNKNOWN, ClusterFacts, container
from tests.controlplane.objects import Json, pod
from webhook.framework.as_stored import as_stored
from webhook.framework.cluster_view import LimitRange, Limits, PriorityClass, RuntimeClass
from webhook.framework.limit_ranges import beyond_limits

POOL = {"key": "pool", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}
NVIDIA = RuntimeClass("nvidia", "nvidia", {"runtime": "nvidia"}, (POOL,), {"cpu": "250m", "memory": "160Mi"})
PLAIN = RuntimeClass("plain", "runc")
LOW, DEFAULT, OTHER_DEFAULT = (
    PriorityClass(name, value, policy, default)
    for name, value, policy, default in (
        ("low", 10, "Never", False),
        ("default", 500, "PreemptLowerPriority", True),
        ("other", 900, "Never", True),
    )
)
DEFAULTS = LimitRange("defaults", {"cpu": "2"}, {"cpu": "1", "memory": "1Gi"})
KNOWN = ClusterFacts(
    classes_of_runtime={each.name: each for each in (NVIDIA, PLAIN)},
    priority_classes={each.name: each for each in (LOW, DEFAULT, OTHER_DEFAULT)},
    ranges={"team-a": (DEFAULTS, LimitRange("more", {"cpu": "9", GPU: "1"}, {GPU: "1"}))},
)
NONE = ClusterFacts(classes_of_runtime={})


def stored(cluster: ClusterFacts = NONE, made: Json | None = None, **spec: Any) -> Json:
    """The spec of a pod, of which the API server refuses nothing."""
    found, refusals = as_stored(made or pod(**spec), "team-a", cluster.view)
    assert refusals == ()
    assert as_stored(found, "team-a", cluster.view) == (found, ()), "a second time changes nothing"
    result: Json = found["spec"]
    return result


def test_nothing_is_changed_in_place_and_by_what_is_not_known() -> None:
    made = pod(
        requests={GPU: "1"}, runtimeClassName="nvidia", priorityClassName="low", overhead={"cpu": "1"}, priority=7
    )
    before = repr(made)
    found, refusals = as_stored(made, "team-a", UNKNOWN.view)
    assert (found, refusals, repr(made)) == (made, (), before)
    as_stored(pod(runtimeClassName="nvidia"), "team-a", KNOWN.view)
    assert KNOWN.classes_of_runtime is not None
    assert KNOWN.classes_of_runtime["nvidia"] == NVIDIA


def test_a_limit_is_a_request_too() -> None:
    spec = stored(made=pod(containers=[{"name": "a", "resources": {"limits": {GPU: "1"}}}]))
    assert spec["containers"][0]["resources"] == {"limits": {GPU: "1"}, "requests": {GPU: "1"}}


def test_a_runtime_class_brings_selector_tolerations_and_overhead() -> None:
    spec = stored(replace(KNOWN, ranges={}), runtimeClassName="nvidia", nodeSelector={"zone": "a", "runtime": "nvidia"})
    assert spec["nodeSelector"] == {"zone": "a", "runtime": "nvidia"}
    assert spec["tolerations"] == [POOL]
    assert spec["overhead"] == {"cpu": "250m", "memory": "160Mi"}
    assert {"nodeSelector", "tolerations", "overhead"}.isdisjoint(stored(KNOWN, runtimeClassName="plain"))


@pytest.mark.parametrize(
    ("own", "merged"),
    [
        pytest.param([{"key": "x", "operator": "Exists"}], [{"key": "x", "operator": "Exists"}, POOL], id="another"),
        pytest.param([POOL], [POOL], id="the same"),
        pytest.param([{"operator": "Exists"}], [{"operator": "Exists"}], id="one for all taints"),
        pytest.param([{**POOL, "value": "b"}], [{**POOL, "value": "b"}, POOL], id="of another value"),
        pytest.param([{"key": "pool", "operator": "Exists"}], [{"key": "pool", "operator": "Exists"}], id="of any value"),
        pytest.param([{**POOL, "effect": "NoExecute"}], [{**POOL, "effect": "NoExecute"}, POOL], id="another effect"),
    ],
)  # fmt: skip
def test_a_toleration_that_another_covers_is_left_out(own: list[Json], merged: list[Json]) -> None:
    assert stored(KNOWN, runtimeClassName="nvidia", tolerations=own)["tolerations"] == merged


def test_a_limit_range_fills_in_what_a_container_does_not_state() -> None:
    spec = stored(KNOWN, made=pod(containers=[{"name": "a"}, container("b", gpu=2)], init=[{"name": "c"}]))
    assert spec["containers"][0]["resources"] == {
        "limits": {"cpu": "2", GPU: "1"},
        "requests": {"cpu": "1", "memory": "1Gi", GPU: "1"},
    }
    assert (
        spec["containers"][1]["resources"]["limits"][GPU] == spec["containers"][1]["resources"]["requests"][GPU] == "2"
    )
    assert spec["initContainers"][0]["resources"]["limits"][GPU] == "1"


def test_the_priority_class_of_the_cluster_counts_if_the_pod_names_none() -> None:
    fields = ("priorityClassName", "priority", "preemptionPolicy")
    assert [stored(KNOWN)[field] for field in fields] == ["default", 500, "PreemptLowerPriority"]
    assert [stored(KNOWN, priorityClassName="low")[field] for field in fields] == ["low", 10, "Never"]
    assert stored(NONE, priorityClassName="unknown")["priorityClassName"] == "unknown"
    assert "priority" not in stored(NONE)


REFUSED = [
    pytest.param(
        {"runtimeClassName": "nvidia", "nodeSelector": {"runtime": "gvisor"}},
        'spec.nodeSelector[runtime]: saw "gvisor", wanted "nvidia", which RuntimeClass "nvidia" sets. Remove the line, or name '
        "another spec.runtimeClassName.",
        id="a selector for other nodes",
    ),
    pytest.param(
        {"runtimeClassName": "kata"},
        'spec.runtimeClassName: saw "kata", wanted a RuntimeClass that exists. Name another, or have an administrator create it.',
        id="a RuntimeClass that does not exist",
    ),
    pytest.param(
        {"runtimeClassName": "nvidia", "overhead": {"cpu": "1"}},
        'spec.overhead: saw an overhead, wanted that of RuntimeClass "nvidia". Remove the field.',
        id="another overhead",
    ),
    pytest.param(
        {"overhead": {"cpu": "1"}},
        "spec.overhead: saw an overhead, wanted none: no RuntimeClass gives the pod one. Remove the field.",
        id="an overhead of no class",
    ),
    pytest.param(
        {"priorityClassName": "low", "priority": 11},
        'spec.priority: saw "11", wanted 10, that of PriorityClass "low". Remove the line.',
        id="another priority",
    ),
]


@pytest.mark.parametrize(("spec", "message"), REFUSED)
def test_what_the_api_server_refuses_before_it_calls_webhooks(spec: Json, message: str) -> None:
    assert [finding.message for finding in as_stored(pod(**spec), "team-a", KNOWN.view).refusals] == [message]


def test_an_overhead_that_is_written_otherwise_is_the_same() -> None:
    overhead = {"cpu": "0.25", "memory": "160Mi"}
    assert as_stored(pod(runtimeClassName="nvidia", overhead=overhead), "team-a", KNOWN.view).refusals == ()


# --- Limits -----------------------------------------------------------------------------------------------------------


def within(of: str = "Container", **parts: dict[str, str]) -> list[LimitRange]:
    entry = Limits(of, parts.get("least", {}), parts.get("most", {}), parts.get("ratio", {}))
    return [LimitRange("small", {}, {}, (entry,))]


def asks(requests: Json, limits: Json, name: str = "main") -> Json:
    return {"name": name, "resources": {"requests": requests, "limits": limits}}


ONE = asks({"cpu": "1", "memory": "1Gi"}, {"cpu": "2", "memory": "1Gi"})
INSIDE = [
    pytest.param(within(least={"cpu": "1"}, most={"cpu": "2"}, ratio={"cpu": "2"}), id="at the bounds"),
    pytest.param(within("Pod", least={"cpu": "500m"}, most={"memory": "1024Mi"}), id="of another resource in the pod"),
]


@pytest.mark.parametrize("ranges", INSIDE)
def test_a_pod_within_the_limits(ranges: list[LimitRange]) -> None:
    assert [*beyond_limits(pod(containers=[ONE]), ranges)] == []


BEYOND = [
    pytest.param(
        within(most={"cpu": "1500m"}),
        ["spec.containers[0].resources.limits[cpu]: saw 2, wanted at most 1500m in"],
        id="too much",
    ),
    pytest.param(
        within(most={GPU: "4"}),
        [f"spec.containers[0].resources.limits[{GPU}]: saw none, wanted at most 4 in"],
        id="no limit",
    ),
    pytest.param(
        within(least={"memory": "2Gi"}),
        [
            "spec.containers[0].resources.requests[memory]: saw 1Gi, wanted at least 2Gi in",
            "spec.containers[0].resources.limits[memory]: saw 1Gi, wanted at least 2Gi in",
        ],
        id="too little",
    ),
    pytest.param(
        within(least={GPU: "1"}),
        [f"spec.containers[0].resources.requests[{GPU}]: saw none, wanted at least 1 in"],
        id="no request",
    ),
    pytest.param(
        within(ratio={"cpu": "1.5"}),
        ["spec.containers[0].resources.limits[cpu]: saw 2, wanted at most 1.5 times the request in"],
        id="a limit far above the request",
    ),
    pytest.param(
        within("Pod", most={"memory": "1500Mi"}),
        [
            f"spec.resources.{part}[memory]: saw 2Gi in all containers, wanted at most 1500Mi in"
            for part in ("requests", "limits")
        ],
        id="too much in all",
    ),
]


@pytest.mark.parametrize(("ranges", "starts"), BEYOND)
def test_what_a_limit_range_refuses(ranges: list[LimitRange], starts: list[str]) -> None:
    second = [asks({"memory": "1Gi"}, {"memory": "1Gi"}, "b")] if ranges[0].entries[0].of == "Pod" else []
    found = [finding.message for finding in beyond_limits(pod(containers=[ONE, *second]), ranges)]
    assert len(found) == len(starts)
    for message, start in zip(found, starts, strict=True):
        assert message.startswith(f'{start} LimitRange "small". Ask for that: the namespace has a LimitRange'), message
