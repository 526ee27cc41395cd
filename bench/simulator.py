"""The simulated cluster: nodes with GPUs, to which pods are bound, as arrays with an entry for each node.

It knows each device. `views` has what a replica of the webhook knows of it: sums for each node, and the devices if pods share
them.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bench.traces import MILLI, Node, Shape
from webhook.devices.table import DeviceTable
from webhook.devices.types import Device, DeviceClaim, DeviceRequest, DeviceSet, Use
from webhook.kube.device_tree import Facts
from webhook.kube.pod_requests import PodRequests
from webhook.nodes.table import Columns

WHOLE: Final = "nvidia.com/gpu"
SHARE: Final = "example.com/gpu-milli"
"""The GPU resource of a fleet whose devices are shared: thousandths of a GPU, summed over the devices of a node, as device
plugins that share GPUs report them. The sum does not show which device has them: that `SOURCE` tells."""
SOURCE: Final = "trace"
CHOOSERS: Final = ("fullest", "first", "spread")
_FREE: Final = f"{SOURCE}/milli"
_MIB: Final = 1 << 20
_PODS: Final = 1 << 20
"""Allocatable pods of each node: more than there ever are."""


def pod_requests_of(shape: Shape, shared: bool) -> PodRequests:
    """The requests that the webhook reads from a pod of this shape."""
    requests = {"cpu": shape.cpu, "memory": shape.memory * _MIB, "pods": 1}
    requests[SHARE if shared else WHOLE] = shape.amount if shared else shape.gpus
    requested = tuple(sorted((name, amount) for name, amount in requests.items() if amount))
    if not (shared and shape.gpus):
        return PodRequests(requested)
    request = DeviceRequest(SOURCE, shape.gpus, amounts=((_FREE, shape.milli),))
    return PodRequests(requested, (DeviceClaim(((request,),), source=SOURCE),))


class Fleet:
    """The nodes, and what is free on them. `shared`: whether pods may request parts of a device. `replicas`: of the webhook.
    `chooser`: how a node chooses the device for a part, one of CHOOSERS."""

    def __init__(self, nodes: Sequence[Node], shared: bool, replicas: int = 1, chooser: str = "fullest") -> None:
        self.nodes, self.shared, self.chooser = tuple(nodes), shared, chooser
        self.count = len(nodes)
        self.names = [node.name for node in nodes]
        order = sorted(range(self.count), key=lambda row: self.names[row])
        self.by_name = np.empty(self.count, np.intp)
        """The position of each row in the order of names. It decides among equal nodes."""
        self.by_name[order] = np.arange(self.count)
        self.models = sorted({node.model for node in nodes})
        self.model = np.array([self.models.index(node.model) for node in nodes], np.int32)
        self.cpu = np.array([node.cpu for node in nodes], np.int64)
        self.memory = np.array([node.memory for node in nodes], np.int64)
        self.all_cpu, self.all_memory = self.cpu.copy(), self.memory.copy()
        gpus = np.array([node.gpus for node in nodes], np.int64)
        self.devices = np.where(np.arange(gpus.max()) < gpus[:, None], MILLI, 0).astype(np.int64)
        """Free thousandths of each device, with a row for each node."""
        self.whole = gpus.copy()
        """Number of devices of each node that are free as a whole."""
        self.most = self.devices.max(axis=1)
        """Free thousandths of the node's device that has the most."""
        self.milli = gpus * MILLI
        """Free thousandths of all devices of each node."""
        self.total = int(self.milli.sum())
        self.used = 0
        """Thousandths of GPUs: all of the cluster, and those that pods use."""
        self.views = [self._columns(gpus) for _ in range(replicas)]
        """What each replica of the webhook knows."""
        self.tables = [self._table(columns, gpus) for columns in self.views]
        """The devices that each replica knows."""
        self._allowed: dict[tuple[str, ...], NDArray[np.bool_]] = {}

    def _columns(self, gpus: NDArray[np.int64]) -> Columns:
        columns = Columns()
        while columns.size < self.count:
            columns.grow()
        columns.rows, columns.name = self.count, list(self.names)
        columns.alive[: self.count] = True
        columns.models = ["", *self.models]
        columns.model[: self.count] = self.model + 1
        full = {"cpu": self.cpu, "memory": self.memory * _MIB, "pods": np.full(self.count, _PODS)}
        full[SHARE if self.shared else WHOLE] = gpus * (MILLI if self.shared else 1)
        for name, values in full.items():
            columns.add_resource(name)
            columns.capacity[name][: self.count] = values
            columns.free[name][: self.count] = values
        return columns

    def _table(self, columns: Columns, gpus: NDArray[np.int64]) -> DeviceTable:
        rows = {name: row for row, name in enumerate(self.names)}
        table = DeviceTable(columns, rows, lambda _: None)
        for name, count in zip(self.names, gpus.tolist() if self.shared else (), strict=False):
            facts = Facts(SOURCE, {}, {_FREE: MILLI}, shared=True)
            table.publish(name, SOURCE, DeviceSet(tuple([Device(str(index), facts) for index in range(count)])))
        return table

    def allowed(self, models: tuple[str, ...]) -> NDArray[np.bool_]:
        """Which nodes have GPUs of one of these models; all nodes if `models` is empty."""
        mask = self._allowed.get(models)
        if mask is None:
            wanted = [self.models.index(name) for name in models if name in self.models]
            mask = self._allowed[models] = np.isin(self.model, wanted) if models else np.ones(self.count, bool)
        return mask

    def feasible(self, shape: Shape) -> NDArray[np.bool_]:
        """Which nodes can take a pod of this shape now."""
        fits = (self.cpu >= shape.cpu) & (self.memory >= shape.memory)
        if shape.whole:
            fits &= self.whole >= shape.gpus
        elif shape.gpus:
            fits &= self.most >= shape.milli
        if shape.models:
            fits &= self.allowed(shape.models)
        return fits

    def chosen_device(self, row: int, shape: Shape) -> int:
        """The device that the node's own chooser gives for a part: the fullest with enough free, the first, or the emptiest."""
        free = self.devices[row]
        fits = free >= shape.milli
        if self.chooser == "first":
            return int(fits.argmax())
        return int(free.argmax() if self.chooser == "spread" else np.where(fits, free, MILLI + 1).argmin())

    def bind(self, row: int, shape: Shape, device: int | None = None) -> tuple[int, ...]:
        """Bind a pod. Returns the devices that it gets. `device`: the device for a part of a GPU; None: the chooser's."""
        taken: tuple[int, ...] = ()
        if shape.whole:
            taken = tuple(int(index) for index in np.flatnonzero(self.devices[row] == MILLI)[: shape.gpus])
        elif shape.gpus:
            taken = (self.chosen_device(row, shape) if device is None else device,)
        self._move(row, shape, taken, 1)
        return taken

    def release(self, row: int, shape: Shape, taken: tuple[int, ...]) -> None:
        """Release what a pod has. `taken`: the devices that `bind` returned."""
        self._move(row, shape, taken, -1)

    def _move(self, row: int, shape: Shape, taken: tuple[int, ...], sign: int) -> None:
        self.cpu[row] -= sign * shape.cpu
        self.memory[row] -= sign * shape.memory
        if taken:
            devices = self.devices[row]
            devices[list(taken)] -= sign * shape.milli
            self.whole[row] = (devices == MILLI).sum()
            self.most[row] = devices.max()
            self.milli[row] -= sign * shape.amount
            self.used += sign * shape.amount
        for index in taken if self.shared else ():
            used = ((_FREE, MILLI - int(self.devices[row][index])),)
            for table in self.tables:
                table.use(SOURCE, (row, index), self.names[row], (Use(str(index), used),) if used[0][1] else ())
        for columns in self.views:
            free = columns.free
            free["cpu"][row] -= sign * shape.cpu
            free["memory"][row] -= sign * shape.memory * _MIB
            free["pods"][row] -= sign
            if self.shared:
                free[SHARE][row] -= sign * shape.amount
            else:
                free[WHOLE][row] -= sign * shape.gpus
            columns.changes.add(row)
