"""The pods that manifests would create: bare pods, and pods of templates as the workload's controller would create them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from webhook.cli.offline import Document, documents
from webhook.cli.terminal import read
from webhook.errors import BadInput, BadReview
from webhook.kube.pod import Pod
from webhook.kube.pod_schema import check
from webhook.policy.model import DEFAULT_PROFILE, Policy
from webhook.policy.templates import templates


class Planned(NamedTuple):
    """Equal pods that a manifest would create."""

    document: Document
    """One of them, as its controller or client will submit it."""
    of: str
    """The object that creates them, as kubectl names it: `job/train`; of a bare pod, the pod itself: `pod/one`."""
    replicas: int
    """How many; 1 for a DaemonSet."""


def planned(files: list[str], policy: Policy, namespace: str | None) -> Iterator[Planned | BadInput]:
    """The pods of these files and of the manifests in these folders, in order, with a BadInput in place of each bad document.

    `namespace`: of objects that name none. Raises BadInput if a file cannot be read or is neither YAML nor JSON.
    """
    for file in files:
        if file != "-" and Path(file).is_dir():
            names = sorted(str(path) for path in Path(file).iterdir() if path.suffix in (".yaml", ".yml", ".json"))
            yield from planned(names, policy, namespace)
            continue
        yield from planned_in(read(file), file, policy, namespace)


def planned_in(text: bytes, name: str, policy: Policy, namespace: str | None) -> Iterator[Planned | BadInput]:
    """As `planned`, for the text of one file. `name`: the file's name in messages."""
    for document in documents(text, name):
        if isinstance(document, BadInput):
            yield document
            continue
        try:
            yield from pods_made_by(_with_namespace(document, namespace), policy)
        except BadReview as error:
            yield BadInput(f"{document.where}: {error}")


def _with_namespace(document: Document, namespace: str | None) -> Document:
    """The document in `namespace`, if it is a manifest that names none."""
    metadata = (document.request.object or {}).get("metadata")
    if (isinstance(metadata, dict) and metadata.get("namespace")) or not namespace or not document.plain:
        return document
    return document._replace(request=document.request._replace(namespace=namespace))


def pods_made_by(document: Document, policy: Policy) -> Iterator[Planned]:
    """The pods of one document. Raises BadReview if they are not pods."""
    request = document.request
    if request.resource == "pods":
        if document.plain and isinstance((request.object or {}).get("spec"), dict):
            body = _created(request.object or {}, request.namespace)
            document = document._replace(request=request._replace(object=body), original=orjson.dumps(body))
        yield Planned(document, f"pod/{request.name or request.generated}", 1)
        return
    obj = request.object or {}
    settings = policy.profile(DEFAULT_PROFILE)[1].templates
    for template in templates(obj, request.group, request.kind, settings):
        body = _created({"apiVersion": "v1", "kind": "Pod", **template.pod}, request.namespace)
        pod_request = request._replace(
            kind="Pod",
            group="",
            resource="pods",
            name="",
            generated=str(body["metadata"]["generateName"]),
            user=template.creator,
            object=body,
        )
        replicas = pods_of(obj, template.path)
        pod_document = document._replace(request=pod_request, original=orjson.dumps(body))
        yield Planned(pod_document, f"{request.kind.lower()}/{request.name}", 1 if replicas is None else replicas)


def _created(pod: Pod, namespace: str) -> Pod:
    """A copy of the pod with the requests that the API server fills in from limits (SetDefaults_Pod in
    k8s.io/kubernetes pkg/apis/core/v1/defaults.go), and with uids for its owners. Raises BadReview if it is not a pod."""
    created: Pod = check(orjson.loads(orjson.dumps(pod)))
    created["metadata"]["namespace"] = namespace
    for reference in created["metadata"].get("ownerReferences") or ():
        reference.setdefault("uid", f"{reference.get('kind')}/{namespace}/{reference.get('name')}")
    for kind in ("initContainers", "containers"):
        for container in created["spec"].get(kind) or ():
            resources = container.get("resources") or {}
            if resources.get("limits"):
                resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
    return created


_COUNTS: Final = ("numNodes", "numOfHosts")
"""Keys that count pods or groups of pods, besides `replicas`. All that a map has are multiplied."""
_SIZE: Final = "size"
"""Key of a LeaderWorkerSet: the number of pods in a group, including the leader."""
_LEADER: Final = "leaderTemplate"
"""Key of a LeaderWorkerSet whose leader has a template of its own."""


def pods_of(obj: Mapping[str, Any], path: Sequence[str | int]) -> int | None:
    """The number of pods made from the template at `path`. For a Job: as many as run at once.

    None for a DaemonSet, which has one pod on each node and no field for the number.
    """
    if obj.get("kind") == "DaemonSet":
        return None
    count = 1
    here: Any = obj
    for step in path:
        if isinstance(here, Mapping):
            count *= _count(here, step)
            here = here.get(str(step)) or {}
        else:
            here = here[step]
    return count * _count(here, "")


def _count(here: Mapping[str, Any], step: Any) -> int:
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
