"""Parts of GPUs that KAI gives out: which nodes have room for one, and what a pod has of them when it is bound.

On a node KAI takes GPUs of which others have parts, the fullest first, then whole ones that are free. Of nodes it prefers those
that have such a GPU with room, then those with the fewest free GPUs.

KAI pkg/scheduler: api/node_info (IsTaskAllocatable, PredicateByNodeResourcesType), gpu_sharing, plugins gpusharingorder, gpupack
and nodeplacement, with the default settings.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from webhook.devices.source_kai import GROUP, KAI, RECEIVED, RESERVATIONS
from webhook.devices.types import DeviceClaim
from webhook.kube.other_gpus import GPU_MEMORY, gpu_memory, is_known
from webhook.kube.pod import Pod, annotations_of, labels_of
from webhook.nodes.table import Floats, Integers
from webhook.placement.constraints import Mask
from webhook.state.state import ClusterState
from webhook.text import matches_any
from webhook.vendors.catalogue import conditions, resources
from webhook.whatif.waiting.free_devices import SIMULATED, FreeDevices

_ROUNDING: Final = 1e-6
_MIG_ENABLED: Final = "node-role.kubernetes.io/mig-enabled"
_SLICES: Final = tuple([each.name for each in resources("slice") if each.alone])
_NOT_READY: Final = conditions(of_parts=True).items()
_TRUE: Final = ("1", "t", "T", "TRUE", "true", "True")
"""strconv.ParseBool."""


class GpuGroups:
    """What is free of each GPU that pods of KAI share, while pods are bound. Rows are those of the node table."""

    def __init__(self, state: ClusterState, devices: FreeDevices) -> None:
        self.refused = _refused(state)
        """The nodes of which KAI gives no parts."""
        self._memory, self._known = (_by_label(state, GPU_MEMORY, read) for read in (gpu_memory, is_known))
        self._free = devices.each(KAI.name)
        self._opened = 0

    def __copy__(self) -> "GpuGroups":
        made = object.__new__(GpuGroups)
        made.__dict__ |= self.__dict__
        made._free = {row: dict(free) for row, free in self._free.items()}
        return made

    def fits(self, claim: DeviceClaim, whole: Integers) -> Mask:
        """The nodes that have room for a part. `whole`: how many whole GPUs are free on each."""
        share, number = self._share(claim, np.arange(len(whole))), _number(claim)
        fits: Mask = np.maximum(whole, 0) >= number
        for row in self._free:
            fits[row] = max(whole[row], 0) + len(self._with_room(row, share[row])) >= number
        return fits & (share <= 1) & ~self.refused

    def most(self, rows: NDArray[np.intp], whole: Integers, number: int) -> float:
        """The largest part that `number` GPUs of one of these nodes have free."""
        free = [sorted([*self._free.get(row, {}).values(), *[1.0] * whole[row]], reverse=True) for row in rows.tolist()]
        return max([each[number - 1] for each in free if len(each) >= number], default=0.0)

    def score(self, claim: DeviceClaim, rows: NDArray[np.intp], whole: Integers) -> Integers:
        """How much KAI prefers each of these nodes for a part."""
        room = [
            bool(self._with_room(row, part)) for row, part in zip(rows.tolist(), self._share(claim, rows), strict=True)
        ]
        score: Integers = np.array(room, np.int64) * (1 + int(whole.max(initial=0))) - whole[rows]
        return score

    def take(self, claim: DeviceClaim, row: int) -> tuple[list[str], int]:
        """A pod is bound to a node with room for its part. Its GPUs, and how many of them were whole: KAI reserves these."""
        share, free = float(self._share(claim, np.array([row]))[0]), self._free.setdefault(row, {})
        groups = self._with_room(row, share)[: _number(claim)]
        opened = [f"{SIMULATED}{self._opened + number}" for number in range(_number(claim) - len(groups))]
        self._opened += len(opened)
        free |= dict.fromkeys(opened, 1.0)
        for group in (*groups, *opened):
            free[group] -= share
        return [*groups, *opened], len(opened)

    def left(self, row: int) -> tuple[float, float]:
        """What is free of the GPUs of a node that were shared in the snapshot, and of those that were taken since."""
        free = self._free.get(row, {})
        opened = sum([left for group, left in free.items() if group.startswith(SIMULATED)])
        return sum(free.values()) - opened, opened

    def _with_room(self, row: int, share: float) -> list[str]:
        """The GPUs of which others have parts, and of which so much is free, the fullest first."""
        free = self._free.get(row, {})
        return sorted(
            [group for group, left in free.items() if left >= share - _ROUNDING], key=lambda group: free[group]
        )

    def _share(self, claim: DeviceClaim, rows: NDArray[np.intp]) -> Floats:
        """The part of a GPU of each of these nodes that is asked for, in whole MiB. More than 1: none is so large."""
        [(_, amount)] = claim.requests[0][0].amounts
        memory = self._memory[rows]
        asked, part = float(amount), isinstance(amount, float)
        mib: Floats = np.floor(asked * memory) if part else np.where(self._known[rows], asked, np.inf)
        share: Floats = mib / np.maximum(memory, 1)
        return share


def _by_label(state: ClusterState, key: str, read: Callable[[str], Any]) -> NDArray[Any]:
    """What `read` returns for the value of a label, by row; "" stands for no such label."""
    column, rows = state.nodes.labels.column(key), state.nodes.columns.rows
    codes = np.zeros(rows, np.int32) if column is None else column.padded(rows)[:rows]
    return np.array([read(value) for value in (column.values if column else [""])])[codes]


def _refused(state: ClusterState) -> Mask:
    """Nodes with MIG instances or with GPUs by DRA (PredicateByNodeResourcesType), or where what limits parts says that it is not
    ready."""
    columns, rows = state.nodes.columns, state.nodes.columns.rows
    offers = [columns.capacity[name][:rows] > 0 for name in columns.capacity if matches_any(_SLICES, name)]
    refused: Mask = np.any([np.zeros(rows, bool), *offers], axis=0)
    labelled, enabled = (_by_label(state, _MIG_ENABLED, read) for read in (bool, _TRUE.__contains__))
    refused = np.where(labelled, enabled, refused)
    not_ready = [not _NOT_READY.isdisjoint(status.conditions) for status in state.nodes.statuses]
    refused |= state.nodes.by_dra() | np.array(not_ready)[columns.status[:rows]]
    return refused


def _number(claim: DeviceClaim) -> int:
    return claim.requests[0][0].devices


def as_bound(pod: Pod, groups: list[str]) -> Pod:
    """A pod with what KAI writes at it when it is bound."""
    alone = len(groups) == 1
    labels = {**labels_of(pod), **{GROUP if alone else f"{GROUP}/{group}": group for group in groups}}
    notes = {**annotations_of(pod), RECEIVED: "Fraction"}
    return {**pod, "metadata": {**pod["metadata"], "labels": labels, "annotations": notes}}


def reservations(pod: Pod) -> list[Pod]:
    """The pods that hold the GPUs that were reserved in this simulation, of which a bound pod has parts."""
    groups = [value for key, value in labels_of(pod).items() if key.startswith(GROUP) and value.startswith(SIMULATED)]
    return [
        {
            "metadata": {"namespace": RESERVATIONS, "name": group, "uid": group, "labels": {GROUP: group}},
            "spec": {
                "nodeName": pod["spec"]["nodeName"],
                "containers": [{"name": "reservation", "resources": {"limits": {KAI.whole: 1}}}],
            },
            "status": {"phase": "Running"},
        }
        for group in groups
    ]
