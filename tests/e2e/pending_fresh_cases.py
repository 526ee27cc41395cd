"""More causes that people ask about: nodes that come or go, runtime classes, workloads of other kinds, and claims whose requests need
each other's devices. Where an issue is named, it shows this problem."""

import os
from typing import Any

from tests.controlplane.nodes import node
from tests.controlplane.objects import deployment, job, made, pod
from tests.controlplane.programs import MAIN
from tests.e2e.pending_kit import (
    CLAIMING,
    DEVICE_CLASS,
    GPU,
    HOSTNAME,
    ZONE,
    Case,
    Fix,
    Json,
    asking,
    claim,
    device_claim,
    device_slice,
    held,
    in_zone,
    mounts,
    one,
    quota,
    spread,
    two,
    volume,
    waits,
)
from tests.e2e.pending_thread_cases import claims, wants

TAINTS_DEVICES = os.environ.get("K8S", MAIN) != "1.34"
"""Taints of devices are behind a feature gate there (KEP-5055)."""


def without_taints(name: str = "p-a") -> Fix:
    return lambda k: k.patch("Node", name, {"spec": {"taints": None}})


def tainted(key: str, value: str = "") -> Json:
    found = node("p-a")
    found["spec"]["taints"] = [{"key": key, "effect": "NoSchedule", **({"value": value} if value else {})}]
    return found


def runtime(**fields: Any) -> Json:
    return made("RuntimeClass", "p-kata", handler="kata", **fields)


def requests(*each: Json, **more: Any) -> Json:
    """A claim with these requests, which are named by their place."""
    asked = [{"name": f"r{number}", "exactly": exactly} for number, exactly in enumerate(each)]
    return made("ResourceClaim", "c", spec={"devices": {"requests": asked, **more}})


def exactly(*selectors: str, **fields: Any) -> Json:
    chosen = {"selectors": [{"cel": {"expression": each}} for each in selectors]} if selectors else {}
    return {"deviceClassName": "gpu.example.com", **chosen, **fields}


def devices(name: str, *each: Json) -> Json:
    found = device_slice(name, "p-a", len(each))
    for device, more in zip(found["spec"]["devices"], each, strict=True):
        device.update(more)
    return found


def model(name: str, **more: Any) -> Json:
    return {"attributes": {"model": {"string": name}}, **more}


MODEL = 'device.attributes["gpu.example.com"].model'
STATEFUL: Json = {
    **deployment("waits", 1, 2, kind="StatefulSet"),
}
STATEFUL["spec"]["serviceName"] = "waits"
DAEMON = deployment("waits", 1, 8, kind="DaemonSet")
del DAEMON["spec"]["replicas"]
HOST = {"hostNetwork": True, "containers": [asking({GPU: "1"}, ports=[{"containerPort": 8080}])]}
DOWN = made(
    "ValidatingWebhookConfiguration",
    "p-down",
    webhooks=[
        {
            "name": "down.example.org",
            "clientConfig": {"url": "https://127.0.0.1:1/validate"},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
            "objectSelector": {"matchLabels": {"webhook": "down"}},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 2,
        }
    ],
)


