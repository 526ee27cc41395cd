"""RuntimeClasses, as far as admission needs them: which runtime each stands for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class RuntimeClasses(dict[str, str]):
    """Name to handler."""

    def seen(self, obj: Mapping[str, Any]) -> None:
        """A class is new, or has changed."""
        self[obj["metadata"]["name"]] = str(obj.get("handler") or "")

    def gone(self, name: str) -> None:
        self.pop(name, None)
