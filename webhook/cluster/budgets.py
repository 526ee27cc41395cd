"""PodDisruptionBudgets: whether one covers a pod. Of each, its namespace, name and selector are kept.

Follows policy/v1: an empty selector selects every pod of the namespace, a missing selector none.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from webhook.kube.selectors import Selector, compiled, selects

_MAX_BUDGETS: Final = 1000
"""Maximum number of budgets of one namespace that are searched. Tenants create them."""


class Budgets:
    """The budgets of all namespaces."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, dict[str, Selector]] = {}

    def seen(self, obj: Mapping[str, Any]) -> None:
        """A budget was added or changed. Raises ValueError, TypeError or LookupError if its selector is malformed."""
        metadata, spec = obj["metadata"], obj.get("spec") or {}
        self._by_namespace.setdefault(metadata["namespace"], {})[metadata["name"]] = compiled(spec.get("selector"))

    def gone(self, name: str) -> None:
        """A budget was deleted. `name`: namespace and name, as `team-a/chat`."""
        namespace, _, name = name.partition("/")
        budgets = self._by_namespace.get(namespace, {})
        budgets.pop(name, None)
        if not budgets:
            self._by_namespace.pop(namespace, None)

    def __iter__(self) -> Iterator[str]:
        """Namespace and name of each budget."""
        return (f"{namespace}/{name}" for namespace, budgets in self._by_namespace.items() for name in budgets)

    def covers(self, namespace: str, labels: Mapping[str, str]) -> bool | None:
        """Whether a budget of the namespace selects a pod with these labels. None if that is not known."""
        budgets = self._by_namespace.get(namespace) or {}
        if len(budgets) > _MAX_BUDGETS:
            return None
        unknown = False
        for selector in budgets.values():
            selected = selects(selector, labels)
            if selected:
                return True
            unknown = unknown or selected is None
        return None if unknown else False
