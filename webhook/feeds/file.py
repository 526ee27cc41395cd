"""Reads the cluster from a file in place of an API server: the output of `kubectl get nodes,pods,… -A -o json` (or yaml)."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from webhook.errors import BadInput
from webhook.kube.kinds import KINDS
from webhook.kube.yaml import items_of, parse_documents
from webhook.state.objects import DEVICE_KINDS, REQUIRED, STATE_KINDS, ListKind
from webhook.state.state import ClusterState
from webhook.text import listed, quoted

_ANSWERS: Final = ("ApiServerVersion", "ApiServerMetrics", "ServingCertificate", "ReplicaMetrics", "DeschedulerPolicy")
"""What `gpu-admission snapshot` writes besides objects of Kubernetes, as objects of these kinds."""


def fill(state: ClusterState, path: Path, now: float) -> None:
    """Put the objects of a file into `state`. A required kind without objects counts as listed and empty, and so does a kind of
    DRA beside a class of devices.

    Raises BadInput with the name of the object that is wrong.
    """
    for kind, objects in load_cluster(path).items():
        for obj in objects:
            try:
                state.seen(kind, obj, now)
            except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
                where = f"{path}: {kind}: {quoted(obj['metadata']['name'])}"
                raise BadInput(f"{where}: {type(error).__name__}: {error}. Give it as kubectl prints it") from None
        state.freshness.complete(kind, now)


def load_cluster(path: Path) -> dict[ListKind, list[dict[str, Any]]]:
    """The objects in a file that the cluster state uses, by kind. Raises BadInput."""
    objects: dict[ListKind, list[dict[str, Any]]] = {kind: [] for kind in REQUIRED}
    for document in documents_in(path):
        for kind, obj in objects_in(document, path):
            if kind in STATE_KINDS:
                objects.setdefault(STATE_KINDS[kind], []).append(obj)
    for kind in DEVICE_KINDS if "deviceclasses" in objects else ():
        objects.setdefault(kind, [])
    return objects


def documents_in(path: Path) -> list[Any]:
    """The JSON or YAML documents in a file; `-` is stdin. Raises BadInput."""
    try:
        documents = list(parse_documents(sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()))
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}. Give what kubectl get -o json prints") from None
    except ValueError as error:
        raise BadInput(f"{path}: neither JSON nor YAML: {error}") from None
    if not documents:
        raise BadInput(f"{path}: there is nothing in it. Give what kubectl get nodes,pods,namespaces -A -o json prints")
    return documents


def objects_in(document: Any, path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The kind and the object for each object in a document, which is a List or a single object. Kinds that nobody here reads, as
    in `kubectl get all`, are left out. Raises BadInput if there is nothing else."""
    if not isinstance(document, dict):
        raise BadInput(f"{path}: saw {quoted(document)}, wanted a List of Kubernetes objects")
    known, others = False, ""
    for position, obj in enumerate(items_of(document), 1):
        where, kind = f"{path}: object {position}", str(obj.get("kind")) if isinstance(obj, dict) else ""
        if kind in KINDS or kind in _ANSWERS:
            _check(obj, f"{where}, {kind}")
            yield kind, obj
            known = True
        else:
            others = others or f"{where}: saw kind {quoted(kind)}, wanted {listed(STATE_KINDS)} or a List of them"
    if others and not known:
        raise BadInput(others)


def _check(obj: Any, where: str) -> None:
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not name:
        raise BadInput(f"{where}: metadata.name: saw {quoted(name)}, wanted the name of the object")
    for key in ("spec", "status"):
        if not isinstance(obj.setdefault(key, {}), dict):
            raise BadInput(f"{where} {quoted(name)}: {key}: saw {quoted(obj[key])}, wanted a map")
