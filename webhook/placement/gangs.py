"""The topology domains that a gang prefers: the domain of its first pods, or one with room for all of them.

A gang is the pods of one workload, whose kind is in the policy. The domains are values of node labels, closest first (an
NVLink clique, a rack, a zone), within one GPU model if one has room for all: the slowest pod sets the pace of all.
Nothing is required: if a domain has no room for the rest of the gang, the next wider one counts.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from webhook.kube.pod import Owner, Pod, annotations_of, labels_of
from webhook.kube.pod_requests import Demand
from webhook.kube.workload_kinds import workload_kind
from webhook.nodes.nodes import Nodes
from webhook.nodes.table import Floats, Integers
from webhook.placement.constraints import Mask
from webhook.placement.settings import Gangs
from webhook.text import number_of

_SIZE = "leaderworkerset.sigs.k8s.io/size"
_NODES_VARIABLE = "PET_NNODES"  # read by torchrun, set by Kubeflow
_MAX_PODS = 100_000


def gang_size(pod: Pod, controller: Owner | None, settings: Gangs) -> int:
    """How many pods the pod's gang has; 1 if the pod does not say; 0 if it is in no gang."""
    kind = workload_kind(labels_of(pod), "" if controller is None else controller.kind)
    if not (settings.enabled and kind in settings.kinds):
        return 0
    text = annotations_of(pod).get(_SIZE)
    if text is None:
        variables = (v for c in pod["spec"].get("containers") or () for v in c.get("env") or ())
        text = next((v.get("value") for v in variables if v.get("name") == _NODES_VARIABLE), None)
    size = number_of(text)
    return 1 if size is None else size


def gang_domains(
    nodes: Nodes,
    rows: NDArray[np.intp],
    room: Integers,
    peers: Mapping[int, int],
    pods: int,
    keys: tuple[str, ...],
) -> list[Mask]:
    """Which of `rows` are outside of the gang's domain: one mask for the GPU model, then one for each key, closest first. A
    key whose domain has no room for the rest of the gang is left out.

    `room`: how many of its pods fit on each of `rows`. `peers`: the number of pods of the gang by row. `pods`: of the whole
    gang; 1 if that is not known.
    """
    missing = 1 if pods == 1 else max(1, pods - sum(peers.values()))
    if not peers and missing == 1:
        return []
    there, counts = np.fromiter(peers, np.intp, len(peers)), np.fromiter(peers.values(), float, len(peers))
    outside: list[Mask] = []
    models = nodes.columns.model
    rooms = np.bincount(models[rows], weights=room, minlength=len(nodes.columns.models))
    fitting = rooms >= missing
    if peers:
        model = _fullest(nodes.columns.models, models[there], counts)
        fitting &= np.arange(len(rooms)) == model
    if fitting.any() and not fitting.all():  # which of several models is left to the score
        outside.append(~fitting[models[rows]])
        room = np.where(outside[0], 0, room)
    for key in keys:
        column = nodes.labels.column(key)
        if column is None:
            continue
        codes = column.padded(nodes.columns.size)
        rooms = np.bincount(codes[rows], weights=room, minlength=len(column.values))
        code = _fullest(column.values, codes[there], counts) if peers else _smallest(column.values, rooms, missing)
        if code and (missing == 1 or rooms[code] >= missing):
            outside.append(codes[rows] != code)
    return outside


def room_for(
    nodes: Nodes, rows: NDArray[np.intp], demand: Demand, peers: Mapping[int, int], *, one_per_host: bool
) -> Integers:
    """How many more pods of a gang fit on each row. `peers`: the number of pods of the gang by row."""
    room: Integers = np.full(len(rows), _MAX_PODS, np.int64)
    for resource, amount in demand.requests:
        free = nodes.columns.free.get(resource)
        np.minimum(room, 0 if free is None else np.maximum(free[rows] // amount, 0), out=room)
    return np.minimum(room, ~np.isin(rows, list(peers))) if one_per_host else room


def _fullest(names: Sequence[str], codes: NDArray[np.int32], counts: Floats) -> int:
    """The domain with most pods of the gang, ties by name; 0 if there is none. `codes`: domains, `counts`: pods in each."""
    pods = np.bincount(codes, counts)
    pods[0] = 0
    fullest = np.flatnonzero(pods == max(pods.max(), 1)).tolist()
    return min(fullest, key=names.__getitem__, default=0)


def _smallest(names: Sequence[str], rooms: NDArray[Any], missing: int) -> int:
    """The domain with the least room that holds the whole gang, so that larger ones stay free; 0 if there is none."""
    enough = [code for code in np.flatnonzero(rooms >= missing).tolist() if code]
    return min(enough, key=lambda code: (rooms[code], names[code]), default=0)
