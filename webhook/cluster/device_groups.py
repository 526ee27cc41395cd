"""The GPUs that pods of a scheduler reserve, for groups of pods that have parts of them: see `source_kai`."""

from webhook.cluster.nodes import Nodes
from webhook.cluster.source_kai import KAI, reserved_group, shared_gpus
from webhook.kube.pod import Pod


class DeviceGroups:
    """The reservation pods on nodes. Tells the device table of `nodes` of their GPUs."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._on: dict[str, dict[int | str, str]] = {}
        """By node and uid of the pod, the group."""
        self._node_of: dict[int | str, str] = {}

    def seen(self, uid: int | str, node: str, pod: Pod) -> bool:
        """A pod is on a node. Returns whether it is a reservation pod: its GPU counts as what its group has of it."""
        group = reserved_group(pod)
        if (self._node_of.get(uid), self._on.get(node, {}).get(uid, "")) != (node if group else None, group):
            self.gone(uid)
            if group:
                self._node_of[uid] = node
                self._on.setdefault(node, {})[uid] = group
                self.tell(node)
        return bool(group)

    def gone(self, uid: int | str) -> None:
        """A pod was deleted or finished. Does nothing if it was no reservation pod."""
        if (node := self._node_of.pop(uid, None)) is not None:
            del self._on[node][uid]
            self.tell(node)
            if not self._on[node]:
                del self._on[node]

    def tell(self, node: str) -> None:
        """Tell of the GPUs of a node, which may be new or have other labels."""
        if node in self._on:
            row = self._nodes.row_of.get(node)
            labels = {} if row is None else self._nodes.labels.get(row)
            self._nodes.devices.tell(node, KAI.name, shared_gpus(self._on[node].values(), labels))
