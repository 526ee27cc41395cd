"""Pods that wait on a node for the end of the pods that they preempted: `status.nominatedNodeName`.

What the others free there is for them. So their demand counts as used on that node for all other pods, from the nomination until
they are bound, are gone, or are nominated no more. The scheduler keeps it from pods of a lower or equal priority only: one of a
higher priority that is ranked elsewhere loses nothing.

k8s.io/kubernetes pkg/scheduler/framework/runtime (addGENominatedPods).
"""

from webhook.cluster.usage import PodKind, Usage


class Nominations:
    """All nominated pods, by uid."""

    def __init__(self, usage: Usage) -> None:
        self._usage = usage
        self._held: dict[int | str, tuple[int, PodKind]] = {}

    def put(self, uid: int | str, node: str, kind: PodKind) -> None:
        """A pod of this kind is nominated to a node; "": to none."""
        row = self._usage.nodes.row(node) if node else -1
        if self._held.get(uid) == (row, kind):
            return
        self.gone(uid)
        if node:
            row = self._usage.nodes.row(node)  # it may have been held for this pod alone
            self._held[uid] = row, self._usage.take(row, kind)

    def gone(self, uid: int | str) -> None:
        """The pod is bound, deleted or finished."""
        if (held := self._held.pop(uid, None)) is not None:
            self._usage.give_back(*held)

    def of(self, uid: int | str) -> tuple[int, PodKind] | None:
        """The row and the kind of a pod; None if it is not nominated."""
        return self._held.get(uid)

    def holders(self) -> list[tuple[int, PodKind]]:
        """The row and the kind of each."""
        return [*self._held.values()]

    def uids(self) -> list[int | str]:
        return [*self._held]
