"""PriorityClasses, as far as admission needs them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webhook.framework.cluster_view import PriorityClass


class PriorityClasses(dict[str, PriorityClass]):
    """By name. `version` rises when one of them changes."""

    def __init__(self) -> None:
        super().__init__()
        self.version = 0

    def seen(self, obj: Mapping[str, Any]) -> None:
        """A class is new, or has changed."""
        name, value = obj["metadata"]["name"], int(obj.get("value") or 0)
        policy = obj.get("preemptionPolicy") or "PreemptLowerPriority"
        found = PriorityClass(name, value, policy, bool(obj.get("globalDefault")))
        self.version += found != self.get(name)
        self[name] = found

    def gone(self, name: str) -> None:
        self.version += self.pop(name, None) is not None
