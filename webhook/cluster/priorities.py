"""PriorityClasses, as far as admission needs them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webhook.framework.cluster_view import PriorityClass


class PriorityClasses(dict[str, PriorityClass]):
    """By name."""

    def seen(self, obj: Mapping[str, Any]) -> None:
        """A class is new, or has changed."""
        name, value = obj["metadata"]["name"], int(obj.get("value") or 0)
        policy = obj.get("preemptionPolicy") or "PreemptLowerPriority"
        self[name] = PriorityClass(name, value, policy, bool(obj.get("globalDefault")))

    def gone(self, name: str) -> None:
        self.pop(name, None)
