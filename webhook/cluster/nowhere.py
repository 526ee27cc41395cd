"""Bound pods whose node is not known: it may come later, and anybody can write any name."""

from collections.abc import Iterator

from webhook.cluster.usage import PodKind


class Nowhere:
    """The pods by uid, each with the name of its node and its kind."""

    def __init__(self) -> None:
        self._nodes: dict[int | str, str] = {}
        self._by_node: dict[str, dict[int | str, PodKind]] = {}

    def put(self, uid: int | str, node: str, kind: PodKind) -> None:
        self._nodes[uid] = node
        self._by_node.setdefault(node, {})[uid] = kind

    def gone(self, uid: int | str) -> None:
        if (node := self._nodes.pop(uid, None)) is not None:
            del self._by_node[node][uid]
            if not self._by_node[node]:
                del self._by_node[node]

    def on(self, node: str) -> list[tuple[int | str, PodKind]]:
        """The pods that name this node."""
        return list(self._by_node.get(node, {}).items())

    @property
    def nodes(self) -> list[str]:
        """The name of the node of each pod."""
        return list(self._nodes.values())

    def __contains__(self, uid: object) -> bool:
        return uid in self._nodes

    def __iter__(self) -> Iterator[int | str]:
        return iter(self._nodes)
