"""Nodes that a pod may not go to: by taints, cordons, labels and names. Where an issue is named, it shows this problem."""

from typing import Any

from tests.controlplane import clusters
from tests.controlplane.nodes import node
from tests.controlplane.objects import REQUIRED, made, required
from tests.e2e.pending.kit import (
    A100,
    HOSTNAME,
    L4,
    PRODUCT,
    ZONE,
    Case,
    Json,
    Kit,
    event,
    held,
    named,
    one,
    priority,
    waits,
)


def tainted(name: str, taint: str, *more: str, **spec: Any) -> Case:
    """The pod does not tolerate a taint of the only node. `more`: other taints there."""
    text = f"node p-a: tainted {taint}, which the pod does not tolerate"
    return Case(name, "untoleratedTaint", text, one(taints=[taint, *more]), waits(**spec), "untolerated taint")


def tolerating(**fields: str) -> Json:
    return {"tolerations": [{"operator": "Equal", "effect": "NoSchedule", **fields}]}


async def without_taints(kit: Kit) -> None:
    await kit.patch("Node", "p-a", {"spec": {"taints": None}})


def passing(
    name: str,
    taint: str,
    text: str,
    advises: str = "see what is wrong there; the taint goes when it is repaired: kubectl describe node p-a",
) -> Case:
    """By a taint of the only node it is not ready, or is about to go."""
    nodes, text = one(taints=[taint]), f"node p-a: {text}"
    return Case(name, "notReady", text, nodes, waits(), "untolerated taint", without_taints, advises=advises)


def selecting(name: str, key: str, value: str, text: str, *nodes: Json, **more: Any) -> Case:
    """A nodeSelector that is on no node, or not on the right ones."""
    pod = waits(nodeSelector={key: value})
    return Case(
        name,
        "nodeSelector",
        f"nodeSelector {key}={value} is on {text}",
        nodes or one(),
        pod,
        "affinity/selector",
        **more,
    )


def preferring(name: str, text: str, affinity: Json, *nodes: Json, **more: Any) -> Case:
    """Required node affinity that no node matches."""
    text = f"required node affinity «{text}"
    return Case(name, "nodeAffinity", text, nodes or one(), waits(affinity=affinity), "affinity/selector", **more)


def either(key: str, *values: str) -> Json:
    """Affinity to nodes by one of these values, each in a term of its own."""
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]} for value in values]
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}


