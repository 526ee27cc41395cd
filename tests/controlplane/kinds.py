"""Where the API server has which kind."""

CORE, ADMISSION, RBAC = "/api/v1", "/apis/admissionregistration.k8s.io/v1", "/apis/rbac.authorization.k8s.io/v1"
APPS, BATCH, RESOURCE = "/apis/apps/v1", "/apis/batch/v1", "/apis/resource.k8s.io/v1"
NAMESPACED = {
    CORE: "ConfigMap Endpoints Event LimitRange PersistentVolumeClaim Pod ReplicationController ResourceQuota Secret "
    "Service ServiceAccount",
    APPS: "DaemonSet Deployment ReplicaSet StatefulSet",
    BATCH: "CronJob Job",
    RBAC: "Role RoleBinding",
    RESOURCE: "ResourceClaim ResourceClaimTemplate",
    "/apis/autoscaling/v2": "HorizontalPodAutoscaler",
    "/apis/coordination.k8s.io/v1": "Lease",
    "/apis/policy/v1": "PodDisruptionBudget",
    "/apis/scheduling.k8s.io/v1beta1": "PodGroup",  # behind a feature gate
    "/apis/storage.k8s.io/v1": "CSIStorageCapacity",
    # Of other controllers, which are there only where these run.
    "/apis/jobset.x-k8s.io/v1alpha2": "JobSet",
    "/apis/kubeflow.org/v1": "MPIJob PyTorchJob TFJob",
    "/apis/kueue.x-k8s.io/v1beta2": "LocalQueue Workload",
    "/apis/leaderworkerset.x-k8s.io/v1": "LeaderWorkerSet",
    "/apis/ray.io/v1": "RayCluster RayJob RayService",
    "/apis/trainer.kubeflow.org/v1alpha1": "TrainJob TrainingRuntime",
}
CLUSTER_WIDE = {
    CORE: "Namespace Node PersistentVolume",
    ADMISSION: "MutatingAdmissionPolicy MutatingAdmissionPolicyBinding MutatingWebhookConfiguration "
    "ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration",
    RBAC: "ClusterRole ClusterRoleBinding",
    RESOURCE: "DeviceClass ResourceSlice",
    "/apis/apiextensions.k8s.io/v1": "CustomResourceDefinition",
    "/apis/node.k8s.io/v1": "RuntimeClass",
    "/apis/scheduling.k8s.io/v1": "PriorityClass",
    "/apis/storage.k8s.io/v1": "CSIDriver CSINode StorageClass",
    "/apis/karpenter.kwok.sh/v1alpha1": "KWOKNodeClass",
    "/apis/karpenter.sh/v1": "NodeClaim NodePool",
    "/apis/kueue.x-k8s.io/v1beta2": "ClusterQueue ResourceFlavor",
}


def plural(kind: str) -> str:
    """Pod -> pods, PriorityClass -> priorityclasses, ValidatingAdmissionPolicy -> validatingadmissionpolicies."""
    name = kind.lower()
    if name.endswith("ss"):
        return f"{name}es"
    if name.endswith("y"):
        return f"{name[:-1]}ies"
    return name if name.endswith("s") else f"{name}s"


# kind -> (path of its group and version, plural, whether it lives in a namespace)
KINDS = {
    kind: (prefix, plural(kind), table is NAMESPACED)
    for table in (NAMESPACED, CLUSTER_WIDE)
    for prefix, kinds in table.items()
    for kind in kinds.split()
}


def path(kind: str, namespace: str | None = None, name: str = "", subresource: str = "") -> str:
    """The path of an object, or of all of its kind. Raises ValueError for a kind that is not in KINDS."""
    if kind not in KINDS:
        raise ValueError(f"kind {kind!r} is not in {__name__}: add it there, or use Api.request with a path")
    prefix, many, namespaced = KINDS[kind]
    if name and namespaced and not namespace:
        raise ValueError(f"{kind} {name} lives in a namespace, and none was given")
    middle = f"/namespaces/{namespace}" if namespaced and namespace else ""
    return prefix + middle + "".join(f"/{part}" for part in (many, name, subresource) if part)
