"""Requests of CPU and memory that are missing beside GPUs, on clusters as they are fed from lists.

Covers framework.resources_per_gpu.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import GPU, GPUS, Case, case, container, pod
from tests.cluster import objects
from tests.injectors.applied import applied, unchanged
from tests.served import NOW, Server, cluster, plain_pod
from tests.served import after as as_stored
from tests.strategies import pods
from webhook.admission.response import warnings_of
from webhook.cli import offline
from webhook.cluster.state_view import StateView
from webhook.framework.interface import Context, Outcome
from webhook.framework.resources_per_gpu import CLASSES, PerGpu
from webhook.injectors.cpu_per_gpu import CpuPerGpuRequests
from webhook.kube.pod import DECISION, Pod, requests_of
from webhook.kube.pod_requests import total_requests
from webhook.kube.quantity import milli, whole
from webhook.placement.placer import Placer
from webhook.placement.settings import PlacementSettings
from webhook.policy.model import Policy

OWN = r"/spec/(containers|initContainers)/\d+/resources/requests(/(cpu|memory))?"
FILL = CpuPerGpuRequests(classes=CLASSES)
NODE = objects.node("big", 8, cpu="128", memory="1000Gi")
"""A share of 80 % is 12.8 CPUs and 100 GiB for each GPU."""
SMALL = objects.node("small", 1, cpu="3920m", memory="15Gi")


def asking(gpu: Any = 1, name: str = "main", **requests: str) -> dict[str, Any]:
    """A container with this many GPUs, as the API server leaves it, and only these requests."""
    return {"name": name, "resources": {"limits": {GPU: str(gpu)}, "requests": {GPU: str(gpu), **requests}}}


class Known(NamedTuple):
    cluster: StateView
    placer: Placer


def view(*nodes: Mapping[str, Any], taken: Iterable[Mapping[str, Any]] = (), fresh: bool = True) -> Known:
    of = objects.state(map(dict, nodes or (NODE,)), map(dict, taken), max_age=60)
    return Known(of.view(0 if fresh else 1000), Placer(of))


def on(of: Known, made: Pod, *, workload: str = "training", strategy: str = "pack") -> Case:
    """A pod before that cluster, which also ranks nodes for it."""
    found = case(made, workload=workload)
    context: Context = found.context
    context.cluster = of.cluster
    settings = PlacementSettings()
    context.place = partial(
        of.placer.place, cluster=of.cluster, settings=settings, strategy=strategy, gpus=GPUS, workload=workload
    )
    return found


def requests(made: Pod, kind: str = "containers", position: int = 0) -> dict[str, Any]:
    """What a container requests besides GPUs."""
    asked = made["spec"][kind][position]["resources"]["requests"]
    return {name: asked[name] for name in asked if name != GPU}


NONE = Outcome("none")
LIMITED = {"name": "main", "resources": {"limits": {GPU: "1", "cpu": "1", "memory": "1Gi"}}}
SLICE = {"name": "main", "resources": {"limits": {"nvidia.com/mig-1g.10gb": "1"}}}
BOTH = (asking(name="a"), {"name": "b", "resources": {"limits": {"amd.com/gpu": "1"}}})
BUSY = objects.pod("busy", 0, on="big", asks={"cpu": "124", "memory": "1Gi"})

LEFT_ALONE: dict[str, tuple[Case, Outcome]] = {
    "requests of the user's own": (on(view(), pod(asking(cpu="1", memory="64Mi"))), NONE),
    "requests of 0": (on(view(), pod(asking(cpu="0", memory="0"))), NONE),
    "limits without requests, which the API server makes equal": (on(view(), pod(LIMITED)), NONE),
    "a class without numbers": (on(view(), pod(asking()), workload="development"), NONE),
    "a part of a GPU": (on(view(), pod(SLICE)), NONE),
    "a container without a GPU": (on(view(), pod({"name": "main"})), NONE),
    "an init container, which runs alone": (
        on(view(), pod(asking(cpu="8", memory="1Gi"), init=[asking(name="setup")])),
        NONE,
    ),
    "an ephemeral container": (on(view(), pod({"name": "main"}, ephemeral=[asking(name="debug")])), NONE),
    "GPUs by a claim": (on(view(), pod({"name": "m", "resources": {"claims": [{"name": "gpu"}]}})), NONE),
    "resources of the whole pod": (
        on(view(), pod(asking(), resources={"limits": {"memory": "64Gi"}})),
        Outcome("skipped", "the pod has resources of its own"),
    ),
    "a pod of a DaemonSet": (
        on(view(), pod(asking(), owned_by="DaemonSet")),
        Outcome("skipped", "its node is fixed"),
    ),
    "a pod whose node is named": (
        on(view(), pod(asking(), nodeName="big")),
        Outcome("skipped", "its node is fixed"),
    ),
    "a pod that was decided for before": (
        on(view(), pod(asking(), annotations={DECISION: "{}"})),
        Outcome("skipped", "decided for before"),
    ),
    "a state that is not fresh": (
        on(view(fresh=False), pod(asking())),
        Outcome("skipped", "cluster state is stale"),
    ),
    "a request that is no quantity": (
        on(view(), pod(asking(), container("other", gpu=None, requests={"cpu": "many"}))),
        Outcome("skipped", "a request is not a quantity"),
    ),
    "GPUs of two vendors": (on(view(), pod(*BOTH)), Outcome("skipped", "GPUs of several names")),
    "more GPUs than any node has": (
        on(view(), pod(asking(16))),
        Outcome("skipped", "no node has as many GPUs"),
    ),
    "GPUs that no node has": (
        on(view(objects.node("plain", None)), pod(asking())),
        Outcome("skipped", "no node has as many GPUs"),
    ),
    "a container beside it that requests the share of a node": (
        on(view(), pod(asking(), container("other", gpu=None, requests={"cpu": "13", "memory": "100Gi"}))),
        Outcome("skipped", "the pod requests its share of a node already"),
    ),
    "a node with room for the pod, but not for more": (
        on(view(NODE, taken=[BUSY]), pod(asking())),
        Outcome("skipped", "no node has as much free now"),
    ),
}


@pytest.mark.parametrize(("left", "outcome"), LEFT_ALONE.values(), ids=LEFT_ALONE)
def test_left_alone(left: Case, outcome: Outcome) -> None:
    assert unchanged(FILL, left) == outcome


FILLED: dict[str, tuple[Case, dict[str, str], Outcome]] = {
    "neither": (
        on(view(), pod(asking())),
        {"cpu": "8", "memory": "32Gi"},
        Outcome("filled", {"cpu": "8", "memory": "32Gi"}),
    ),
    "no requests at all, of four GPUs": (
        on(view(), pod({"name": "m", "resources": {"limits": {GPU: "4"}, "requests": None}})),
        {"cpu": "32", "memory": "128Gi"},
        Outcome("filled", {"cpu": "32", "memory": "128Gi"}),
    ),
    "only memory is missing": (
        on(view(), pod(asking(cpu="1"))),
        {"cpu": "1", "memory": "32Gi"},
        Outcome("filled", {"memory": "32Gi"}),
    ),
    "a limit stands in for the request of CPU": (
        on(view(), pod({"name": "m", "resources": {"limits": {GPU: "1", "cpu": "2"}}})),
        {"memory": "32Gi"},
        Outcome("filled", {"memory": "32Gi"}),
    ),
    "another class": (
        on(view(), pod(asking()), workload="inference"),
        {"cpu": "4", "memory": "8Gi"},
        Outcome("filled", {"cpu": "4", "memory": "8Gi"}),
    ),
    "no more than the share of the smallest node": (
        on(view(NODE, SMALL), pod(asking())),
        {"cpu": "3136m", "memory": "12Gi"},
        Outcome("filledLess", {"cpu": "3136m", "memory": "12Gi"}),
    ),
    "a smaller node that has not as many GPUs does not count": (
        on(view(NODE, SMALL), pod(asking(2))),
        {"cpu": "16", "memory": "64Gi"},
        Outcome("filled", {"cpu": "16", "memory": "64Gi"}),
    ),
    "the share less what other containers request": (
        on(view(SMALL), pod(asking(), container("other", gpu=None, requests={"cpu": "3", "memory": "11Gi"}))),
        {"cpu": "136m", "memory": "1Gi"},
        Outcome("filledLess", {"cpu": "136m", "memory": "1Gi"}),
    ),
    "what is left of one resource only": (
        on(view(SMALL), pod(asking(), container("other", gpu=None, requests={"cpu": "4", "memory": "1Gi"}))),
        {"memory": "11Gi"},
        Outcome("filledLess", {"memory": "11Gi"}),
    ),
    "a node that is full now, for without it the pod waits too": (
        on(view(NODE, taken=[objects.pod("all", 8, on="big")]), pod(asking())),
        {"cpu": "8", "memory": "32Gi"},
        Outcome("filled", {"cpu": "8", "memory": "32Gi"}),
    ),
    "a full node, where the scheduler chooses": (
        on(view(NODE, taken=[BUSY]), pod(asking()), strategy="off"),
        {"cpu": "8", "memory": "32Gi"},
        Outcome("filled", {"cpu": "8", "memory": "32Gi"}),
    ),
}


@pytest.mark.parametrize(("starved", "wanted", "outcome"), FILLED.values(), ids=FILLED)
def test_what_is_missing_is_filled_in(starved: Case, wanted: dict[str, str], outcome: Outcome) -> None:
    before = starved.pod["spec"]["containers"][0]["resources"].get("limits")
    after, said = applied(FILL, starved, OWN)
    assert requests(after) == wanted
    assert after["spec"]["containers"][0]["resources"]["limits"] == before, "no limits"
    assert said[:3] == outcome[:3]


def test_containers_share_by_their_gpus_and_sidecars_have_theirs() -> None:
    sidecar = asking(name="side") | {"restartPolicy": "Always"}
    made = pod(asking(2, "a"), asking(1, "b", memory="1Gi"), container("c", gpu=None), init=[sidecar])
    after, said = applied(FILL, on(view(), made), OWN)
    assert requests(after, position=0) == {"cpu": "16", "memory": "64Gi"}
    assert requests(after, position=1) == {"cpu": "8", "memory": "1Gi"}
    assert after["spec"]["containers"][2] == container("c", gpu=None)
    assert requests(after, "initContainers") == {"cpu": "8", "memory": "32Gi"}
    assert said[:2] == ("filled", {"cpu": "32", "memory": "96Gi"})


def test_numbers_and_share_are_settings() -> None:
    odd = PerGpu(cpu=("2500m", "3"), memory=("1G", "2G"))
    after, _ = applied(CpuPerGpuRequests(classes={"training": odd}), on(view(), pod(asking())), OWN)
    assert requests(after) == {"cpu": "2500m", "memory": "1000000000"}
    after, _ = applied(CpuPerGpuRequests(classes=CLASSES, node_share=10), on(view(), pod(asking())), OWN)
    assert requests(after) == {"cpu": "1600m", "memory": "12800Mi"}


def test_a_node_that_comes_or_changes_is_taken_into_account() -> None:
    of = objects.state([NODE])
    assert of.view(0).least_per_gpu(GPU, 1) == {"cpu": 16000, "memory": 125 * 2**30}
    of.node_seen(SMALL)
    assert of.view(0).least_per_gpu(GPU, 1) == {"cpu": 3920, "memory": 15 * 2**30}
    assert of.view(0).least_per_gpu(GPU, 2) == {"cpu": 16000, "memory": 125 * 2**30}
    of.node_gone("small")
    assert of.view(0).least_per_gpu(GPU, 1) == {"cpu": 16000, "memory": 125 * 2**30}
    assert of.view(0).least_per_gpu(GPU, 10**30) is None
    assert of.view(0).least_per_gpu("amd.com/gpu", 1) is None


SHARES = [NODE, SMALL, objects.node("four", 4, cpu="32", memory="64Gi")]


@given(pods(), st.sampled_from(["training", "inference", "development"]), st.integers(1, 100))
def test_nothing_written_is_touched_and_any_node_that_could_take_the_pod_still_can(
    made: Pod, workload: str, share: int
) -> None:
    before = on(view(*SHARES), made, workload=workload)
    after, said = applied(CpuPerGpuRequests(classes=CLASSES, node_share=share), before, OWN)
    if said.result not in ("filled", "filledLess"):
        assert after == made
        return
    for kind in ("containers", "initContainers"):
        for old, new in zip(made["spec"].get(kind) or (), after["spec"].get(kind) or (), strict=True):
            assert {**requests_of(new), **requests_of(old)} == requests_of(new), "what was written stands"
            if added := requests_of(new).keys() - requests_of(old).keys():
                assert added <= {"cpu", "memory"}
                assert (new["resources"].get("limits") or {}) == (old["resources"].get("limits") or {})
    asked, asks = total_requests(made), total_requests(after)
    for each in SHARES:
        offered = each["status"]["allocatable"]
        room = {"cpu": milli(offered["cpu"]), "memory": whole(offered["memory"]), GPU: int(offered[GPU])}
        if all(asked.get(name, 0) <= room[name] for name in room):
            assert all(asks.get(name, 0) <= room[name] for name in room)


@st.composite
def crowded(draw: st.DrawFn) -> Known:
    """A few nodes whose CPU, memory or GPUs others have taken."""
    sizes = st.tuples(
        st.sampled_from([1, 4, 8]), st.sampled_from(["4", "32", "96"]), st.sampled_from(["16Gi", "256Gi"])
    )
    machines = draw(st.lists(sizes, min_size=1, max_size=3))
    nodes = [objects.node(f"n{i}", gpus, cpu=cpu, memory=memory) for i, (gpus, cpu, memory) in enumerate(machines)]
    taken = []
    for number, machine in enumerate(nodes):
        offered = machine["status"]["allocatable"]
        cpu, memory = draw(st.integers(0, int(offered["cpu"]))), draw(st.integers(0, whole(offered["memory"]) // 2**30))
        asks = {"cpu": str(cpu), "memory": f"{memory}Gi"}
        taken.append(objects.pod(f"p{number}", draw(st.integers(0, int(offered[GPU]))), on=f"n{number}", asks=asks))
    return view(*nodes, taken=taken)


@given(crowded(), st.integers(1, 8), st.dictionaries(st.sampled_from(["cpu", "memory"]), st.just("1"), max_size=1))
def test_no_pod_waits_that_could_run_without_us(of: Known, gpus: int, own: dict[str, str]) -> None:
    before = on(of, pod(asking(gpus, **own)))
    after, _ = applied(FILL, before, OWN)
    assert before.context.place is not None
    if before.context.place(before.pod).nodes:
        assert before.context.place(after).nodes


@given(pods())
def test_the_gate_has_nothing_to_stop(made: Pod) -> None:
    server = Server()
    server.mutate(made, namespace="fed")
    assert ("mutate", "gated") not in server.recorder.told


# --- as the webhook decides ----------------------------------------------------------------------------------------------


def replica() -> Pod:
    """Alike, as the pods of a controller are: what was decided for one is told of the next."""
    made = plain_pod(labels={"app": "web", "workload-type": "training"}, restartPolicy="OnFailure")
    made["metadata"]["generateName"] = f"{made['metadata'].pop('name')}-"
    return made


def decided(server: Server) -> tuple[list[Any], dict[str, Any], bool]:
    """What became of the next replica: the outcome, its requests, and whether a node was chosen."""
    before = replica()
    stored = as_stored(server.mutate(before, namespace="fed"), before)
    record = orjson.loads(stored["metadata"]["annotations"][DECISION])
    return record["units"]["cpuPerGpu"], requests(stored), bool(record.get("nodes"))


def test_pods_get_their_share_while_there_is_room_and_go_as_they_came_where_there_is_none() -> None:
    taken = objects.pod("busy", 0, on="one", asks={"cpu": "40", "memory": "1Gi"})
    made = cluster()
    made.replace("nodes", [objects.node("one", 8, cpu="64", memory="512Gi")], NOW)
    made.pod_seen(taken, NOW)
    server = Server(made)
    less = (["filledLess", {"cpu": "6400m", "memory": "32Gi"}], {"cpu": "6400m", "memory": "32Gi"}, True)
    as_it_came = (["skipped", "no node has as much free now"], {}, True)
    assert [decided(server) for _ in range(3)] == [less] * 3, "24 CPUs are free"
    assert [decided(server) for _ in range(2)] == [as_it_came] * 2
    made.pod_gone(taken, NOW)
    assert [decided(server) for _ in range(3)] == [less] * 3, "what is free is looked at each time"
    assert decided(server) == (*less[:2], False), "it waits for GPUs with or without"


def test_a_pod_after_those_that_no_gpu_was_free_for_is_looked_at_by_itself() -> None:
    """They would wait as they came as well; it would not."""
    gpus, cpu = objects.pod("gpus", 8, on="one"), objects.pod("cpu", 0, on="one", asks={"cpu": "62"})
    made = cluster()
    made.replace("nodes", [objects.node("one", 8, cpu="64", memory="512Gi")], NOW)
    made.pod_seen(gpus, NOW)
    server = Server(made)
    assert [decided(server)[0][0] for _ in range(2)] == ["filledLess"] * 2
    made.pod_gone(gpus, NOW)
    made.pod_seen(cpu, NOW)
    assert decided(server) == (["skipped", "no node has as much free now"], {}, True)


def test_what_is_filled_in_counts_when_the_node_is_chosen() -> None:
    made = cluster()
    nodes = [objects.node("a", 8, cpu="64", memory="512Gi"), objects.node("b", 8, cpu="64", memory="512Gi")]
    made.replace("nodes", nodes, NOW)
    made.pod_seen(objects.pod("busy", 4, on="a", asks={"cpu": "60", "memory": "1Gi"}), NOW)
    server, before = Server(made), replica()
    stored = as_stored(server.mutate(before, namespace="fed"), before)
    assert [each[0] for each in orjson.loads(stored["metadata"]["annotations"][DECISION])["nodes"]] == ["b"]
    assert int(made.nodes.columns.free["cpu"][made.nodes.row_of["b"]]) == 64000 - 6400, "and was reserved"
    assert server.validate(stored, namespace="fed")["warnings"] == [
        'cpuPerGpu: 6.4 CPUs and 32Gi for 1 GPU in container "main". Request at least cpu: "8" and memory: 32Gi. '
        "Wanted 8 to 16 CPUs and 32Gi to 64Gi per GPU for training."
    ]


def test_where_the_node_has_enough_the_rule_has_nothing_to_say() -> None:
    server, before = Server(), replica()
    assert "warnings" in server.validate(before, namespace="fed")
    assert "warnings" not in server.validate(as_stored(server.mutate(before, namespace="fed"), before), namespace="fed")


def test_who_applies_a_workload_is_told_that_its_pods_will_get_requests() -> None:
    policy = Policy.load("profiles: {default: {injectors: {cpuPerGpu: {enabled: true}}}}")
    main = asking() | {"image": "a"}
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"restartPolicy": "Never", "containers": [main]}}
    made = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": {"template": template}}
    (document,) = offline.documents(orjson.dumps(made), "job.json")
    assert isinstance(document, offline.Document)
    state = objects.state([NODE], max_age=60)
    told = warnings_of(offline.run(document, offline.decide_validate, policy, state).decision)
    assert any(line.startswith("its pods will get:") and "cpuPerGpu" in line for line in told)
    assert not any(line.startswith("cpuPerGpu") for line in told), "the rule sees the pod as it will be"


RULES = "rules: {cpuPerGpu: {classes: {training: {cpu: ['2', '4'], memory: [1Gi, 2Gi]}}}}"
OWN_CLASSES = "classes: {notebook: {cpu: ['1', '2'], memory: [1Gi, 2Gi]}}"


@pytest.mark.parametrize(
    ("injector", "cpu"),
    [
        pytest.param("enabled: true", {"training": "2"}, id="those of the rule"),
        pytest.param(f"enabled: true, {OWN_CLASSES}", {"notebook": "1"}, id="its own"),
    ],
)
def test_the_numbers_are_those_of_the_rule_unless_it_has_its_own(injector: str, cpu: dict[str, str]) -> None:
    policy = Policy.load(
        f"classes: [{{class: notebook}}]\nprofiles: {{default: {{injectors: {{cpuPerGpu: {{{injector}}}}}, {RULES}}}}}"
    )
    fill = dict(policy.injectors("default"))["cpuPerGpu"]
    assert isinstance(fill, CpuPerGpuRequests)
    assert {name: per.cpu[0] for name, per in (fill.classes or {}).items()} == cpu


def test_it_is_off_by_default() -> None:
    assert "cpuPerGpu" not in dict(Policy.load("{}").injectors("default"))
