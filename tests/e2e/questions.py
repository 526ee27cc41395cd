"""What people ask about pods of theirs that do not run: one cluster for each question, and what they must be told.

They were collected from what people ask, not from the causes that `why` knows. A name that begins with `p-`, `pv-`, `zone-` or
`class-` is another one in each question, see `pending.kit`. Over 500 lines, since each question has a cluster of its own.
"""

from dataclasses import dataclass
from typing import Any

from tests.controlplane.nodes import node
from tests.controlplane.objects import REQUIRED, deployment, job, made, pod, required, volume, volume_claim, workload
from tests.e2e.pending.amounts import PART
from tests.e2e.pending.claims import CLASS, MODEL, exactly, offered
from tests.e2e.pending.kit import (
    GPU,
    HOSTNAME,
    PRODUCT,
    ZONE,
    Case,
    Fix,
    Json,
    asking,
    held,
    one,
    priority,
    two,
    waits,
    wants,
)


@dataclass
class Question(Case):
    """`first`: the word of the first cause; "": it does not wait, and the message is all that is said. `text` is not used."""

    name: str = "waits"
    """What is asked about, as a person names it."""
    told: tuple[str, ...] = ()
    """Parts of what is printed."""
    never: tuple[str, ...] = ()
    """What must not be printed."""
    tenant: bool = False
    """Asked with the right to view one namespace, and no more."""
    enough: bool | None = None
    """Whether a fix has a mark; None: either."""
    rows: int | None = None
    """How many rows the answer has; None: any."""
    later: Fix | None = None
    """What is done once a pod of it waits."""


def asks(question: str, first: str, nodes: list[Json], made: Json, **more: Any) -> Question:
    return Question(question, first, "", nodes, made, **more)


def tainted(*tolerations: Json) -> Json:
    return waits(tolerations=[*tolerations])


def container(name: str, **limits: str) -> Json:
    return asking({GPU: limits.pop("gpu")} if "gpu" in limits else {}) | {"name": name}


def cron(**spec: Any) -> Json:
    template = {"spec": job("waits")["spec"]}
    return made("CronJob", "waits", spec={"schedule": "0 0 1 1 *", "jobTemplate": template, **spec})


def served(replicas: int = 1, gpus: int = 1, **spec: Any) -> Json:
    return deployment("waits", replicas, gpus, **spec)


def stateful(replicas: int, gpus: int, **spec: Any) -> Json:
    found = deployment("waits", replicas, gpus, kind="StatefulSet", **spec)
    found["spec"]["serviceName"] = "waits"
    return found


def mounts(claim: str) -> list[Json]:
    return [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]


def of(obj: Json, **spec: Any) -> Json:
    """A workload with other fields in its own spec."""
    obj["spec"].update(spec)
    return obj


def queued(obj: Json) -> Json:
    """In a queue of Kueue."""
    obj["metadata"].setdefault("labels", {})["kueue.x-k8s.io/queue-name"] = "team"
    return obj


async def new_version(kit: Any) -> None:
    await kit.patch("Deployment", "waits", {"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}})


def changed(kind: str, **spec: Any) -> Fix:
    """The template of the workload is changed."""
    return lambda kit: kit.patch(kind, "waits", {"spec": {"template": {"spec": spec}}})


def template(name: str, *selectors: str, **fields: Any) -> Json:
    """A ResourceClaimTemplate with one request."""
    requests = [{"name": "gpu", "exactly": exactly(*selectors, **fields)}]
    return made("ResourceClaimTemplate", name, spec={"spec": {"devices": {"requests": requests}}})


def alike(found: Json) -> Json:
    """A template whose devices are to be of one model."""
    found["spec"]["spec"]["devices"]["constraints"] = [{"matchAttribute": "gpu.example.com/model"}]
    return found


def claiming(name: str) -> Json:
    """What the pods of a workload have that use a template."""
    return {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": name}]}


A100S = offered(*[{"attributes": {"model": {"string": "A100"}}}] * 2)
ISOLATED = made("RuntimeClass", "class-isolated", handler="runc", scheduling={"nodeSelector": {"sandbox": "gvisor"}})
HEAVY = made("RuntimeClass", "class-heavy", handler="kata", overhead={"podFixed": {"cpu": "100", "memory": "1Gi"}})
DEFAULTS = made(
    "LimitRange",
    "defaults",
    spec={"limits": [{"type": "Container", "default": {"cpu": "200"}, "defaultRequest": {"cpu": "200"}}]},
)
APART = {"podAntiAffinity": {REQUIRED: [{"labelSelector": {"matchLabels": {"app": "waits"}}, "topologyKey": HOSTNAME}]}}
BESIDE = {"podAffinity": {REQUIRED: [{"labelSelector": {"matchLabels": {"app": "cache"}}, "topologyKey": HOSTNAME}]}}
PORT = [asking({GPU: "1"}, ports=[{"containerPort": 8000, "hostPort": 8000}])]
FOUR_ZONES = {
    "maxSkew": 1,
    "minDomains": 4,
    "topologyKey": ZONE,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "waits"}},
}
POOL = "cloud.google.com/gke-nodepool"
OPERATOR_TAINT = "nvidia.com/gpu=present:NoSchedule"
EIGHT = made("ResourceQuota", "gpus", spec={"hard": {f"requests.{GPU}": "8"}})
QUOTA = made("ResourceQuota", "gpus", spec={"hard": {f"requests.{GPU}": "1"}})

SCOPE = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["p-scoped"]}]}
SCOPED = made("ResourceQuota", "gpus", spec={"hard": {f"requests.{GPU}": "1"}, "scopeSelector": SCOPE})
TOGETHER = {"podAffinity": {REQUIRED: [{"labelSelector": {"matchLabels": {"app": "waits"}}, "topologyKey": HOSTNAME}]}}
MIXED = offered(*[{"attributes": {"model": {"string": model}}} for model in ("A100", "H100")])

