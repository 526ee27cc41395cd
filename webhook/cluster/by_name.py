"""Objects that are only looked up by their name: labels of namespaces, PriorityClasses, the runtimes of RuntimeClasses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from webhook.framework.cluster_view import PriorityClass

T = TypeVar("T")


class ByName(dict[str, T]):
    """By name, what `read` keeps of an object."""

    def __init__(self, read: Callable[[Mapping[str, Any]], T]) -> None:
        super().__init__()
        self._read = read

    def seen(self, obj: Mapping[str, Any]) -> None:
        """An object is new, or has changed."""
        self[obj["metadata"]["name"]] = self._read(obj)

    def gone(self, name: str) -> None:
        self.pop(name, None)


def labels(namespace: Mapping[str, Any]) -> Mapping[str, str]:
    return namespace["metadata"].get("labels") or {}


def handler(runtime_class: Mapping[str, Any]) -> str:
    return str(runtime_class.get("handler") or "")


def priority_class(obj: Mapping[str, Any]) -> PriorityClass:
    policy = obj.get("preemptionPolicy") or "PreemptLowerPriority"
    return PriorityClass(obj["metadata"]["name"], int(obj.get("value") or 0), policy, bool(obj.get("globalDefault")))
