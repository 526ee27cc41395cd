"""Causes that people ask about. Where an issue is named, it shows this problem."""

from typing import Any

from tests.controlplane.nodes import node
from tests.controlplane.objects import REQUIRED, deployment, job, made, pod, required
from tests.e2e.pending_kit import (
    A100,
    CASE,
    CLAIMING,
    DEVICE_CLASS,
    GPU,
    HOSTNAME,
    L4,
    TOLERATION,
    ZONE,
    Case,
    Fix,
    Json,
    Kit,
    affine,
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
    volume,
    waits,
)
from tests.e2e.pending_more_cases import of_class

PRODUCT = "nvidia.com/gpu.product"
T4 = "Tesla-T4"


def wants(limits: Json, **spec: Any) -> Json:
    """A pod that asks for these resources."""
    return {**pod("waits", 0), "spec": {"containers": [asking(limits)], **spec}}


def tolerates(key: str, value: str, effect: str = "NoSchedule") -> Json:
    return {"tolerations": [{"key": key, "operator": "Equal", "value": value, "effect": effect}]}


def template(**spec: Any) -> Fix:
    """Change the pods of the Deployment."""
    return lambda k: k.patch("Deployment", "waits", {"spec": {"template": {"spec": spec}}})


def part(name: str, allocatable: int) -> Json:
    """A node of eight GPUs, not all of which are allocatable."""
    found = node(name)
    found["status"]["allocatable"] = {**found["status"]["allocatable"], GPU: str(allocatable)}
    return found


def of_queue() -> Json:
    """A Job that Kueue suspends until it is admitted."""
    found = job("waits")
    found["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "team"
    found["spec"]["suspend"] = True
    return found


async def moved(kit: Kit) -> None:
    """The data are copied to a volume in the other zone."""
    await kit.make(volume("pv-copy", nodeAffinity=in_zone("zone-a")), claim("copy", volumeName="pv-copy"))
    await kit.again(**mounts("copy"))


def event(reason: str, message: str, reporter: str) -> Json:
    about = {"apiVersion": "v1", "kind": "Pod", "name": "waits"}
    time = "2026-11-25T00:00:00Z"
    fields = {"reason": reason, "message": message, "source": {"component": reporter}, "type": "Normal"}
    return made("Event", "waits.1", involvedObject=about, lastTimestamp=time, firstTimestamp=time, **fields)


ATTRIBUTES, MEMORY = 'device.attributes["gpu.example.com"]', 'device.capacity["gpu.example.com"].memory'


def claims(claim: Json) -> Fix:
    """The pod has another claim."""

    async def fixed(kit: Kit) -> None:
        await kit.make(claim)
        name = claim["metadata"]["name"]
        await kit.again(resourceClaims=[{"name": "gpu", "resourceClaimName": name}])

    return fixed


QUOTA = made("ResourceQuota", "cpus", spec={"hard": {"requests.cpu": "4"}})


def claim_template(name: str) -> Json:
    return made("ResourceClaimTemplate", name, spec={"spec": device_claim("c")["spec"]})


def either(key: str, *values: str) -> Json:
    """Affinity to nodes by one of these values, each in a term of its own."""
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]} for value in values]
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}