QUESTIONS = [
    # How much it asks for
    asks(
        "two containers want a GPU each, and each node has one",
        "nodesTooSmall",
        two(gpus=1),
        pod("waits", containers=[container("a", gpu="1"), container("b", gpu="1")]),
        told=("2",),
    ),
    asks(
        "its init container asks for more GPUs than the main one",
        "nodesTooSmall",
        one(gpus=1),
        pod("waits", containers=[container("main", gpu="1")], init=[container("fetch", gpu="2")]),
        enough=True,
    ),
    asks(
        "its sidecar asks for a GPU too",
        "nodesTooSmall",
        one(gpus=1),
        pod(
            "waits",
            containers=[container("main", gpu="1")],
            init=[container("side", gpu="1") | {"restartPolicy": "Always"}],
        ),
    ),
    asks(
        "he took memory for the memory of the GPU",
        "moreThanAnyNode",
        one(),
        wants({GPU: "1", "memory": "2Ti"}),
        told=("memory",),
        enough=True,
    ),
    asks(
        "the resource in capital letters",
        "unknownResource",
        one(),
        wants({"nvidia.com/GPU": "1"}),
        told=(GPU,),
        enough=True,
    ),
    asks(
        "a MIG profile of another card",
        "unknownResource",
        one(mig={"1g.10gb": 7}),
        wants({"nvidia.com/mig-1g.5gb": "1"}),
        told=("nvidia.com/mig-1g.10gb",),
        enough=True,
    ),
    asks(
        "GPUs of AMD where there are those of NVIDIA",
        "unknownResource",
        one(),
        wants({"amd.com/gpu": "1"}),
        told=(GPU,),
    ),
    asks(
        "GPUs of AMD, and those of NVIDIA have a taint",
        "unknownResource",
        one(taints=[OPERATOR_TAINT]),
        wants({"amd.com/gpu": "1"}),
        told=("no node offers amd.com/gpu",),
    ),
    asks(
        "Gaudis, which others have, beside GPUs of NVIDIA with a taint",
        "gpusTaken",
        [node("p-a", taints=["team=x:NoSchedule"]), node("p-b", 0, resources={"habana.ai/gaudi": "1"})],
        wants({"habana.ai/gaudi": "1"}),
        before=[wants({"habana.ai/gaudi": "1"}, "other")],
        told=("wait for pod/other", "untoleratedTaint"),
        enough=True,
    ),
    asks(
        "a whole GPU, and those of the node with a taint are shared",
        "untoleratedTaint",
        one(gpus=1, replicas=4, taints=["team=x:NoSchedule"]),
        waits(),
        told=("shares of GPUs there",),
        enough=True,
    ),
    asks(
        "huge pages that no node has",
        "unknownResource",
        one(),
        wants({GPU: "1", "hugepages-2Mi": "1Gi", "memory": "1Gi", "cpu": "1"}),
    ),
    asks(
        "five workers of three GPUs on two nodes of eight",
        "gpusFragmented",
        two(),
        job("waits", 5, 3),
        name="job/waits",
        told=("4 in all, at most 2 on one",),
    ),
    asks(
        "the CPUs went to pods without GPUs",
        "insufficientCpu",
        one(cpu="8"),
        wants({GPU: "1", "cpu": "4"}),
        before=[pod("web", 0, requests={"cpu": "6"})],
        told=("web",),
    ),
    asks(
        "a LimitRange wrote the CPUs into it",
        "moreThanAnyNode",
        one(),
        waits(),
        before=[DEFAULTS],
        told=("LimitRange",),
    ),
    asks(
        "its RuntimeClass costs more CPU than is free",
        "insufficientCpu",
        one(),
        waits(runtimeClassName="class-heavy"),
        before=[HEAVY, pod("web", 0, requests={"cpu": "40"})],
    ),
    asks(
        "the kubelet takes one pod", "tooManyPods", one(pods="1"), waits(), before=[held("other", 0)], told=("other",)
    ),
    asks(
        "ephemeral storage for the model",
        "moreThanAnyNode",
        one(),
        wants({GPU: "1", "ephemeral-storage": "100Ti"}),
        told=("ephemeral",),
    ),
    asks(
        "its init container wants more CPUs than its node has",
        "nodesTooSmall",
        one(cpu="16"),
        pod("waits", containers=[container("main", gpu="1")], init=[asking({"cpu": "32"}) | {"name": "build"}]),
        told=('init container "build" asks for 32 cpu',),
        enough=True,
    ),
    asks(
        "two of eight GPUs are withdrawn, and others have the rest",
        "gpusTaken",
        [PART],
        waits(),
        before=[held("other", 6)],
        told=("2 of 8 nvidia.com/gpu are not allocatable on node p-a",),
    ),
    asks(
        "its sidecar makes it more than a node has",
        "moreThanAnyNode",
        one(),
        pod(
            "waits",
            containers=[container("main", gpu="8")],
            init=[container("warm", gpu="1") | {"restartPolicy": "Always"}],
        ),
        told=('asks for 9 nvidia.com/gpu (8 in container "main", 1 in sidecar "warm")',),
        enough=True,
    ),
    asks(
        "its init container is as large as the node, but for the sidecar before it",
        "nodesTooSmall",
        one(cpu="16"),
        pod(
            "waits",
            containers=[container("main", gpu="1")],
            init=[
                asking({"cpu": "4"}) | {"name": "log", "restartPolicy": "Always"},
                asking({"cpu": "16"}) | {"name": "build"},
            ],
        ),
        told=(
            'init container "build" with its sidecars asks for 20 cpu',
            'ask for 12 cpu at most in init container "build"',
        ),
        enough=True,
    ),
    asks(
        "twelve replicas, and others have half of the node",
        "gpusTaken",
        one(),
        served(12),
        name="deploy/waits",
        before=[held("other", 4)],
        told=("room for 4 of the 8 pods",),
        enough=True,
        rows=1,
    ),
    asks(
        "eight instances of MIG where a card has seven",
        "moreThanAnyNode",
        one(gpus=1, mig={"1g.10gb": 7}),
        wants({"nvidia.com/mig-1g.10gb": "8"}),
        told=("no node has more than 7",),
        enough=True,
    ),
    asks(
        "a profile of MIG that the cluster does not cut, beside devices of others",
        "unknownResource",
        [
            node("p-a", 1, mig={"2g.20gb": 3}),
            node("p-b", 0, resources={"aws.amazon.com/neuron": "4", "gpu.intel.com/i915": "2"}),
        ],
        wants({"nvidia.com/mig-3g.40gb": "1"}),
        told=("ask for nvidia.com/mig-2g.20gb", "they offer nvidia.com/"),
        enough=True,
    ),
    asks(
        "the cores of Neuron in the plural",
        "unknownResource",
        one(gpus=0, resources={"aws.amazon.com/neuron": "4", "aws.amazon.com/neuroncore": "8"}),
        wants({"aws.amazon.com/neuroncores": "2"}),
        told=("ask for aws.amazon.com/neuroncore in place of",),
        enough=True,
    ),
    asks(
        "the driver of Intel's newer cards where the older one is installed",
        "unknownResource",
        one(gpus=0, resources={"gpu.intel.com/i915": "2"}),
        wants({"gpu.intel.com/xe": "1"}),
        told=("ask for gpu.intel.com/i915",),
        enough=True,
    ),
    # Devices, by claims
    asks(
        "four replicas of a device each on a node of two",
        "noDevice",
        one(gpus=0),
        served(4, 0, **claiming("t")),
        name="deploy/waits",
        before=[CLASS, A100S, template("t")],
        told=("claim of template t: 1 device",),
        never=("in a new claim",),
        rows=1,
    ),
    asks(
        "his template asks for an attribute that no device has",
        "noDevice",
        one(gpus=0),
        waits(0, **claiming("t")),
        before=[CLASS, A100S, template("t", 'device.attributes["gpu.example.com"].family == "Ampere"')],
        told=("claim of template t: selector #0", "no such key: family", "correct it in the template"),
        never=("documentation", "the scheduler also says"),
        enough=False,
    ),
    asks(
        "his template asks for a model that no device is",
        "noDevice",
        one(gpus=0),
        waits(0, **claiming("t")),
        before=[CLASS, A100S, template("t", f'{MODEL} == "A1000"')],
        told=('devices have model: "A100"', "correct the selector in the template"),
        enough=False,
    ),
    asks(
        "his template asks for another model, and for more than there are",
        "noDevice",
        one(gpus=0),
        served(1, 0, **claiming("t")),
        name="deploy/waits",
        before=[CLASS, A100S, template("t", f'{MODEL} == "A100"', count=3)],
        told=("at most 2 free", "ask for at most 2 in the template, and create the pod again"),
    ),
    # Where it may run
    asks(
        "its toleration has the value true, the taint has present",
        "untoleratedTaint",
        one(taints=[OPERATOR_TAINT]),
        tainted({"key": GPU, "operator": "Equal", "value": "true", "effect": "NoSchedule"}),
        enough=True,
    ),
    asks(
        "its toleration is for NoExecute alone",
        "untoleratedTaint",
        one(taints=[OPERATOR_TAINT]),
        tainted({"key": GPU, "operator": "Exists", "effect": "NoExecute"}),
        enough=True,
    ),
    asks(
        "the pool that it names was replaced",
        "nodeSelector",
        one(labels={POOL: "a100-v2"}),
        waits(nodeSelector={POOL: "a100-v1"}),
        told=("a100-v2",),
        enough=True,
    ),
    asks(
        "the label that it names is misspelt",
        "nodeSelector",
        one(),
        waits(nodeSelector={"nvidia.com/gpu.prodcut": "NVIDIA-A100-SXM4-80GB"}),
        told=(PRODUCT,),
        enough=True,
    ),
    asks(
        "an image for ARM",
        "nodeSelector",
        one(labels={"kubernetes.io/arch": "amd64"}),
        waits(nodeSelector={"kubernetes.io/arch": "arm64"}),
        told=("amd64",),
    ),
    asks(
        "its RuntimeClass wants nodes with a label, and the manifest names none",
        "nodeSelector",
        one(),
        waits(runtimeClassName="class-isolated"),
        before=[ISOLATED],
        told=("RuntimeClass class-",),
    ),
    asks(
        "the node to which it is pinned is gone",
        "pinnedNode",
        one(),
        waits(affinity=required("metadata.name", "In", "p-gone", part="matchFields")),
        enough=True,
    ),
    asks(
        "GPUs of two models would do, and none of them is here",
        "nodeAffinity",
        one(),
        waits(affinity=required(PRODUCT, "In", "NVIDIA-H100-80GB-HBM3", "NVIDIA-H200")),
        told=("NVIDIA-A100-SXM4-80GB",),
        enough=True,
    ),
    asks(
        "whole GPUs where all are partitioned",
        "otherGpuResource",
        one(mig={"1g.10gb": 7}),
        waits(),
        told=("mig-1g.10gb",),
    ),
    asks(
        "only the node for maintenance has its disk",
        "cordoned",
        [node("p-a", cordoned=True), node("p-b")],
        waits(volumes=mounts("disk")),
        before=[volume("pv-a", "p-a", HOSTNAME), volume_claim("disk", "pv-a")],
        enough=True,
    ),
    asks(
        "he names a zone, and his data is in another",
        "volumeNodeConflict",
        two(),
        waits(nodeSelector={ZONE: "zone-a"}, volumes=mounts("disk")),
        before=[volume("pv-b", "zone-b"), volume_claim("disk", "pv-b")],
        enough=True,
    ),
    # Other pods
    asks(
        "a new version of a service does not come up on a full node",
        "gpusTaken",
        one(),
        served(1, 8),
        name="deploy/waits",
        happens=new_version,
        told=("maxSurge 0",),
        never=("wait for",),
    ),
    asks(
        "the second replica wants the port of the first",
        "hostPort",
        one(),
        served(2, containers=PORT),
        name="deploy/waits",
        told=("8000",),
    ),
    asks(
        "three replicas apart on two nodes",
        "podAntiAffinity",
        two(),
        served(3, affinity=APART),
        name="deploy/waits",
        told=("the first is not enough",),
        enough=False,
    ),
    asks(
        "beside a cache that runs in another namespace",
        "podAffinity",
        one(),
        waits(affinity=BESIDE),
        told=("app=cache",),
        enough=True,
    ),
    asks(
        "a debugging pod has the only claim",
        "volumeInUse",
        one(),
        waits(volumes=mounts("disk")),
        before=[
            volume("pv-one", accessModes=["ReadWriteOncePod"]),
            volume_claim("disk", "pv-one", accessModes=["ReadWriteOncePod"]),
            pod("debug", 0, volumes=mounts("disk")),
        ],
        told=("debug",),
        enough=True,
    ),
    asks(
        "a lower class waits for a higher one",
        "gpusTaken",
        one(),
        waits(8, priorityClassName="p-low"),
        before=[priority("p-low", -5, "PreemptLowerPriority"), held("serves", 8)],
        told=("serves",),
    ),
    asks(
        "the name of a card at another cloud's",
        "nodeSelector",
        one(labels={"cloud.google.com/gke-accelerator": "nvidia-h100-mega-80gb"}),
        waits(nodeSelector={"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"}),
        told=("to nvidia-h100-mega-80gb",),
        enough=True,
    ),
    asks(
        "an L4, and all of them are shared",
        "nodeSelector",
        one(gpus=1, product="NVIDIA-L4", replicas=4),
        waits(nodeSelector={PRODUCT: "NVIDIA-L4"}),
        told=("NVIDIA-L4-SHARED", "shared by several pods"),
        enough=True,
    ),
    asks(
        "a taint of TPUs, and a topology that no slice has",
        "untoleratedTaint",
        one(
            gpus=0,
            labels={"cloud.google.com/gke-tpu-topology": "2x4"},
            taints=["google.com/tpu=present:NoSchedule"],
            resources={"google.com/tpu": "8"},
        ),
        wants({"google.com/tpu": "4"}, nodeSelector={"cloud.google.com/gke-tpu-topology": "2x2"}),
        told=("the first is not enough", "nearest: cloud.google.com/gke-tpu-topology=2x4"),
        enough=False,
    ),
    asks(
        "the key of a label in capitals, and the node is cordoned",
        "cordoned",
        one(labels={"pool": "l4"}, cordoned=True),
        waits(nodeSelector={"POOL": "l4"}),
        told=(
            "kubectl uncordon p-a",
            "the first is not enough: then nodeSelector POOL=l4 is on no node",
            "nearest: pool=l4",
        ),
        never=("label node NAME POOL",),
        enough=False,
    ),
    asks(
        "any card but one: the others are cordoned and down",
        "cordoned",
        [
            node("p-a", labels={"gpu": "A100"}),
            node("p-b", labels={"gpu": "L4"}, cordoned=True),
            node("p-c", labels={"gpu": "L4"}, ready=False),
        ],
        waits(affinity=required("gpu", "NotIn", "A100")),
        told=("kubectl uncordon p-b", "notReady"),
        enough=True,
    ),
    asks(
        "a pool whose name is misspelt, and the right one is full",
        "nodeSelector",
        [node("p-a", labels={"pool": "training"}), node("p-b", labels={"pool": "serving"})],
        served(2, 1, nodeSelector={"pool": "trainning"}),
        name="deployment.apps/waits",
        before=[held("other", 8)],
        told=("set spec.nodeSelector[pool] to training", "the first is not enough: then all GPUs are taken"),
        never=("pool=trainning: kubectl", "label nodes"),
        rows=1,
    ),
    asks(
        "its data are in the zone whose GPUs others have",
        "gpusTaken",
        two(),
        waits(2, volumes=mounts("disk")),
        before=[volume("pv-a", "zone-a"), volume_claim("disk", "pv-a"), held("other", 8)],
        told=("by volumeNodeConflict", "wait for pod/other"),
        enough=True,
    ),
    asks(
        "four zones wanted, and there are two",
        "topologySpread",
        two(),
        served(3, topologySpreadConstraints=[FOUR_ZONES]),
        name="deploy/waits",
        told=("minDomains 4, of which there are 2", "ScheduleAnyway"),
        enough=True,
    ),
    asks(
        "a taint of one node, and too few CPUs on the other",
        "untoleratedTaint",
        [node("p-a", taints=["team=x:NoSchedule"]), node("p-b", cpu="16")],
        wants({GPU: "1", "cpu": "24"}),
        told=("nodesTooSmall",),
        enough=True,
    ),
    # What was changed does not help
    asks(
        "he has corrected the template of a StatefulSet, and its pod waits as before",
        "oldRevision",
        one(labels={"pool": "serving"}),
        stateful(2, 1, nodeSelector={"pool": "servng"}),
        name="sts/waits",
        later=changed("StatefulSet", nodeSelector={"pool": "serving"}),
        told=("statefulset/waits makes it again", "kubectl delete pod waits-0"),
        enough=True,
    ),
    # Nothing is there to look at
    asks("a service of no replicas", "noPods", one(), served(0), name="deploy/waits", told=("0 replicas",)),
    asks("a paused service", "noPods", one(), of(served(), paused=True), name="deploy/waits", told=("paused",)),
    asks(
        "a job that ran out of time",
        "noPods",
        one(gpus=0),
        of(job("waits"), activeDeadlineSeconds=1),
        name="job/waits",
        told=("DeadlineExceeded",),
    ),
    asks("a suspended schedule", "suspended", one(), cron(suspend=True), name="cronjob/waits", told=("resume",)),
    asks("a schedule whose time has not come", "noPods", one(), cron(), name="cj/waits", told=("0 0 1 1 *",)),
    asks(
        "an agent on the nodes with GPUs, which have a taint",
        "noPods",
        one(taints=[OPERATOR_TAINT]),
        workload("DaemonSet", "waits", 0, of={"selector": {"matchLabels": {"app": "waits"}}}),
        name="ds/waits",
        told=("no node",),
    ),
    asks(
        "only the first replica of a set is there",
        "moreThanAnyNode",
        one(),
        stateful(3, 16),
        name="sts/waits",
        told=("16",),
    ),
    asks(
        "its operator was removed, and the gate stayed",
        "schedulingGate",
        one(),
        waits(schedulingGates=[{"name": "example.org/budget"}]),
        told=("example.org/budget",),
    ),
    asks(
        "a quota is spent, and the nodes are full too",
        "quotaExceeded",
        one(),
        job("waits", 2, 4),
        name="jobs/waits",
        before=[EIGHT, held("other", 8)],
        told=("=8 used", "kubectl patch quota gpus", "the first is not enough: then all GPUs are taken"),
        never=("ask for less",),
        enough=False,
    ),
    asks(
        "a namespace that takes only what is safe",
        "refused",
        one(),
        served(1, volumes=[{"name": "models", "hostPath": {"path": "/models"}}]),
        name="deploy/waits",
        labels={"pod-security.kubernetes.io/enforce": "restricted"},
        told=("violates PodSecurity", "…"),
        enough=False,
    ),
    asks(
        "a quota is spent, and there are GPUs",
        "quotaExceeded",
        two(),
        job("waits", 3, 4),
        name="job/waits",
        before=[EIGHT],
        told=('{"spec":{"hard":{"requests.nvidia.com/gpu":"12"}}}',),
        enough=True,
    ),
    asks(
        "a quota leaves less than he asks for",
        "quotaExceeded",
        one(),
        served(1, 2),
        name="deploy/waits",
        before=[QUOTA],
        told=("ask for 1 nvidia.com/gpu at most", '"requests.nvidia.com/gpu":"2"'),
        enough=True,
    ),
    asks(
        "a quota of GPUs that is enough, and one of pods that is not",
        "quotaExceeded",
        one(),
        served(1, 2),
        name="deploy/waits",
        before=[QUOTA, made("ResourceQuota", "pods", spec={"hard": {"pods": "0"}})],
        enough=False,
    ),
    asks(
        "a LimitRange allows fewer CPUs",
        "limitRange",
        one(),
        served(1, containers=[asking({GPU: "1", "cpu": "4"})]),
        name="deploy/waits",
        before=[made("LimitRange", "small", spec={"limits": [{"type": "Container", "max": {"cpu": "1"}}]})],
        told=("ask for 1 cpu at most",),
        enough=True,
    ),
    asks(
        "nobody has made its ServiceAccount",
        "serviceAccountMissing",
        one(),
        served(1, 1, serviceAccountName="robot"),
        name="deploy/waits",
        told=("kubectl create serviceaccount robot -n NAMESPACE",),
        enough=True,
    ),
    asks(
        "its class is misspelt, and others have the GPUs",
        "priorityClassMissing",
        one(),
        served(1, 1, priorityClassName="p-hihg"),
        name="deploy/waits",
        before=[priority("p-high", 10, "Never"), held("other", 8)],
        told=("name p-high in place of p-hihg", "the first is not enough: then all GPUs are taken"),
        enough=False,
    ),
    asks(
        "a job that its author suspended",
        "suspended",
        one(),
        of(job("waits"), suspend=True),
        name="job/waits",
        enough=True,
    ),
    asks(
        "a job in a queue of Kueue, which nobody has installed",
        "queued",
        one(),
        of(queued(job("waits")), suspend=True),
        name="job/waits",
        told=("nobody starts it", "has made no Workload of it", "kubectl patch job/waits"),
        enough=True,
    ),
    asks(
        "a job with the label of a queue and without Kueue, on a full node",
        "gpusTaken",
        one(),
        queued(job("waits")),
        name="job/waits",
        before=[held("other", 8)],
        told=("its label kueue.x-k8s.io/queue-name=team does nothing here",),
    ),
    asks("the name of a node", "", one(), waits(), name="p-a", told=("is a node", "drain")),
    asks("the name of its Service", "", one(), served(), name="svc/waits", told=("did you mean deployment/waits?",)),
    asks(
        "the zone, by a label without its domain",
        "nodeSelector",
        two(),
        waits(nodeSelector={"zone": "zone-b"}),
        told=("topology.kubernetes.io/zone",),
        enough=True,
    ),
    asks(
        "his agent asks for a GPU on each node, and one is full",
        "gpusTaken",
        two(),
        workload("DaemonSet", "waits", 1, of={"selector": {"matchLabels": {"app": "waits"}}}),
        name="ds/waits",
        before=[held("other", 8)],
        told=("wait for pod/other",),
        never=("add a node",),
        enough=True,
    ),
    asks(
        "thousands of CPUs, as he meant thousandths",
        "moreThanAnyNode",
        one(),
        wants({GPU: "1", "cpu": "8000"}),
        told=("8000 cpu",),
        enough=True,
    ),
    asks(
        "a quota of his class alone",
        "quotaExceeded",
        one(),
        served(1, 2, priorityClassName="p-scoped"),
        name="deploy/waits",
        before=[priority("p-scoped", 10, "Never"), SCOPED],
        told=("ask for 1 nvidia.com/gpu at most", "kubectl patch quota gpus"),
        enough=True,
    ),
    asks(
        "a schedule, and a quota of Jobs",
        "quotaExceeded",
        one(),
        cron(schedule="* * * * *"),
        name="cj/waits",
        before=[made("ResourceQuota", "jobs", spec={"hard": {"count/jobs.batch": "0"}})],
        told=("count/jobs.batch",),
        enough=False,
    ),
    asks(
        "two replicas beside each other, and the node has room for one",
        "podAffinity",
        two(),
        served(2, 8, affinity=TOGETHER),
        name="deploy/waits",
        told=("app=waits",),
        enough=True,
    ),
    asks(
        "the memory of the card, as its data sheet says",
        "nodeSelector",
        one(labels={"nvidia.com/gpu.memory": "81559"}),
        waits(nodeSelector={"nvidia.com/gpu.memory": "80000"}),
        told=("81559",),
        enough=True,
    ),
    asks(
        "its RuntimeClass is misspelt",
        "runtimeClassMissing",
        one(),
        served(1, 1, runtimeClassName="class-nvidai"),
        name="deploy/waits",
        before=[made("RuntimeClass", "class-nvidia", handler="nvidia")],
        told=("name class-nvidia in place of class-nvidai",),
        enough=True,
    ),
    asks(
        "a LimitRange allows fewer CPUs in a container, and a sidecar has its own",
        "limitRange",
        one(),
        served(1, containers=[asking({GPU: "1", "cpu": "4"}), asking({"cpu": "500m"}) | {"name": "log"}]),
        name="deploy/waits",
        before=[made("LimitRange", "small", spec={"limits": [{"type": "Container", "max": {"cpu": "2"}}]})],
        told=('ask for 2 cpu at most in container "main"',),
        enough=True,
    ),
    asks(
        "a new version of a service that has all of its quota",
        "quotaExceeded",
        one(),
        served(1, 1),
        name="deploy/waits",
        before=[QUOTA],
        happens=new_version,
        told=("kubectl patch quota gpus", "maxSurge 0"),
        enough=True,
    ),
    asks(
        "a LimitRange allows one GPU in a pod",
        "limitRange",
        one(),
        served(1, 2),
        name="deploy/waits",
        before=[made("LimitRange", "one", spec={"limits": [{"type": "Pod", "max": {GPU: "1"}}]})],
        told=("ask for 1 nvidia.com/gpu at most",),
        enough=True,
    ),
    asks(
        "two devices of one model, and the node has one of each",
        "noDevice",
        one(gpus=0),
        waits(0, **claiming("t")),
        before=[CLASS, MIXED, alike(template("t", count=2))],
        told=("claim of template t", "model"),
        enough=False,
    ),
    # A tenant asks, who may view his namespace
    asks(
        "tenant: over quota, and what is left",
        "quotaExceeded",
        one(),
        served(1, 2),
        name="deploy/waits",
        before=[QUOTA],
        tenant=True,
        told=("ask for 1 nvidia.com/gpu at most",),
    ),
    asks(
        "tenant: he has corrected the template of a StatefulSet",
        "oldRevision",
        one(labels={"pool": "serving"}),
        stateful(2, 1, nodeSelector={"pool": "servng"}),
        name="sts/waits",
        later=changed("StatefulSet", nodeSelector={"pool": "serving"}),
        tenant=True,
        told=("kubectl delete pod waits-0",),
    ),
    asks(
        "tenant: his template asks for an attribute that no device has",
        "noDevice",
        one(gpus=0),
        waits(0, **claiming("t")),
        before=[CLASS, A100S, template("t", 'device.attributes["gpu.example.com"].family == "Ampere"')],
        tenant=True,
        told=("no such key: family",),
    ),
    asks(
        "tenant: a namespace that takes only what is safe",
        "refused",
        one(),
        served(1, hostPID=True),
        name="waits",
        labels={"pod-security.kubernetes.io/enforce": "baseline"},
        tenant=True,
        told=("violates PodSecurity", "hostPID"),
    ),
    asks(
        "tenant: are there free GPUs",
        "gpusTaken",
        one(),
        waits(8),
        before=[held("other", 2)],
        tenant=True,
        told=("Insufficient nvidia.com/gpu",),
    ),
    asks(
        "tenant: the node with GPUs has a taint",
        "untoleratedTaint",
        one(taints=["team=x:NoSchedule"]),
        waits(),
        tenant=True,
        told=("add a toleration",),
    ),
    asks(
        "tenant: over quota",
        "quotaExceeded",
        one(),
        served(1, 2),
        name="deploy/waits",
        before=[QUOTA],
        tenant=True,
        told=("1 at most",),
    ),
    asks(
        "tenant: the claim is misspelt",
        "volumeClaimMissing",
        one(),
        waits(volumes=mounts("dsik")),
        before=[volume("pv-d"), volume_claim("disk", "pv-d")],
        tenant=True,
        told=("disk",),
        enough=None,
    ),
    asks(
        "tenant: the resource is misspelt",
        "insufficientResource",
        one(),
        wants({"nvidia.com/gpus": "1"}),
        tenant=True,
        told=("nvidia.com/gpus",),
        never=("GPUs taken",),
    ),
    asks(
        "tenant: a service of no replicas", "noPods", one(), served(0), name="waits", tenant=True, told=("0 replicas",)
    ),
    asks(
        "tenant: a new version of a service on a full node",
        "gpusTaken",
        one(),
        served(1, 8),
        name="deploy/waits",
        happens=new_version,
        tenant=True,
        never=("wait for pod",),
    ),
    asks(
        "tenant: a suspended job",
        "suspended",
        one(),
        of(job("waits"), suspend=True),
        name="job/waits",
        tenant=True,
        told=("resume",),
    ),
    asks(
        "tenant: a job in a queue of Kueue, which nobody has installed",
        "queued",
        one(),
        of(queued(job("waits")), suspend=True),
        name="job/waits",
        tenant=True,
        told=("nobody starts it",),
    ),
    asks(
        "tenant: the ServiceAccount is missing",
        "serviceAccountMissing",
        one(),
        served(1, 1, serviceAccountName="robot"),
        name="deploy/waits",
        tenant=True,
        told=("robot",),
    ),
    asks(
        "tenant: no class of storage is called so",
        "storageClassMissing",
        one(),
        waits(volumes=mounts("disk")),
        before=[volume_claim("disk", storageClassName="class-gone")],
        tenant=True,
    ),
    asks("tenant: nothing is called so", "", one(), waits(), name="wiats", tenant=True, told=("did you mean waits?",)),
]
