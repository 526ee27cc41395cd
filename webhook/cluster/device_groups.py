"""The GPUs that pods of a scheduler reserve, for groups of pods that have parts of them: see `source_kai`."""

from webhook.cluster.grouped import Grouped
from webhook.cluster.nodes import Nodes
from webhook.cluster.source_kai import KAI, reserved_group, shared_gpus
from webhook.kube.pod import Pod


class DeviceGroups(Grouped[int | str, str, str]):
    """The groups of reservation pods, by uid and by node. Tells the device table of `nodes` of their GPUs."""

    def __init__(self, nodes: Nodes) -> None:
        super().__init__()
        self._nodes = nodes

    def seen(self, uid: int | str, node: str, pod: Pod) -> bool:
        """A pod is on a node. Returns whether it is a reservation pod: its GPU counts as what its group has of it."""
        group = reserved_group(pod)
        if (self.group_of.get(uid, node), self.get(uid) or "") != (node, group):
            self.gone(uid)
            if group:
                self.put(uid, node, group)
                self.tell(node)
        return bool(group)

    def gone(self, uid: int | str) -> None:
        """A pod was deleted or finished. Does nothing if it was no reservation pod."""
        if (node := self.group_of.get(uid)) is not None:
            super().gone(uid)
            self.tell(node)

    def tell(self, node: str) -> None:
        """Tell of the GPUs of a node, which may be new or have other labels."""
        row = self._nodes.row_of.get(node)
        labels = {} if row is None else self._nodes.labels.get(row)
        self._nodes.devices.tell(node, KAI.name, shared_gpus(self.groups.get(node, {}).values(), labels))
