"""Takes back what the webhook wrote into a pod, by its decision record: the pod as it was submitted, for a before and after.

What other webhooks and the API server wrote stays. A record says what kind of thing was written and how often; ours is the last
one of its kind.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from webhook.cli.verdict import without_record
from webhook.framework.node_terms import NEUTRAL, PREFERRED_TERMS, REQUIRED_TERMS, named_node
from webhook.kube.gpus import Gpus
from webhook.kube.json_patch import Edit, Path
from webhook.kube.pod import PREFERRED, Pod, containers
from webhook.kube.record import record_of

_SPREAD: Final = ("spec", "topologySpreadConstraints")
_ANTI_AFFINITY: Final = ("spec", "affinity", "podAntiAffinity", PREFERRED)
_PRIORITY_CLASS: Final = ("spec", "priorityClassName")
_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"
Undo = Callable[[Edit, Any, Gpus], None]
"""Takes one thing back. Given are the detail that the record has of it, and what is a GPU."""


def before(pod: Pod, gpus: Gpus) -> Pod:
    """The pod without what its record says that it got, and without the record."""
    edit = Edit(without_record(pod))
    for name, outcome in (record_of(pod).get("units") or {}).items():
        result, *detail = outcome if isinstance(outcome, list) and outcome else [""]
        if undo := _UNDO.get((name, str(result))):
            undo(edit, detail[0] if detail else None, gpus)
    return edit.object


def _drop(edit: Edit, path: Path, ours: Callable[[Mapping[str, Any]], bool], most: int = 1) -> None:
    """Remove the last entries of a list that are ours, `most` at most, and what would be empty then."""
    entries = edit.get(path) or []
    found = [at for at, each in enumerate(entries) if isinstance(each, dict) and ours(each)][-most:]
    if left := [each for at, each in enumerate(entries) if at not in found]:
        edit.set(path, left)
    elif found:
        _prune(edit, path)


def _prune(edit: Edit, path: Path) -> None:
    """Remove what is at a path, and the maps around it that would be empty then."""
    while len(path) > 1:
        edit.remove(path)
        path = path[:-1]
        if edit.get(path) or path == ("spec",):
            return


def _entries(path: Path, ours: Callable[[Mapping[str, Any]], bool]) -> Undo:
    return lambda edit, _, __: _drop(edit, path, ours)


def _entries_of(path: Path, field: str) -> Undo:
    """The last entry of each of the keys that the record names, which `field` has."""

    def undo(edit: Edit, keys: Any, _: Gpus) -> None:
        for key in keys if isinstance(keys, list) else ():
            _drop(edit, path, lambda each, key=key: each.get(field) == key)  # type: ignore[misc]

    return undo


def _priority_class(edit: Edit, name: Any, _: Gpus) -> None:
    if name and edit.get(_PRIORITY_CLASS) == name:
        edit.remove(_PRIORITY_CLASS)


def _preferred(edit: Edit, detail: Any, _: Gpus) -> None:
    count = detail[-1] if isinstance(detail, list) and detail else detail
    if isinstance(count, int) and count > 0:
        _drop(edit, PREFERRED_TERMS, lambda _: True, count)
    _drop(edit, _SPREAD, lambda each: each == NEUTRAL)


def _required(edit: Edit, node: Any, _: Gpus) -> None:
    terms = edit.get(REQUIRED_TERMS) or []
    left = []
    for term in terms:
        fields = [field for field in term.get("matchFields") or () if named_node({"matchFields": [field]}) != node]
        rest = {key: value for key, value in term.items() if key != "matchFields"}
        if kept := rest | ({"matchFields": fields} if fields else {}):
            left.append(kept)
    if left:
        edit.set(REQUIRED_TERMS, left)
    elif terms:
        _prune(edit, REQUIRED_TERMS)


def _amounts(kind: str) -> Undo:
    def undo(edit: Edit, _: Any, gpus: Gpus) -> None:
        """GPU requests that equal limits, or the reverse."""
        for path, resources in _resources(edit):
            other = resources.get("limits" if kind == "requests" else "requests") or {}
            for name, amount in (resources.get(kind) or {}).items():
                if gpus.kind(name) is not None and other.get(name) == amount:
                    _prune(edit, (*path, kind, name))

    return undo


def _per_gpu(edit: Edit, total: Any, gpus: Gpus) -> None:
    for path, resources in _resources(edit):
        requests = resources.get("requests") or {}
        if any(gpus.kind(name) is not None for name in (*requests, *(resources.get("limits") or ()))):
            for name in total if isinstance(total, dict) else ():
                if name in requests:
                    _prune(edit, (*path, "requests", name))


def _void(edit: Edit, _: Any, __: Gpus) -> None:
    for container in containers(edit.object):
        _drop(edit, (*container.path, "env"), lambda each: each == {"name": _DEVICES, "value": "void"})


def _resources(edit: Edit) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    for container in containers(edit.object):
        yield (*container.path, "resources"), container.spec.get("resources") or {}


_UNDO: Final[Mapping[tuple[str, str], Undo]] = {
    ("tolerations", "added"): _entries_of(("spec", "tolerations"), "key"),
    ("priorityClass", "set"): _priority_class,
    ("topologySpread", "added"): _entries_of(_SPREAD, "topologyKey"),
    ("topologySpread", "antiAffinity"): _entries(_ANTI_AFFINITY, lambda _: True),
    ("nodeAffinity", "preferred"): _preferred,
    ("nodeAffinity", "preferredPools"): _preferred,
    ("nodeAffinity", "notPinned"): _preferred,
    ("nodeAffinity", "required"): _required,
    ("gpuResources", "filled"): _amounts("requests"),
    ("gpuResources", "limitsFilled"): _amounts("limits"),
    ("cpuPerGpu", "filled"): _per_gpu,
    ("cpuPerGpu", "filledLess"): _per_gpu,
    ("voidDevices", "added"): _void,
}
