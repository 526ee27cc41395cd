"""Causes that people ask about, of kinds that the other tables lack. Where an issue is named, it shows this problem."""

from tests.controlplane.api import wait_until
from tests.controlplane.nodes import node
from tests.controlplane.objects import deployment, made
from tests.e2e.pending_kit import (
    GPU,
    HOSTNAME,
    Case,
    Fix,
    Json,
    Kit,
    asking,
    claim,
    cpu,
    held,
    in_zone,
    mounts,
    one,
    priority,
    two,
    volume,
    waits,
)

HOLD = {"finalizers": ["example.com/hold"]}


def holding(obj: Json) -> Json:
    return {**obj, "metadata": {**obj["metadata"], **HOLD}}


def release(kind: str, name: str) -> Fix:
    return lambda k: k.patch(kind, name, {"metadata": {"finalizers": None}})


async def no_gpus(k: Kit) -> None:
    """The device plugin calls all GPUs of the node unhealthy."""
    await k.patch("Node", "p-a", {"status": {"allocatable": {GPU: "0"}}}, subresource="status")


async def preempts(k: Kit) -> None:
    """A pod that preempts, and whose victim does not end."""
    await k.make(waits(8, priorityClassName="p-high") | {"metadata": {"name": "urgent"}})

    async def nominated() -> bool:
        return any((p["status"] or {}).get("nominatedNodeName") for p in await k.api.pods(k.namespace))

    await wait_until(nominated, 120, "the nominated node")


async def claim_again(k: Kit) -> None:
    await k.patch("PersistentVolumeClaim", "data", {"metadata": {"finalizers": None}})
    await k.make(volume("pv-new"), claim("data", volumeName="pv-new"))


DEFAULTS = made(
    "LimitRange",
    "defaults",
    spec={"limits": [{"type": "Container", "defaultRequest": {"cpu": "200"}, "default": {"cpu": "200"}}]},
)

ASKED = [
    Case(
        "two volumes in two zones (kubeflow#7109)", "volumeNodeConflict", "volume pv-one of claim one cannot be reached from node p-b: it is on node p-a",
        two(), waits(**mounts("one", "two")), "node affinity", lambda k: k.again(**mounts("one")),
        [volume("pv-one", nodeAffinity=in_zone("zone-a")), claim("one", volumeName="pv-one"),
         volume("pv-two", nodeAffinity=in_zone("zone-b")), claim("two", volumeName="pv-two")],
    ),
    Case(
        "all GPUs of a node are unhealthy (k8s-device-plugin#58)", "devicePluginMissing", "node p-a: of 8 nvidia.com/gpu none is allocatable: the device plugin calls all unhealthy, or has gone",
        one(), waits(), "Insufficient nvidia.com/gpu",
        lambda k: k.patch("Node", "p-a", {"status": {"allocatable": {GPU: "8"}}}, subresource="status"), happens=no_gpus,
    ),
    Case(
        "a pod that is being deleted has the GPU", "gpusTaken", "all GPUs are taken: 8 nvidia.com/gpu asked for",
        one(), waits(8), "Insufficient nvidia.com/gpu", release("Pod", "old"), [holding(held("old", 8))],
        advises="wait for pod/old in NAMESPACE", happens=lambda k: k.end("old"), notes="being deleted there, and has its GPUs until it has ended: NAMESPACE/old",
    ),
    Case(
        "a pod without GPUs, and only nodes with GPUs have room", "insufficientCpu", "node p-b: short of cpu: 96 asked for, at most ",
        [node("p-a", taints=["nvidia.com/gpu=present:NoSchedule"]), node("p-b", 0)], cpu({"cpu": "96"}), "Insufficient cpu", lambda k: k.end("other"),
        [{**cpu({"cpu": "90"}, "other"), "spec": {**cpu({"cpu": "90"})["spec"], "nodeSelector": {HOSTNAME: "p-b"}}}],
    ),
    Case(
        "a default of a LimitRange that no node has", "moreThanAnyNode", "asks for 200 cpu, and no node has more than ",
        one(), waits(), "Insufficient cpu", lambda k: k.again(containers=[asking({GPU: "1", "cpu": "1"})]), [DEFAULTS],
        notes="not its manifest but a LimitRange of the namespace set: cpu request for container main",
    ),
    Case(
        "Pod Security", "refused", '1 pod could not be created: violates PodSecurity "baseline:latest": host namespaces (hostIPC=true)', one(), deployment("waits", hostIPC=True), "",
        lambda k: k.patch("Deployment", "waits", {"spec": {"template": {"spec": {"hostIPC": False}}}}),
        about="replicaset/waits-", labels={"pod-security.kubernetes.io/enforce": "baseline"},
    ),
    Case(
        "a volume that was deleted", "volumeClaimLost", "PersistentVolumeClaim data", one(), waits(**mounts("data")), 'bound to non-existent persistentvolume "pv-gone"',
        lambda k: k.again(volumes=None),
        [{**claim("data", volumeName="pv-gone"), "metadata": {"name": "data", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}}],
    ),
    Case(
        "a volume claim that is being deleted", "volumeClaimDeleting", "PersistentVolumeClaim data is being deleted", one(), waits(**mounts("data")),
        "", claim_again, [volume("pv-old"), holding(claim("data", volumeName="pv-old"))],
        happens=lambda k: k.delete("PersistentVolumeClaim", "data"),
    ),
    Case(
        "a node by spec.nodeName that is not there", "pinnedNode", "spec.nodeName is p-z, and no node is called so: nothing starts the pod, and it is deleted soon",
        one(), waits(nodeName="p-z"), "", lambda k: k.again(nodeName=None),
    ),
    Case(
        "room that is kept for a pod which preempts", "nominated", "", one(), waits(2), "Insufficient nvidia.com/gpu",
        lambda k: k.end("urgent"), [priority("p-high", 1000, "PreemptLowerPriority"), holding(held("victim", 4))], happens=preempts,
    ),
]  # fmt: skip
