"""The injector cpuPerGpu and placement: a pod that fits on a node now still does with the added requests."""

from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from tests import deciding
from tests.builders import GPU, GPUS
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from tests.injectors.applied import applied
from tests.injectors.filling import FILL, NODE, OWN, SMALL, Known, asking, on, requests, view
from tests.served import NOW, Server, cluster, plain_pod
from tests.served import after as as_stored
from tests.state import objects
from tests.strategies import pods
from webhook.admission.response import warnings_of
from webhook.framework.resources_per_gpu import CLASSES
from webhook.injectors.cpu_per_gpu import CpuPerGpuRequests
from webhook.kube.asked import AskedPod
from webhook.kube.pod import DECISION, Pod, requests_of
from webhook.kube.pod_requests import total_requests
from webhook.kube.quantity import milli, whole
from webhook.policy.model import Policy
from webhook.whatif import offline

SHARES = [NODE, SMALL, node("four", 4, cpu="32", memory="64Gi")]


@given(pods(), st.sampled_from(["training", "inference", "development"]), st.integers(1, 100))
def test_existing_requests_stay_and_every_node_that_could_take_the_pod_still_can(
    made: Pod, workload: str, share: int
) -> None:
    before = on(view(*SHARES), made, workload=workload)
    after, said = applied(CpuPerGpuRequests(classes=CLASSES, node_share=share), before, OWN)
    if said.result not in ("filled", "filledLess"):
        assert after == made
        return
    for kind in ("containers", "initContainers"):
        for old, new in zip(made["spec"].get(kind) or (), after["spec"].get(kind) or (), strict=True):
            assert {**requests_of(new), **requests_of(old)} == requests_of(new), "existing requests stay"
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
    """A few nodes whose CPU, memory or GPUs other pods use."""
    sizes = st.tuples(
        st.sampled_from([1, 4, 8]), st.sampled_from(["4", "32", "96"]), st.sampled_from(["16Gi", "256Gi"])
    )
    machines = draw(st.lists(sizes, min_size=1, max_size=3))
    nodes = [node(f"n{i}", gpus, cpu=cpu, memory=memory) for i, (gpus, cpu, memory) in enumerate(machines)]
    taken = []
    for number, machine in enumerate(nodes):
        offered = machine["status"]["allocatable"]
        cpu, memory = draw(st.integers(0, int(offered["cpu"]))), draw(st.integers(0, whole(offered["memory"]) // 2**30))
        limits = {"cpu": str(cpu), "memory": f"{memory}Gi"}
        gpus = draw(st.integers(0, int(offered[GPU])))
        taken.append(objects.stored(f"p{number}", gpus, on=f"n{number}", limits=limits))
    return view(*nodes, taken=taken)


@given(crowded(), st.integers(1, 8), st.dictionaries(st.sampled_from(["cpu", "memory"]), st.just("1"), max_size=1))
def test_a_pod_that_could_run_without_us_can_run_with_us(of: Known, gpus: int, own: dict[str, str]) -> None:
    before = on(of, pod(containers=[asking(gpus, **own)]))
    after, _ = applied(FILL, before, OWN)
    nodes = before.context.nodes
    assert nodes is not None
    if nodes.place(AskedPod(before.pod, GPUS)).nodes:
        assert nodes.place(AskedPod(after, GPUS)).nodes


# --- as the webhook decides ----------------------------------------------------------------------------------------------


def replica() -> Pod:
    """A replica. All replicas are equal, as the pods of a controller are."""
    made = plain_pod(labels={"app": "web", "workload-type": "training"}, restartPolicy="OnFailure")
    made["metadata"]["generateName"] = f"{made['metadata'].pop('name')}-"
    return made


def decided(server: Server) -> tuple[list[Any], dict[str, Any], bool]:
    """The decision about the next replica: the outcome, its requests, and whether a node was chosen."""
    before = replica()
    stored = as_stored(server.mutate(before, namespace="fed"), before)
    record = orjson.loads(stored["metadata"]["annotations"][DECISION])
    return record["units"]["cpuPerGpu"], requests(stored), bool(record.get("nodes"))


def test_pods_get_their_share_while_there_is_room_and_stay_unchanged_when_there_is_none() -> None:
    taken = objects.stored("busy", 0, on="one", limits={"cpu": "40", "memory": "1Gi"})
    made = cluster()
    made.replace("nodes", [node("one", 8, cpu="64", memory="512Gi")], NOW)
    made.pod_seen(taken, NOW)
    server = Server(made)
    less = (["filledLess", {"cpu": "6400m", "memory": "32Gi"}], {"cpu": "6400m", "memory": "32Gi"}, True)
    as_it_came = (["skipped", "no node has as much free now"], {}, True)
    assert [decided(server) for _ in range(3)] == [less] * 3, "24 CPUs are free"
    assert [decided(server) for _ in range(2)] == [as_it_came] * 2
    made.pod_gone(taken)
    assert [decided(server) for _ in range(3)] == [less] * 3, "the free capacity is read for each pod"
    assert decided(server) == (*less[:2], False), "it waits for GPUs with or without the requests"


def test_the_added_requests_count_when_the_node_is_chosen() -> None:
    made = cluster()
    nodes = [node("a", 8, cpu="64", memory="512Gi"), node("b", 8, cpu="64", memory="512Gi")]
    made.replace("nodes", nodes, NOW)
    made.pod_seen(objects.stored("busy", 4, on="a", limits={"cpu": "60", "memory": "1Gi"}), NOW)
    server, before = Server(made), replica()
    stored = as_stored(server.mutate(before, namespace="fed"), before)
    assert [each[0] for each in orjson.loads(stored["metadata"]["annotations"][DECISION])["nodes"]] == ["b"]
    assert int(made.nodes.columns.free["cpu"][made.nodes.row_of["b"]]) == 64000 - 6400, (
        "the reservation includes the added CPU"
    )
    assert "warnings" not in server.validate(stored, namespace="fed"), "no node has more for each GPU"


def test_after_the_injector_the_rule_finds_nothing_if_the_node_has_enough() -> None:
    server, before = Server(), replica()
    assert "warnings" in server.validate(before, namespace="fed")
    assert "warnings" not in server.validate(as_stored(server.mutate(before, namespace="fed"), before), namespace="fed")


def test_the_author_of_a_workload_whose_pods_will_get_requests_is_told_nothing() -> None:
    policy = Policy.load("profiles: {default: {injectors: {cpuPerGpu: {enabled: true}}}}")
    main = asking() | {"image": "a"}
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"restartPolicy": "Never", "containers": [main]}}
    made = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": {"template": template}}
    (document,) = offline.documents(orjson.dumps(made), "job.json")
    assert isinstance(document, offline.Document)
    state = objects.state([NODE], max_age=60)
    warnings = warnings_of(deciding.run(document, deciding.decide_validate, policy, state).decision)
    assert not any("cpuPerGpu" in line for line in warnings), "the rule checks the pod after the injectors"
