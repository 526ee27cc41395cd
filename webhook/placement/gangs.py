"""Pods that work together prefer the topology domain that the first of them went to.

A gang is the pods of one owner of certain kinds. The domains are values of node labels, closest first (an NVLink clique,
a rack, a zone). Nothing is required: where a domain has no room for the rest of the gang, the next wider one counts.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from webhook.cluster.columns import Demand, Floats
from webhook.cluster.labels import LabelColumn
from webhook.cluster.nodes import Nodes
from webhook.cluster.pods import JOBSET, LWS_GROUP
from webhook.placement.settings import Gangs
from webhook.pod import Pod, annotations_of, labels_of, owner

_SIZE = "leaderworkerset.sigs.k8s.io/size"
_NODES_VARIABLE = "PET_NNODES"  # what torchrun reads; set by Kubeflow
_LARGEST = 100_000


def is_gang(pod: Pod, settings: Gangs) -> bool:
    """Whether the pod's owner is of a kind whose pods work together."""
    if not settings.enabled:
        return False
    labels, controller = labels_of(pod), owner(pod)
    return (
        (controller is not None and controller.kind in settings.kinds)
        or (JOBSET in labels and "JobSet" in settings.kinds)
        or (LWS_GROUP in labels and "LeaderWorkerSet" in settings.kinds)
    )


def size_of(pod: Pod) -> int:
    """How many pods the gang has, where the pod says so; else 1."""
    text = annotations_of(pod).get(_SIZE)
    if text is None:
        variables = (v for c in pod["spec"].get("containers") or () for v in c.get("env") or ())
        text = next((v.get("value") for v in variables if v.get("name") == _NODES_VARIABLE), None)
    return int(text) if isinstance(text, str) and text.isdecimal() and 0 < len(text) <= 6 else 1


def closeness(
    nodes: Nodes, fitting: NDArray[np.intp], demand: Demand, peers: Mapping[int, int], size: int, keys: tuple[str, ...]
) -> NDArray[np.int64] | None:
    """For each of the rows that fit, how near it is to the gang; None where that tells nothing.

    Below 2 ** len(keys): a closer domain counts more than all wider ones together.

    `peers`: where pods of the gang are already. `size`: of the whole gang; 1 where it is not known.
    """
    columns = [(i, column) for i, key in enumerate(reversed(keys)) if (column := nodes.labels.column(key)) is not None]
    missing = max(1, size - sum(peers.values()))
    if not columns or (not peers and missing == 1):
        return None
    room = _room(nodes, fitting, demand) if missing > 1 else np.ones(len(fitting), np.int64)
    close = np.zeros(len(fitting), np.int64)
    for position, column in columns:
        codes = column.padded(nodes.columns.size)[fitting]
        rooms: Floats = np.zeros(len(column.values))
        np.add.at(rooms, codes, room)
        domain = _home(column, peers) if peers else _smallest(column, rooms, missing)
        if domain and rooms[domain] >= missing:
            close += (codes == domain) * 2**position
    return close


def _room(nodes: Nodes, rows: NDArray[np.intp], demand: Demand) -> NDArray[np.int64]:
    """How many pods with this demand each row still takes."""
    free = nodes.columns.free
    room = np.full(len(rows), _LARGEST, np.int64)
    for resource, amount in demand.requests:
        np.minimum(room, free[resource][rows] // amount, out=room)
    return room


def _home(column: LabelColumn, peers: Mapping[int, int]) -> int:
    """The domain where most of the gang is; 0 where none."""
    counts: dict[int, int] = {}
    for row, count in peers.items():
        code = int(column.padded(row + 1)[row])
        if code:
            counts[code] = counts.get(code, 0) + count
    return min(counts, key=lambda code: (-counts[code], column.values[code])) if counts else 0


def _smallest(column: LabelColumn, rooms: Floats, missing: int) -> int:
    """The domain with the least room that holds the whole gang, so that larger ones stay whole; 0 where none does."""
    enough = [code for code in np.nonzero(rooms >= missing)[0].tolist() if code]
    return min(enough, key=lambda code: (rooms[code], column.values[code])) if enough else 0
