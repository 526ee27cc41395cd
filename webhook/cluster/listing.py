"""A full list that arrives in pages, so that a large one does not hold up everything else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

from webhook.cluster.budgets import budget_key
from webhook.cluster.pods import pod_id

if TYPE_CHECKING:
    from webhook.cluster.state import ClusterState

ListKind = Literal["nodes", "pods", "priorityclasses", "namespaces", "resourceslices", "poddisruptionbudgets"]


class Listing:
    """One list on its way into a state. Until `done` the state has what the pages so far said, and all from before."""

    def __init__(self, state: ClusterState, kind: ListKind) -> None:
        self._state = state
        self._kind = kind
        self._named: set[int | str] = set()

    def add(self, objects: Iterable[dict[str, Any]], now: float) -> None:
        """One page."""
        state, kind = self._state, self._kind
        for obj in objects:
            if kind == "pods":
                self._named.add(pod_id(obj["metadata"]))
                state.pod_seen(obj, now)
                continue
            if kind == "poddisruptionbudgets":
                self._named.add(budget_key(obj))
                state.budget_seen(obj)
                continue
            self._named.add(obj["metadata"]["name"])
            if kind == "nodes":
                state.node_seen(obj)
            elif kind == "priorityclasses":
                state.priority_class_seen(obj)
            elif kind == "namespaces":
                state.namespace_seen(obj)
            else:
                state.resource_slice_seen(obj)

    def done(self, now: float) -> None:
        """The last page was added: whatever was on none of them is gone."""
        state, kind = self._state, self._kind
        for key in [key for key in state.known(kind) if key not in self._named]:
            state.forget(kind, key)
        state.facts += kind not in state.listed
        state.listed.add(kind)
        state.heard_at[kind] = now


def withdraw(state: ClusterState, kind: ListKind) -> None:
    """A kind is not served, or not to us: nothing is known of it any more."""
    for key in state.known(kind):
        state.forget(kind, key)
    state.facts += kind in state.listed
    state.listed.discard(kind)
    state.heard_at.pop(kind, None)
