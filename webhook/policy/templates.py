"""Finds the pod templates in workloads, and the pod that a controller will create from each.

The API server accepts a Deployment although it will refuse its pods. Whoever applies it sees no error; the reason is only in
an Event of a ReplicaSet. So the templates are checked when the workload is applied.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from pydantic import Field

from webhook.framework.interface import Settings
from webhook.kube.bounds import LIMITS
from webhook.kube.json_patch import Path, at
from webhook.kube.pod import Pod
from webhook.text import dotted

Mode = Literal["off", "warn", "fix", "deny"]
_MAIN = ("model", "runner")
"""The fields of an InferenceService for its main container, beside `containers`: of KServe and of OME."""
_COUNTS: Final = ("numNodes", "numOfHosts")
"""Keys that count pods or groups of pods, besides `replicas`. All that a map has are multiplied."""
_SIZE: Final = "size"
"""Key of a LeaderWorkerSet: the number of pods in a group, including the leader."""
_LEADER: Final = "leaderTemplate"
"""Key of a LeaderWorkerSet whose leader has a template of its own."""
_MAX_NAME = 253
"""Characters in a name that the API server accepts."""
Holds = Literal["template", "podSpec", "container"]


class CustomTemplate(Settings):
    """A pod template in a custom resource."""

    group: str
    kind: str
    path: str = Field(pattern=r"^[A-Za-z0-9]+(\.([A-Za-z0-9]+|\*))*$", max_length=253)
    """path of the template; `*` stands for every entry of a list or map"""
    owner_kind: str | None = None
    """kind of the object that creates the pods, which decides their class of workload; left out: the resource itself"""
    holds: Holds = "template"
    """what is at the path: template (metadata and spec) | podSpec (a `model` or `runner` in it is a container) | container
    (`resourcesPerNode` in it are its resources)"""


_ROWS: Final = """
kubeflow.org             PyTorchJob           template  -           spec.pytorchReplicaSpecs.*.template
kubeflow.org             MPIJob               template  -           spec.mpiReplicaSpecs.*.template
kubeflow.org             TFJob                template  -           spec.tfReplicaSpecs.*.template
kubeflow.org             JAXJob               template  -           spec.jaxReplicaSpecs.*.template
kubeflow.org             Notebook             template  StatefulSet spec.template
trainer.kubeflow.org     TrainJob             container Job         spec.trainer
trainer.kubeflow.org     TrainingRuntime      template  Job         spec.template.spec.replicatedJobs.*.template.spec.template
ray.io                   RayCluster           template  -           spec.headGroupSpec.template spec.workerGroupSpecs.*.template
ray.io                   RayJob               template  RayCluster  spec.rayClusterSpec.headGroupSpec.template \
    spec.rayClusterSpec.workerGroupSpecs.*.template
ray.io                   RayService           template  RayService  spec.rayClusterConfig.headGroupSpec.template \
    spec.rayClusterConfig.workerGroupSpecs.*.template
jobset.x-k8s.io          JobSet               template  Job         spec.replicatedJobs.*.template.spec.template
leaderworkerset.x-k8s.io LeaderWorkerSet      template  -           spec.leaderWorkerTemplate.leaderTemplate \
    spec.leaderWorkerTemplate.workerTemplate
batch.volcano.sh         Job                  template  -           spec.tasks.*.template
elastic.iml.github.io    ElasticJob           template  -           spec.replicaSpecs.*.template
sagemaker.amazonaws.com  HyperPodPyTorchJob   template  -           spec.replicaSpecs.*.template
argoproj.io              Rollout              template  ReplicaSet  spec.template
serving.knative.dev      Service              template  ReplicaSet  spec.template
serving.kserve.io        InferenceService     podSpec   ReplicaSet  spec.predictor spec.predictor.workerSpec spec.transformer
serving.kserve.io        LLMInferenceService  podSpec   ReplicaSet  spec.template spec.worker spec.prefill.template \
    spec.prefill.worker
ome.io                   InferenceService     podSpec   ReplicaSet  spec.engine spec.engine.leader spec.engine.worker \
    spec.decoder spec.decoder.leader spec.decoder.worker spec.router spec.predictor
