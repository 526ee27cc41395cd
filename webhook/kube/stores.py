"""Small stores: values by name and by the group to which each belongs, as autoscalers by workload and pods by node; sums; and
answers that are kept until what they are of changes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
G = TypeVar("G", bound=Hashable)
V = TypeVar("V")
_MAX_ANSWERS = 256
T = TypeVar("T")


def full_name(obj: Mapping[str, Any]) -> str:
    """Namespace and name of an object, or the name of one that is in no namespace."""
    metadata = obj["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if "namespace" in metadata else str(metadata["name"])


class Grouped(Generic[K, G, V]):
    def __init__(self) -> None:
        self.group_of: dict[K, G] = {}
        """The group of each name. Others only read it."""
        self.groups: dict[G, dict[K, V]] = {}
        """The values by group and name; only groups that have one. Others only read it."""

    def put(self, name: K, group: G, value: V) -> None:
        """Keep a value, instead of the one with this name."""
        Grouped.gone(self, name)
        self.group_of[name] = group
        self.groups.setdefault(group, {})[name] = value

    def get(self, name: K) -> V | None:
        """The value with this name; None if there is none."""
        return self.groups[self.group_of[name]][name] if name in self.group_of else None

    def gone(self, name: K) -> None:
        """Forget the value with this name, if there is one."""
        if name in self.group_of:
            group = self.group_of.pop(name)
            del self.groups[group][name]
            if not self.groups[group]:
                del self.groups[group]

    def __contains__(self, name: object) -> bool:
        return name in self.group_of

    def __iter__(self) -> Iterator[K]:
        return iter(self.group_of)


def add_amount(groups: dict[G, dict[K, int]], group: G, name: K, amount: int) -> None:
    """Add to an amount by group and name. Amounts of zero, and groups without any other, are not kept."""
    by_name = groups.setdefault(group, {})
    by_name[name] = by_name.get(name, 0) + amount
    if not by_name[name]:
        del by_name[name]
        if not by_name:
            del groups[group]


class Answers:
    """A cache that is emptied when what it is of changes."""

    def __init__(self) -> None:
        self._version: object = None
        self._known: dict[tuple[object, ...], Any] = {}

    def get(self, version: object, question: tuple[object, ...], answer: Callable[[], T]) -> T:
        """The cached answer to `question`, else the result of `answer()`, and what that raises."""
        if version != self._version or len(self._known) > _MAX_ANSWERS:
            self._version, self._known = version, {}
        if question not in self._known:
            self._known[question] = answer()
        cached: T = self._known[question]
        return cached
