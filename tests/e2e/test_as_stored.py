"""What we add to a pod of a template or a file is what the API server stores, and what we say that it refuses it refuses."""

from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest

from tests.controlplane.api import Api, ApiError, refusal, wait_until
from tests.controlplane.fixtures import MakeNodes
from tests.controlplane.nodes import node
from tests.controlplane.objects import Json, deployment, made, pod
from tests.installed import Installed
from webhook.framework.as_stored import as_stored
from webhook.framework.limit_ranges import beyond_limits
from webhook.state.objects import STATE_KINDS
from webhook.state.state import ClusterState

pytestmark = pytest.mark.controlplane

GPU = "nvidia.com/gpu"
POOL = {"key": "pool", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}
RUNTIME = made(
    "RuntimeClass",
    "stored-kata",
    handler="kata",
    overhead={"podFixed": {"cpu": "250m", "memory": "160Mi"}},
    scheduling={"nodeSelector": {"runtime": "kata"}, "tolerations": [POOL, {"key": "x", "operator": "Exists"}]},
)
PLAIN = made("RuntimeClass", "stored-plain", handler="runc")
URGENT = made("PriorityClass", "stored-urgent", value=7000, preemptionPolicy="Never")
CONTAINER = {
    "type": "Container",
    "max": {"cpu": "8", "memory": "64Gi"},
    "min": {"cpu": "100m"},
    "default": {"cpu": "4"},
    "defaultRequest": {"memory": "1Gi"},
    "maxLimitRequestRatio": {"cpu": "4"},
}
LIMITS = made("LimitRange", "small", spec={"limits": [CONTAINER, {"type": "Pod", "max": {"memory": "96Gi"}}]})
KATA = {"runtimeClassName": "stored-kata"}


class Known(NamedTuple):
    namespace: str
    state: ClusterState
    """Of a replica that has listed what the API server has there."""


@pytest.fixture
async def known(api: Api, namespace: str) -> AsyncIterator[Known]:
    """A namespace that has not opted in, with a LimitRange, once all is in force."""
    async with api.having(RUNTIME, PLAIN, URGENT):
        await api.create(LIMITS, namespace)

        async def in_force() -> bool:
            try:
                probe = await api.create(
                    pod("probe", priorityClassName="stored-urgent", **KATA), namespace, dryRun="All"
                )
            except ApiError:
                return False
            return "cpu" in probe["spec"]["containers"][0]["resources"]["limits"] and "overhead" in probe["spec"]

        await wait_until(in_force, 120, "the classes and the LimitRange to be in force")
        state = ClusterState(max_age=float("inf"))
        for kind in ("Node", "Pod", "Namespace", "PriorityClass", "RuntimeClass", "LimitRange"):
            state.replace(STATE_KINDS[kind], list(await api.list(kind)), 0.0)
        yield Known(namespace, state)


def asks(limits: Json | None = None, requests: Json | None = None, **spec: Any) -> Json:
    return {"container": {"resources": {"limits": limits or {}, "requests": requests or {}}}, **spec}


def decisive(found: Json) -> Json:
    """What decides where a pod may run, with one spelling for what may be written in several ways."""
    spec = found["spec"]
    waits = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")  # see `as_stored`
    tolerations = [each for each in spec.get("tolerations") or () if each.get("key") not in waits]
    resources = {
        each["name"]: {part: amounts for part, amounts in (each.get("resources") or {}).items() if amounts}
        for each in (*spec["containers"], *spec.get("initContainers", ()))
    }
    fields = ("nodeSelector", "overhead", "runtimeClassName", "priorityClassName")
    return {
        **{field: spec.get(field) for field in fields},
        "priority": spec.get("priority") or 0,
        "preemptionPolicy": spec.get("preemptionPolicy", "PreemptLowerPriority"),
        "tolerations": tolerations,
        "resources": resources,
    }


STORED = [
    pytest.param({}, id="a GPU alone"),
    pytest.param(KATA, id="a RuntimeClass"),
    pytest.param({"runtimeClassName": "stored-plain"}, id="a RuntimeClass without more"),
    pytest.param(
        KATA | {"tolerations": [{"key": each, "operator": "Exists"} for each in ("pool", "y")]},
        id="tolerations of its own",
    ),
    pytest.param(
        KATA | {"tolerations": [{"key": "x", "operator": "Equal", "value": "1"}, POOL]},
        id="a toleration that the class widens",
    ),
    pytest.param(KATA | {"nodeSelector": {"zone": "a", "runtime": "kata"}}, id="a selector of its own"),
    pytest.param(KATA | {"overhead": {"cpu": "250m", "memory": "160Mi"}}, id="the overhead as it is"),
    pytest.param({"priorityClassName": "stored-urgent"}, id="a PriorityClass"),
    pytest.param(asks({"cpu": "2", "memory": "4Gi", GPU: "2"}, {"cpu": "1"}), id="its own amounts"),
    pytest.param({"initContainers": [{"name": "first", "image": "i"}]}, id="an init container"),
]