grove.io                 PodCliqueSet         podSpec   PodClique   spec.template.cliques.*.spec.podSpec
"""
"""Group, kind, what is held, the kind that owns the pods (-: the resource itself), and the paths."""
CUSTOM = tuple(
    [
        CustomTemplate.model_validate(
            {"group": group, "kind": kind, "path": path, "holds": holds, "ownerKind": None if owner == "-" else owner}
        )
        for group, kind, holds, owner, *places in map(str.split, _ROWS.strip().splitlines())
        for path in places
    ]
)


class Templates(Settings):
    """How the pod templates of workloads are handled."""

    mode: Mode = "warn"
    """off | warn (the author of a workload gets warnings about what would be refused or changed in its pods) | fix (warn, and add
    GPU limits that are missing beside requests; tools that compare the workload with a repository see that as drift) |
    deny (refuse the workload)

    In every mode but off, a GPU quantity that the API server would refuse in the pods is refused in the template."""
    custom: tuple[CustomTemplate, ...] = CUSTOM
    """Custom resources with pod templates; 90-validating.yaml must list them too."""


class Template(NamedTuple):
    """One pod template. If `holds` is "template", `pod` shares its `spec` with the workload."""

    path: Path
    pod: Pod
    replicas: int | None
    """The number of pods that it makes at once; None if that is not known, or for a DaemonSet."""
    creator: str = ""
    """The user name of the controller that will create the pods, if it is one of Kubernetes' own; else ""."""
    holds: Holds = "template"

    def field(self, field: str) -> str:
        """The path in the workload of a field of the pod."""
        base = dotted(self.path)
        if self.holds == "template":
            return f"{base}.{field}"
        if self.holds == "container":
            first = field.removeprefix("spec.containers[0]").removeprefix(".")
            head, dot, rest = first.partition(".")
            return f"{base}.resourcesPerNode{dot}{rest}" if head == "resources" else f"{base}.{first}"
        main = _main(self.pod["spec"])
        last = f"spec.containers[{len(self.pod['spec']['containers']) - 1}]"
        if main and field.startswith(last):
            return f"{base}.{main}{field.removeprefix(last)}"
        return f"{base}.{field.removeprefix('spec.').removeprefix('metadata.')}"


_TEMPLATE = ("spec", "template")
_BUILT_IN: Final[Mapping[tuple[str, str], tuple[Path, str, str]]] = {
    ("apps", "Deployment"): (_TEMPLATE, "ReplicaSet", "replicaset-controller"),
    ("apps", "ReplicaSet"): (_TEMPLATE, "ReplicaSet", "replicaset-controller"),
    ("apps", "StatefulSet"): (_TEMPLATE, "StatefulSet", "statefulset-controller"),
    ("apps", "DaemonSet"): (_TEMPLATE, "DaemonSet", "daemon-set-controller"),
    ("", "ReplicationController"): (_TEMPLATE, "ReplicationController", "replication-controller"),
    ("batch", "Job"): (_TEMPLATE, "Job", "job-controller"),
    ("batch", "CronJob"): (("spec", "jobTemplate", *_TEMPLATE), "Job", "job-controller"),
}
"""By group and kind: where the template is, the kind of the pods' controller, and the service account that creates the pods."""


def is_workload(group: str, kind: str) -> bool:
    """Whether it is a built-in kind of workload. Only in these does the API server validate the template."""
    return (group, kind) in _BUILT_IN


