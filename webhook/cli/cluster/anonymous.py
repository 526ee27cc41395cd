"""Makes a snapshot anonymous: it keeps what decisions and explanations need, and hides whose cluster it is.

Only the fields of `_FIELDS` stay. Names of objects and values of labels, taints and selectors become hashes. One name has one
hash everywhere, also inside messages. Public names stay: resource names, label keys, the values of `_PUBLIC_LABELS`, drivers,
and the names of `_PUBLIC_NAMES`. Names can be guessed, and a guess could be checked against its hash. So each snapshot is hashed
with a random key, which is not kept.
"""

import re
from hashlib import blake2b
from secrets import token_bytes
from typing import Any, Final

from webhook.cli.cluster.load import FORBIDDEN
from webhook.devices.source_kai import RESERVATIONS
from webhook.devices.sources import ANNOTATIONS
from webhook.kube.other_gpus import part_keys
from webhook.kube.pod import DECISION
from webhook.vendors.catalogue import labels, taints
from webhook.whatif.cluster.measured import Measured
from webhook.whatif.cluster.release import NAME
from webhook.whatif.cluster.snapshot import Object, Snapshot

_FIELD_WORDS: Final = """
apiVersion kind metadata spec status name namespace uid generateName labels annotations ownerReferences controller
creationTimestamp deletionTimestamp template type reason message lastTransitionTime conditions phase selector replicas

nodeName nodeSelector affinity nodeAffinity podAffinity podAntiAffinity requiredDuringSchedulingIgnoredDuringExecution
preferredDuringSchedulingIgnoredDuringExecution nodeSelectorTerms matchExpressions matchFields matchLabels key operator values
value effect tolerations tolerationSeconds weight preference podAffinityTerm labelSelector topologyKey namespaces
namespaceSelector matchLabelKeys mismatchLabelKeys topologySpreadConstraints maxSkew whenUnsatisfiable minDomains
nodeAffinityPolicy nodeTaintsPolicy containers initContainers ephemeralContainers image resources limits requests claims
request ports containerPort hostPort protocol restartPolicy securityContext privileged capabilities add drop priority
priorityClassName preemptionPolicy schedulerName schedulingGates schedulingGroup podGroupName resourceClaims
resourceClaimName resourceClaimTemplateName overhead podFixed runtimeClassName hostNetwork hostPID hostIPC volumes
persistentVolumeClaim claimName ephemeral volumeClaimTemplate nominatedNodeName containerStatuses initContainerStatuses
ready state waiting running terminated resourceClaimStatuses terminationGracePeriodSeconds

unschedulable taints providerID capacity allocatable globalDefault handler scheduling defaultRequest maxLimitRequestRatio

driver pool generation resourceSliceCount allNodes perDeviceNodeSelection devices attributes string int bool version
consumesCounters counterSet counters sharedCounters allowMultipleAllocations requestPolicy validValues validRange min max
step default consumedCapacity shareID constraints matchAttribute extendedResourceClaimStatus exactly firstAvailable
deviceClassName count allocationMode adminAccess selectors cel expression allocation results device reservedFor
extendedResourceName

minAvailable maxUnavailable disruptionsAllowed currentHealthy desiredHealthy expectedPods scaleTargetRef minReplicas
maxReplicas involvedObject lastTimestamp firstTimestamp eventTime series lastObservedTime source component
reportingComponent hard used

accessModes storageClassName claimRef csi volumeHandle required volumeName volumeMode storage provisioner
volumeBindingMode allowedTopologies matchLabelExpressions drivers topologyKeys storageCapacity nodeTopology maximumVolumeSize

completions parallelism suspend runPolicy rayClusterConfig jobDeploymentStatus completionMode active succeeded failed
readyReplicas availableReplicas updatedReplicas
observedGeneration desiredNumberScheduled currentNumberScheduled numberReady schedulingPolicy gang minCount minMember basic
holderIdentity renewTime leaseDurationSeconds endpoints major minor gitVersion samples
"""
_FIELDS: Final = frozenset(_FIELD_WORDS.split())
"""The fields that stay, at any depth of an object."""
_NAME_WORDS: Final = """
name namespace namespaces uid generateName nodeName podGroupName resourceClaimName resourceClaimTemplateName claimName
nominatedNodeName pool device volumeName volumeHandle holderIdentity request counterSet
"""
_NAMES: Final = frozenset(_NAME_WORDS.split())
"""Fields whose values are names."""
_LABELS: Final = frozenset(("labels", "matchLabels", "nodeSelector"))
"""Maps by label keys."""
_MAP_WORDS: Final = (
    "limits requests capacity allocatable hard used attributes counters consumedCapacity overhead podFixed default "
    "defaultRequest min max maxLimitRequestRatio"
)
_MAPS: Final = _LABELS.union(_MAP_WORDS.split())
"""Maps whose keys are no fields, and stay."""
_PUBLIC_LABELS: Final = (
    *[
        key.removesuffix("*")
        for key in labels("model", "memory", "count", "driver", "cuda", "hardware", "mode", "spot")
    ],
    *[taint.key.removesuffix("*") for taint in taints("gpu") if taint.value is None],
    *(
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "node.kubernetes.io/instance-type",
        "gpu-admission.io/",
        "workload-type",
    ),
)
"""Beginnings of the labels and taints whose values describe hardware or are our own."""
_PUBLIC_ATTRIBUTES: Final = ("productName", "architecture", "brand", "type", "driverVersion", "cudaComputeCapability")
_KEPT_WORDS: Final = "default kube-system kube-public kube-node-lease true false present all"
_KEPT: Final = frozenset(("", NAME, RESERVATIONS, *_KEPT_WORDS.split()))
"""Names and values that are the same in every cluster."""
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_UUID: Final = re.compile(r"(?:GPU|MIG)-[A-Za-z0-9-]+")
_MESSAGES: Final = re.compile(r"0/[0-9]+ nodes are available|.*exceeded quota: |.*max node group size reached")
"""The messages that stay: those that `why` reads numbers from."""
_REMOVED_KINDS: Final = ("ConfigMap", "ServingCertificate", "DeschedulerPolicy")
"""Kinds of which nothing but names and data would be left."""
_OURS: Final = (
    *("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"),
    *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
)
"""Kinds whose objects stay if they are ours: these are the same in every cluster. Their labels are removed."""
_PUBLIC_NAMES: Final = frozenset(("PriorityClass", "RuntimeClass", "DeviceClass", "StorageClass"))
"""Kinds whose names stay."""


