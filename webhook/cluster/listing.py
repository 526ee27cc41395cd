"""The kinds of objects that the cluster state is made of: their names, and which are listed and alive."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, Protocol, get_args

from webhook.cluster.grouped import full_name
from webhook.kube.kinds import KINDS
from webhook.kube.pod import pod_id

ListKind = Literal[
    "nodes",
    "pods",
    "priorityclasses",
    "runtimeclasses",
    "limitranges",
    "namespaces",
    "resourceslices",
    "devicetaintrules",
    "deviceclasses",
    "resourceclaims",
    "resourceclaimtemplates",
    "poddisruptionbudgets",
    "resourcequotas",
    "horizontalpodautoscalers",
    "jobs",
    "persistentvolumeclaims",
    "persistentvolumes",
]
REQUIRED: Final[tuple[ListKind, ...]] = ("nodes", "pods", "priorityclasses", "namespaces")
"""No node is chosen before these are listed. The other kinds are optional."""
DEVICE_KINDS: Final = frozenset[ListKind](
    ("resourceslices", "resourceclaims", "resourceclaimtemplates", "deviceclasses")
)
"""No device of DRA is given before these are listed: all would look free."""
STATE_KINDS: Final[Mapping[str, ListKind]] = {
    name: plural for name, kind in KINDS.items() for plural in get_args(ListKind) if plural == kind.plural
}
"""The kinds that the cluster state is made of, by their names in objects."""


class Index(Protocol):
    """Keeps the objects of one kind that are looked up by name. Iterates over their names, as `name_of` returns them."""

    def seen(self, obj: Mapping[str, Any], /) -> None: ...

    def gone(self, name: str, /) -> None: ...

    def __iter__(self) -> Iterator[str]: ...


def name_of(kind: ListKind, obj: Mapping[str, Any]) -> int | str:
    """The name that identifies an object: the uid for pods (see `pods.pod_id`), else the name, after the namespace if it
    has one."""
    return pod_id(obj["metadata"]) if kind == "pods" else full_name(obj)


class Freshness:
    """Which kinds are listed, and when the watch of each was last alive. `max_age`: seconds, of the same clock as every
    `now`."""

    def __init__(self, max_age: float) -> None:
        self._max_age = max_age
        self.listed: frozenset[ListKind] = frozenset()
        """The kinds whose list is complete and that are still served."""
        self.heard_at: dict[ListKind, float] = {}

    def complete(self, kind: ListKind, now: float) -> None:
        self.listed |= {kind}
        self.heard(kind, now)

    def withdraw(self, kind: ListKind) -> None:
        self.listed -= {kind}
        self.heard_at.pop(kind, None)

    def heard(self, kind: ListKind, now: float) -> None:
        self.heard_at[kind] = now

    def fresh(self, now: float) -> bool:
        """Whether every kind in REQUIRED is listed, and its watch was alive within the last `max_age` seconds."""
        known = self.listed.issuperset(REQUIRED)
        return known and now <= min([self.heard_at[kind] for kind in REQUIRED]) + self._max_age
