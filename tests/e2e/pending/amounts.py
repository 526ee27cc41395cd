"""Nodes without enough of what a pod asks for: GPUs, CPU, memory, storage, pods. Where an issue is named, it shows this problem."""

from collections.abc import Iterable
from typing import Any

from tests.controlplane.api import wait_until
from tests.controlplane.nodes import node
from tests.controlplane.objects import deployment, made, pod, required
from tests.e2e.pending.kit import (
    GPU,
    HOLD,
    HOSTNAME,
    L4,
    PRODUCT,
    Case,
    Fix,
    Json,
    Kit,
    asking,
    event,
    held,
    one,
    priority,
    two,
    waits,
    wants,
)


def short(name: str, cause: str, text: str, made: Json, nodes: Iterable[Json] = (), of: str = GPU, **more: Any) -> Case:
    """A pod that asks for more of a resource than there is. `nodes`: one of eight GPUs, if not others."""
    return Case(name, cause, text, nodes or one(), made, f"Insufficient {of}", **more)


def taken(
    name: str, gpus: int, free: str, *before: Json, nodes: Iterable[Json] = (), made: Json | None = None, **more: Any
) -> Case:
    """GPUs that others have. `free`: where, and how many."""
    text = f"all GPUs are taken: {gpus} nvidia.com/gpu asked for; free on {free}"
    return short(name, "gpusTaken", text, made or waits(gpus), nodes, before=[*before], **more)


def offering(**resources: str) -> Fix:
    """The node offers these from now on."""
    return lambda k: k.patch(
        "Node", "p-a", {"status": {"allocatable": resources, "capacity": resources}}, subresource="status"
    )


def without_plugin(name: str, has: str, node: Json) -> Case:
    """A node that has GPUs by its labels."""
    text = "node p-a: GPUs by the labels, but the device plugin offers none"
    return short(name, "devicePluginMissing", text, waits(), [node], fix=offering(**{GPU: has}))


async def no_gpus(k: Kit) -> None:
    """The device plugin calls all GPUs of the node unhealthy."""
    await k.patch("Node", "p-a", {"status": {"allocatable": {GPU: "0"}}}, subresource="status")


async def preempts(k: Kit) -> None:
    """A pod that preempts, and whose victim does not end."""
    await k.make(waits(8, priorityClassName="p-high") | {"metadata": {"name": "urgent"}})

    async def nominated() -> bool:
        return any((p["status"] or {}).get("nominatedNodeName") for p in await k.api.pods(k.namespace))

    await wait_until(nominated, 120, "the nominated node")


def holding(obj: Json) -> Json:
    """An object that stays when it is deleted."""
    return {**obj, "metadata": {**obj["metadata"], **HOLD}}


