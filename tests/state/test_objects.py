"""What is kept of objects that are looked up by name: the handler of a RuntimeClass, the access modes of a PersistentVolumeClaim,
and which workload a HorizontalPodAutoscaler scales, to how many replicas.

Covers kube.stores.
"""

from typing import Any

import pytest

from tests.state.objects import listed, named, state
from webhook.framework.cluster_view import Autoscaler, LimitRange, Limits, RuntimeClass

CHAT_LABELS = {"app": "chat", "tier": "gpu"}
CHAT = ("team-a", "Deployment", "chat")
Json = dict[str, Any]


def test_the_handler_of_a_runtime_class_is_known_until_the_class_is_deleted() -> None:
    of = state([])
    of.replace("runtimeclasses", [{"metadata": {"name": "fast"}, "handler": "nvidia"}], 0)
    seen = of.view(0)
    assert (seen.runtime_handler("fast"), seen.runtime_handler("slow")) == ("nvidia", None)
    of.runtime_classes.seen({"metadata": {"name": "fast"}, "handler": "nvidia"})
    of.runtime_classes.seen({"metadata": {"name": "fast"}, "handler": "runc"})
    assert of.view(0).runtime_handler("fast") == "runc"
    of.runtime_classes.gone("fast")
    of.runtime_classes.gone("never seen")
    assert of.view(0).runtime_handler("fast") is None


def claim(spec: dict[str, Any], status: dict[str, Any] | None = None) -> dict[str, Any]:
    return named("data", spec=spec, status=status or {})


ONCE, POD, MANY, READ = "ReadWriteOnce", "ReadWriteOncePod", "ReadWriteMany", "ReadOnlyMany"
ACCESS = [
    pytest.param(claim({}), "", id="none stated"),
    pytest.param(claim({"accessModes": [MANY]}), "", id="many nodes"),
    pytest.param(claim({"accessModes": [ONCE, READ]}), "", id="one node to write, many to read"),
    pytest.param(claim({"accessModes": [ONCE]}, {"accessModes": [ONCE, MANY]}), "", id="its volume can do more"),
    pytest.param(claim({"accessModes": [ONCE]}), ONCE, id="one node"),
    pytest.param(claim({"accessModes": [POD]}), POD, id="one pod"),
    pytest.param(
        claim({"accessModes": [MANY]}, {"accessModes": [ONCE]}), ONCE, id="one node, bound to a volume for one node"
    ),
]


@pytest.mark.parametrize(("obj", "wanted"), ACCESS)
def test_whether_several_nodes_can_use_a_claim(obj: dict[str, Any], wanted: str) -> None:
    of = state([])
    of.seen("persistentvolumeclaims", obj, 0)
    assert of.view(0).narrow_access("team-a", "data") == wanted
    assert of.view(0).narrow_access("team-b", "data") == ""


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
    return named(name, namespace, spec=spec)


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
    of = listed("horizontalpodautoscalers", found)
    assert of.view(0).autoscaler_of(*CHAT) is None
    assert bool(of.known("horizontalpodautoscalers")) is kept


@pytest.mark.parametrize(
    ("kind", "version"), [("Deployment", "apps/v1"), ("StatefulSet", "apps/v1beta2"), ("ReplicaSet", "apps/v1")]
)
def test_the_autoscaler_of_a_workload_is_known(kind: str, version: str) -> None:
    seen = listed("horizontalpodautoscalers", autoscaler(kind=kind, version=version)).view(0)
    assert seen.autoscaler_of("team-a", kind, "chat") == Autoscaler("chat", 40)


def test_of_several_autoscalers_the_highest_maximum_counts_and_ties_are_broken_by_name() -> None:
    several = [autoscaler(10, "a"), autoscaler(40, "c"), autoscaler(40, "b"), autoscaler(90, "d", of="search")]
    assert listed("horizontalpodautoscalers", *several).view(0).autoscaler_of(*CHAT) == Autoscaler("b", 40)


def test_too_many_autoscalers_of_one_workload_are_not_searched() -> None:
    of = listed("horizontalpodautoscalers", *[autoscaler(40, f"hpa-{n}") for n in range(101)])
    assert of.view(0).autoscaler_of(*CHAT) is None
    of.autoscalers.gone("team-a/hpa-0")
    assert of.view(0).autoscaler_of(*CHAT) == Autoscaler("hpa-1", 40)


def test_nothing_is_known_before_autoscalers_were_listed_nor_from_a_stale_state() -> None:
    of = state()
    of.autoscalers.seen(autoscaler())
    assert of.view(0).autoscaler_of(*CHAT) is None
    assert listed("horizontalpodautoscalers", autoscaler()).view(1e6).autoscaler_of(*CHAT) is None


def test_changes_and_deletions_are_followed() -> None:
    of = listed("horizontalpodautoscalers", autoscaler(), autoscaler(9, "second"))
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
        pytest.param(named("chat", spec={"maxReplicas": 3}), id="no target"),
        pytest.param(autoscaler() | {"spec": {"maxReplicas": 3, "scaleTargetRef": "chat"}}, id="a target that is text"),
        pytest.param(autoscaler(version=1), id="a version that is a number"),
        pytest.param(autoscaler(kind=[]), id="a kind that is a list"),
        pytest.param(autoscaler(of=1), id="a name that is a number"),
        pytest.param(autoscaler("40"), id="a number that is text"),
    ],
)
def test_a_malformed_autoscaler_changes_nothing(broken: dict[str, Any]) -> None:
    of = listed("horizontalpodautoscalers", autoscaler())
    with pytest.raises((LookupError, TypeError, AttributeError)):
        of.autoscalers.seen(broken)
    assert of.view(0).autoscaler_of(*CHAT) == Autoscaler("chat", 40)


def quota(*expressions: dict[str, Any], name: str = "gpus", namespace: str = "team-a", **spec: Any) -> dict[str, Any]:
    scoped = {"scopeSelector": {"matchExpressions": [*expressions]}} if expressions else {}
    return named(name, namespace, spec={"hard": {"pods": "4"}, **scoped, **spec})


def scope(operator: str, *values: str, of: str = "PriorityClass") -> dict[str, Any]:
    return {"scopeName": of, "operator": operator} | ({"values": [*values]} if values else {})


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
    seen = listed("resourcequotas", scoped).view(0)
    assert seen.quota_covering("team-a", "ours", but="") == ("gpus" if enters else "")
    assert seen.quota_covering("team-a", "", but="ours") == ("gpus" if leaves else "")


def test_a_quota_that_is_gone_or_changed_counts_no_longer() -> None:
    of = listed("resourcequotas", quota(scope("Exists")), quota(scope("Exists"), name="more"))
    of.seen("resourcequotas", quota(), 0)
    assert of.view(0).quota_covering("team-a", "ours", but="") == "more"
    of.forget("resourcequotas", "team-a/more")
    assert of.view(0).quota_covering("team-a", "ours", but="") == ""
    assert of.known("resourcequotas") == []


def made(*limits: Json, name: str = "small") -> Json:
    return named(name, spec={"limits": [*limits]})


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
