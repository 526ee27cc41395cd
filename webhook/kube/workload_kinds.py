"""The kinds of workload, in one table: where their pod templates are, the class of their pods, and whether these work together.

The defaults of a policy are made of it: `classes`, `templates.custom` and `placement.gangs.kinds`. It says what the controllers
create: those of Kubernetes, Kubeflow (notebook_controller.go), KubeRay (BuildPod in pod.go), JobSet, LeaderWorkerSet, DLRover
(pod_scaler.py), KServe, OME, Grove, Argo and KubeVirt (template.go).

A kind that is not here has a class too: the policy guesses it by the restart policy of its pods. To add one: a row, by the source
of its controller: what is the controller of the pods, which labels do they get, and does it complete the template from elsewhere
(`+`)? A field that keeps it from making pods is in `suspended.py`. Then its template and its pods in
`tests/policy/test_workload_kinds.py`, its resource in `manifests/90-validating.yaml` if it has a template, and `make manifests`.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

OF_THE_OBJECT: Final = "*"
"""Among the labels of pods: all labels of the object that has the template."""


class WorkloadKind(NamedTuple):
    """A kind of objects that make pods, themselves or through other objects."""

    group: str
    kind: str
    workload: str
    """The class of its pods in the shipped policy; "" if its pods are of the kind `owner`, whose class they have."""
    together: str
    """Its pods work together: "gang" if they should be near each other, "several" if that is not said; else ""."""
    owner: str
    """The kind of the objects that it makes: the controller of its pods, or another kind of this table. Its own if it makes the
    pods itself; "" if these have no controller."""
    labels: tuple[str, ...]
    """Labels that its pods get beside those of the template, or `OF_THE_OBJECT`. The pods of a kind with a class are known by
    the first."""
    holds: str
    """What is at the paths: see `templates.Holds`."""
    completed: bool
    """Its controller completes what is there from elsewhere: a TrainJob from its runtime, which it completes too, and the
    templates of a Volcano Job from the Job (createJobPod in job_controller_util.go)."""
    paths: tuple[str, ...]
    """Where its pod templates are; `*` stands for every entry of a list or map."""


# group, kind, class, together, owner, labels, what is held (with `+` if it is completed), paths; `-` is none, and for the owner
# the kind itself
_ROWS: Final = """
-                        ReplicationController service     -       -               -              template spec.template
apps                     ReplicaSet            service     -       -               -              template spec.template
apps                     StatefulSet           service     -       -               -              template spec.template
apps                     DaemonSet             service     -       -               -              template spec.template
apps                     Deployment            -           -       ReplicaSet      -              template spec.template
batch                    Job                   training    gang    -               -              template spec.template
batch                    CronJob               -           -       Job             - template spec.jobTemplate.spec.template
kubeflow.org             PyTorchJob            training    gang    -               - \
    template spec.pytorchReplicaSpecs.*.template
kubeflow.org             MPIJob                training    gang    -               - template spec.mpiReplicaSpecs.*.template
kubeflow.org             TFJob                 training    gang    -               - template spec.tfReplicaSpecs.*.template
kubeflow.org             JAXJob                training    gang    -               - template spec.jaxReplicaSpecs.*.template
kubeflow.org             XGBoostJob            training    gang    -               - template spec.xgbReplicaSpecs.*.template
kubeflow.org             PaddleJob             training    gang    -               - template spec.paddleReplicaSpecs.*.template
kubeflow.org             Notebook              development -       StatefulSet     notebook-name,* template spec.template
kubeflow.org             Workspace             development -       StatefulSet     notebooks.kubeflow.org/workspace-name -
jobset.x-k8s.io          JobSet                training    gang    Job             jobset.sigs.k8s.io/jobset-uid \
    template spec.replicatedJobs.*.template.spec.template
trainer.kubeflow.org     TrainJob              -           -       JobSet          -              container+ spec.trainer
trainer.kubeflow.org     TrainingRuntime       -           -       JobSet          - \
    template+ spec.template.spec.replicatedJobs.*.template.spec.template
ray.io                   RayCluster            training    gang    -               - \
    template spec.headGroupSpec.template spec.workerGroupSpecs.*.template
ray.io                   RayJob                -           -       RayCluster      - \
    template spec.rayClusterSpec.headGroupSpec.template spec.rayClusterSpec.workerGroupSpecs.*.template
ray.io                   RayService            service     several RayCluster      ray.io/serve \
    template spec.rayClusterConfig.headGroupSpec.template spec.rayClusterConfig.workerGroupSpecs.*.template
leaderworkerset.x-k8s.io LeaderWorkerSet       service     gang    StatefulSet \
    leaderworkerset.sigs.k8s.io/name,leaderworkerset.sigs.k8s.io/group-key \
    template spec.leaderWorkerTemplate.leaderTemplate spec.leaderWorkerTemplate.workerTemplate