def anonymous(snapshot: Snapshot) -> Snapshot:
    """The same cluster without names. The policy is removed too: its ConfigMap is data."""
    hashes = _Hashes(snapshot.release.namespace)
    for _ in range(2):  # a message may name an object that comes later
        kept = {
            kind: [_ours(kind, obj) or hashes.of_object(kind, obj) for obj in objects]
            for kind, objects in snapshot.objects.items()
            if kind not in _REMOVED_KINDS
        }
    missing = {kind: _without_names(why) for kind, why in snapshot.missing.items()}
    missing |= {kind: f"an anonymous snapshot has no {kind}" for kind in _REMOVED_KINDS}
    result = Snapshot(kept, missing, snapshot.taken, None)
    if measured := snapshot.measured:
        gpu_names: dict[tuple[str, str], str] = {}
        samples = [
            sample._replace(
                node=hashes.of_name(sample.node),
                gpu=gpu_names.setdefault((sample.node, sample.gpu), f"gpu-{len(gpu_names)}"),
                pod="/".join([hashes.of_name(name) for name in sample.pod.split("/")]),
            )
            for sample in measured.samples
        ]
        result.measured = Measured(measured.source, samples)
    return result


def _without_names(why: str) -> str:
    """Why a kind is missing, without the namespace, the file or the API server that the reason names."""
    return why.partition(" than ")[0] if why.startswith(FORBIDDEN) else "it was not read"


