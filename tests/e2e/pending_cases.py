"""Causes of waiting, each made on a real scheduler: the cluster, the pod, what is to be said, and the fix as a person applies it."""

from tests.controlplane import clusters
from tests.controlplane.nodes import node
from tests.controlplane.objects import deployment, pod, required
from tests.e2e.pending_kit import (
    A100,
    CLAIMING,
    DEVICE_CLASS,
    GPU,
    HOSTNAME,
    L4,
    LIMITS,
    TOLERATION,
    ZONE,
    Case,
    affine,
    asking,
    claim,
    cpu,
    csi_node,
    device_claim,
    device_slice,
    held,
    in_zone,
    mounts,
    named,
    one,
    priority,
    quota,
    spread,
    two,
    volume,
    waits,
)

CASES = [
    Case(
        "a taint", "untoleratedTaint", "node p-a: tainted team=x:NoSchedule, which the pod does not tolerate",
        one(taints=["team=x:NoSchedule"]), waits(), "untolerated taint",
        lambda k: k.again(tolerations=[TOLERATION]),
    ),
    Case(
        "a cordon", "cordoned", "node p-a: cordoned (spec.unschedulable)", one(cordoned=True), waits(), "were unschedulable",
        lambda k: k.patch("Node", "p-a", {"spec": {"unschedulable": None}}),
    ),
    Case(
        "a node that is down", "notReady", "node p-a: not-ready", one(ready=False), waits(), "untolerated taint",
        lambda k: clusters.set_ready(k.api, named("p-a", k.tag), True),
    ),
    Case(
        "a selector with a misspelt value", "nodeSelector",
        "nodeSelector nvidia.com/gpu.product=NVIDIA-A100 is on no node; nearest: nvidia.com/gpu.product=NVIDIA-A100-SXM4-80GB; "
        "nodes have NVIDIA-A100-SXM4-80GB",
        one(), waits(nodeSelector={"nvidia.com/gpu.product": "NVIDIA-A100"}), "node affinity/selector",
        lambda k: k.again(nodeSelector={"nvidia.com/gpu.product": A100}),
    ),
    Case(
        "a selector by a label that no node has", "nodeSelector",
        'nodeSelector gpu-type=a100 is on no node; no node has a label "gpu-type"; '
        "nearest: nvidia.com/gpu.product=NVIDIA-A100-SXM4-80GB",
        one(), waits(nodeSelector={"gpu-type": "a100"}), "node affinity/selector",
        lambda k: k.patch("Node", "p-a", {"metadata": {"labels": {"gpu-type": "a100"}}}),
    ),
    Case(
        "a selector of nodes that are full, and others", "gpusTaken",
        "all GPUs are taken: 1 nvidia.com/gpu asked for; free on node p-b: 0 in all, at most 0 on one",
        [node("p-a"), node("p-b", 1, L4)], waits(nodeSelector={"nvidia.com/gpu.product": L4}), "node affinity/selector",
        lambda k: k.end("other"), [held("other", 1, "p-b")],
    ),
    Case(
        "required node affinity", "nodeAffinity",
        "required node affinity «topology.kubernetes.io/zone In zone-x» matches no node; "
        "nearest: topology.kubernetes.io/zone=zone-a; nodes have zone-a",
        one(), waits(affinity=required(ZONE, "In", "zone-x")), "node affinity/selector",
        lambda k: k.again(affinity=required(ZONE, "In", "zone-a")),
    ),
    Case(
        "a pin to a node that is full", "gpusTaken",
        "all GPUs are taken: 8 nvidia.com/gpu asked for; free on node p-a: 7 in all, at most 7 on one",
        two(), waits(8, affinity=required(HOSTNAME, "In", "p-a")), "node affinity/selector",
        lambda k: k.end("other"), [held("other", 1)],
    ),
    Case(
        "more CPU than any node has", "moreThanAnyNode", "asks for 250 cpu, and no node has more than 128",
        one(), cpu({"cpu": "250"}), "Insufficient cpu", lambda k: k.asks(cpu="128"),
    ),
    Case(
        "CPU that others have", "insufficientCpu", "node p-a: short of cpu: 100 asked for, at most 48 free",
        one(), cpu({"cpu": "100"}), "Insufficient cpu", lambda k: k.asks(cpu="48"), [cpu({"cpu": "80"}, "other")],
    ),
    Case(
        "memory that others have", "insufficientMemory", "node p-a: short of memory: 800Gi asked for, at most 524Gi free",
        one(), cpu({"memory": "800Gi"}), "Insufficient memory", lambda k: k.asks(memory="524Gi"), [cpu({"memory": "500Gi"}, "other")],
    ),
    Case(
        "ephemeral storage that others have", "insufficientEphemeralStorage",
        "node p-a: short of ephemeral-storage: 800Gi asked for, at most 524Gi free",
        one(), cpu({"ephemeral-storage": "800Gi"}), "Insufficient ephemeral-storage",
        lambda k: k.asks(storage="524Gi"), [cpu({"ephemeral-storage": "500Gi"}, "other")],
    ),
    Case(
        "as many pods as the kubelet takes", "tooManyPods", "node p-a: full: 1 pods at most, says the kubelet",
        one(resources={"pods": "1"}), waits(), "Too many pods", lambda k: k.end("other"), [pod("other", 1)],
    ),
    Case(
        "GPUs that a Job has", "gpusTaken",
        "all GPUs are taken: 4 nvidia.com/gpu asked for; free on node p-a: 2 in all, at most 2 on one",
        one(), waits(4), "Insufficient nvidia.com/gpu", lambda k: k.end("other"), [held("other", 6)],
    ),
    Case(
        "GPUs that are free but apart", "gpusFragmented",
        "GPUs are free but apart: 8 nvidia.com/gpu asked for; free on nodes p-a, p-b: 8 in all, at most 4 on one",
        two(), waits(8), "Insufficient nvidia.com/gpu", lambda k: k.asks(gpu="4"), [held("one", 4), held("two", 4, "p-b")],
    ),
    Case(
        "more GPUs than any node has", "moreThanAnyNode", "asks for 16 nvidia.com/gpu, and no node has more than 8",
        one(), waits(16), "Insufficient nvidia.com/gpu", lambda k: k.asks(gpu="8"),
    ),
    Case(
        "nodes that are too small, and a larger one that is full", "gpusTaken",
        "all GPUs are taken: 8 nvidia.com/gpu asked for; free on node p-b: 7 in all, at most 7 on one",
        [node("p-a", 4), node("p-b", 8)], waits(8), "Insufficient nvidia.com/gpu",
        lambda k: k.asks(gpu="7"), [held("other", 1, "p-b")],
    ),
    Case(
        "a resource that is misspelt", "unknownResource", "no node offers nvidia.com/gpus; they offer",
        one(), waits(resource="nvidia.com/gpus"), "Insufficient nvidia.com/gpus", lambda k: k.asks(gpu="1"),
    ),
    Case(
        "a node without its device plugin", "devicePluginMissing",
        "node p-a: GPUs by the labels, but the device plugin offers none",
        one(resources={GPU: "0"}), waits(), "Insufficient nvidia.com/gpu",
        lambda k: k.patch("Node", "p-a", {"status": {"allocatable": {GPU: "8"}, "capacity": {GPU: "8"}}}, subresource="status"),
    ),
    Case(
        "time-sliced nodes under another name", "otherGpuResource", "node p-b: nvidia.com/gpu.shared in place of nvidia.com/gpu",
        [node("p-a", 1), node("p-b", 2, "Tesla-T4", replicas=4, renamed=True)], waits(nodeSelector={HOSTNAME: "p-b"}),
        "Insufficient nvidia.com/gpu", lambda k: k.asks(shared="1"), [held("other", 1)],
    ),
    Case(
        "full nodes, and time-sliced ones under another name", "gpusTaken",
        "all GPUs are taken: 1 nvidia.com/gpu asked for; free on node p-a: 0 in all, at most 0 on one",
        [node("p-a", 1), node("p-b", 2, "Tesla-T4", replicas=4, renamed=True)], waits(), "Insufficient nvidia.com/gpu",
        lambda k: k.end("other"), [held("other", 1)],
    ),
    Case(
        "a host port", "hostPort", "host ports taken on node p-a: 8080 by NAMESPACE/other",
        one(), {**pod("waits"), "spec": {"containers": [asking({GPU: "1"}, ports=[{"containerPort": 80, "hostPort": 8080}])]}},
        "free ports", lambda k: k.asks(gpu="1"),
        [{**pod("other"), "spec": {"containers": [asking({GPU: "1"}, ports=[{"containerPort": 80, "hostPort": 8080}])]}}],
    ),
    Case(
        "its own anti-affinity", "podAntiAffinity", "its pod anti-affinity keeps it from node p-a, where pod/other are",
        one(), waits(**affine("podAntiAffinity", "other")), "anti-affinity rules", lambda k: k.again(affinity=None), [pod("other")],
    ),
    Case(
        "the anti-affinity of others", "existingAntiAffinity", "anti-affinity of pod/other keeps pods with these labels from node p-a",
        one(), waits(), "existing pods anti-affinity", lambda k: k.end_who_keeps_away("other"), [pod("other", **affine("podAntiAffinity", "waits"))],
    ),
    Case(
        "affinity to pods that are not there", "podAffinity",
        "required pod affinity wants pods with app=other in the same kubernetes.io/hostname: none where node p-a",
        one(), waits(**affine("podAffinity", "other")), "pod affinity rules", lambda k: k.make(pod("other")),
    ),
    Case(
        "topology spread", "topologySpread",
        "topology spread over kubernetes.io/hostname with maxSkew 1 (pods now: p-a 1, p-b 0) keeps it from node p-a",
        [node("p-a"), node("p-b", 1)], waits(topologySpreadConstraints=[spread()]), "topology spread",
        lambda k: k.again(topologySpreadConstraints=[{**spread(), "whenUnsatisfiable": "ScheduleAnyway"}]),
        [held("one", 1, labels={"app": "waits"}), held("two", 1, "p-b", labels={"app": "two"})],
    ),
    Case(
        "a volume claim that is not there", "volumeClaimMissing", 'PersistentVolumeClaim "data" does not exist in NAMESPACE',
        one(), waits(**mounts("data")), 'persistentvolumeclaim "data" not found',
        lambda k: k.make(volume("pv-missing"), claim("data", volumeName="pv-missing")),
    ),
    Case(
        "a volume claim that nothing binds", "volumeClaimUnbound", "PersistentVolumeClaim data is not bound",
        one(), waits(**mounts("data")), "unbound immediate PersistentVolumeClaims",
        lambda k: k.make(volume("pv-unbound", storageClassName="class-slow")),
        [claim("data", storageClassName="class-slow"), {
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "class-slow"},
            "provisioner": "kubernetes.io/no-provisioner"}],
    ),
    Case(
        "a storage class that is not there", "storageClassMissing",
        'StorageClass "class-fast" does not exist (PersistentVolumeClaim data names it)',
        one(), waits(**mounts("data")), "unbound immediate PersistentVolumeClaims",
        lambda k: k.make(volume("pv-class", storageClassName="class-fast")), [claim("data", storageClassName="class-fast")],
    ),
    Case(
        "a volume in another zone", "gpusTaken", "all GPUs are taken: 8 nvidia.com/gpu asked for; free on node p-b: 7 in all, at most 7 on one",
        two(), waits(8, **mounts("data")), "node affinity", lambda k: k.end("other"),
        [volume("pv-zone", nodeAffinity=in_zone("zone-b")), claim("data", volumeName="pv-zone"), held("other", 1, "p-b")],
    ),
    Case(
        "a DRA claim that is not there", "claimMissing", 'ResourceClaim "c" does not exist in NAMESPACE',
        one(), waits(0, **CLAIMING), "", lambda k: k.make(DEVICE_CLASS, device_slice("s-missing", "p-a", 1), device_claim("c")),
    ),
    Case(
        "a device class that is not there", "deviceClassMissing", 'DeviceClass "gpu.example.com" does not exist (claim c)',
        one(), waits(0, **CLAIMING), "device class gpu.example.com does not exist",
        lambda k: k.make(DEVICE_CLASS), [device_slice("s-class", "p-a", 1), device_claim("c")],
    ),
    Case(
        "more devices than a node has", "noDevice",
        "claim c: 2 devices of gpu.example.com wanted, at most 1 free on a node: not on node p-a",
        one(), waits(0, **CLAIMING), "cannot allocate all claims",
        lambda k: k.patch("ResourceSlice", "s-few", {"spec": device_slice("s-few", "p-a", 2)["spec"]}),
        [DEVICE_CLASS, device_slice("s-few", "p-a", 1), device_claim("c", 2)],
    ),
    Case(
        "a scheduling gate", "schedulingGate", "scheduling gates example.com/wait: no scheduler looks at it until they are gone",
        one(), waits(schedulingGates=[{"name": "example.com/wait"}]), "blocked due to non-empty scheduling gates",
        lambda k: k.patch("Pod", "waits", {"spec": {"schedulingGates": []}}),
    ),
    Case(
        "a scheduler that nobody is", "unknownScheduler",
        'no scheduler "default-sheduler" was ever seen to do anything here; there are default-scheduler',
        one(), waits(schedulerName="default-sheduler"), "", lambda k: k.again(schedulerName=None),
    ),
    Case(
        "a class that never preempts", "gpusTaken",
        "all GPUs are taken: 8 nvidia.com/gpu asked for; free on node p-a: 0 in all, at most 0 on one",
        one(), waits(8, priorityClassName="p-never"), "preemptionPolicy=Never",
        lambda k: k.again(priorityClassName="p-high"),
        [priority("p-never", 1000, "Never"), priority("p-high", 1000, "PreemptLowerPriority"), held("other", 8)],
    ),
    Case(
        "a claim for one pod alone", "volumeInUse", "PersistentVolumeClaim data is ReadWriteOncePod, and pod NAMESPACE/other has it",
        one(), waits(**mounts("data")), "ReadWriteOncePod", lambda k: k.end("other"),
        [volume("pv-alone", accessModes=["ReadWriteOncePod"]), claim("data", volumeName="pv-alone", accessModes=["ReadWriteOncePod"]),
         pod("other", **mounts("data"))],
    ),
    Case(
        "as many volumes as can be attached", "volumeLimit",
        "node p-a: as many volumes as can be attached: csi.example.com takes 1 on a node",
        one(), waits(**mounts("two")), "exceed max volume count", lambda k: k.end("other"),
        [csi_node("p-a", 1), volume("pv-one", csi={"driver": "csi.example.com", "volumeHandle": "h1"}), claim("one", volumeName="pv-one"),
         volume("pv-two", csi={"driver": "csi.example.com", "volumeHandle": "h2"}), claim("two", volumeName="pv-two"),
         pod("other", **mounts("one"))],
    ),
    Case(
        "a quota", "quotaExceeded",
        "1 pod could not be created: quota gpus: requests.nvidia.com/gpu=0 used, requests.nvidia.com/gpu=2 asked for, "
        "requests.nvidia.com/gpu=1 at most",
        one(), deployment("waits", 1, 2), "", lambda k: k.patch("ResourceQuota", "gpus", {"spec": quota("2")["spec"]}),
        [quota("1")], "replicaset/waits-",
    ),
    Case(
        "a limit range", "limitRange", "1 pod could not be created: ", one(),
        deployment("waits", 1, 0, container={"resources": {"limits": {"cpu": "4"}}}), "",
        lambda k: k.delete("LimitRange", "small"), [LIMITS], "replicaset/waits-",
    ),
]  # fmt: skip
