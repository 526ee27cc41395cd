"""A full list that arrives in pages, so that a large one does not hold up everything else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any, Final, Literal, Protocol

from webhook.cluster.pods import pod_id

ListKind = Literal[
    "nodes",
    "pods",
    "priorityclasses",
    "runtimeclasses",
    "namespaces",
    "resourceslices",
    "poddisruptionbudgets",
    "horizontalpodautoscalers",
    "jobs",
    "persistentvolumeclaims",
    "persistentvolumes",
]
_IN_NAMESPACES: Final = frozenset(
    ("poddisruptionbudgets", "horizontalpodautoscalers", "jobs", "persistentvolumeclaims")
)


class Listed(Protocol):
    """What lists are put into: the state of the cluster."""

    def seen(self, kind: ListKind, obj: dict[str, Any], now: float) -> None: ...

    def complete(self, kind: ListKind, named: Set[int | str], now: float) -> None: ...


class Index(Protocol):
    """What is kept of the objects of one kind that are looked up by name. Iterates over the names, as `name_of` gives them."""

    def seen(self, obj: Mapping[str, Any], /) -> None: ...

    def gone(self, name: str, /) -> None: ...

    def __iter__(self) -> Iterator[str]: ...


def name_of(kind: ListKind, obj: Mapping[str, Any]) -> int | str:
    """What an object is known by: pods by uid (see `pods.pod_id`), all else by name, with the namespace where it has one."""
    metadata = obj["metadata"]
    if kind == "pods":
        return pod_id(metadata)
    return f"{metadata['namespace']}/{metadata['name']}" if kind in _IN_NAMESPACES else str(metadata["name"])


class Listing:
    """One list on its way into a state. Until `done` the state has what the pages so far said, and all from before."""

    def __init__(self, state: Listed, kind: ListKind) -> None:
        self._state = state
        self._kind = kind
        self._named: set[int | str] = set()

    def add(self, objects: Iterable[dict[str, Any]], now: float) -> None:
        """One page."""
        for obj in objects:
            self._named.add(name_of(self._kind, obj))
            self._state.seen(self._kind, obj, now)

    def done(self, now: float) -> None:
        """The last page was added: whatever was on none of them is gone."""
        self._state.complete(self._kind, self._named, now)
