"""A full list of one kind of object, which arrives in pages so that a large list does not delay everything else."""

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any, Final, Literal, Protocol, get_args

from webhook.cluster.pods import pod_id
from webhook.kube.kinds import KINDS

ListKind = Literal[
    "nodes",
    "pods",
    "priorityclasses",
    "runtimeclasses",
    "namespaces",
    "resourceslices",
    "devicetaintrules",
    "deviceclasses",
    "resourceclaims",
    "resourceclaimtemplates",
    "poddisruptionbudgets",
    "horizontalpodautoscalers",
    "jobs",
    "persistentvolumeclaims",
    "persistentvolumes",
]
STATE_KINDS: Final[Mapping[str, ListKind]] = {
    name: plural for name, kind in KINDS.items() for plural in get_args(ListKind) if plural == kind.plural
}
"""The kinds that the cluster state is made of, by their names in objects."""
_IN_NAMESPACES: Final = frozenset([kind.plural for kind in KINDS.values() if kind.namespaced])


class Listed(Protocol):
    """Receives the objects of a list: implemented by the cluster state."""

    def seen(self, kind: ListKind, obj: dict[str, Any], now: float) -> None: ...

    def complete(self, kind: ListKind, named: Set[int | str], now: float) -> None: ...


class Index(Protocol):
    """Keeps the objects of one kind that are looked up by name. Iterates over their names, as `name_of` returns them."""

    def seen(self, obj: Mapping[str, Any], /) -> None: ...

    def gone(self, name: str, /) -> None: ...

    def __iter__(self) -> Iterator[str]: ...


def name_of(kind: ListKind, obj: Mapping[str, Any]) -> int | str:
    """The name that identifies an object: the uid for pods (see `pods.pod_id`), else the name, after the namespace if it
    has one."""
    metadata = obj["metadata"]
    if kind == "pods":
        return pod_id(metadata)
    return f"{metadata['namespace']}/{metadata['name']}" if kind in _IN_NAMESPACES else str(metadata["name"])


class Listing:
    """A list that is being read. Until `done`, the state also keeps objects that no page has named so far."""

    def __init__(self, state: Listed, kind: ListKind) -> None:
        self._state = state
        self._kind = kind
        self._named: set[int | str] = set()

    def add(self, objects: Iterable[dict[str, Any]], now: float) -> None:
        for obj in objects:
            self._named.add(name_of(self._kind, obj))
            self._state.seen(self._kind, obj, now)

    def done(self, now: float) -> None:
        """The list is complete: objects on none of its pages are gone."""
        self._state.complete(self._kind, self._named, now)
