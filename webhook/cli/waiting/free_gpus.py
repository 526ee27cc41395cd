"""How many GPUs are free on each node, each of them counted once (`webhook.cluster.gpu_amounts`), while pods are bound."""

from typing import Any, NamedTuple

import numpy as np

from webhook.cli.waiting.free_devices import FreeDevices
from webhook.cli.waiting.gpu_groups import Taken
from webhook.cluster.gpu_amounts import gpu_amounts
from webhook.cluster.node_table import Demand, Floats
from webhook.cluster.source_kai import KAI
from webhook.cluster.state import ClusterState
from webhook.kube.gpus import Gpus
from webhook.placement.constraints import Mask


class _Of(NamedTuple):
    """GPUs of one resource or driver by row."""

    offered: Floats
    free: Floats


class FreeGpus:
    """By resource and driver, as the scheduler counts: without the webhook's reservations."""

    def __init__(self, state: ClusterState, gpus: Gpus, devices: FreeDevices) -> None:
        self._devices, self._rows = devices, state.nodes.columns.rows
        self.of: dict[str, _Of] = {}
        for name, each in gpu_amounts(state, gpus).items():
            if each.offered.any():
                self.of[name] = _Of(
                    each.offered[: self._rows], np.maximum(each.offered - each.allocated, 0)[: self._rows]
                )

    def whole(self, resource: str | None = None) -> Mask:
        """The nodes that have GPUs, of this resource or of any, and all of them free."""
        of = [each for name, each in self.of.items() if resource in (None, name)]
        has = np.any([np.zeros(self._rows, bool), *[each.offered > 0 for each in of]], axis=0)
        taken = np.any([~has, *[each.free < each.offered for each in of]], axis=0)
        mask: Mask = has & ~taken
        return mask

    def take(self, demand: Demand, row: int, sign: int = 1) -> None:
        """A pod was bound to a node (1), or has left it (-1). Its devices are read again."""
        for name, amount in demand.requests:
            if name in self.of and self.of[name].offered[row]:
                self.of[name].free[row] -= sign * amount
        for driver, (total, free) in self._devices.gpus(row).items():
            if driver == KAI.name or driver not in self.of:  # `share` counts parts by KAI
                continue
            if self.of[driver].offered[row] == total:  # not those of a device plugin too
                self.of[driver].free[row] = free

    def share(self, row: int, taken: Taken) -> None:
        """A pod has parts of GPUs of a node by KAI. Those of which nobody had a part stay GPUs of the device plugin."""
        for name, amount in ((KAI.name, taken.known), (KAI.whole, taken.new)):
            if name in self.of:
                self.of[name].free[row] -= amount

    def saved(self) -> Any:
        """The state now, for `restore`."""
        return {name: each.free.copy() for name, each in self.of.items()}, self._devices.saved()

    def restore(self, saved: Any) -> None:
        free, devices = saved
        self._devices.restore(devices)
        self.of = {name: each._replace(free=free[name]) for name, each in self.of.items()}
