"""Pods that lack devices by claims (DRA), or volumes. Where an issue is named, it shows this problem."""

import os
from typing import Any

from tests.controlplane.nodes import node
from tests.controlplane.objects import made, pod, volume, volume_claim
from tests.controlplane.programs import MAIN, SERVES_EXTENDED_RESOURCES
from tests.e2e.pending.kit import HOLD, HOSTNAME, ZONE, Case, Fix, Json, Kit, held, one, two, waits

TAINTS_DEVICES = os.environ.get("K8S", MAIN) != "1.34"
"""Taints of devices are behind a feature gate there (KEP-5055)."""


def has_claims(*names: str) -> Json:
    return {"resourceClaims": [{"name": f"gpu-{name}", "resourceClaimName": name} for name in names]}


def exactly(*selectors: str, count: int = 1, **fields: Any) -> Json:
    """`selectors`: CEL."""
    chosen = {"selectors": [{"cel": {"expression": each}} for each in selectors]} if selectors else {}
    return {"deviceClassName": "gpu.example.com", "count": count, **chosen, **fields}


def asking(name: str, *requests: Json, **more: Any) -> Json:
    """A claim with these requests; one device, if none is given. `more`: other fields of spec.devices."""
    asked = [{"name": f"r{number}", "exactly": each} for number, each in enumerate(requests or [exactly()])]
    return made("ResourceClaim", name, spec={"devices": {"requests": asked, **more}})


def offered(*devices: Json) -> Json:
    """The devices of the node."""
    pool = {"name": "p-a", "generation": 1, "resourceSliceCount": 1}
    every = [{"name": f"gpu-{number}", **each} for number, each in enumerate(devices)]
    return made(
        "ResourceSlice", "s-one", spec={"driver": "gpu.example.com", "nodeName": "p-a", "pool": pool, "devices": every}
    )


def attributes(**values: Json) -> Json:
    return {"attributes": values}


def another(claim: Json) -> Fix:
    """The pod has another claim."""

    async def fixed(kit: Kit) -> None:
        await kit.make(claim)
        await kit.again(**has_claims(claim["metadata"]["name"]))

    return fixed


def lacking(name: str, text: str, *before: Json, pod: Json | None = None, **more: Any) -> Case:
    """A claim that gets no devices."""
    made = pod or waits(0, **has_claims("c"))
    return Case(name, "noDevice", text, one(), made, "cannot allocate all claims", before=[CLASS, *before], **more)


def unmatched(name: str, device: Json, asks: str, right: str, text: str) -> Case:
    """The expression of a claim matches no device, and that of another one does."""
    text = f"claim c: 1 device of gpu.example.com wanted, and no device matches «device.{text}["
    claims, fix = [offered(device), asking("c", exactly(asks))], another(asking("cc", exactly(right)))
    return lacking(name, text, *claims, fix=fix, advises="correct the selector in a new claim")


def mounts(*claims: str) -> Json:
    return {"volumes": [{"name": f"v{n}", "persistentVolumeClaim": {"claimName": c}} for n, c in enumerate(claims)]}


def of_csi(number: int) -> Json:
    return volume(f"pv-{'ab'[number]}", csi={"driver": "csi.example.com", "volumeHandle": f"h{number}"})


def without(
    name: str, cause: str, text: str, says: str, fix: Fix | None, *before: Json, of: str = "data", **more: Any
) -> Case:
    """A volume claim for which no node is looked at, or none is left."""
    nodes, made = more.pop("nodes", None) or one(), more.pop("pod", None) or waits(**mounts(of))
    return Case(name, cause, text, nodes, made, says, fix, [*before], **more)


def making(*objects: Json) -> Fix:
    return lambda k: k.make(*objects)


async def moved(kit: Kit) -> None:
    """The data are copied to a volume in the other zone."""
    await kit.make(volume("pv-copy", "zone-a"), volume_claim("copy", "pv-copy"))
    await kit.again(**mounts("copy"))


async def claim_again(kit: Kit) -> None:
    await kit.patch("PersistentVolumeClaim", "data", {"metadata": {"finalizers": None}})
    await kit.make(volume("pv-new"), volume_claim("data", "pv-new"))


