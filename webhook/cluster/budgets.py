"""PodDisruptionBudgets, as far as they tell which pods one covers: namespace, name and selector.

Follows policy/v1: an empty selector takes every pod of its namespace, none at all takes no pod.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from webhook.kube.selectors import Selector, compiled, selects

_MAX_BUDGETS: Final = 1000
"""Of one namespace, that are looked at. Tenants write them."""


class Budgets:
    """By namespace and name."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, dict[str, Selector]] = {}

    def seen(self, obj: Mapping[str, Any]) -> None:
        """A budget is new, or has changed. Raises where its selector is none: ValueError, TypeError, LookupError."""
        metadata, spec = obj["metadata"], obj.get("spec") or {}
        self._by_namespace.setdefault(metadata["namespace"], {})[metadata["name"]] = compiled(spec.get("selector"))

    def gone(self, name: str) -> None:
        """`name`: with its namespace, `team-a/chat`."""
        namespace, _, name = name.partition("/")
        budgets = self._by_namespace.get(namespace, {})
        budgets.pop(name, None)
        if not budgets:
            self._by_namespace.pop(namespace, None)

    def __iter__(self) -> Iterator[str]:
        """Their names, with the namespace."""
        return (f"{namespace}/{name}" for namespace, budgets in self._by_namespace.items() for name in budgets)

    def covers(self, namespace: str, labels: Mapping[str, str]) -> bool | None:
        """Whether some budget of the namespace takes a pod with these labels. None where that is not known."""
        budgets = self._by_namespace.get(namespace) or {}
        if len(budgets) > _MAX_BUDGETS:
            return None
        unknown = False
        for selector in budgets.values():
            taken = selects(selector, labels)
            if taken:
                return True
            unknown = unknown or taken is None
        return None if unknown else False