batch.volcano.sh         Job                   -           -       Job             -              template+ spec.tasks.*.template
elastic.iml.github.io    ElasticJob            training    gang    none            elasticjob.dlrover/name \
    template spec.replicaSpecs.*.template
sagemaker.amazonaws.com  HyperPodPyTorchJob    training    gang    -               - template spec.replicaSpecs.*.template
workload.codeflare.dev   AppWrapper            training    several -               -              -
argoproj.io              Rollout               -           -       ReplicaSet      -              template spec.template
serving.knative.dev      Service               -           -       ReplicaSet      -              template spec.template
serving.kserve.io        InferenceService      -           -       ReplicaSet      * podSpec spec.predictor spec.transformer
serving.kserve.io        InferenceService      -           -       ReplicaSet      * podSpec+ spec.predictor.workerSpec
serving.kserve.io        LLMInferenceService   -           -       ReplicaSet      - podSpec+ spec.template spec.prefill.template
serving.kserve.io        LLMInferenceService   -           -       LeaderWorkerSet - podSpec+ spec.worker spec.prefill.worker
ome.io                   InferenceService      -           -       ReplicaSet      * \
    podSpec+ spec.engine spec.decoder spec.router spec.predictor
ome.io                   InferenceService      -           -       LeaderWorkerSet * \
    podSpec+ spec.engine.leader spec.engine.worker spec.decoder.leader spec.decoder.worker
grove.io                 PodClique             service     several -               -              -
grove.io                 PodCliqueSet          -           -       PodClique       - \
    podSpec spec.template.cliques.*.spec.podSpec
kubevirt.io              VirtualMachineInstance service   -       -               -              -
"""


def _rows() -> Iterator[WorkloadKind]:
    for line in _ROWS.strip().splitlines():
        group, kind, workload, together, owner, labels, holds, *paths = ["" if c == "-" else c for c in line.split()]
        made = {"": kind, "none": ""}.get(owner, owner)
        added = tuple(filter(None, labels.split(",")))
        held, plus = holds.removesuffix("+"), holds.endswith("+")
        yield WorkloadKind(group, kind, workload, together, made, added, held, plus, tuple(paths))


WORKLOAD_KINDS: Final = tuple(_rows())
_BY_KIND: Final = {row.kind: row for row in WORKLOAD_KINDS if row.workload}
"""The kinds that pods can be of."""
GANGS: Final = tuple([row.kind for row in _BY_KIND.values() if row.together == "gang"])
SEVERAL: Final = frozenset([row.kind for row in _BY_KIND.values() if row.together == "several"])
WORKING_TOGETHER: Final = SEVERAL.union(GANGS)
MADE_OF: Final[Mapping[str, str]] = {row.kind: row.owner for row in WORKLOAD_KINDS if row.kind not in _BY_KIND}
"""By a kind that no pod is of, the kind that its pods are of."""


REVISION_LABELS: Final[Mapping[str, tuple[str, ...]]] = {
    "ReplicaSet": ("pod-template-hash", "rollouts-pod-template-hash"),
    "StatefulSet": ("controller-revision-hash",),
    "Job": ("batch.kubernetes.io/controller-uid",),
}
"""By the kind of a controller, the label with one value for all pods of one revision, and for no others: the first one is that of
Kubernetes, the others are of who takes its place."""


def kinds_of_class(workload: str) -> tuple[str, ...]:
    """The kinds whose pods are of this class in the shipped policy."""
    return tuple([row.kind for row in _BY_KIND.values() if row.workload == workload])


def made_for_pods(row: WorkloadKind) -> tuple[str, tuple[str, ...]]:
    """The kind of the controller of the pods that a kind makes, "" if they have none, and the labels that they get."""
    own = row.owner == row.kind or row.owner not in _BY_KIND
    owner, labels = (row.owner, ()) if own else made_for_pods(_BY_KIND[row.owner])
    return owner, (*row.labels, *labels)


MARKS: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    owner: tuple([(row.labels[0], row.kind) for row in _BY_KIND.values() if row.labels and row.owner == owner])
    for owner in dict.fromkeys([row.owner for row in _BY_KIND.values() if row.labels])
}
"""By the kind of the controller of a pod, "" without one: labels, and the kind of a pod that has one of these labels."""


def workload_kind(labels: Mapping[str, str], controller: str) -> str:
    """The kind of workload that a pod is of: that of its controller, or of what made this, if a label of the pod says so.

    `controller`: the kind of the pod's controller, "" if it has none.
    """
    return next((kind for label, kind in MARKS.get(controller, ()) if label in labels), controller)