CLASS = made(
    "DeviceClass",
    "gpu.example.com",
    spec={"selectors": [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]},
)
BACKED = {**CLASS, "spec": {**CLASS["spec"], "extendedResourceName": "example.com/gpu"}}
TEMPLATE = made("ResourceClaimTemplate", "t", spec={"spec": asking("t")["spec"]})
MODEL, MEMORY = 'device.attributes["gpu.example.com"].model', 'device.capacity["gpu.example.com"].memory'
DRIVER = 'device.attributes["gpu.example.com"].driver'
A100, OTHERS = attributes(model={"string": "A100"}), attributes(model={"string": "L4"})
EITHER = [{"name": name, **exactly(f'{MODEL} == "{model}"')} for name, model in (("best", "H100"), ("good", "A100"))]
SICK = {"taints": [{"key": "sick", "value": "xid", "effect": "NoSchedule"}]}
HAS_O = pod("other", 0, nodeSelector={HOSTNAME: "p-a"}, **has_claims("o"))
TEMPLATED = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]}
MISSPELT = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "tt"}]}
LOCAL, SLOW = [
    made("StorageClass", name, provisioner="kubernetes.io/no-provisioner", volumeBindingMode=mode)
    for name, mode in (("class-local", "WaitForFirstConsumer"), ("class-slow", "Immediate"))
]
LATE = made("StorageClass", "class-late", provisioner="csi.example.com", volumeBindingMode="WaitForFirstConsumer")
ELSEWHERE = [{"matchLabelExpressions": [{"key": ZONE, "values": ["zone-nowhere"]}]}]
ZONAL = {**LATE, "metadata": {"name": "class-zonal"}, "allowedTopologies": ELSEWHERE}
COUNTED = made("CSIDriver", "csi.example.com", spec={"storageCapacity": True, "attachRequired": False})
HAS_LITTLE = made(
    "CSIStorageCapacity",
    "little",
    storageClassName="class-late",
    capacity="4Gi",
    nodeTopology={"matchLabels": {ZONE: "zone-a"}},
)
OF_LOCAL = volume_claim("data", storageClassName="class-local")
NO_VOLUME = "no volume suits claim data, and class class-local makes none"
MAKE_ONE = "create a PersistentVolume of class class-local"
LIMITED = made(
    "CSINode", "p-a", spec={"drivers": [{"name": "csi.example.com", "nodeID": "p-a", "allocatable": {"count": 1}}]}
)
BOUND_ONCE = {"name": "data", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
ALONE = {"accessModes": ["ReadWriteOncePod"]}
UNBOUND = "unbound immediate PersistentVolumeClaims"
CLAIMS = [
    Case(
        "a DRA claim that is not there", "claimMissing", 'ResourceClaim "c" does not exist in NAMESPACE', one(), waits(0, **has_claims("c")),
        fix=making(CLASS, offered({}), asking("c")),
    ),
    Case(
        "a misspelt ResourceClaim", "claimMissing", 'ResourceClaim "c" does not exist in NAMESPACE; nearest: cc', one(), waits(0, **has_claims("c")),
        before=[CLASS, offered({}), asking("cc")], advises="name cc in place of c",
    ),
    Case(
        "a claim template that is not there", "claimTemplateMissing", 'ResourceClaimTemplate "t" does not exist in NAMESPACE', one(), waits(0, **TEMPLATED),
        fix=lambda k: k.again(resourceClaims=None),
    ),
    Case(
        "a misspelt claim template", "claimTemplateMissing", 'ResourceClaimTemplate "tt" does not exist in NAMESPACE; nearest: t', one(), waits(0, **MISSPELT),
        before=[CLASS, offered({}), TEMPLATE], advises="name t in place of tt",
    ),
    Case(
        "a device class that is not there", "deviceClassMissing", 'DeviceClass "gpu.example.com" does not exist (claim c)', one(), waits(0, **has_claims("c")),
        "device class gpu.example.com does not exist", making(CLASS), [offered({}), asking("c")],
    ),
    Case(
        "a claim whose device is on a full node", "tooManyPods", "node p-a: full: 1 pods at most, says the kubelet", two(resources={"pods": "1"}), waits(0, **has_claims("c")),
        fix=lambda k: k.end("other"), before=[CLASS, offered({}), asking("c"), pod("other", 0, **has_claims("c"))],
    ),
    lacking(
        "more devices than a node has", "claim c: 2 devices of gpu.example.com wanted, at most 1 free on a node: not on node p-a", offered({}), asking("c", exactly(count=2)),
        fix=lambda k: k.patch("ResourceSlice", "s-one", {"spec": offered({}, {})["spec"]}),
    ),
    lacking(
        "the devices of another claim", "claim c: 1 device of gpu.example.com wanted, at most 0 free on a node: not on node p-a", offered({}), asking("c"), asking("o"), HAS_O,
        advises="wait for pod/other in",
    ),
    lacking(
        "a driver that is not there", "claim c: 1 device of gpu.example.com wanted, and no node has any", asking("c"), fix=making(offered({})), advises="install or repair the driver",
    ),
    unmatched("a model that no device is", A100, f'{MODEL} == "H100"', f'{MODEL} == "A100"', "attributes"),
    unmatched("80 GiB of devices that have 40", {"capacity": {"memory": {"value": "40960Mi"}}}, f'{MEMORY}.compareTo(quantity("80Gi")) >= 0', f'{MEMORY}.compareTo(quantity("40Gi")) >= 0', "capacity"),
    unmatched("a driver that is too old", attributes(driver={"version": "560.35.3"}), f'{DRIVER}.isGreaterThan(semver("570.0.0"))', f'!{DRIVER}.isGreaterThan(semver("570.0.0"))', "attributes"),
    lacking(
        "two devices that are to be of one NUMA node", "claim c: 2 devices of gpu.example.com wanted, all of one gpu.example.com/numa, at most 1 free on a node: not on node p-a",
        offered(attributes(numa={"int": 0}), attributes(numa={"int": 1})), asking("c", exactly(count=2), constraints=[{"matchAttribute": "gpu.example.com/numa"}]),
        fix=another(asking("cc")), advises="ask for at most 1 in a new claim",
    ),
    lacking(
        "two requests that want the same device", "claim c: not enough devices for all requests together on node p-a", offered(A100, OTHERS),
        asking("c", exactly(f'{MODEL} == "A100"'), exactly(f'{MODEL} in ["A100"]')), fix=another(asking("cc", exactly(f'{MODEL} == "A100"'), exactly(f'{MODEL} == "L4"'))),
    ),
    lacking(
        "two claims that want the same device", "claim c, claim d: not enough devices for all requests together on node p-a", offered({}), asking("c"), asking("d"),
        pod=waits(0, **has_claims("c", "d")), fix=lambda k: k.again(**has_claims("c")),
    ),
    lacking(
        "alternatives of which none is there", "claim c: ", offered(OTHERS), made("ResourceClaim", "c", spec={"devices": {"requests": [{"name": "gpu", "firstAvailable": EITHER}]}}),
        fix=another(asking("cc")),
    ),
    lacking(
        "all devices of a node, of which one is taken", "claim c: all devices that match are wanted, and others have some", offered({}, {}),
        made("ResourceClaim", "c", spec={"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu.example.com", "allocationMode": "All"}}]}}), asking("o"), HAS_O,
    ),
    *([lacking(
        "a device with a taint", "claim c: 1 device of gpu.example.com wanted, and it does not tolerate the taints of devices of node p-a: sick", offered(SICK), asking("c"),
        fix=another(asking("cc", exactly(tolerations=[{"key": "sick", "operator": "Exists"}]))),
    )] if TAINTS_DEVICES else []),
    *([Case(
        "an extended resource that a device class has, and too few devices", "noDevice", "example.com/gpu: 2 devices of gpu.example.com wanted, at most 1 free on a node: not on node p-a",
        one(), waits(2, resource="example.com/gpu"), fix=lambda k: k.again(containers=waits(1, resource="example.com/gpu")["spec"]["containers"]), before=[BACKED, offered({})],
    )] if SERVES_EXTENDED_RESOURCES else []),
    without(
        "a volume claim that is not there", "volumeClaimMissing", 'PersistentVolumeClaim "data" does not exist in NAMESPACE', 'persistentvolumeclaim "data" not found',
        making(volume("pv-missing"), volume_claim("data", "pv-missing")),
    ),
    without(
        "a misspelt volume claim", "volumeClaimMissing", 'PersistentVolumeClaim "dataa" does not exist in NAMESPACE; nearest: data', 'persistentvolumeclaim "dataa" not found',
        None, volume("pv-data"), volume_claim("data", "pv-data"), of="dataa", advises="name data in place of dataa",
    ),
    without(
        "a volume claim that nothing binds", "volumeClaimUnbound", "PersistentVolumeClaim data is not bound", UNBOUND, making(volume("pv-unbound", storageClassName="class-slow")),
        volume_claim("data", storageClassName="class-slow"), SLOW,
    ),
    without(
        "a claim that names no class", "volumeClaimUnbound", "PersistentVolumeClaim data is not bound and names no StorageClass", UNBOUND,
        making({**volume("pv-plain"), "metadata": {"name": "pv-plain", "labels": {"p-data": "yes"}}}), volume_claim("data", selector={"matchLabels": {"p-data": "yes"}}),
    ),
    without(
        "a storage class that is not there", "storageClassMissing", 'StorageClass "class-fast" does not exist (PersistentVolumeClaim data names it)', UNBOUND,
        making(volume("pv-class", storageClassName="class-fast")), volume_claim("data", storageClassName="class-fast"),
    ),
    without(
        "a volume claim that is being deleted", "volumeClaimDeleting", "PersistentVolumeClaim data is being deleted", "", claim_again,
        volume("pv-old"), {**volume_claim("data", "pv-old"), "metadata": {"name": "data", **HOLD}}, happens=lambda k: k.delete("PersistentVolumeClaim", "data"),
    ),
    without(
        "a volume that was deleted", "volumeClaimLost", "PersistentVolumeClaim data: its volume pv-gone is gone", 'bound to non-existent persistentvolume "pv-gone"',
        lambda k: k.again(volumes=None), {**volume_claim("data", "pv-gone"), "metadata": BOUND_ONCE},
    ),
    without(
        "a claim for one pod alone", "volumeInUse", "PersistentVolumeClaim data is ReadWriteOncePod, and pod NAMESPACE/other has it", "ReadWriteOncePod",
        None, volume("pv-alone", **ALONE), volume_claim("data", "pv-alone", **ALONE), pod("other", **mounts("data")),
    ),
    without(
        "as many volumes as can be attached", "volumeLimit", "node p-a: as many volumes as can be attached: csi.example.com takes 1 on a node", "exceed max volume count",
        lambda k: k.end("other"), LIMITED, of_csi(0), of_csi(1), volume_claim("one", "pv-a"), volume_claim("two", "pv-b"), pod("other", **mounts("one")), of="two",
    ),
    without(
        "a volume that is not made yet, and no more can be attached", "volumeLimit", "node p-a: as many volumes as can be attached: csi.example.com takes 1 on a node", "exceed max volume count",
        lambda k: k.again(volumes=None), LIMITED, LATE, of_csi(0), volume_claim("one", "pv-a"), volume_claim("two", storageClassName="class-late"), pod("other", **mounts("one")), of="two",
    ),
    without(
        "less storage than the volume that is to be made", "volumeNodeConflict",
        "no volume of 10Gi of class class-late can be made for claim data on node p-a: at most 4Gi there", "did not have enough free storage",
        lambda k: k.again(volumes=None), LATE, COUNTED, HAS_LITTLE, volume_claim("data", storageClassName="class-late"),
    ),
    without(
        "a class whose zone has no node", "volumeNodeConflict", "a volume of class class-zonal for claim data cannot be reached from node p-a", "didn't find available persistent volumes",
        lambda k: k.again(volumes=None), ZONAL, volume_claim("data", storageClassName="class-zonal"),
    ),
    without(
        "a volume in another zone", "gpusTaken", "all GPUs are taken: 8 nvidia.com/gpu asked for; free on node p-b: 7", "node affinity",
        None, volume("pv-zone", "zone-b"), volume_claim("data", "pv-zone"), held("other", 1, "p-b"), nodes=two(), pod=waits(8, **mounts("data")),
    ),
    without(
        "a volume in a zone without GPUs (odh-manifests#259)", "volumeNodeConflict", "volume pv-home of claim home cannot be reached from node p-a: it is on node p-b",
        "didn't match PersistentVolume's node affinity", moved, volume("pv-home", "zone-b"), volume_claim("home", "pv-home"), of="home",
        nodes=[node("p-a", zone="zone-a"), node("p-b", 0, zone="zone-b")], advises="copy the data to a volume that node p-a can reach",
    ),
    without(
        "two volumes in two zones (kubeflow#7109)", "volumeNodeConflict", "volume pv-a of claim one cannot be reached from node p-b: it is on node p-a", "node affinity",
        lambda k: k.again(**mounts("one")), volume("pv-a", "zone-a"), volume_claim("one", "pv-a"), volume("pv-b", "zone-b"), volume_claim("two", "pv-b"),
        nodes=two(), pod=waits(**mounts("one", "two")),
    ),
    without("no local volume, and nothing that makes one", "volumeNodeConflict", NO_VOLUME, "didn't find available persistent volumes", making(volume("pv-new", storageClassName="class-local")), LOCAL, OF_LOCAL, advises=MAKE_ONE),
    without(
        "local volumes that are too small", "volumeNodeConflict", NO_VOLUME, "didn't find available persistent volumes", making(volume("pv-new", storageClassName="class-local")),
        LOCAL, OF_LOCAL, volume("pv-small", storageClassName="class-local", capacity={"storage": "1Mi"}), advises=MAKE_ONE,
    ),
    without(
        "no local volume in the zones of a class", "volumeNodeConflict", NO_VOLUME, "", making(volume("pv-here", "zone-a", storageClassName="class-local")),
        LOCAL, OF_LOCAL, nodes=two(), pod=waits(nodeSelector={ZONE: "zone-a"}, **mounts("data")),
    ),
    without(
        "no free volume on the nodes that are left", "volumeNodeConflict", "a free volume for claim data cannot be reached from node p-a: it is on node p-b", "",
        None, LOCAL, OF_LOCAL, volume("pv-local", "zone-b", storageClassName="class-local"), nodes=two(), pod=waits(nodeSelector={ZONE: "zone-a"}, **mounts("data")),
    ),
]  # fmt: skip