def _ours(kind: str, obj: Object) -> Object | None:
    """The object with only its name as metadata, if it is one that we install."""
    name = obj["metadata"]["name"]
    if kind not in _OURS or not name.startswith(NAME):
        return None
    return obj | {"metadata": {"name": name}}


class _Hashes:
    """The hash of each name in a cluster."""

    def __init__(self, ours: str) -> None:
        """`ours`: our namespace, which our webhook configurations name."""
        self._ours = ours
        self._key = token_bytes(16)
        self._hash_of: dict[str, str] = {}

    def of_object(self, kind: str, obj: Object) -> Object:
        kept: Object = self._of(obj)
        if kind in _PUBLIC_NAMES:
            kept["metadata"]["name"] = obj["metadata"]["name"]
        return kept

    def of_name(self, name: str) -> str:
        if name in _KEPT or name == self._ours or name.startswith("system-") or name.endswith(".k8s.io"):
            return name
        if name not in self._hash_of:
            self._hash_of[name] = "x" + blake2b(name.encode(), key=self._key, digest_size=5).hexdigest()
        return self._hash_of[name]

    def _in_text(self, text: str) -> str:
        return _NAME.sub(lambda match: self._hash_of.get(match[0], match[0]), text)

    def _devices(self, text: str) -> str:
        """What HAMi and others write of GPUs, with hashes for their UUIDs."""
        return _UUID.sub(lambda match: f"GPU-{self.of_name(match[0])}", text)

    def _of(self, value: Any, key: str = "") -> Any:
        """A JSON value with hashes for names, and of its fields only those that stay. `key`: its own field."""
        if isinstance(value, dict):
            return self._of_map(value, key)
        if key == "samples":  # metrics of ours and of the API server about us
            return [[name, {k: self._in_text(v) for k, v in labels.items()}, number] for name, labels, number in value]
        if isinstance(value, list):
            return [self._of(each, key) for each in value]
        if not isinstance(value, str):
            return value
        if key in _NAMES or key == "requests":  # the requests that a constraint of a claim is for
            public = "/" in value and value.partition("/")[0].endswith(".k8s.io")  # a scheduling gate
            return value if public else self.of_name(value)
        if key == "message":
            return self._in_text(value) if _MESSAGES.match(value) else ""
        return {"image": "image", "providerID": "x"}.get(key, value)

    def _of_map(self, value: dict[str, Any], key: str) -> dict[str, Any]:
        if key == "annotations":
            devices = {name: self._devices(text) for name, text in value.items() if name in ANNOTATIONS}
            for name, said in part_keys(value).items():
                devices[f"{said.part.prefix}{self.of_name(said.container)}.{said.word}"] = value[name]
            return devices | {name: self._in_text(text) for name, text in value.items() if name == DECISION}
        if key in _LABELS and all(isinstance(each, str) for each in value.values()):
            return {name: self._of_label(name, text) for name, text in value.items()}
        if key == "attributes":
            public = {name for name in value if name.rpartition("/")[2] in _PUBLIC_ATTRIBUTES}
            return {name: self._of(each, "" if name in public else "attribute") for name, each in value.items()}
        if key == "attribute" and "string" in value:
            return {"string": self.of_name(str(value["string"]))}
        kept = {name: self._of(each, name) for name, each in value.items() if name in _FIELDS or key in _MAPS}
        label = value.get("key")
        if isinstance(label, str):  # a requirement, a taint or a toleration
            if isinstance(value.get("values"), list):
                kept["values"] = [self._of_label(label, str(each)) for each in value["values"]]
            if isinstance(value.get("value"), str):
                kept["value"] = self._of_label(label, value["value"])
        return kept

    def _of_label(self, key: str, value: str) -> str:
        return value if key.startswith(_PUBLIC_LABELS) else self.of_name(value)