@pytest.mark.parametrize("spec", STORED)
async def test_the_pod_is_stored_so(api: Api, known: Known, spec: Json) -> None:
    written = pod("one", **spec)
    view = known.state.view(0.0)
    ours, refusals = as_stored(written, known.namespace, view)
    stored = await api.create(written, known.namespace, dryRun="All")
    assert (refusals, [*beyond_limits(ours, view.limit_ranges(known.namespace))]) == ((), [])
    assert decisive(ours) == decisive(stored)
    again, refusals = as_stored(stored, known.namespace, view)
    assert (decisive(again), refusals) == (decisive(stored), ()), "what it has stored is changed no more"


REFUSED = [
    pytest.param(
        KATA | {"nodeSelector": {"runtime": "x"}},
        "conflict: runtimeClass.scheduling.nodeSelector",
        id="a selector for other nodes",
    ),
    pytest.param(
        {"runtimeClassName": "stored-none"}, 'RuntimeClass "stored-none" not found', id="no such RuntimeClass"
    ),
    pytest.param(KATA | {"overhead": {"cpu": "1"}}, "Pod's Overhead doesn't match", id="another overhead"),
    pytest.param({"overhead": {"cpu": "1"}}, "Pod Overhead set without corresponding", id="an overhead of no class"),
    pytest.param(
        {"priorityClassName": "stored-urgent", "priority": 1},
        "the integer value of priority (1) must not",
        id="another priority",
    ),
    pytest.param({"priority": 1}, "the integer value of priority (1) must not", id="a priority without a class"),
    pytest.param(
        {"priorityClassName": "stored-urgent", "preemptionPolicy": "PreemptLowerPriority"},
        "the string value of PreemptionPolicy",
        id="another preemption",
    ),
    pytest.param(asks({"cpu": "9"}), "maximum cpu usage per Container is 8, but limit is 9", id="too much"),
    pytest.param(asks({"cpu": "50m"}), "minimum cpu usage per Container is 100m, but request is 50m", id="too little"),
    pytest.param(
        asks({"cpu": "8"}, {"cpu": "1"}),
        "cpu max limit to request ratio per Container is 4",
        id="a limit far above the request",
    ),
    pytest.param(
        asks(
            {"memory": "60Gi"},
            initContainers=[
                {"name": "side", "image": "i", "restartPolicy": "Always", "resources": {"limits": {"memory": "60Gi"}}}
            ],
        ),
        "maximum memory usage per Pod is 96Gi",
        id="too much in all",
    ),
]


@pytest.mark.parametrize(("spec", "words"), REFUSED)
async def test_the_pod_is_refused(api: Api, known: Known, spec: Json, words: str) -> None:
    written = pod("one", **spec)
    view = known.state.view(0.0)
    ours, refusals = as_stored(written, known.namespace, view)
    assert words in await refusal(api.create(written, known.namespace, dryRun="All"))
    assert [*refusals, *beyond_limits(ours, view.limit_ranges(known.namespace))]


async def test_who_applies_a_workload_is_told_by_what_its_pods_will_have(
    api: Api, installed: Installed, nodes: MakeNodes, team: str
) -> None:
    await nodes([node("stored-a", 4, labels={"runtime": "kata"}, taints=["pool=gpu:NoSchedule"])])
    beside = deployment("beside", nodeSelector={"runtime": "runc"}, **KATA)
    async with api.having(RUNTIME):

        async def said(obj: Json) -> list[str]:
            return list((await api.create(obj, team, dryRun="All")).warnings)

        async def told() -> bool:
            return any(
                "apiServer: its pods will be refused: nodeSelector[runtime]" in each for each in await said(beside)
            )

        await wait_until(told, 120, "the webhook to know the RuntimeClass")
        found = await said(deployment("chat", **KATA))
        assert not [each for each in found if "gpuFits" in each or "apiServer" in each], "they run there"
        await api.create(LIMITS, team)

        async def limited() -> bool:
            large = deployment("large", container={"resources": {"limits": {GPU: "1", "cpu": "9"}}}, **KATA)
            return any("apiServer: its pods will be refused: " in each for each in await said(large))

        await wait_until(limited, 120, "the webhook to know the LimitRange")
        await api.create(deployment("chat", **KATA), team)
        (running,) = await api.running(team, 1)
        assert running["spec"]["nodeName"] == "stored-a"
