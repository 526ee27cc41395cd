"""A full list that arrives in pages, so that a large one does not hold up everything else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from webhook.cluster.pods import pod_id

if TYPE_CHECKING:
    from webhook.cluster.state import ClusterState

ListKind = Literal[
    "nodes",
    "pods",
    "priorityclasses",
    "runtimeclasses",
    "namespaces",
    "resourceslices",
    "poddisruptionbudgets",
    "horizontalpodautoscalers",
]
_IN_NAMESPACES: Final = frozenset(("poddisruptionbudgets", "horizontalpodautoscalers"))


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

    def __init__(self, state: ClusterState, kind: ListKind) -> None:
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
        state, kind = self._state, self._kind
        for key in [key for key in state.known(kind) if key not in self._named]:
            state.forget(kind, key)
        state.facts += kind not in state.listed
        state.listed.add(kind)
        state.heard(kind, now)


def withdraw(state: ClusterState, kind: ListKind) -> None:
    """A kind is not served, or not to us: nothing is known of it any more."""
    for key in state.known(kind):
        state.forget(kind, key)
    state.facts += kind in state.listed
    state.listed.discard(kind)
    state.heard_at.pop(kind, None)
    state.stale_at = None