OF_GPUS, OF_TEAM = "nvidia.com/gpu=present:NoSchedule", "team=x:NoSchedule"
GOING = "see whether it goes: kubectl describe node p-a, or if it is to stay: kubectl taint node p-a "
KARPENTER = event("FailedScheduling", "no instance type satisfied", "karpenter")
KATA = made("RuntimeClass", "p-kata", handler="kata", scheduling={"nodeSelector": {"example.com/kata": "yes"}})
CORDONED = "node p-a: cordoned (spec.unschedulable)"
NODES = [
    tainted("a taint", OF_TEAM),
    tainted("the taint of the GPU operator", OF_GPUS),
    tainted("the taint of AKS", "sku=gpu:NoSchedule"),
    tainted("a taint that evicts", "dedicated=ml:NoExecute"),
    tainted("the only node is a control plane", "node-role.kubernetes.io/control-plane:NoSchedule"),
    tainted("two taints, one tolerated (autoscaler#3115)", "prod-only=true:NoSchedule", OF_TEAM, **tolerating(key="team", value="x")),
    tainted("a toleration of another value", OF_TEAM, **tolerating(key="team", value="y")),
    tainted("a toleration of another effect", OF_TEAM, **tolerating(key="team", value="x", effect="NoExecute")),
    tainted("a toleration of a misspelt key", OF_GPUS, **tolerating(key="nvidia.com/gpus", operator="Exists")),
    Case(
        "a tainted node with GPUs, and others without", "untoleratedTaint", "node p-a: tainted team=x:NoSchedule, which the pod does not tolerate",
        [node("p-a", taints=[OF_TEAM]), node("p-b", 0)], waits(), "untolerated taint",
    ),
    passing("a node that the cluster autoscaler is about to delete (autoscaler#5657)", "ToBeDeletedByClusterAutoscaler=1680700000:NoSchedule", "it will soon be removed (ToBeDeletedByClusterAutoscaler)", GOING),
    passing("a node that Karpenter disrupts", "karpenter.sh/disrupted:NoSchedule", "it will soon be removed (karpenter.sh/disrupted)", GOING),
    passing("a node that the cloud has not initialized (karpenter-provider-aws#7426)", "node.cloudprovider.kubernetes.io/uninitialized=true:NoSchedule", "uninitialized"),
    passing("a node whose network is not there yet", "node.cilium.io/agent-not-ready:NoSchedule", "agent-not-ready"),
    passing("a node out of service", "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute", "it will soon be removed (node.kubernetes.io/out-of-service)", GOING),
    passing("a spot node whose end was announced", "aws-node-termination-handler/spot-itn=1:NoSchedule", "it will soon be removed (aws-node-termination-handler/spot-itn)", GOING),
    passing("a node whose startup taint is still there", "startup-taint.cluster-autoscaler.kubernetes.io/driver:NoSchedule", "driver"),
    Case(
        "a node that is down", "notReady", "node p-a: not-ready", one(ready=False), waits(), "untolerated taint",
        lambda k: clusters.set_ready(k.api, named("p-a", k.tag), True),
    ),
    Case(
        "a taint, and behind it pods that it would preempt", "untoleratedTaint", "node p-a: tainted team=x:NoSchedule, which the pod does not tolerate",
        one(taints=["team=x:NoSchedule"]), waits(8, priorityClassName="p-over"), "untolerated taint", advises="if the pod may run",
        before=[priority("p-over", 1000, "PreemptLowerPriority"), held("other", 8, tolerations=[{"operator": "Exists"}])],
    ),
    Case("a cordon", "cordoned", CORDONED, one(cordoned=True), waits(), "were unschedulable"),
    Case(
        "its own pool is cordoned, another is free", "cordoned", CORDONED,
        [node("p-a", cordoned=True, labels={"pool": "own"}), node("p-b")], waits(nodeSelector={"pool": "own"}), "were unschedulable",
    ),
    Case(
        "affinity to a node that is cordoned", "cordoned", CORDONED,
        [node("p-a", cordoned=True), node("p-b", 1, L4)], waits(affinity=required(PRODUCT, "In", A100)), "were unschedulable",
    ),
    preferring("required node affinity", f"{ZONE} In zone-x» matches no node; nearest: {ZONE}=zone-a; nodes have zone-a", required(ZONE, "In", "zone-x")),
    preferring(
        "node affinity by a number", "gpu-memory Gt 79» matches no node; nodes have 40", required("gpu-memory", "Gt", "79"), node("p-a", labels={"gpu-memory": "40"}),
        fix=lambda k: k.again(affinity=required("gpu-memory", "Gt", "39")), advises="write another number in spec.affinity.nodeAffinity, or label a node with one that fits",
    ),
    preferring("node affinity that excludes", f"{ZONE} DoesNotExist» matches no node; nodes have zone-a", required(ZONE, "DoesNotExist"), advises="remove it from spec.affinity.nodeAffinity"),
    preferring("affinity that excludes all", f"{PRODUCT} NotIn {A100}» matches no node", required(PRODUCT, "NotIn", A100), advises="remove it from spec.affinity.nodeAffinity: node p-a could take it then"),
    preferring("two terms of affinity that no node has", f"{PRODUCT} In NVIDIA-H1000» matches no node", either(PRODUCT, "NVIDIA-H1000", "NVIDIA-B2000")),
    selecting("a selector with a misspelt value", PRODUCT, "NVIDIA-A100", f"no node; nearest: {PRODUCT}={A100}; nodes have {A100}"),
    selecting("a selector by a label that no node has", "gpu-type", "a100", f'no node; no node has a label "gpu-type"; nearest: {PRODUCT}={A100}'),
    selecting("another cloud's label for the same model", "cloud.google.com/gke-accelerator", "nvidia-l4", f'no node; no node has a label "cloud.google.com/gke-accelerator"; nearest: {PRODUCT}={L4}', node("p-a", 1, L4)),
    selecting("the label of GPUs that are shared (hobbyist-guide-to-rhoai#31)", PRODUCT, "Tesla-T4", "", node("p-a", 1, "Tesla-T4", replicas=4)),
    selecting("dedicated, not shared (gpu-operator#371)", "example.org/shared", "true", "no node", node("p-a", labels={"example.org/dedicated": "true"})),
    selecting("a node that is gone", HOSTNAME, "p-z", "no node"),
    selecting("a pool without GPUs", "pool", "batch", "1 node", node("p-a", 0, labels={"pool": "batch"}), node("p-b", labels={"pool": "gpus"}), advises="remove spec.nodeSelector[pool]"),
    selecting(
        "spot nodes that are not there, and Karpenter", "karpenter.sh/capacity-type", "spot", "no node", node("p-a", labels={"karpenter.sh/capacity-type": "on-demand"}),
        before=[KARPENTER], notes="no node will come, says karpenter: no instance type satisfied",
    ),
    selecting("an image for another processor", "kubernetes.io/arch", "arm64", "no node"),
    selecting("a label in capital letters", "pool", "Training", "no node; nearest: pool=training", node("p-a", labels={"pool": "training"}), advises="set spec.nodeSelector[pool] to training"),
    Case(
        "the nodes of a runtime class (KAI-Scheduler#373)", "nodeSelector", "nodeSelector example.com/kata=yes, which RuntimeClass p-kata adds, is on no node",
        one(), waits(runtimeClassName="p-kata"), "affinity/selector", lambda k: k.patch("Node", "p-a", {"metadata": {"labels": {"example.com/kata": "yes"}}}), [KATA],
    ),
    Case(
        "a node by its field that is not there", "pinnedNode", "pinned to 1 node (p-z) by its manifest, and p-z is no node of this cluster",
        one(), waits(affinity=required("metadata.name", "In", "p-z", part="matchFields")), "[NodeAffinity]",
        advises="remove the node's name from spec.affinity.nodeAffinity",
    ),
    Case(
        "a node by spec.nodeName that is not there", "pinnedNode", "spec.nodeName is p-z, and no node is called so: nothing starts the pod, and it is deleted soon",
        one(), waits(nodeName="p-z"), "", lambda k: k.again(nodeName=None),
    ),
]  # fmt: skip
