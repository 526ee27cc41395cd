"""How many GPUs are free on each node, each of them counted once (`webhook.state.gpu_amounts`), while pods are bound."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from webhook.devices.source_kai import KAI
from webhook.kube.gpus import Gpus
from webhook.nodes.table import Floats, Integers
from webhook.placement.constraints import Mask
from webhook.state.gpu_amounts import gpu_amounts
from webhook.state.state import ClusterState
from webhook.whatif.waiting.free_devices import FreeDevices
from webhook.whatif.waiting.gpu_groups import GpuGroups


class _Of(NamedTuple):
    """GPUs of one resource or driver by row."""

    offered: Floats
    free: Floats
    more: Floats
    """What is free of them beside what is free of the resource: claims may have the others."""


class FreeGpus:
    """By resource and driver, as the scheduler counts: without our reservations. `free`: what is free of each resource."""

    def __init__(self, state: ClusterState, gpus: Gpus, free: Mapping[str, Integers]) -> None:
        self._rows = state.nodes.columns.rows
        self.of: dict[str, _Of] = {}
        for name, each in gpu_amounts(state, gpus).items():
            if each.offered.any():
                offered, left = each.offered[: self._rows], (each.offered - each.allocated)[: self._rows]
                self.of[name] = _Of(offered, np.maximum(left, 0), left - free.get(name, 0))

    def __copy__(self) -> "FreeGpus":
        made = object.__new__(FreeGpus)
        made._rows = self._rows
        made.of = {name: of._replace(free=of.free.copy()) for name, of in self.of.items()}
        return made

    def whole(self, resource: str | None = None) -> Mask:
        """The nodes that have GPUs, of this resource or of any, and all of them free."""
        of = [each for name, each in self.of.items() if resource in (None, name)]
        has = np.any([np.zeros(self._rows, bool), *[each.offered > 0 for each in of]], axis=0)
        taken = np.any([~has, *[each.free < each.offered for each in of]], axis=0)
        mask: Mask = has & ~taken
        return mask

    def count(self, row: int, now: Mapping[str, Integers], devices: FreeDevices, groups: GpuGroups) -> None:
        """Count the free GPUs of a node again. Parts by KAI of a GPU of which nobody had one are parts of a device plugin's."""
        known, opened = groups.left(row)
        for name, of in self.of.items():
            if name in now and of.offered[row]:
                of.free[row] = max(0, now[name][row] + of.more[row]) + (opened if name == KAI.whole else 0)
        for driver, (total, free) in devices.gpus(row).items():
            if driver in self.of and self.of[driver].offered[row] == total:  # not those of a device plugin too
                self.of[driver].free[row] = known if driver == KAI.name else free
