"""Pod templates of workloads: where they stand, and the pod that their controller will make of them.

The API server accepts a Deployment whose pods it will refuse; the person who applied it sees nothing, and the reason ends
in an event of a ReplicaSet. So the pod hook's answer is given at `kubectl apply` already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from pydantic import Field

from webhook.framework.interface import Settings
from webhook.kube.bounds import LIMITS
from webhook.kube.json_patch import Path
from webhook.kube.pod import Pod
from webhook.text import bare

Mode = Literal["off", "warn", "fix", "deny"]
_LONGEST = 253
"""Of a name, as the API server takes it: names of pods and volumes are made of it."""


class CustomTemplate(Settings):
    """A pod template in a custom resource."""

    group: str
    kind: str
    path: str = Field(pattern=r"^[A-Za-z0-9]+(\.([A-Za-z0-9]+|\*))*$", max_length=253)
    """of the template; `*` is every entry of a list or map"""
    owner_kind: str | None = None
    """kind of the object that makes the pods, by which their class is found; left out: the resource itself"""


class Templates(Settings):
    """What is done about pod templates of workloads."""

    mode: Mode = "warn"
    """off | warn (whoever applies one is told what would be refused or changed in its pods) | fix (warn, and a request for
    GPUs gets the limit that is missing beside it, which tools that compare the template with a repository see as drift) |
    deny

    A GPU quantity that the API server would refuse is refused and explained under every mode but off."""
    custom: tuple[CustomTemplate, ...] = (
        CustomTemplate(group="kubeflow.org", kind="PyTorchJob", path="spec.pytorchReplicaSpecs.*.template"),
        CustomTemplate(group="kubeflow.org", kind="MPIJob", path="spec.mpiReplicaSpecs.*.template"),
        CustomTemplate(group="ray.io", kind="RayCluster", path="spec.workerGroupSpecs.*.template"),
        CustomTemplate(
            group="jobset.x-k8s.io",
            kind="JobSet",
            path="spec.replicatedJobs.*.template.spec.template",
            owner_kind="Job",
        ),
        CustomTemplate(
            group="leaderworkerset.x-k8s.io", kind="LeaderWorkerSet", path="spec.leaderWorkerTemplate.workerTemplate"
        ),
    )
    """Custom resources that hold pod templates; 90-validating.yaml must list them too."""


class Template(NamedTuple):
    """One pod template. `pod` shares its `spec` with the object that it stands in."""

    path: Path
    pod: Pod
    replicas: int | None
    """How many pods are asked for; None where the object does not say."""
    maker: str = ""
    """Who will ask for the pods: the user name of the controller, where it is one of Kubernetes' own."""

    @property
    def field(self) -> str:
        """As kubectl names it, with a dot at the end: `spec.template.`."""
        return (
            "".join(f"[{part}]" if isinstance(part, int) else f".{bare(part)}" for part in self.path).lstrip(".") + "."
        )


class _Kind(NamedTuple):
    """Where the template stands, the kind of its pods' controller, the field that counts pods, who asks for the pods."""

    path: Path
    owner: str
    counter: str
    maker: str


_TEMPLATE = ("spec", "template")
_BUILT_IN: dict[tuple[str, str], _Kind] = {
    ("apps", "Deployment"): _Kind(_TEMPLATE, "ReplicaSet", "replicas", "replicaset-controller"),
    ("apps", "ReplicaSet"): _Kind(_TEMPLATE, "ReplicaSet", "replicas", "replicaset-controller"),
    ("apps", "StatefulSet"): _Kind(_TEMPLATE, "StatefulSet", "replicas", "statefulset-controller"),
    ("apps", "DaemonSet"): _Kind(_TEMPLATE, "DaemonSet", "", "daemon-set-controller"),
    ("", "ReplicationController"): _Kind(_TEMPLATE, "ReplicationController", "replicas", "replication-controller"),
    ("batch", "Job"): _Kind(_TEMPLATE, "Job", "parallelism", "job-controller"),
    ("batch", "CronJob"): _Kind(("spec", "jobTemplate", *_TEMPLATE), "Job", "", "job-controller"),
}
"""By group and kind."""


def is_workload(group: str, kind: str) -> bool:
    """Whether it is a built-in kind that pods are made from: the API server looks into its template, and into no other."""
    return (group, kind) in _BUILT_IN


def templates(obj: dict[str, Any], group: str, kind: str, settings: Templates) -> Iterator[Template]:
    """Every pod template in `obj`, in a fixed order. Nothing for an object that a controller made: its maker was told."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or _controlled(metadata):
        return
    if built_in := _BUILT_IN.get((group, kind)):
        maker = f"system:serviceaccount:kube-system:{built_in.maker}"
        yield from _found(obj, built_in.path, built_in.owner, _count(obj, built_in.counter), maker)
        return
    for custom in settings.custom:
        if (custom.group, custom.kind) == (group, kind):
            for number, path in enumerate(_paths(obj, custom.path.split("."))):
                if number > LIMITS["templates"]:  # one more than is looked at tells that there are too many
                    return
                yield from _found(obj, path, custom.owner_kind or kind, _count(_at(obj, path[:-1]), "replicas"))


def _controlled(metadata: dict[str, Any]) -> bool:
    owners = metadata.get("ownerReferences")
    return isinstance(owners, list) and any(isinstance(o, dict) and o.get("controller") for o in owners)


def _found(obj: dict[str, Any], path: Path, owner: str, replicas: int | None, maker: str = "") -> Iterator[Template]:
    template = _at(obj, path)
    if not isinstance(template, dict) or not isinstance(template.get("spec"), dict):
        return
    written = template.get("metadata")
    metadata = dict(written) if isinstance(written, dict) else {}
    name = str(obj["metadata"].get("name") or obj["metadata"].get("generateName") or "")[:_LONGEST]
    metadata["generateName"] = f"{name}-"
    metadata["ownerReferences"] = [{"kind": owner, "name": name, "controller": True}]
    yield Template(path, {"metadata": metadata, "spec": template["spec"]}, replicas, maker)


def _count(holder: Any, key: str) -> int | None:
    spec = holder.get("spec") if isinstance(holder, dict) and "spec" in holder else holder
    count = spec.get(key) if isinstance(spec, dict) and key else None
    return count if isinstance(count, int) and not isinstance(count, bool) else None


def _at(obj: Any, path: Path) -> Any:
    for part in path:
        listed = isinstance(obj, list) and isinstance(part, int)
        obj = obj[part] if listed else obj.get(part) if isinstance(obj, dict) else None
    return obj


def _paths(obj: Any, parts: Sequence[str], done: Path = ()) -> Iterator[Path]:
    """The paths in `obj` that a pattern stands for."""
    if not parts:
        yield done
        return
    first, *rest = parts
    if first != "*":
        found: Iterable[Any] = (first,) if isinstance(obj, dict) and first in obj else ()
    else:
        found = sorted(obj) if isinstance(obj, dict) else range(len(obj)) if isinstance(obj, list) else ()
    for part in found:
        yield from _paths(obj[part], rest, (*done, part))
