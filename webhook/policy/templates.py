"""Finds the pod templates in workloads, and the pod that a controller will create from each.

The API server accepts a Deployment although it will refuse its pods. Whoever applies it sees no error; the reason is only in
an Event of a ReplicaSet. So the templates are checked when the workload is applied.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, NamedTuple, cast

from pydantic import AfterValidator, Field

from webhook.framework.interface import LABEL_KEY, Settings
from webhook.kube.bounds import LIMITS
from webhook.kube.json_patch import Path, at
from webhook.kube.pod import Pod
from webhook.kube.workload_kinds import OF_THE_OBJECT, WORKLOAD_KINDS, made_for_pods
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


def _added(key: str) -> str:
    if key != OF_THE_OBJECT and not re.fullmatch(LABEL_KEY, key):
        raise ValueError('wanted the key of a label, or "*" for all labels of the resource')
    return key


class CustomTemplate(Settings):
    """A pod template in a custom resource."""

    group: str
    kind: str
    path: str = Field(pattern=r"^[A-Za-z0-9]+(\.([A-Za-z0-9]+|\*))*$", max_length=253)
    """path of the template; `*` stands for every entry of a list or map"""
    owner_kind: str | None = None
    """kind of the controller of the pods; left out: the resource itself"""
    labels: Annotated[tuple[Annotated[str, AfterValidator(_added)], ...], Field(max_length=16)] = ()
    """labels that the pods get beside those of the template, by their keys; "*": all labels of the resource. These and the
    controller decide the class of workload, as in the pods."""
    holds: Holds = "template"
    """what is at the path: template (metadata and spec) | podSpec (a `model` or `runner` in it is a container, and its runtime
    has the rest) | container (`resourcesPerNode` in it are its resources)"""
    completed: bool | None = None
    """true: its controller completes the template from another object, for example a TrainJob from its runtime. Then only
    what it states is judged"""


_CORE_GROUPS: Final = ("", "apps", "batch")
CUSTOM = tuple(
    [
        CustomTemplate(
            group=row.group,
            kind=row.kind,
            path=path,
            owner_kind=None if owner in ("", row.kind) else owner,
            labels=labels,
            holds=cast(Holds, row.holds),
            completed=row.completed or None,
        )
        for row in WORKLOAD_KINDS
        if row.group not in _CORE_GROUPS
        for owner, labels in [made_for_pods(row)]
        for path in row.paths
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
    completed: bool = False
    """Its controller completes it from another object, so its pods may have what it lacks."""

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


_ACCOUNTS: Final[Mapping[str, str]] = {
    "ReplicaSet": "replicaset-controller",
    "StatefulSet": "statefulset-controller",
    "DaemonSet": "daemon-set-controller",
    "ReplicationController": "replication-controller",
    "Job": "job-controller",
}
"""By the kind of the controller of pods, the service account that creates them."""
_BUILT_IN: Final[Mapping[tuple[str, str], tuple[Path, str, str]]] = {
    (row.group, row.kind): (tuple(row.paths[0].split(".")), row.owner, _ACCOUNTS[row.owner])
    for row in WORKLOAD_KINDS
    if row.group in _CORE_GROUPS
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
                owner = custom.owner_kind or kind
                for found in _template_at(obj, path, owner, labels=custom.labels, holds=custom.holds):
                    whole = found.pod["spec"].get("containers") and _main(at(obj, path)) is None
                    yield found._replace(completed=bool(custom.completed) or not whole)


def _controlled(metadata: dict[str, Any]) -> bool:
    owners = metadata.get("ownerReferences")
    return isinstance(owners, list) and any(isinstance(o, dict) and o.get("controller") for o in owners)


def _template_at(
    obj: dict[str, Any],
    path: Path,
    owner: str,
    creator: str = "",
    labels: Sequence[str] = (),
    holds: Holds = "template",
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
    if labels:
        metadata["labels"] = _labels(obj["metadata"], metadata, labels, name)
    replicas = None if owner == "DaemonSet" or _is_unknown(obj, path, holds) else _pods_of(obj, path)
    yield Template(path, {"metadata": metadata, "spec": template["spec"]}, replicas, creator, holds)


def _labels(of_object: dict[str, Any], own: dict[str, Any], added: Sequence[str], name: str) -> dict[str, Any]:
    """The labels of a pod: those of its template, and what its controller adds. Such a value is often the object's name."""
    written, inherited = own.get("labels"), of_object.get("labels") if OF_THE_OBJECT in added else None
    labels = {**(inherited if isinstance(inherited, dict) else {}), **(written if isinstance(written, dict) else {})}
    return labels | {key: name for key in added if key != OF_THE_OBJECT}


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
