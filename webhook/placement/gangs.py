"""The topology domains that a gang prefers: the domain of its first pods, or one with room for all of them.

A gang is the pods of one owner, whose kind is in the policy. The domains are values of node labels, closest first (an
NVLink clique, a rack, a zone). Nothing is required: if a domain has no room for the rest of the gang, the next wider one
counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from webhook.cluster.labels import LabelColumn
from webhook.cluster.node_table import Demand, Floats
from webhook.cluster.nodes import Nodes
from webhook.cluster.pods import JOBSET, LWS_GROUP
from webhook.kube.pod import Pod, annotations_of, labels_of, owner
from webhook.placement.constraints import Mask
from webhook.placement.settings import Gangs

_SIZE = "leaderworkerset.sigs.k8s.io/size"
_NODES_VARIABLE = "PET_NNODES"  # read by torchrun, set by Kubeflow
_MAX_PODS = 100_000
Room = Callable[[NDArray[np.intp], NDArray[np.int32]], NDArray[np.int64]]
"""How many more pods fit on each row. Arguments: the rows, and the number of the domain of every row."""


def gang_size(pod: Pod, settings: Gangs) -> int:
    """How many pods the pod's gang has; 1 if the pod does not say; 0 if it is in no gang."""
    labels, controller = labels_of(pod), owner(pod)
    in_gang = settings.enabled and (
        (controller is not None and controller.kind in settings.kinds)
        or (JOBSET in labels and "JobSet" in settings.kinds)
        or (LWS_GROUP in labels and "LeaderWorkerSet" in settings.kinds)
    )
    return size_of(pod) if in_gang else 0


def size_of(pod: Pod) -> int:
    """How many pods the gang has if the pod says so, else 1."""
    text = annotations_of(pod).get(_SIZE)
    if text is None:
        variables = (v for c in pod["spec"].get("containers") or () for v in c.get("env") or ())
        text = next((v.get("value") for v in variables if v.get("name") == _NODES_VARIABLE), None)
    return int(text) if isinstance(text, str) and text.isdecimal() and 0 < len(text) <= 6 else 1


def gang_domains(
    nodes: Nodes,
    rows: NDArray[np.intp],
    fits: Mask,
    room_of: Room,
    peers: Mapping[int, int],
    pods: int,
    keys: tuple[str, ...],
) -> list[Mask]:
    """Which of `rows` are outside of the gang's domain: one mask for each key, closest first. A key whose domain has no
    room for the rest of the gang is left out.

    `fits`: which of `rows` have room for the pod. `peers`: the number of pods of the gang by row. `pods`: of the whole
    gang; 1 if that is not known.
    """
    missing = 1 if pods == 1 else max(1, pods - sum(peers.values()))
    if not peers and missing == 1:
        return []
    there, counts = np.fromiter(peers, np.intp, len(peers)), np.fromiter(peers.values(), float, len(peers))
    room = rows[fits] if missing > 1 else rows
    outside: list[Mask] = []
    for key in keys:
        column = nodes.labels.column(key)
        if column is None:
            continue
        codes = column.padded(nodes.columns.size)
        code = (
            _fullest_domain(column, codes[there], counts)
            if peers
            else _smallest_domain(column, room, room_of, codes, missing)
        )
        if code and (missing == 1 or room_of(room[codes[room] == code], codes).sum() >= missing):
            outside.append(codes[rows] != code)
    return outside


def room_for(nodes: Nodes, rows: NDArray[np.intp], demand: Demand, beside: Demand | None = None) -> NDArray[np.int64]:
    """How many pods with this demand still fit on each row. `beside`: the demand of another pod that goes there first."""
    room = np.full(len(rows), _MAX_PODS, np.int64)
    for resource, amount in demand.requests:
        free = nodes.columns.free.get(resource)
        taken = 0 if beside is None else beside.amount(resource)
        np.minimum(room, 0 if free is None else (free[rows] - taken) // amount, out=room)
    return room


def _fullest_domain(column: LabelColumn, codes: NDArray[np.int32], counts: Floats) -> int:
    """The domain with most pods of the gang, ties by name; 0 if there is none. `codes`: domains, `counts`: pods in each."""
    pods = np.bincount(codes, counts)
    pods[0] = 0
    fullest = np.flatnonzero(pods == max(pods.max(), 1)).tolist()
    return min(fullest, key=column.values.__getitem__, default=0)


def _smallest_domain(
    column: LabelColumn, rows: NDArray[np.intp], room_of: Room, codes: NDArray[np.int32], missing: int
) -> int:
    """The domain with the least room that holds the whole gang, so that larger ones stay free; 0 if there is none."""
    rooms = np.bincount(codes[rows], weights=room_of(rows, codes))
    enough = [code for code in np.flatnonzero(rooms >= missing).tolist() if code]
    return min(enough, key=lambda code: (rooms[code], column.values[code]), default=0)
