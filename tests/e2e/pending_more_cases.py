"""More causes of waiting: numbers in affinity, too few domains, devices that are elsewhere, victims that have not ended, and pods that
the API server does not take."""

from tests.controlplane.nodes import node
from tests.controlplane.objects import deployment, job, made, pod, required
from tests.controlplane.programs import SERVES_EXTENDED_RESOURCES
from tests.e2e.pending_kit import (
    CLAIMING,
    DEVICE_CLASS,
    GPU,
    L4,
    TOLERATION,
    ZONE,
    Case,
    Json,
    Kit,
    asking,
    claim,
    cpu,
    device_claim,
    device_slice,
    held,
    in_zone,
    mounts,
    one,
    priority,
    spread,
    two,
    volume,
    waits,
)

BACKED = {**DEVICE_CLASS, "spec": {**DEVICE_CLASS["spec"], "extendedResourceName": "example.com/gpu"}}


def of_class(name: str, binding: str) -> Json:
    return made("StorageClass", name, provisioner="kubernetes.io/no-provisioner", volumeBindingMode=binding)


async def unhold(kit: Kit) -> None:
    await kit.patch("Pod", "victim", {"metadata": {"finalizers": None}})


def _refusing() -> list[Json]:
    """A policy that refuses pods with a label."""
    rules = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    expression = "!has(object.metadata.labels) || !('refuse' in object.metadata.labels)"
    policy = {
        "matchConstraints": {"resourceRules": [rules]},
        "validations": [{"expression": expression, "message": "not today"}],
    }
    binding = {"policyName": "p-refuses", "validationActions": ["Deny"]}
    return [
        made("ValidatingAdmissionPolicy", "p-refuses", spec=policy),
        made("ValidatingAdmissionPolicyBinding", "p-refuses", spec=binding),
    ]


async def _allowed(kit: Kit) -> None:
    await kit.delete("ValidatingAdmissionPolicyBinding", "p-refuses")