PART = node("p-a")
PART["status"]["allocatable"] = {**PART["status"]["allocatable"], GPU: "6"}
DAEMON = deployment("waits", 1, 8, kind="DaemonSet")
del DAEMON["spec"]["replicas"]
CPUS = {"defaultRequest": {"cpu": "200"}, "default": {"cpu": "200"}}
DEFAULTS = made("LimitRange", "defaults", spec={"limits": [{"type": "Container", **CPUS}]})
OVERHEAD = made("RuntimeClass", "p-kata", handler="kata", overhead={"podFixed": {"cpu": "30"}})
HIGH, NEVER = priority("p-high", 1000, "PreemptLowerPriority"), priority("p-never", 1000, "Never")
RENAMED = node("p-b", 2, "Tesla-T4", replicas=4, renamed=True)
I915 = "gpu.intel.com/i915"
INIT = {**asking({GPU: "4"}), "name": "init"}
SIDECAR = {**asking({GPU: "1"}), "name": "sidecar", "restartPolicy": "Always"}
TWO_OF_SIX = {**pod("waits"), "spec": {"containers": [asking({GPU: "6"}), {**asking({GPU: "6"}), "name": "more"}]}}
NO_GROUP, COMES = (
    "pod didn't trigger scale-up: 2 max node group size reached",
    "pod triggered scale-up: [{gpu-pool 1->2 (max: 3)}]",
)
AMOUNTS = [
    without_plugin("a node without its device plugin", "8", node("p-a", resources={GPU: "0"})),
    without_plugin("a label of AKS and no device plugin (autoscaler#10301)", "1", node("p-a", 0, labels={"kubernetes.azure.com/accelerator": "nvidia"})),
    without_plugin("a PCI label and no device plugin", "1", node("p-a", 0, labels={"feature.node.kubernetes.io/pci-10de.present": "true"})),
    short(
        "all GPUs of a node are unhealthy (k8s-device-plugin#58)", "devicePluginMissing", "node p-a: of 8 nvidia.com/gpu none is allocatable: the device plugin calls all unhealthy, or has gone",
        waits(), fix=offering(**{GPU: "8"}), happens=no_gpus,
    ),
    short(
        "GPUs that are free, but on several nodes", "gpusFragmented", "GPUs are free, but on several nodes: 8 nvidia.com/gpu asked for; free on nodes p-a, p-b: 8 in all, at most 4 on one",
        waits(8), two(), before=[held("one", 4), held("two", 4, "p-b")], advises="ask for 4 in each of more pods",
    ),
    short(
        "two free here and two there", "gpusFragmented", "GPUs are free, but on several nodes: 4 nvidia.com/gpu asked for", waits(4), [node("p-a", 4), node("p-b", 4)],
        before=[held("one", 2), held("two", 2, "p-b")], advises="ask for 2 in each of more pods",
    ),
    taken("GPUs that a Job has", 4, "node p-a: 2", held("other", 6)),
    taken("GPUs of a Deployment that serves", 8, "node p-a: 2", held("other", 6), advises="ask for 2 in place of 8"),
    taken("nodes that are too small, and a larger one that is full", 8, "node p-b: 7", held("other", 1, "p-b"), nodes=[node("p-a", 4), node("p-b", 8)]),
    taken("full nodes, and time-sliced ones under another name", 1, "node p-a: 0", held("other", 1), nodes=[node("p-a", 1), RENAMED]),
    Case(
        "a selector of nodes that are full, and others", "gpusTaken", "all GPUs are taken: 1 nvidia.com/gpu asked for; free on node p-b: 0",
        [node("p-a"), node("p-b", 1, L4)], waits(nodeSelector={PRODUCT: L4}), "node affinity/selector", before=[held("other", 1, "p-b")],
    ),
    Case(
        "a pin to a node that is full", "gpusTaken", "all GPUs are taken: 8 nvidia.com/gpu asked for; free on node p-a: 7",
        two(), waits(8, affinity=required(HOSTNAME, "In", "p-a")), "node affinity/selector", before=[held("other", 1)],
    ),
    Case(
        "a class that never preempts", "gpusTaken", "all GPUs are taken: 8 nvidia.com/gpu asked for; free on node p-a: 0",
        one(), waits(8, priorityClassName="p-never"), "preemptionPolicy=Never", before=[NEVER, held("other", 8)],
    ),
    taken(
        "all GPUs of an equal class", 8, "node p-a: 0", HIGH, held("other", 8, priorityClassName="p-high"), made=waits(8, priorityClassName="p-high"),
        advises="wait for pod/other in", notes="it can preempt nobody: no pod has a priority below its own, 1000, on node p-a",
    ),
    taken(
        "lower pods that hold too little", 8, "node p-a: 0", HIGH, held("other", 6, priorityClassName="p-high"), held("low", 2), made=waits(8, priorityClassName="p-high"),
        fix=lambda k: k.end("other"), notes="it can preempt nobody: pods of a priority below 1000 hold too little on node p-a",
    ),
    taken(
        "a rolling update on the last GPU", 1, "node p-a: 0", nodes=[node("p-a", 1)], made=deployment("waits", 2, 1),
        fix=lambda k: k.patch("Deployment", "waits", {"spec": {"replicas": 1}}), about="waits-", advises="add a node",
    ),
    taken(
        "a pod of a DaemonSet whose node is full (kubernetes#93934)", 8, "node p-a: 2", held("other", 6), made=DAEMON, fix=lambda k: k.end("other"), about="waits-",
    ),
    short(
        "a sidecar that has a GPU of its own", "gpusTaken", 'all GPUs are taken: 8 nvidia.com/gpu asked for (7 in container "main", 1 in sidecar "sidecar"); free on node p-a: 7',
        waits(7, initContainers=[SIDECAR]), before=[held("other", 1)], advises='ask for 6 in place of 7 in container "main"',
    ),
    short(
        "an init container that asks for the GPUs", "gpusTaken", 'all GPUs are taken: init container "init" asks for 4 nvidia.com/gpu; free on node p-a: 2',
        waits(1, initContainers=[INIT]), before=[held("other", 6)], advises='ask for 2 in place of 4 in init container "init"',
    ),
    taken(
        "an init container and a container that ask for as many GPUs", 4, "node p-a: 2", held("other", 6), made=waits(4, initContainers=[INIT]),
        advises="ask for 2 in place of 4 in each container",
    ),
    short(
        "an Intel GPU that others have (truecharts#18712)", "gpusTaken", f"all GPUs are taken: 1 {I915} asked for", waits(resource=I915), [node("p-a", 0, resources={I915: "1"})], I915,
        before=[held("other", 1, resource=I915)], advises="wait for pod/other in",
    ),
    taken(
        "full, and no group of nodes fits (autoscaler#4181)", 1, "node p-a: 0", event("NotTriggerScaleUp", NO_GROUP, "cluster-autoscaler"), held("other", 1),
        nodes=[node("p-a", 1)], advises="wait for pod/other in", notes=f"no node will come, says cluster-autoscaler: {NO_GROUP}",
    ),
    taken(
        "full, and a node comes", 1, "node p-a: 0", event("TriggeredScaleUp", COMES, "cluster-autoscaler"), held("other", 1),
        nodes=[node("p-a", 1)], notes="a node will come, says cluster-autoscaler: pod triggered scale-up",
    ),
    taken(
        "a pod that is being deleted has the GPU", 8, "node p-a: 0", holding(held("old", 8)), happens=lambda k: k.end("old"),
        advises="wait for pod/old in NAMESPACE", notes="being deleted there, and has its GPUs until it has ended: NAMESPACE/old",
    ),
    short("CPU that others have", "insufficientCpu", "node p-a: short of cpu: 100 asked for, at most 48 free", wants({"cpu": "100"}), of="cpu", before=[wants({"cpu": "80"}, "other")]),
    short(
        "GPUs are free and CPU is not", "insufficientCpu", "node p-a: short of cpu: 64 asked for, at most 28 free", wants({GPU: "1", "cpu": "64"}), of="cpu",
        before=[wants({"cpu": "100"}, "other")], advises="ask for 28 cpu",
    ),
    short(
        "a pod without GPUs, and only nodes with GPUs have room", "insufficientCpu", "node p-b: short of cpu: 96 asked for, at most ", wants({"cpu": "96"}),
        [node("p-a", taints=["nvidia.com/gpu=present:NoSchedule"]), node("p-b", 0)], "cpu", before=[wants({"cpu": "90"}, "other", nodeSelector={HOSTNAME: "p-b"})],
    ),
    *[short(
        f"{name} that others have", cause, f"node p-a: short of {of}: 800Gi asked for, at most 524Gi free", wants({of: "800Gi"}), of=of, before=[wants({of: "500Gi"}, "other")],
    ) for name, cause, of in (("memory", "insufficientMemory", "memory"), ("ephemeral storage", "insufficientEphemeralStorage", "ephemeral-storage"))],
    short("more CPU than any node has", "moreThanAnyNode", "asks for 250 cpu, and no node has more than 128", wants({"cpu": "250"}), of="cpu"),
    short("more GPUs than any node has", "moreThanAnyNode", "asks for 16 nvidia.com/gpu, and no node has more than 8", waits(16)),
    short("more memory than any node has", "moreThanAnyNode", "asks for 2Ti memory, and no node has more than 1Ti", wants({GPU: "1", "memory": "2Ti"}), of="memory", advises="ask for 1Ti memory at most"),
    short(
        "an init container that asks for more GPUs than any node has", "moreThanAnyNode", 'init container "init" asks for 16 nvidia.com/gpu, and no node has more than 8',
        waits(1, initContainers=[{**asking({GPU: "16"}), "name": "init"}]),
    ),
    short(
        "two containers that ask for more together than any node has", "moreThanAnyNode", "asks for 12 nvidia.com/gpu (6 in container", TWO_OF_SIX,
        advises='ask for 2 nvidia.com/gpu at most in container "main"',
    ),
    short(
        "the overhead of a runtime class (KAI-Scheduler#373)", "moreThanAnyNode", 'asks for 130 cpu (100 in container "main", 30 of overhead), and no node has more than 128',
        wants({GPU: "1", "cpu": "100"}, runtimeClassName="p-kata"), of="cpu", before=[OVERHEAD], advises="ask for 98 cpu at most",
    ),
    short("a request of the whole pod", "moreThanAnyNode", "asks for 250 cpu, and no node has more than 128", waits(1, resources={"requests": {"cpu": "250"}}), of="cpu", advises="ask for 128 cpu at most in spec.resources"),
    short(
        "a default of a LimitRange that no node has", "moreThanAnyNode", "asks for 200 cpu, and no node has more than ", waits(), of="cpu", before=[DEFAULTS],
        notes="not its manifest but a LimitRange of the namespace set: cpu request for container main",
    ),
    short("two GPUs of nodes that have one each (k8s-device-plugin#165)", "nodesTooSmall", "nodes p-a, p-b: too small: 2 nvidia.com/gpu asked for, 1 there when empty", waits(2), [node("p-a", 1), node("p-b", 1)]),
    short("more CPU than a node with GPUs has (docker-selkies-egl-desktop#35)", "nodesTooSmall", "node p-a: too small: 120 cpu asked for, 96 there when empty", wants({GPU: "1", "cpu": "120"}), one(cpu="96"), "cpu"),
    short("GPUs that are not allocatable", "nodesTooSmall", "node p-a: 6 of 8 nvidia.com/gpu are allocatable, 8 asked for", waits(8), [PART], advises="ask for 6 nvidia.com/gpu at most"),
    short(
        "room that is kept for a pod which preempts", "nominated", "node p-a has room, which the scheduler keeps for pod NAMESPACE/urgent: it preempted others there", waits(2),
        fix=lambda k: k.end("urgent"), before=[HIGH, holding(held("victim", 4))], happens=preempts,
    ),
    Case(
        "a victim that has not ended", "preempting", "it preempts 1 pod on p-a, not ended yet: NAMESPACE/victim", one(), waits(8, priorityClassName="p-high"),
        before=[HIGH, holding(held("victim", 8))],
    ),
    short("time-sliced nodes under another name", "otherGpuResource", "node p-b: nvidia.com/gpu.shared in place of nvidia.com/gpu", waits(nodeSelector={HOSTNAME: "p-b"}), [node("p-a", 1), RENAMED], before=[held("other", 1)]),
    short("GPUs that are split by MIG", "otherGpuResource", "node p-a: nvidia.com/mig-1g.10gb", waits(), one(mig={"1g.10gb": 7})),
    *[short(name, "otherGpuResource", f"node p-a: nvidia.com/gpu in place of {of}", waits(resource=of), of=of, advises="ask for nvidia.com/gpu, a whole one") for name, of in (
        ("a MIG instance of GPUs that are not split", "nvidia.com/mig-1g.10gb"), ("a part of GPUs that are not shared", "nvidia.com/gpu.shared"),
    )],
    Case(
        "as many pods as the kubelet takes", "tooManyPods", "node p-a: full: 1 pods at most, says the kubelet",
        one(resources={"pods": "1"}), waits(), "Too many pods", lambda k: k.end("other"), [pod("other", 1)],
    ),
    Case(
        "as many pods as the node takes, of which none has GPUs", "tooManyPods", "node p-a: full: 2 pods at most, says the kubelet",
        one(resources={"pods": "2"}), waits(), "Too many pods", lambda k: k.end("one"), [held("one", 0), held("two", 0)],
    ),
    *[short(name, "unknownResource", f"no node offers {of}{they}", made, nodes, of, **more) for name, of, they, made, nodes, more in (
        ("a resource that is misspelt", "nvidia.com/gpus", "; they offer", waits(resource="nvidia.com/gpus"), (), {}),
        ("huge pages", "hugepages-2Mi", "", wants({"cpu": "1", "memory": "1Gi", "hugepages-2Mi": "1Gi"}), (), {"fix": lambda k: k.again(containers=[asking({"cpu": "1"})])}),
        ("a MIG profile that no GPU has (KAI-Scheduler#1876)", "nvidia.com/mig-1g.5gb", "", waits(resource="nvidia.com/mig-1g.5gb"), one(mig={"1g.10gb": 7}), {}),
        ("HAMi's memory without HAMi (HAMi#629)", "nvidia.com/gpumem", "", wants({GPU: "1", "nvidia.com/gpumem": "3000"}), (), {"advises": "leave nvidia.com/gpumem out"}),
        ("RDMA that no node offers", "rdma/shared_mlx5", "", wants({GPU: "1", "rdma/shared_mlx5": "1"}), (), {"fix": offering(**{"rdma/shared_mlx5": "9"})}),
        ("AMD GPUs of nodes that have NVIDIA's", "amd.com/gpu", "", waits(resource="amd.com/gpu"), (), {}),
    )],
]  # fmt: skip