FRESH = [
    Case(
        "a node that the cluster autoscaler is about to delete (autoscaler#5657)", "notReady",
        "node p-a: an autoscaler deletes it (ToBeDeletedByClusterAutoscaler)", [tainted("ToBeDeletedByClusterAutoscaler", "1680700000")], waits(), "untolerated taint",
        without_taints(), advises="see whether it goes: kubectl describe node p-a; if it is to stay: kubectl taint node p-a ",
    ),
    Case(
        "a node that Karpenter disrupts", "notReady", "node p-a: an autoscaler deletes it (karpenter.sh/disrupted)",
        [tainted("karpenter.sh/disrupted")], waits(), "untolerated taint", without_taints(),
    ),
    Case(
        "a node that the cloud has not initialized (karpenter-provider-aws#7426)", "notReady",
        "node p-a: uninitialized",
        [tainted("node.cloudprovider.kubernetes.io/uninitialized", "true")], waits(), "untolerated taint", without_taints(),
    ),
    Case(
        "a node whose network is not there yet", "notReady", "node p-a: agent-not-ready",
        [tainted("node.cilium.io/agent-not-ready")], waits(), "untolerated taint", without_taints(),
    ),
    Case(
        "a toleration of a misspelt key", "untoleratedTaint", "node p-a: tainted nvidia.com/gpu=present:NoSchedule",
        one(taints=["nvidia.com/gpu=present:NoSchedule"]), waits(tolerations=[{"key": "nvidia.com/gpus", "operator": "Exists"}]), "untolerated taint",
    ),
    Case(
        "an image for another processor", "nodeSelector", "nodeSelector kubernetes.io/arch=arm64 is on no node",
        one(), waits(nodeSelector={"kubernetes.io/arch": "arm64"}), "node affinity/selector",
    ),
    Case(
        "a label in capital letters", "nodeSelector", "nodeSelector pool=Training is on no node; nearest: pool=training",
        one(labels={"pool": "training"}), waits(nodeSelector={"pool": "Training"}), "node affinity/selector",
        advises="set spec.nodeSelector[pool] to training",
    ),
    Case(
        "a port of the host's network", "hostPort", "host ports taken on node p-a: 8080 by NAMESPACE/other",
        one(), {**pod("waits"), "spec": HOST}, "free ports", lambda k: k.end("other"), [{**pod("other"), "spec": HOST}],
    ),
    Case(
        "spread over a label that no node has (SREGym#854)", "topologySpread", "topology spread over example.com/rack",
        one(), waits(topologySpreadConstraints=[{**spread(), "topologyKey": "example.com/rack"}]), "missing required label",
        lambda k: k.again(topologySpreadConstraints=None),
    ),
    Case(
        "the overhead of a runtime class (KAI-Scheduler#373)", "moreThanAnyNode", "asks for 130 cpu, and no node has more than 128",
        one(), wants({GPU: "1", "cpu": "100"}, runtimeClassName="p-kata"), "Insufficient cpu", None,
        [runtime(overhead={"podFixed": {"cpu": "30"}})], advises="ask for 98 cpu at most",
    ),
    Case(
        "the nodes of a runtime class (KAI-Scheduler#373)", "nodeSelector", "nodeSelector example.com/kata=yes, which RuntimeClass p-kata adds, is on no node",
        one(), waits(runtimeClassName="p-kata"), "node affinity/selector",
        lambda k: k.patch("Node", "p-a", {"metadata": {"labels": {"example.com/kata": "yes"}}}),
        [runtime(scheduling={"nodeSelector": {"example.com/kata": "yes"}})],
    ),
    Case(
        "two containers that ask for more together than any node has", "moreThanAnyNode",
        "asks for 12 nvidia.com/gpu, and no node has more than 8", one(),
        {**pod("waits"), "spec": {"containers": [asking({GPU: "6"}), {**asking({GPU: "6"}), "name": "more"}]}}, "Insufficient nvidia.com/gpu",
        advises='ask for 2 nvidia.com/gpu at most in container "main"',
    ),
    Case(
        "a sidecar that has a GPU of its own", "gpusTaken", "all GPUs are taken: 8 nvidia.com/gpu asked for; free on node p-a: 7",
        one(), waits(7, initContainers=[{**asking({GPU: "1"}), "name": "sidecar", "restartPolicy": "Always"}]), "Insufficient nvidia.com/gpu",
        None, [held("other", 1)], advises='ask for 6 in place of 7 in container "main"',
    ),
    Case(
        "a request of the whole pod", "moreThanAnyNode", "asks for 250 cpu, and no node has more than 128",
        one(), waits(1, resources={"requests": {"cpu": "250"}}), "Insufficient cpu", advises="ask for 128 cpu at most in spec.resources",
    ),
    Case(
        "a pod of a DaemonSet whose node is full (kubernetes#93934)", "gpusTaken",
        "all GPUs are taken: 8 nvidia.com/gpu asked for; free on node p-a: 2", one(), DAEMON, "Insufficient nvidia.com/gpu",
        lambda k: k.end("other"), [held("other", 6)], "waits-",
    ),
    Case(
        "a Job over its quota", "quotaExceeded",
        "1 pod could not be created: quota gpus: requests.nvidia.com/gpu=0 used, requests.nvidia.com/gpu=2 asked for, requests.nvidia.com/gpu=1 at most",
        one(), job("waits", 1, 2), "", lambda k: k.patch("ResourceQuota", "gpus", {"spec": quota("2")["spec"]}), [quota("1")], "job/waits",
    ),
    Case(
        "a Job in a namespace whose quota wants requests (helm-charts#236)", "quotaExceeded",
        "1 pod could not be created: quota cpus wants every container to state requests.cpu", one(), job("waits"), "",
        lambda k: k.delete("ResourceQuota", "cpus"), [made("ResourceQuota", "cpus", spec={"hard": {"requests.cpu": "4"}})], "job/waits",
    ),
    Case(
        "a StatefulSet over its quota", "quotaExceeded",
        "1 pod could not be created: quota gpus: requests.nvidia.com/gpu=0 used, requests.nvidia.com/gpu=2 asked for, requests.nvidia.com/gpu=1 at most",
        one(), STATEFUL, "", lambda k: k.patch("ResourceQuota", "gpus", {"spec": quota("2")["spec"]}), [quota("1")], "statefulset/waits",
    ),
    Case(
        "a quota of pods", "quotaExceeded", "1 pod could not be created: quota pods: pods=1 used, pods=1 asked for, pods=1 at most",
        one(), deployment("waits"), "", lambda k: k.end("other"),
        [made("ResourceQuota", "pods", spec={"hard": {"pods": "1"}}), held("other", 1)], "replicaset/waits-",
    ),
    Case(
        "a webhook that does not answer (instaslice-operator#137)", "refused", "1 pod could not be created: webhook down.example.org does not answer: ", one(),
        deployment("waits", labels={"webhook": "down"}), "", lambda k: k.delete("ValidatingWebhookConfiguration", "p-down"), [DOWN], "replicaset/waits-",
        "repair what serves it, or remove its configuration",
    ),
    Case(
        "no local volume in the zones of a class", "volumeNodeConflict", "no volume suits claim data", two(), waits(nodeSelector={ZONE: "zone-a"}, **mounts("data")),
        "", lambda k: k.make(volume("pv-here", storageClassName="class-zoned", nodeAffinity=in_zone("zone-a"))),
        [made("StorageClass", "class-zoned", provisioner="kubernetes.io/no-provisioner", volumeBindingMode="WaitForFirstConsumer"),
         claim("data", storageClassName="class-zoned")],
    ),
    Case(
        "two requests that want the same device", "noDevice", "claim c: not enough devices for all requests together on node p-a", one(), waits(0, **CLAIMING), "cannot allocate all claims",
        claims({**requests(exactly(f'{MODEL} == "A100"'), exactly(f'{MODEL} == "L4"')), "metadata": {"name": "cc"}}),
        [DEVICE_CLASS, devices("s-both", model("A100"), model("L4")), requests(exactly(f'{MODEL} == "A100"'), exactly(f'{MODEL} in ["A100"]'))],
    ),
    Case(
        "two claims that want the same device", "noDevice", "claims c, d: not enough devices for all requests together on node p-a", one(),
        waits(0, resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}, {"name": "more", "resourceClaimName": "d"}]), "cannot allocate all claims",
        lambda k: k.again(**CLAIMING),
        [DEVICE_CLASS, devices("s-pair", {}), device_claim("c"), device_claim("d")],
    ),
    *([Case(
        "a device with a taint", "noDevice", "claim c: 1 device of gpu.example.com wanted", one(), waits(0, **CLAIMING), "cannot allocate all claims",
        claims({**requests(exactly(tolerations=[{"key": "sick", "operator": "Exists"}])), "metadata": {"name": "cc"}}),
        [DEVICE_CLASS, devices("s-taint", {"taints": [{"key": "sick", "value": "xid", "effect": "NoSchedule"}]}), device_claim("c")],
    )] if TAINTS_DEVICES else []),
    Case(
        "alternatives of which none is there", "noDevice", "claim c: ", one(), waits(0, **CLAIMING), "cannot allocate all claims",
        claims(device_claim("cc")),
        [DEVICE_CLASS, devices("s-none", model("L4")), made("ResourceClaim", "c", spec={"devices": {"requests": [{"name": "gpu", "firstAvailable": [
            {"name": "best", **exactly(f'{MODEL} == "H100"')}, {"name": "good", **exactly(f'{MODEL} == "A100"')}]}]}})],
    ),
    Case(
        "all devices of a node, of which one is taken", "noDevice", "claim c: all devices that match are wanted, and others have some", one(), waits(0, **CLAIMING), "cannot allocate all claims",
        lambda k: k.end("other"),
        [DEVICE_CLASS, devices("s-all", {}, {}), requests(exactly(allocationMode="All")), device_claim("o"),
         pod("other", 0, nodeSelector={HOSTNAME: "p-a"}, resourceClaims=[{"name": "gpu", "resourceClaimName": "o"}])],
    ),
]  # fmt: skip
