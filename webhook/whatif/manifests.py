"""The pods that manifests would create: bare pods, and pods of templates as the workload's controller would create them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import takewhile
from pathlib import Path
from typing import Final, NamedTuple

import orjson

from webhook.errors import BadInput, BadPod, BadReview
from webhook.kube.json_patch import at
from webhook.kube.kinds import KINDS
from webhook.kube.pod import PREFERRED, REQUIRED, Pod
from webhook.kube.pod_schema import check
from webhook.kube.workload_kinds import REVISION_LABELS
from webhook.policy.model import DEFAULT_PROFILE, Policy
from webhook.policy.templates import paths, templates
from webhook.text import dotted
from webhook.whatif.cluster.snapshot import CLAIMS, Object, Snapshot, complete
from webhook.whatif.offline import Document, documents, read

_HOST_TERMS: Final = [f"spec.affinity.{name}" for name in ("podAffinity", "podAntiAffinity")]
_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "spec.topologySpreadConstraints.*": ("maxSkew", "topologyKey", "whenUnsatisfiable"),
    **{f"{terms}.{REQUIRED}.*": ("topologyKey",) for terms in _HOST_TERMS},
    **{f"{terms}.{PREFERRED}.*": ("podAffinityTerm",) for terms in _HOST_TERMS},
    **{f"{terms}.{PREFERRED}.*.podAffinityTerm": ("topologyKey",) for terms in _HOST_TERMS},
}
"""What says where a pod may go, and the fields without which it says nothing (validation.go)."""
_BESIDE: Final = (*CLAIMS, "PodDisruptionBudget")
NO_PODS: Final = "no pod and no workload in it that makes some (templates.custom of the policy names other kinds)"


class Planned(NamedTuple):
    """Equal pods that a manifest would create."""

    document: Document
    """One of them, as its controller or client will submit it."""
    of: str
    """The object that creates them, as kubectl names it: `job/train`; of a bare pod, the pod itself: `pod/one`."""
    replicas: int | None
    """How many; None for a DaemonSet, or if that is not known."""
    template: str = ""
    """Which template of the object makes them, if it has several: `spec.replicatedJobs[0]`."""
    reviewed: bool = False
    """Whether the object came in an AdmissionReview."""
    completed: bool = False
    """Whether the controller completes the pods from another object."""

    @property
    def title(self) -> str:
        return f"{self.of} {self.template}".rstrip()


def texts_of(files: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """Name and text of each of these files, and of the manifests in these folders. Raises BadInput if one cannot be read."""
    for file in files:
        if file != "-" and Path(file).is_dir():
            paths = [path for path in Path(file).iterdir() if path.suffix in (".yaml", ".yml", ".json")]
            if not paths:
                raise BadInput(f"{file}: no .yaml, .yml or .json in this folder")
            yield from texts_of(sorted(map(str, paths)))
        else:
            yield file, read(file)


def put_beside(snapshot: Snapshot, text: bytes, name: str, namespace: str | None) -> None:
    """Add what counts for the pods of the text of one file and stands there too: claims of devices, and budgets."""
    for document in documents(text, name):
        if isinstance(document, Document) and document.plain and (kind := document.request.kind) in _BESIDE:
            obj: Object = complete(kind, orjson.loads(document.original))
            if KINDS[kind].namespaced:
                obj["metadata"]["namespace"] = _with_namespace(document, namespace).request.namespace
            snapshot.put(obj)


def planned_in(
    text: bytes, name: str, policy: Policy, namespace: str | None, left_out: set[tuple[str, str]] | None = None
) -> Iterator[Planned | BadInput]:
    """The pods of the text of one file, in order, with a BadInput in place of each bad document.

    `name`: the file's name in messages. `namespace`: of objects that name none. `left_out` gets group and kind of objects
    in which no pods are known. Raises BadInput if it is neither YAML nor JSON.
    """
    for document in documents(text, name):
        if isinstance(document, BadInput):
            yield document
            continue
        try:
            made = list(_made_by(_with_namespace(document, namespace), policy))
        except BadReview as error:
            yield BadInput(f"{document.where}: {error}")
            continue
        yield from made
        if not made and left_out is not None and document.request.kind not in _BESIDE:
            left_out.add((document.request.group, document.request.kind))


def _with_namespace(document: Document, namespace: str | None) -> Document:
    """The document in `namespace`, if it is a manifest that names none."""
    metadata = (document.request.object or {}).get("metadata")
    if (isinstance(metadata, dict) and metadata.get("namespace")) or not document.plain:
        return document
    if not namespace:
        return document._replace(unplaced=True)
    return document._replace(request=document.request._replace(namespace=namespace))


def _made_by(document: Document, policy: Policy) -> Iterator[Planned]:
    request = document.request
    if request.resource == "pods":
        if document.plain and isinstance((request.object or {}).get("spec"), dict):
            body = _created(request.object or {}, request.namespace, str)
            document = document._replace(request=request._replace(object=body), original=orjson.dumps(body))
        yield Planned(document, f"pod/{request.name or request.generated}", 1, reviewed=not document.plain)
        return
    obj = request.object or {}
    settings = policy.profile(DEFAULT_PROFILE)[1].templates
    of = f"{request.kind.lower()}/{request.name or request.generated}"
    found = [*templates(obj, request.group, request.kind, settings)]
    ends = zip(*[reversed(template.path) for template in found], strict=False)
    same = len([*takewhile(lambda steps: len({*steps}) == 1, ends)])  # steps in which all paths end
    for template in found:
        body = _created({"apiVersion": "v1", "kind": "Pod", **template.pod}, request.namespace, template.field)
        controller = body["metadata"]["ownerReferences"][0]["kind"]
        if controller != "ReplicaSet" or request.kind != controller:  # one that no Deployment made has no such label
            added = dict.fromkeys(REVISION_LABELS.get(controller, ())[:1], request.name or request.generated)
            body["metadata"]["labels"] = added | (body["metadata"].get("labels") or {})
        pod_request = request._replace(
            kind="Pod",
            group="",
            resource="pods",
            name="",
            generated=str(body["metadata"]["generateName"]),
            user=template.creator,
            object=body,
        )
        pod_document = document._replace(request=pod_request, original=orjson.dumps(body), plain=True)
        where = dotted(template.path[: len(template.path) - same])
        yield Planned(pod_document, of, template.replicas, where, not document.plain, template.completed)


def _created(pod: Pod, namespace: str, field: Callable[[str], str]) -> Pod:
    """A copy of the pod, with uids for its owners. Raises BadReview if it is not a pod, or one that the API server refuses since
    nothing says where it may go. `field`: how messages name a field of the pod."""
    created: Pod = orjson.loads(orjson.dumps(check(pod)))
    for place, names in _NEEDED.items():
        for path in paths(created, place.split(".")):
            if missing := [name for name in names if name not in (at(created, path) or {})]:
                where = field(f"{dotted(path)}.{missing[0]}")
                raise BadPod(f"{where} is missing: the API server refuses such a pod")
    created["metadata"]["namespace"] = namespace
    for reference in created["metadata"].get("ownerReferences") or ():
        reference.setdefault("uid", f"{reference.get('kind')}/{namespace}/{reference.get('name')}")
    return created
