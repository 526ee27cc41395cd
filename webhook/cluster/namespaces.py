"""Namespaces, as far as admission needs them: their labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Namespaces(dict[str, Mapping[str, str]]):
    """Labels by name."""

    def seen(self, obj: Mapping[str, Any]) -> None:
        """A namespace is new, or has changed."""
        self[obj["metadata"]["name"]] = obj["metadata"].get("labels") or {}

    def gone(self, name: str) -> None:
        self.pop(name, None)
