"""The GPUs of a node that are fit for use by their metrics, and the tiers of nodes by these, whatever the strategy.

A GPU that is busy although no pod has it, or hot, or sick, does not count as free if the policy says so (`busy`, `hot`
and `sick` of `gpuMetrics`). Which pod has which GPU is not looked at: it is assumed that pods have the busy GPUs, and that
GPUs which are hot or sick but not busy are free. A GPU that the device plugin withdrew is not offered any more,
and is assumed to be the hot or sick one.

The device plugin chooses which free GPUs a pod gets. So nodes where all free GPUs are fit come first, then nodes where
enough are, then the others. These are last but not refused, because the scheduler would take them.
"""

import numpy as np
from numpy.typing import NDArray

from webhook.devices.types import PUBLISHED, WHOLE
from webhook.kube.pod_requests import PodRequests
from webhook.nodes.table import Columns, Floats


def usable_gpus(columns: Columns, rows: NDArray[np.intp], gpus: tuple[str, ...], gpu: str) -> Floats:
    """For each of `rows`, how many free GPUs of the resource `gpu` are fit for use. `gpus`: all GPU resources."""
    sharing = columns.sharing[rows] * (WHOLE if gpu.startswith(PUBLISHED) else 1)
    capacity, allocated = np.zeros(len(rows)), np.zeros(len(rows))
    for name in gpus:
        if name in columns.free:
            capacity += columns.capacity[name][rows] / sharing
            allocated += columns.capacity[name][rows] - columns.free[name][rows]
    withdrawn = np.maximum(columns.known[rows] - capacity, 0)
    unfit = np.maximum(columns.busy[rows] - np.minimum(allocated, capacity), 0)
    unfit += np.maximum(columns.avoid[rows] - withdrawn, 0)
    usable: Floats = columns.free[gpu][rows] - unfit * sharing
    return usable


def use_tiers(
    columns: Columns, rows: NDArray[np.intp], pod_requests: PodRequests, gpus: tuple[str, ...], gpu: str
) -> list[NDArray[np.int8] | Floats]:
    """Tiers of `rows`: whether free GPUs are fit for use, then the utilisation of shared GPUs."""
    usable = usable_gpus(columns, rows, gpus, gpu)
    unfit = (usable < columns.free[gpu][rows]).astype(np.int8) + (usable < pod_requests.amount(gpu))
    return [unfit, np.where(columns.one[rows] > 0, columns.utilisation[rows], 0)]
