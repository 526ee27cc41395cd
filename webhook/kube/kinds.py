"""The kinds of objects that this program reads, and their paths in the API server."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from webhook.vendors.catalogue import every
from webhook.vendors.model import GangKind


class Kind(NamedTuple):
    """`group` is the path of its group and version, `plural` its name in RBAC and in paths; `other` is the path of a version that
    some clusters have in place of that."""

    group: str
    plural: str
    namespaced: bool = True
    other: str = ""

    def path(self, namespace: str | None = None) -> str:
        """The path of its list, in one namespace or in all."""
        return f"{self.group}/{f'namespaces/{namespace}/' if namespace and self.namespaced else ''}{self.plural}"


_CORE, _APPS, _BATCH, _RESOURCE = "/api/v1", "/apis/apps/v1", "/apis/batch/v1", "/apis/resource.k8s.io/v1"
_RAY, _KUBEFLOW, _GROVE = "/apis/ray.io/v1", "/apis/kubeflow.org/v1", "/apis/grove.io/v1alpha1"
_KUEUE: Final = "/apis/kueue.x-k8s.io"
_STORAGE, _ADMISSION = "/apis/storage.k8s.io/v1", "/apis/admissionregistration.k8s.io/v1"
_GANGS: Final = {each.kind: Kind(f"/apis/{each.api}", each.plural) for each in every(GangKind)}
OTHERS: Final[Mapping[str, Kind]] = {
    "JobSet": Kind("/apis/jobset.x-k8s.io/v1alpha2", "jobsets"),
    "TrainJob": Kind("/apis/trainer.kubeflow.org/v1alpha1", "trainjobs"),
    "RayCluster": Kind(_RAY, "rayclusters"),
    "RayJob": Kind(_RAY, "rayjobs"),
    "RayService": Kind(_RAY, "rayservices"),
    "PyTorchJob": Kind(_KUBEFLOW, "pytorchjobs"),
    "TFJob": Kind(_KUBEFLOW, "tfjobs"),
    "JAXJob": Kind(_KUBEFLOW, "jaxjobs"),
    "XGBoostJob": Kind(_KUBEFLOW, "xgboostjobs"),
    "PaddleJob": Kind(_KUBEFLOW, "paddlejobs"),
    "MPIJob": Kind(
        "/apis/kubeflow.org/v2beta1", "mpijobs", other=_KUBEFLOW
    ),  # of the MPI operator, of the training operator
    "SparkApplication": Kind("/apis/sparkoperator.k8s.io/v1beta2", "sparkapplications"),
    "AppWrapper": Kind("/apis/workload.codeflare.dev/v1beta2", "appwrappers"),
    "KueueWorkload": Kind(f"{_KUEUE}/v1beta2", "workloads", other=f"{_KUEUE}/v1beta1"),
    "PodClique": Kind(_GROVE, "podcliques"),
    "PodCliqueScalingGroup": Kind(_GROVE, "podcliquescalinggroups"),
    **_GANGS,
    "CoschedulingPodGroup": Kind("/apis/scheduling.x-k8s.io/v1alpha1", "podgroups"),
}
"""Workloads and gangs of other projects: few clusters have them, and few tenants the right to list what is not there."""
GROUPS: Final = ("PodGroup", *_GANGS, "CoschedulingPodGroup")
"""Kinds of gangs."""
KINDS: Final[Mapping[str, Kind]] = {
    "Node": Kind(_CORE, "nodes", namespaced=False),
    "Pod": Kind(_CORE, "pods"),
    "Namespace": Kind(_CORE, "namespaces", namespaced=False),
    "PriorityClass": Kind("/apis/scheduling.k8s.io/v1", "priorityclasses", namespaced=False),
    "RuntimeClass": Kind("/apis/node.k8s.io/v1", "runtimeclasses", namespaced=False),
    "LimitRange": Kind(_CORE, "limitranges"),
    "ResourceSlice": Kind(_RESOURCE, "resourceslices", namespaced=False),
    "PodDisruptionBudget": Kind("/apis/policy/v1", "poddisruptionbudgets"),
    "HorizontalPodAutoscaler": Kind("/apis/autoscaling/v2", "horizontalpodautoscalers"),
    "ConfigMap": Kind(_CORE, "configmaps"),
    "Event": Kind(_CORE, "events"),
    "ResourceQuota": Kind(_CORE, "resourcequotas"),
    "ServiceAccount": Kind(_CORE, "serviceaccounts"),
    "PersistentVolume": Kind(_CORE, "persistentvolumes", namespaced=False),
    "PersistentVolumeClaim": Kind(_CORE, "persistentvolumeclaims"),
    "EndpointSlice": Kind("/apis/discovery.k8s.io/v1", "endpointslices"),
    "StorageClass": Kind(_STORAGE, "storageclasses", namespaced=False),
    "CSIDriver": Kind(_STORAGE, "csidrivers", namespaced=False),
    "CSIStorageCapacity": Kind(_STORAGE, "csistoragecapacities"),
    "CSINode": Kind(_STORAGE, "csinodes", namespaced=False),
    "Deployment": Kind(_APPS, "deployments"),
    "ReplicaSet": Kind(_APPS, "replicasets"),
    "StatefulSet": Kind(_APPS, "statefulsets"),
    "DaemonSet": Kind(_APPS, "daemonsets"),
    "Job": Kind(_BATCH, "jobs"),
    "CronJob": Kind(_BATCH, "cronjobs"),
    "ResourceClaim": Kind(_RESOURCE, "resourceclaims"),
    "ResourceClaimTemplate": Kind(_RESOURCE, "resourceclaimtemplates"),
    "DeviceTaintRule": Kind(_RESOURCE, "devicetaintrules", namespaced=False),
    "DeviceClass": Kind(_RESOURCE, "deviceclasses", namespaced=False),
    "PodGroup": Kind("/apis/scheduling.k8s.io/v1beta1", "podgroups"),
    "NodePool": Kind("/apis/karpenter.sh/v1", "nodepools", namespaced=False),
    "Lease": Kind("/apis/coordination.k8s.io/v1", "leases"),
    "MutatingWebhookConfiguration": Kind(_ADMISSION, "mutatingwebhookconfigurations", namespaced=False),
    "ValidatingWebhookConfiguration": Kind(_ADMISSION, "validatingwebhookconfigurations", namespaced=False),
    "ValidatingAdmissionPolicy": Kind(_ADMISSION, "validatingadmissionpolicies", namespaced=False),
    "ValidatingAdmissionPolicyBinding": Kind(_ADMISSION, "validatingadmissionpolicybindings", namespaced=False),
    "MutatingAdmissionPolicy": Kind(_ADMISSION, "mutatingadmissionpolicies", namespaced=False),
    "MutatingAdmissionPolicyBinding": Kind(_ADMISSION, "mutatingadmissionpolicybindings", namespaced=False),
    "NetworkPolicy": Kind("/apis/networking.k8s.io/v1", "networkpolicies"),
    **OTHERS,
}