SUSPENDED = job("waits")
SUSPENDED["spec"]["suspend"] = True
EXTENDED = [
    Case(
        "an extended resource that a device class has, and too few devices", "noDevice",
        "example.com/gpu: 2 devices of gpu.example.com wanted, at most 1 free on a node: not on node p-a",
        one(), waits(2, resource="example.com/gpu"), "", lambda k: k.again(containers=waits(1, resource="example.com/gpu")["spec"]["containers"]),
        [BACKED, device_slice("s-ext", "p-a", 1)],
    ),
] if SERVES_EXTENDED_RESOURCES else []  # fmt: skip
MORE = [
    Case(
        "node affinity by a number", "nodeAffinity",
        "required node affinity «gpu-memory Gt 79» matches no node; nodes have 40",
        one(labels={"gpu-memory": "40"}), waits(affinity=required("gpu-memory", "Gt", "79")),
        "node affinity/selector", lambda k: k.again(affinity=required("gpu-memory", "Gt", "39")),
    ),
    Case(
        "node affinity that excludes", "nodeAffinity",
        "required node affinity «topology.kubernetes.io/zone DoesNotExist» matches no node; nodes have zone-a",
        one(), waits(affinity=required(ZONE, "DoesNotExist")),
        "node affinity/selector", lambda k: k.again(affinity=None),
    ),
    Case(
        "a node by its field that is not there", "pinnedNode",
        "pinned to 1 node (p-z) by its manifest, and p-z is no node of this cluster",
        one(), waits(affinity=required("metadata.name", "In", "p-z", part="matchFields")), "[NodeAffinity]", lambda k: k.again(affinity=None),
    ),
    Case(
        "fewer domains than minDomains", "topologySpread",
        "topology spread over topology.kubernetes.io/zone with maxSkew 1 (pods now: zone-a 1, zone-b 1) and minDomains 3, of which there are 2, keeps it from nodes p-a, p-b",
        two(), waits(topologySpreadConstraints=[{**spread(), "topologyKey": ZONE, "minDomains": 3}]), "topology spread",
        lambda k: k.again(topologySpreadConstraints=[{**spread(), "topologyKey": ZONE}]),
        [held("one", 1, labels={"app": "waits"}), held("two", 1, "p-b", labels={"app": "waits"})],
    ),
    Case(
        "a victim that has not ended", "preempting",
        "it preempts 1 pod on p-a (NAMESPACE/victim), which have not ended yet",
        one(), waits(8, priorityClassName="p-high"), "", unhold,
        [priority("p-high", 1000, "PreemptLowerPriority"),
         {**held("victim", 8), "metadata": {**held("victim", 8)["metadata"], "finalizers": ["example.com/hold"]}}],
    ),
    Case(
        "a claim whose device is on a full node", "tooManyPods",
        "node p-a: full: 1 pods at most, says the kubelet",
        two(resources={"pods": "1"}), waits(0, **CLAIMING), "", lambda k: k.end("other"),
        [DEVICE_CLASS, device_slice("s-else", "p-a", 1), device_claim("c"), {**pod("other", 0), "spec": {**pod("other", 0)["spec"], **CLAIMING}}],
    ),
    Case(
        "a claim template that is not there", "claimTemplateMissing",
        'ResourceClaimTemplate "t" does not exist in NAMESPACE',
        one(), waits(0, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "t"}]), "",
        lambda k: k.again(resourceClaims=None),
    ),
    *EXTENDED,
    Case(
        "huge pages", "unknownResource",
        "no node offers hugepages-2Mi",
        one(), cpu({"cpu": "1", "memory": "1Gi", "hugepages-2Mi": "1Gi"}), "Insufficient hugepages-2Mi", lambda k: k.asks(cpu="1"),
    ),
    Case(
        "no free volume on the nodes that are left", "volumeNodeConflict",
        "a free volume for claim data cannot be reached from node p-a: it is on node p-b",
        two(), waits(nodeSelector={ZONE: "zone-a"}, **mounts("data")), "", lambda k: k.again(nodeSelector=None),
        [of_class("class-local", "WaitForFirstConsumer"), volume("pv-local", storageClassName="class-local", nodeAffinity=in_zone("zone-b")),
         claim("data", storageClassName="class-local")],
    ),
    Case(
        "an init container that asks for more GPUs than any node has", "moreThanAnyNode",
        'init container "init" asks for 16 nvidia.com/gpu, and no node has more than 8', one(),
        waits(1, initContainers=[asking({GPU: "16"}) | {"name": "init"}]), "Insufficient nvidia.com/gpu",
        lambda k: k.again(initContainers=None),
    ),
    Case(
        "another cloud's label for the same model", "nodeSelector",
        'nodeSelector cloud.google.com/gke-accelerator=nvidia-l4 is on no node; no node has a label '
        '"cloud.google.com/gke-accelerator"; nearest: nvidia.com/gpu.product=NVIDIA-L4',
        [node("p-a", 1, L4)], waits(nodeSelector={"cloud.google.com/gke-accelerator": "nvidia-l4"}), "node affinity/selector",
        lambda k: k.again(nodeSelector={"nvidia.com/gpu.product": L4}),
    ),
    Case(
        "its own pool is cordoned, another is free", "cordoned", "node p-a: cordoned (spec.unschedulable)",
        [node("p-a", cordoned=True, labels={"pool": "own"}), node("p-b")], waits(nodeSelector={"pool": "own"}), "were unschedulable",
        lambda k: k.patch("Node", "p-a", {"spec": {"unschedulable": None, "taints": None}}),
    ),
    Case(
        "a tainted node with GPUs, and others without", "untoleratedTaint",
        "node p-a: tainted team=x:NoSchedule, which the pod does not tolerate",
        [node("p-a", taints=["team=x:NoSchedule"]), node("p-b", 0)], waits(), "untolerated taint",
        lambda k: k.again(tolerations=[TOLERATION]),
    ),
    Case(
        "a suspended Job", "suspended",
        "spec.suspend is true: its pods are made when it is resumed",
        one(), SUSPENDED, "", lambda k: k.patch("Job", "waits", {"spec": {"suspend": False}}), [], "job/waits",
    ),
    Case(
        "a ServiceAccount that is not there", "serviceAccountMissing",
        '1 pod could not be created: ServiceAccount "robot" does not exist in NAMESPACE',
        one(), deployment("waits", 1, 1, serviceAccountName="robot"), "",
        lambda k: k.make(made("ServiceAccount", "robot")),
        [], "replicaset/waits-",
    ),
    Case(
        "a PriorityClass that is not there", "priorityClassMissing",
        '1 pod could not be created: PriorityClass "p-new" does not exist',
        one(), deployment("waits", 1, 1, priorityClassName="p-new"), "",
        lambda k: k.make(priority("p-new", 10, "Never")), [], "replicaset/waits-",
    ),
    Case(
        "a RuntimeClass that is not there", "runtimeClassMissing",
        '1 pod could not be created: RuntimeClass "p-run" does not exist',
        one(), deployment("waits", 1, 1, runtimeClassName="p-run"), "",
        lambda k: k.make(made("RuntimeClass", "p-run", handler="runc")),
        [], "replicaset/waits-",
    ),
    Case(
        "an admission policy that refuses the pods", "refused",
        "1 pod could not be created: ValidatingAdmissionPolicy 'p-refuses' with binding 'p-refuses' denied request: not today",
        one(), deployment("waits", 1, 1, labels={"refuse": "me"}), "", _allowed, _refusing(), "replicaset/waits-",
    ),
]  # fmt: skip
