"""RuntimeClasses, as far as admission needs them: which runtime each stands for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class RuntimeClasses(dict[str, str]):
    """Name to handler. `version` rises when one of them changes."""

    def __init__(self) -> None:
        super().__init__()
        self.version = 0

    def seen(self, obj: Mapping[str, Any]) -> None:
        """A class is new, or has changed."""
        name, handler = obj["metadata"]["name"], str(obj.get("handler") or "")
        self.version += handler != self.get(name)
        self[name] = handler

    def gone(self, name: str) -> None:
        self.version += self.pop(name, None) is not None
