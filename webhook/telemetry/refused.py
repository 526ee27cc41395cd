"""Refused objects by namespace: in which teams users are turned away."""

from collections.abc import Mapping
from typing import Final

from webhook.kube.pod import PROFILE_LABEL
from webhook.nodes.rejections import OTHER

MAX_NAMESPACES: Final = 50


class Refused:
    """Counts since the program started. A namespace that has opted in is counted by name, from 0 on, as long as it is there.
    Those beyond the first 50, and names that are none, count together as OTHER."""

    def __init__(self, namespaces: Mapping[str, Mapping[str, str]]) -> None:
        """`namespaces`: the labels of all that exist, by name."""
        self._namespaces = namespaces
        self._counts = {OTHER: 0}

    def add(self, namespace: str) -> None:
        self._take_in(namespace)
        self._counts[namespace if namespace in self._counts else OTHER] += 1

    def counts(self) -> Mapping[str, int]:
        """By namespace."""
        for gone in self._counts.keys() - self._namespaces.keys() - {OTHER}:
            del self._counts[gone]
        for namespace in self._namespaces:
            self._take_in(namespace)
        return self._counts

    def _take_in(self, namespace: str) -> None:
        if len(self._counts) <= MAX_NAMESPACES and PROFILE_LABEL in self._namespaces.get(namespace, {}):
            self._counts.setdefault(namespace, 0)