def templates(obj: dict[str, Any], group: str, kind: str, settings: Templates) -> Iterator[Template]:
    """Every pod template in `obj`, in a fixed order. None if a controller created the object: then its owner was checked."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or _controlled(metadata):
        return
    if built_in := _BUILT_IN.get((group, kind)):
        path, owner, account = built_in
        yield from _template_at(obj, path, owner, f"system:serviceaccount:kube-system:{account}")
        return
    for custom in settings.custom:
        if (custom.group, custom.kind) == (group, kind):
            for number, path in enumerate(paths(obj, custom.path.split("."))):
                if number > LIMITS["templates"]:  # one more than the limit shows that there are too many
                    return
                yield from _template_at(obj, path, custom.owner_kind or kind, holds=custom.holds)


def _controlled(metadata: dict[str, Any]) -> bool:
    owners = metadata.get("ownerReferences")
    return isinstance(owners, list) and any(isinstance(o, dict) and o.get("controller") for o in owners)


def _template_at(
    obj: dict[str, Any], path: Path, owner: str, creator: str = "", holds: Holds = "template"
) -> Iterator[Template]:
    value = at(obj, path)
    template = _as_template(value, holds) if isinstance(value, dict) else {}
    if not isinstance(template.get("spec"), dict):
        return
    own_metadata = template.get("metadata")
    metadata = dict(own_metadata) if isinstance(own_metadata, dict) else {}
    name = str(obj["metadata"].get("name") or obj["metadata"].get("generateName") or "")[:_MAX_NAME]
    metadata["generateName"] = f"{name}-"
    metadata["ownerReferences"] = [{"kind": owner, "name": name, "controller": True}]
    replicas = None if owner == "DaemonSet" or _is_unknown(obj, path, holds) else _pods_of(obj, path)
    yield Template(path, {"metadata": metadata, "spec": template["spec"]}, replicas, creator, holds)


def _as_template(value: dict[str, Any], holds: Holds) -> dict[str, Any]:
    """The value at a template's path as a map with `metadata` and `spec`."""
    if holds == "template":
        return value
    if holds == "container":
        resources = value.get("resources") or value.get("resourcesPerNode")
        return {"spec": {"containers": [{"name": "trainer", **value, "resources": resources}]}}
    containers = value.get("containers")
    if main := _main(value):
        containers = [*(containers if isinstance(containers, list) else ()), {"name": main, **value[main]}]
    metadata = {key: value[key] for key in ("labels", "annotations") if key in value}
    return {"metadata": metadata, "spec": {**value, "containers": containers or []}}


def _main(spec: dict[str, Any]) -> str | None:
    """The field of the main container, if it is not one of `containers`."""
    return next((field for field in _MAIN if isinstance(spec.get(field), dict)), None)


def _is_unknown(obj: Any, path: Path, holds: Holds) -> bool:
    """Whether something else says how many pods there are: the runtime of a TrainJob, Ray's autoscaler."""
    if holds == "container":
        return "numNodes" not in at(obj, path)
    return "workerGroupSpecs" in path and not {"replicas", "minReplicas"} & at(obj, path[:-1]).keys()


def _pods_of(obj: Any, path: Path) -> int:
    """The number of pods made from the template at `path`. For a Job: as many as run at once."""
    count, here = 1, obj
    for step in path:
        if isinstance(here, dict):
            count *= _count(here, step)
            here = here[str(step)]
        else:
            here = here[step]
    return count * _count(here, "")


def _count(here: dict[str, Any], step: str | int) -> int:
    """The product of the counts in one map. `step`: the next step of the path."""
    count = _number(here.get("replicas", here.get("minReplicas")), 1)
    for key in _COUNTS:
        count *= _number(here.get(key), 1)
    if "completions" in here or "parallelism" in here:
        count *= min(_number(here.get("parallelism"), 1), _number(here.get("completions"), 1 << 30))
    if step == "workerTemplate":
        return count * max(0, _number(here.get(_SIZE), 1) - (_LEADER in here))
    return count


def _number(value: Any, default: int) -> int:
    """`value` if it is a whole number of 0 or more, else `default`."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else default


def paths(obj: Any, parts: Sequence[str], done: Path = ()) -> Iterator[Path]:
    if not parts:
        yield done
        return
    first, *rest = parts
    if first != "*":
        keys: Iterable[Any] = (first,) if isinstance(obj, dict) and first in obj else ()
    else:
        keys = sorted(obj) if isinstance(obj, dict) else range(len(obj)) if isinstance(obj, list) else ()
    for part in keys:
        yield from paths(obj[part], rest, (*done, part))
