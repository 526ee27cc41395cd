"""Reads and writes snapshots as files: a List as `kubectl get -o json` prints it, with the time and what is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import orjson

from webhook.cli.cluster.answers import QUESTIONS
from webhook.cli.cluster.kinds import ENGINE
from webhook.cli.cluster.measured import Measured
from webhook.cli.cluster.schemas import check
from webhook.cli.cluster.snapshot import Snapshot
from webhook.errors import BadInput, BadPod
from webhook.feeds.file import documents_in, objects_in
from webhook.kube.kinds import KINDS
from webhook.text import quoted

_MARK: Final = "snapshot"
"""Key in the List for what a snapshot has besides its objects."""
_STDIN: Final = Path("/dev/stdin")
_DROPPED: Final = ("managedFields", "selfLink")
"""Metadata that no command reads."""


def read_snapshot(path: Path) -> Snapshot:
    """Read a snapshot, or what `kubectl get -o json` or `-o yaml` prints; `-` is stdin. Raises BadInput."""
    snapshot = Snapshot({})
    for document in documents_in(_STDIN if str(path) == "-" else path):
        mark = document.get(_MARK) if isinstance(document, dict) else None
        if isinstance(mark, dict):
            taken = mark.get("taken") or 0
            if not isinstance(taken, (int, float)):
                raise BadInput(f"{path}: snapshot.taken: saw {quoted(taken)}, wanted seconds since 1970")
            snapshot.taken = float(taken)
            snapshot.missing.update(mark.get("missing") or {})
            snapshot.objects |= {kind: [] for kind in mark.get("kinds") or ()}
            if (measured := mark.get("gpuMetrics")) is not None:
                snapshot.measured = Measured.read(measured, str(path))
        for kind, obj in objects_in(document, path):
            try:
                check(kind, obj)
            except BadPod as error:
                where = f"{path}: {kind} {quoted(obj['metadata']['name'])}"
                raise BadInput(f"{where}: {error}. Give it as kubectl prints it") from None
            obj.setdefault("kind", kind)
            if kind in KINDS and KINDS[kind].namespaced:
                obj["metadata"].setdefault("namespace", "default")
            snapshot.objects.setdefault(kind, []).append(obj)
    for kind in KINDS:
        if kind not in snapshot.objects and kind not in ENGINE:
            snapshot.missing.setdefault(kind, f"{path} has no {KINDS[kind].plural}")
    for name, question in QUESTIONS.items():
        if name not in snapshot.objects:
            snapshot.missing.setdefault(name, f"{path} has no {question.subject}")
    return snapshot


def write_snapshot(snapshot: Snapshot, path: Path) -> None:
    """Write a file that only its owner can read: it tells much about the cluster. Raises BadInput."""
    items = [obj for objects in snapshot.objects.values() for obj in objects]
    for obj in items:
        for key in _DROPPED:
            obj["metadata"].pop(key, None)
    mark: dict[str, Any] = {"taken": snapshot.taken, "missing": snapshot.missing, "kinds": list(snapshot.objects)}
    if snapshot.measured:
        mark["gpuMetrics"] = snapshot.measured.document()
    text = orjson.dumps({"apiVersion": "v1", "kind": "List", _MARK: mark, "items": items})
    try:
        path.touch(mode=0o600)
        path.write_bytes(text)
    except OSError as error:
        raise BadInput(f"{path}: cannot be written: {error.strerror}") from None