THREADS = [
    Case(
        "two GPUs of nodes that have one each (k8s-device-plugin#165)", "nodesTooSmall",
        "nodes p-a, p-b: too small: 2 nvidia.com/gpu asked for, 1 there when empty",
        [node("p-a", 1), node("p-b", 1)], waits(2), "Insufficient nvidia.com/gpu",
    ),
    Case(
        "a rolling update on the last GPU", "gpusTaken", "all GPUs are taken: 1 nvidia.com/gpu asked for",
        [node("p-a", 1)], deployment("waits", 2, 1), "Insufficient nvidia.com/gpu",
        lambda k: k.patch("Deployment", "waits", {"spec": {"replicas": 1}}), about="waits-",
        advises="run fewer replicas",
    ),
    Case(
        "GPUs that are split by MIG", "otherGpuResource", "node p-a: nvidia.com/mig-1g.10gb",
        one(mig={"1g.10gb": 7}), waits(), "Insufficient nvidia.com/gpu",
    ),
    Case(
        "a MIG profile that no GPU has (KAI-Scheduler#1876)", "unknownResource", "no node offers nvidia.com/mig-1g.5gb",
        one(mig={"1g.10gb": 7}), waits(resource="nvidia.com/mig-1g.5gb"), "Insufficient nvidia.com/mig-1g.5gb",
    ),
    Case(
        "a MIG instance of GPUs that are not split", "otherGpuResource",
        "node p-a: nvidia.com/gpu in place of nvidia.com/mig-1g.10gb",
        one(), waits(resource="nvidia.com/mig-1g.10gb"), "Insufficient nvidia.com/mig-1g.10gb",
        advises="ask for nvidia.com/gpu, a whole one",
    ),
    Case(
        "HAMi's memory without HAMi (HAMi#629)", "unknownResource", "no node offers nvidia.com/gpumem",
        one(), wants({GPU: "1", "nvidia.com/gpumem": "3000"}), "Insufficient nvidia.com/gpumem",
        advises="leave nvidia.com/gpumem out",
    ),
    Case(
        "Volcano without Volcano", "unknownScheduler", 'no scheduler "volcano" was ever seen', one(),
        waits(schedulerName="volcano"), "", lambda k: k.again(schedulerName=None), advises="set spec.schedulerName to default-scheduler",
    ),
    Case(
        "KAI without KAI", "unknownScheduler", 'no scheduler "kai-scheduler" was ever seen', one(),
        pod("waits", schedulerName="kai-scheduler", labels={"kai.scheduler/queue": "team"}), "",
        lambda k: k.again(schedulerName=None), advises="set spec.schedulerName to default-scheduler",
    ),
    Case(
        "HAMi's scheduler without HAMi", "unknownScheduler", 'no scheduler "hami-scheduler" was ever seen', one(),
        waits(schedulerName="hami-scheduler"), "", lambda k: k.again(schedulerName=None), advises="set spec.schedulerName to default-scheduler",
    ),
    Case(
        "an init container that asks for the GPUs", "gpusTaken",
        'all GPUs are taken: init container "init" asks for 4 nvidia.com/gpu; free on node p-a: 2 in all',
        one(), waits(1, initContainers=[asking({GPU: "4"}) | {"name": "init"}]), "Insufficient nvidia.com/gpu",
        lambda k: k.again(initContainers=[asking({GPU: "2"}) | {"name": "init"}]), [held("other", 6)], advises="ask for 2 in place of 4",
    ),
    Case(
        "a volume in a zone without GPUs (odh-manifests#259)", "volumeNodeConflict",
        "volume pv-home of claim home cannot be reached from node p-a: it is on node p-b",
        [node("p-a", zone="zone-a"), node("p-b", 0, zone="zone-b")], waits(**mounts("home")), "didn't match PersistentVolume's node affinity",
        moved, [volume("pv-home", nodeAffinity=in_zone("zone-b")), claim("home", volumeName="pv-home")],
        advises="copy the data to a volume that node p-a can reach",
    ),
    Case(
        "affinity to a pod on a node without GPUs (devpod-provider-kubernetes#63)", "podAffinity",
        "required pod affinity wants pods with app=other in the same kubernetes.io/hostname: none where node p-b, they are on node p-a",
        [node("p-a", 0), node("p-b")], waits(**affine("podAffinity", "other")), "pod affinity rules",
        before=[pod("other", 0, nodeSelector={HOSTNAME: "p-a"})], advises="make the affinity preferred",
    ),
    Case(
        "more CPU than a node with GPUs has (docker-selkies-egl-desktop#35)", "nodesTooSmall",
        "node p-a: too small: 120 cpu asked for, 96 there when empty",
        one(cpu="96"), wants({GPU: "1", "cpu": "120"}), "Insufficient cpu",
    ),
    Case(
        "the label of GPUs that are shared (hobbyist-guide-to-rhoai#31)", "nodeSelector",
        "nodeSelector nvidia.com/gpu.product=Tesla-T4 is on ",
        [node("p-a", 1, T4, replicas=4)], waits(nodeSelector={PRODUCT: T4}), "node affinity/selector",
    ),
    Case(
        "dedicated, not shared (gpu-operator#371)", "nodeSelector", "nodeSelector example.org/shared=true is on no node",
        one(labels={"example.org/dedicated": "true"}), waits(nodeSelector={"example.org/shared": "true"}), "node affinity/selector",
    ),
    Case(
        "a label of AKS and no device plugin (autoscaler#10301)", "devicePluginMissing", "node p-a: GPUs by the labels",
        [node("p-a", 0, labels={"kubernetes.azure.com/accelerator": "nvidia"})], waits(), "Insufficient nvidia.com/gpu",
        lambda k: k.patch("Node", "p-a", {"status": {"allocatable": {GPU: "1"}, "capacity": {GPU: "1"}}}, subresource="status"),
    ),
    Case(
        "a PCI label and no device plugin", "devicePluginMissing", "node p-a: GPUs by the labels",
        [node("p-a", 0, labels={"feature.node.kubernetes.io/pci-10de.present": "true"})], waits(), "Insufficient nvidia.com/gpu",
        lambda k: k.patch("Node", "p-a", {"status": {"allocatable": {GPU: "1"}, "capacity": {GPU: "1"}}}, subresource="status"),
    ),
    Case(
        "GPUs that are not allocatable", "nodesTooSmall",
        "node p-a: 6 of 8 nvidia.com/gpu are allocatable, 8 asked for",
        [part("p-a", 6)], waits(8), "Insufficient nvidia.com/gpu",
        lambda k: k.patch("Node", "p-a", {"status": {"allocatable": {GPU: "8"}}}, subresource="status"), advises="see why: kubectl describe node p-a",
    ),
    Case(
        "the taint of the GPU operator", "untoleratedTaint", "node p-a: tainted nvidia.com/gpu=present:NoSchedule",
        one(taints=["nvidia.com/gpu=present:NoSchedule"]), waits(), "untolerated taint",
    ),
    Case(
        "the taint of AKS", "untoleratedTaint", "node p-a: tainted sku=gpu:NoSchedule",
        one(taints=["sku=gpu:NoSchedule"]), waits(), "untolerated taint",
    ),
    Case(
        "a taint that evicts", "untoleratedTaint", "node p-a: tainted dedicated=ml:NoExecute",
        one(taints=["dedicated=ml:NoExecute"]), waits(), "untolerated taint",
    ),
    Case(
        "two taints, one tolerated (autoscaler#3115)", "untoleratedTaint", "node p-a: tainted prod-only=true:NoSchedule, which",
        one(taints=["team=x:NoSchedule", "prod-only=true:NoSchedule"]), waits(tolerations=[TOLERATION]), "untolerated taint",
    ),
    Case(
        "a toleration of another value", "untoleratedTaint", "node p-a: tainted team=x:NoSchedule",
        one(taints=["team=x:NoSchedule"]), waits(**tolerates("team", "y")), "untolerated taint",
    ),
    Case(
        "a toleration of another effect", "untoleratedTaint", "node p-a: tainted team=x:NoSchedule",
        one(taints=["team=x:NoSchedule"]), waits(**tolerates("team", "x", "NoExecute")), "untolerated taint",
    ),
    Case(
        "the only node is a control plane", "untoleratedTaint",
        "node p-a: tainted node-role.kubernetes.io/control-plane:NoSchedule",
        one(taints=["node-role.kubernetes.io/control-plane:NoSchedule"]), waits(), "untolerated taint",
    ),
    Case(
        "a node out of service", "notReady", "node p-a: out-of-service",
        one(taints=["node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"]), waits(), "untolerated taint",
        lambda k: k.patch("Node", "p-a", {"spec": {"taints": None}}), advises="see what is wrong there: kubectl describe node p-a",
    ),
    Case(
        "two free here and two there", "gpusFragmented", "GPUs are free but apart: 4 nvidia.com/gpu asked for",
        [node("p-a", 4), node("p-b", 4)], waits(4), "Insufficient nvidia.com/gpu", None,
        [held("one", 2), held("two", 2, "p-b")], advises="ask for 2 in each of more pods",
    ),
    Case(
        "GPUs of a Deployment that serves", "gpusTaken", "all GPUs are taken: 8 nvidia.com/gpu asked for; free on node p-a: 2",
        one(), waits(8), "Insufficient nvidia.com/gpu", None, [held("other", 6)], advises="ask for 2 in place of 8",
    ),
    Case(
        "all GPUs of an equal class", "gpusTaken", "all GPUs are taken: 8 nvidia.com/gpu asked for; free on node p-a: 0",
        one(), waits(8, priorityClassName="p-high"), "Insufficient nvidia.com/gpu", None,
        [priority("p-high", 1000, "PreemptLowerPriority"), held("other", 8, priorityClassName="p-high")],
        advises="wait for pod/other in", notes="it can preempt nobody: no pod has a priority below its own, 1000, on node p-a",
    ),
    Case(
        "lower pods that hold too little", "gpusTaken", "all GPUs are taken: 8 nvidia.com/gpu asked for; free on node p-a: 0",
        one(), waits(8, priorityClassName="p-high"), "Insufficient nvidia.com/gpu", lambda k: k.end("other"),
        [priority("p-high", 1000, "PreemptLowerPriority"), held("other", 6, priorityClassName="p-high"), held("low", 2)],
        notes="it can preempt nobody: pods of a priority below 1000 hold too little on node p-a",
    ),
    Case(
        "a gate of Kueue", "queued", 'Kueue has not admitted it from queue "team"', one(),
        pod("waits", schedulingGates=[{"name": "kueue.x-k8s.io/admission"}], labels={"kueue.x-k8s.io/queue-name": "team"}),
        "non-empty scheduling gates", lambda k: k.patch("Pod", "waits", {"spec": {"schedulingGates": []}}),
    ),
    Case(
        "a Job that Kueue holds", "queued", 'Kueue has not admitted it from queue "team"', one(), of_queue(),
        "", lambda k: k.patch("Job", "waits", {"spec": {"suspend": False}}), [], "job/waits",
    ),
    Case(
        "a quota that wants requests (cnp-flux-config#13765)", "quotaExceeded",
        "1 pod could not be created: quota cpus wants every container to state requests.cpu", one(), deployment("waits"), "",
        template(containers=[asking({GPU: "1", "cpu": "1"})]), [QUOTA], "replicaset/waits-", "state requests.cpu in every container",
    ),
    Case(
        "a quota of CPU (eidf-epcc-cluster#26)", "quotaExceeded",
        "1 pod could not be created: quota cpus: requests.cpu=0 used, requests.cpu=8 asked for, requests.cpu=4 at most",
        one(), deployment("waits", container=asking({GPU: "1", "cpu": "8"})), "",
        template(containers=[asking({GPU: "1", "cpu": "4"})]), [QUOTA], "replicaset/waits-", "ask for less",
    ),
    Case(
        "a misspelt ServiceAccount", "serviceAccountMissing", '1 pod could not be created: ServiceAccount "robto" does not exist in NAMESPACE; nearest: robot',
        one(), deployment("waits", serviceAccountName="robto"), "", template(serviceAccountName="robot", serviceAccount="robot"),
        [made("ServiceAccount", "robot")], "replicaset/waits-", "name robot in place of robto",
    ),
    Case(
        "a misspelt PriorityClass", "priorityClassMissing", '1 pod could not be created: PriorityClass "p-hihg" does not exist; nearest: p-high',
        one(), deployment("waits", priorityClassName="p-hihg"), "", template(priorityClassName="p-high"),
        [priority("p-high", 10, "Never")], "replicaset/waits-", "name p-high in place of p-hihg",
    ),
    Case(
        "a misspelt volume claim", "volumeClaimMissing", 'PersistentVolumeClaim "dataa" does not exist in NAMESPACE; nearest: data',
        one(), waits(**mounts("dataa")), 'persistentvolumeclaim "dataa" not found', lambda k: k.again(**mounts("data")),
        [volume("pv-data"), claim("data", volumeName="pv-data")], "", "name data in place of dataa",
    ),
    Case(
        "a misspelt ResourceClaim", "claimMissing", 'ResourceClaim "c" does not exist in NAMESPACE; nearest: cc',
        one(), waits(0, **CLAIMING), "", lambda k: k.again(resourceClaims=[{"name": "gpu", "resourceClaimName": "cc"}]),
        [DEVICE_CLASS, device_slice("s-near", "p-a", 1), device_claim("cc")], "", "name cc in place of c",
    ),
    Case(
        "a misspelt claim template", "claimTemplateMissing",
        'ResourceClaimTemplate "tt" does not exist in NAMESPACE; nearest: t', one(),
        waits(0, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "tt"}]), "",
        lambda k: k.again(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "t"}]),
        [DEVICE_CLASS, device_slice("s-template", "p-a", 1), claim_template("t")], "", "name t in place of tt",
    ),
    Case(
        "the devices of another claim", "noDevice",
        "claim c: 1 device of gpu.example.com wanted, at most 0 free on a node: not on node p-a", one(), waits(0, **CLAIMING),
        "cannot allocate all claims", None,
        [DEVICE_CLASS, device_slice("s-held", "p-a", 1), device_claim("c"), device_claim("o"),
         pod("other", 0, resourceClaims=[{"name": "gpu", "resourceClaimName": "o"}])], "", "wait for pod/other in",
    ),
    Case(
        "a driver that is not there", "noDevice",
        "claim c: 1 device of gpu.example.com wanted, and no node has any", one(), waits(0, **CLAIMING), "cannot allocate all claims",
        lambda k: k.make(device_slice("s-driver", "p-a", 1)), [DEVICE_CLASS, device_claim("c")], "", "install or repair the driver",
    ),
    Case(
        "a model that no device is", "noDevice",
        "claim c: 1 device of gpu.example.com wanted, and no device matches «device.attributes[", one(), waits(0, **CLAIMING),
        "cannot allocate all claims", claims(device_claim("cc", 1, f'{ATTRIBUTES}.model == "A100"')),
        [DEVICE_CLASS, device_slice("s-model", "p-a", 1, {"attributes": {"model": {"string": "A100"}}}),
         device_claim("c", 1, f'{ATTRIBUTES}.model == "H100"')], "", "correct the selector in a new claim",
    ),
    Case(
        "80 GiB of devices that have 40", "noDevice",
        "claim c: 1 device of gpu.example.com wanted, and no device matches «device.capacity[", one(), waits(0, **CLAIMING),
        "cannot allocate all claims", claims(device_claim("cc", 1, f'{MEMORY}.compareTo(quantity("40Gi")) >= 0')),
        [DEVICE_CLASS, device_slice("s-memory", "p-a", 1, {"capacity": {"memory": {"value": "40960Mi"}}}),
         device_claim("c", 1, f'{MEMORY}.compareTo(quantity("80Gi")) >= 0')], "", "correct the selector in a new claim",
    ),
    Case(
        "a driver that is too old", "noDevice",
        "claim c: 1 device of gpu.example.com wanted, and no device matches «device.attributes[", one(), waits(0, **CLAIMING),
        "cannot allocate all claims", claims(device_claim("cc", 1, f'!{ATTRIBUTES}.driver.isGreaterThan(semver("570.0.0"))')),
        [DEVICE_CLASS, device_slice("s-version", "p-a", 1, {"attributes": {"driver": {"version": "560.35.3"}}}),
         device_claim("c", 1, f'{ATTRIBUTES}.driver.isGreaterThan(semver("570.0.0"))')], "", "correct the selector in a new claim",
    ),
    Case(
        "two devices that are to be of one NUMA node", "noDevice",
        "claim c: 2 devices of gpu.example.com wanted, at most 1 free on a node: not on node p-a", one(), waits(0, **CLAIMING),
        "cannot allocate all claims", claims(device_claim("cc")),
        [DEVICE_CLASS, device_slice("s-numa", "p-a", 2, {"attributes": {"numa": {"int": 0}}}, {"attributes": {"numa": {"int": 1}}}),
         device_claim("c", 2, constraints=[{"matchAttribute": "gpu.example.com/numa"}])], "", "ask for at most 1 in a claim",
    ),
    Case(
        "no local volume, and nothing that makes one", "volumeNodeConflict",
        "no volume suits claim data, and class class-local makes none", one(), waits(**mounts("data")),
        "didn't find available persistent volumes", lambda k: k.make(volume("pv-new", storageClassName="class-local")),
        [of_class("class-local", "WaitForFirstConsumer"), claim("data", storageClassName="class-local")], "",
        "create a PersistentVolume of class class-local",
    ),
    Case(
        "local volumes that are too small", "volumeNodeConflict",
        "no volume suits claim data, and class class-local makes none", one(), waits(**mounts("data")),
        "didn't find available persistent volumes", lambda k: k.make(volume("pv-new", storageClassName="class-local")),
        [of_class("class-local", "WaitForFirstConsumer"), claim("data", storageClassName="class-local"),
         volume("pv-small", storageClassName="class-local", capacity={"storage": "1Mi"})], "",
        "create a PersistentVolume of class class-local",
    ),
    Case(
        "a claim that names no class", "volumeClaimUnbound",
        "PersistentVolumeClaim data is not bound and names no StorageClass", one(), waits(**mounts("data")),
        "unbound immediate PersistentVolumeClaims", lambda k: k.make({**volume("pv-plain"), "metadata": {"name": "pv-plain", "labels": {"p-data": "yes"}}}),
        [claim("data", selector={"matchLabels": {"p-data": "yes"}})],
    ),
    Case(
        "one zone is full, and the pods are spread", "topologySpread",
        "topology spread over topology.kubernetes.io/zone with maxSkew 1 (pods now: zone-a 1, zone-b 0) keeps it from node p-a",
        [node("p-a", zone="zone-a"), node("p-b", 1, zone="zone-b")], waits(topologySpreadConstraints=[{**spread(), "topologyKey": ZONE}]),
        "topology spread", None, [held("one", 1, labels={"app": "waits"}), held("two", 1, "p-b", labels={"app": "two"})], "",
        "set whenUnsatisfiable: ScheduleAnyway",
    ),
    Case(
        "one replica in a zone", "podAntiAffinity",
        "its pod anti-affinity keeps it from nodes p-a, p-b, where pod/one are", [node("p-a"), node("p-b")],
        waits(**affine("podAntiAffinity", "waits", ZONE)), "anti-affinity rules", None,
        [held("one", 1, labels={"app": "waits"})], "", "make the anti-affinity preferred",
    ),
    Case(
        "others that want their zone alone", "existingAntiAffinity",
        "anti-affinity of pod/one keeps pods with these labels from nodes p-a, p-b", [node("p-a"), node("p-b")], waits(),
        "existing pods anti-affinity", lambda k: k.end_who_keeps_away("one"), [held("one", 1, **affine("podAntiAffinity", "waits", ZONE))],
    ),
    Case(
        "two terms of affinity that no node has", "nodeAffinity",
        "required node affinity «nvidia.com/gpu.product In NVIDIA-H1000» matches no node", one(),
        waits(affinity=either(PRODUCT, "NVIDIA-H1000", "NVIDIA-B2000")), "node affinity/selector",
    ),
    Case(
        "affinity that excludes all", "nodeAffinity", "required node affinity «nvidia.com/gpu.product NotIn NVIDIA-A100-SXM4-80GB» matches no node", one(),
        waits(affinity=required(PRODUCT, "NotIn", A100)), "node affinity/selector",
    ),
    Case(
        "affinity to a node that is cordoned", "cordoned", "node p-a: cordoned (spec.unschedulable)",
        [node("p-a", cordoned=True), node("p-b", 1, L4)], waits(affinity=required(PRODUCT, "In", A100)), "were unschedulable",
    ),
    Case(
        "a node that is gone", "nodeSelector",
        "nodeSelector kubernetes.io/hostname=p-z is on no node", one(), waits(nodeSelector={HOSTNAME: "p-z"}), "node affinity/selector",
    ),
    Case(
        "a pool without GPUs", "nodeSelector", "nodeSelector pool=batch is on 1 node",
        [node("p-a", 0, labels={"pool": "batch"}), node("p-b", labels={"pool": "gpus"})], waits(nodeSelector={"pool": "batch"}),
        "node affinity/selector", advises="remove spec.nodeSelector[pool]",
    ),
    Case(
        "spot nodes that are not there, and Karpenter", "nodeSelector",
        "nodeSelector karpenter.sh/capacity-type=spot is on no node", one(labels={"karpenter.sh/capacity-type": "on-demand"}),
        waits(nodeSelector={"karpenter.sh/capacity-type": "spot"}), "node affinity/selector", None,
        [event("FailedScheduling", "no instance type satisfied", "karpenter")], notes="no node will come, says karpenter: no instance type satisfied",
    ),
    Case(
        "full, and no group of nodes fits (autoscaler#4181)", "gpusTaken", "all GPUs are taken: 1 nvidia.com/gpu asked for",
        [node("p-a", 1)], waits(), "Insufficient nvidia.com/gpu", None,
        [event("NotTriggerScaleUp", "pod didn't trigger scale-up: 2 max node group size reached", "cluster-autoscaler"), held("other", 1)],
        advises="wait for pod/other in", notes="no node will come, says cluster-autoscaler: pod didn't trigger scale-up: 2 max node group size reached",
    ),
    Case(
        "full, and a node comes", "gpusTaken", "all GPUs are taken: 1 nvidia.com/gpu asked for",
        [node("p-a", 1)], waits(), "Insufficient nvidia.com/gpu", lambda k: k.make(node("p-b", 1, labels={CASE: k.tag})),
        [event("TriggeredScaleUp", "pod triggered scale-up: [{gpu-pool 1->2 (max: 3)}]", "cluster-autoscaler"), held("other", 1)],
        notes="a node will come, says cluster-autoscaler: pod triggered scale-up",
    ),
    Case(
        "more memory than any node has", "moreThanAnyNode", "asks for 2Ti memory, and no node has more than 1Ti",
        one(), wants({GPU: "1", "memory": "2Ti"}), "Insufficient memory", advises="ask for 1Ti memory at most",
    ),
    Case(
        "GPUs are free and CPU is not", "insufficientCpu", "node p-a: short of cpu: 64 asked for, at most 28 free",
        one(), wants({GPU: "1", "cpu": "64"}), "Insufficient cpu", None, [cpu({"cpu": "100"}, "other")], "", "ask for 28 cpu",
    ),
    Case(
        "RDMA that no node offers", "unknownResource", "no node offers rdma/shared_mlx5", one(),
        wants({GPU: "1", "rdma/shared_mlx5": "1"}), "Insufficient rdma/shared_mlx5",
        lambda k: k.patch("Node", "p-a", {"status": {"allocatable": {"rdma/shared_mlx5": "9"}, "capacity": {"rdma/shared_mlx5": "9"}}}, subresource="status"),
    ),
    Case(
        "an Intel GPU that others have (truecharts#18712)", "gpusTaken", "all GPUs are taken: 1 gpu.intel.com/i915 asked for",
        [node("p-a", 0, resources={"gpu.intel.com/i915": "1"})], waits(resource="gpu.intel.com/i915"), "Insufficient gpu.intel.com/i915",
        None, [held("other", 1, resource="gpu.intel.com/i915")], "", "wait for pod/other in",
    ),
    Case(
        "AMD GPUs of nodes that have NVIDIA's", "unknownResource", "no node offers amd.com/gpu", one(),
        waits(resource="amd.com/gpu"), "Insufficient amd.com/gpu",
    ),
    Case(
        "a part of GPUs that are not shared", "otherGpuResource",
        "node p-a: nvidia.com/gpu in place of nvidia.com/gpu.shared", one(), waits(resource="nvidia.com/gpu.shared"),
        "Insufficient nvidia.com/gpu.shared",
    ),
    Case(
        "as many pods as the node takes, of which none has GPUs", "tooManyPods",
        "node p-a: full: 2 pods at most, says the kubelet", one(resources={"pods": "2"}), waits(), "Too many pods",
        lambda k: k.end("one"), [held("one", 0), held("two", 0)],
    ),
]  # fmt: skip
