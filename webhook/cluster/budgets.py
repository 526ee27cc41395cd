"""PodDisruptionBudgets: whether one covers a pod. Of each, its namespace, name and selector are kept.

Follows policy/v1: an empty selector selects every pod of the namespace, a missing selector none.
"""

from collections.abc import Mapping
from typing import Any, Final

from webhook.cluster.grouped import Grouped, full_name
from webhook.kube.selectors import Selector, compiled, selects

_MAX_BUDGETS: Final = 1000
"""Maximum number of budgets of one namespace that are searched. Tenants create them."""


class Budgets(Grouped[str, str, Selector]):
    """The selectors by namespace and name, and by namespace."""

    def seen(self, obj: Mapping[str, Any]) -> None:
        """A budget was added or changed. Raises ValueError, TypeError or LookupError if its selector is malformed."""
        selector = compiled((obj.get("spec") or {}).get("selector"))
        self.put(full_name(obj), obj["metadata"]["namespace"], selector)

    def covers(self, namespace: str, labels: Mapping[str, str]) -> bool | None:
        """Whether a budget of the namespace selects a pod with these labels. None if that is not known."""
        budgets = self.groups.get(namespace, {})
        if len(budgets) > _MAX_BUDGETS:
            return None
        unknown = False
        for selector in budgets.values():
            selected = selects(selector, labels)
            if selected:
                return True
            unknown = unknown or selected is None
        return None if unknown else False
