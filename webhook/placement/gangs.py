"""The topology domains that a gang prefers: the domain of its first pods, or one with room for all of them.

A gang is the pods of one workload, whose kind is in the policy. The domains are values of node labels, closest first (an
NVLink clique, a rack, a zone), within one GPU model if one has room for all: the slowest pod sets the pace of all.
Nothing is required: if a domain has no room for the rest of the gang, the next wider one counts.

Where no domain holds a whole gang, each part of it that belongs closer together is kept together: the pods of one Job of a
JobSet, of one replica of a RayCluster that has several hosts, of one subgroup of a LeaderWorkerSet's group. Of a RayService
nothing else is kept together.

The labels are those of jobset_types.go, ray-operator/controllers/ray/utils/constant.go and leaderworkerset_types.go.
"""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from webhook.kube.asked import JOBSET, AskedPod
from webhook.kube.leader_worker_set import SIZE, SUBGROUP_SIZE
from webhook.kube.pod_requests import PodRequests
from webhook.kube.workload_kinds import SEVERAL, workload_kind
from webhook.nodes.nodes import Nodes
from webhook.nodes.table import Floats, Integers
from webhook.placement.constraints import Mask
from webhook.placement.peer_rules import arrays_of
from webhook.placement.settings import Gangs
from webhook.state.jobs import Jobs
from webhook.text import number_of

_SIZES: Final = {
    "JAXJob": "NUM_PROCESSES",
    "PaddleJob": "PADDLE_NNODES",
    "TFJob": "TF_CONFIG",
    "XGBoostJob": "WORLD_SIZE",
}
"""By kind, the variable in which Kubeflow's training operator says how many pods there are (training-operator/pkg/controller.v1,
envvar.go and tensorflow.go)."""
_SIZE_FOR_TORCHRUN: Final = "PET_NNODES"
"""That of all other kinds; Kubeflow sets it too."""
_MOST_TF_CONFIG: Final = 1 << 16
"""Characters: some thousand pods."""
_BESIDE: Final = frozenset(("ps", "evaluator"))
"""Pods of a TFJob that mostly have no GPUs."""
_MAX_PODS = 100_000
_MAX_BEGUN = 16
"""Maximum number of parts that are looked at besides the pod's own: the Job controller makes the pods of five Jobs at a time."""
PART_ALONE: Final = -1
"""The size of a gang that is the pod's part and no more: the replicas of a RayService have nothing to do with each other."""
_NOWHERE: Final[Mapping[int, int]] = {}
_NO_ROOMS: Final = np.zeros(0)


def gang_size(pod: AskedPod, settings: Gangs) -> int:
    """How many pods the pod's gang has; 1 if the pod does not say; 0 if it is in no gang; or PART_ALONE."""
    kind = workload_kind(pod.labels, "" if pod.owner is None else pod.owner.kind)
    if not settings.enabled or kind not in settings.kinds:
        return PART_ALONE if settings.enabled and kind in SEVERAL and pod.identity.part else 0
    text = pod.annotations.get(SIZE)
    if text is None:
        wanted = _SIZES.get(kind, _SIZE_FOR_TORCHRUN)
        variables = (v for c in pod.spec.get("containers") or () for v in c.get("env") or ())
        text = next((v.get("value") for v in variables if v.get("name") == wanted), None)
        if kind == "TFJob":
            return _of_tensorflow(text)
    size = number_of(text)
    return 1 if size is None else size


def _of_tensorflow(text: object) -> int:
    """The number of pods in a TF_CONFIG; 1 if it does not say. A tenant may have written it."""
    try:
        tasks = orjson.loads(text if isinstance(text, str) and len(text) <= _MOST_TF_CONFIG else "")["cluster"].items()
        return sum([len(each) for kind, each in tasks if kind not in _BESIDE and isinstance(each, list)]) or 1
    except (orjson.JSONDecodeError, LookupError, TypeError, AttributeError):
        return 1


class Together(NamedTuple):
    """Pods that belong together."""

    peers: Mapping[int, int]
    """Those that are somewhere already: how many by row."""
    pods: int
    """The number of all; 1 if that is not known."""

    @property
    def missing(self) -> int:
        """How many are still to come, the pod that is asked about among them; 1 if that is not known."""
        return 1 if self.pods == 1 else max(1, self.pods - sum(self.peers.values()))


class Part(NamedTuple):
    """The part of a gang that a pod is of. It has several pods, even where their number is not known."""

    own: Together
    begun: tuple[Together, ...] = ()
    """The other parts like it that have begun: their pods that are still to come need room too."""


def part_of(pod: AskedPod, jobs: Jobs, peers: Mapping[str, Mapping[int, int]]) -> Part | None:
    """The part of its gang that a pod is of: of a JobSet its Job, of a RayCluster a replica of several hosts, of a group of a
    LeaderWorkerSet a subgroup. None if the gang has no parts, or a Job has one pod. `peers`: by `asked.Identity` and row."""
    key = pod.identity.part
    if not key:
        return None
    own = peers.get(key, _NOWHERE)
    if not pod.labels.get(JOBSET):
        return Part(Together(own, number_of(pod.annotations.get(SUBGROUP_SIZE)) or 1))
    parts = jobs.parts(pod.identity.owner, key)
    if parts.get(key, 0) <= 1:
        return None
    begun = (
        Together(there, pods)
        for each, pods in reversed(parts.items())
        if each != key and (there := peers.get(each)) and sum(there.values()) < pods
    )
    return Part(Together(own, parts[key]), tuple(islice(begun, _MAX_BEGUN)))


def gang_domains(
    nodes: Nodes,
    rows: NDArray[np.intp],
    room: Integers,
    gang: Together,
    part: Part | None,
    keys: tuple[str, ...],
) -> list[Mask]:
    """Which of `rows` are outside of the gang's domain: one mask for the GPU model, then one for each key, closest first. A
    key whose domain has no room for the rest of the gang is left out. Then the same for its part, within the domains that hold
    the whole gang; a domain that has only most of the gang comes last.

    `room`: how many of its pods fit on each of `rows`.
    """
    whole = _domains(nodes, rows, room, gang, keys)
    if part is None:
        return [outside for outside, _ in whole]
    holding = [outside for outside, holds in whole if holds]
    for outside in holding:
        within = np.where(outside, 0, room)
        room = within if within.any() else room
    of_part = _domains(nodes, rows, room, part.own, keys, part.begun, several=True)
    return [*holding, *[outside for outside, _ in of_part], *[outside for outside, holds in whole if not holds]]


def _domains(
    nodes: Nodes,
    rows: NDArray[np.intp],
    room: Integers,
    of: Together,
    keys: tuple[str, ...],
    begun: tuple[Together, ...] = (),
    *,
    several: bool = False,
) -> list[tuple[Mask, bool]]:
    """The masks of `gang_domains` for some pods; with each, whether its domain is known to hold all of them. `several`: there are
    more of them, even if it is not known how many: then they begin where most have room."""
    peers, roomiest = of.peers, several and of.pods == 1
    missing = 2 if roomiest and not peers else of.missing
    if not peers and missing == 1:
        return []
    there, counts = arrays_of(peers)
    others = [(*arrays_of(other.peers), other.missing) for other in begun if not peers]
    found: list[tuple[Mask, bool]] = []

    def rooms_in(names: Sequence[str], codes: NDArray[np.int32], among: NDArray[np.int32]) -> Floats:
        """The room in each domain. `among`: the codes of `rows`."""
        rooms = np.bincount(among, weights=room, minlength=len(names)).astype(np.float64, copy=False)
        for at, number, still in others:
            rooms[_fullest(names, codes[at], number)] -= still
        return rooms

    def domain_of(names: Sequence[str], codes: NDArray[np.int32], rooms: Floats) -> tuple[int, bool]:
        """The domain, 0 if there is none, and whether it holds all."""
        if peers:
            code = _fullest(names, codes[there], counts)
            return code, of.pods > 1 and bool((codes[there] == code).all())
        return (_roomiest if roomiest else _smallest)(names, rooms, missing), of.pods > 1

    models, names = nodes.columns.model, nodes.columns.models
    among = models[rows]
    rooms = _NO_ROOMS if peers else rooms_in(names, models, among)
    model, holds = domain_of(names, models, rooms)
    outside = among != model if peers else (rooms < missing)[among]  # which of several models is left to the score
    within = np.where(outside, 0, room)
    if within.sum() >= missing:
        found.append((outside, holds))
        room = within
    for key in keys:
        column = nodes.labels.column(key)
        if column is None:
            continue
        codes = column.padded(nodes.columns.size)
        among = codes[rows]
        if missing > 1:  # else it goes to where its peers are, and only whether it fits there counts
            rooms = rooms_in(column.values, codes, among)
        code, holds = domain_of(column.values, codes, rooms)
        if code and (missing == 1 or rooms[code] >= missing):
            found.append((among != code, holds))
    return found


def room_for(
    nodes: Nodes,
    rows: NDArray[np.intp],
    pod_requests: PodRequests,
    peers: Mapping[int, int],
    *,
    one_per_host: bool,
    counted: bool = True,
) -> Integers:
    """How many more pods of a gang fit on each row. `peers`: the number of pods of the gang by row. `counted`: more than one is
    still to come; else each row is said to have room for many."""
    room: Integers = np.full(len(rows), _MAX_PODS, np.int64)
    for resource, amount in pod_requests.requests if counted else ():
        free = nodes.columns.free.get(resource)
        np.minimum(room, 0 if free is None else np.maximum(free[rows] // amount, 0), out=room)
    return np.minimum(room, ~np.isin(rows, list(peers))) if one_per_host else room


def _fullest(names: Sequence[str], codes: NDArray[np.int32], counts: Floats) -> int:
    """The domain with most pods of the gang, ties by name; 0 if there is none. `codes`: domains, `counts`: pods in each."""
    pods = np.bincount(codes, counts)
    pods[0] = 0
    fullest = (pods == max(pods.max(), 1)).nonzero()[0].tolist()
    return min(fullest, key=names.__getitem__, default=0)


def _smallest(names: Sequence[str], rooms: NDArray[Any], missing: int) -> int:
    """The domain with the least room that holds the whole gang, so that larger ones stay free; 0 if there is none."""
    enough = [code for code in (rooms >= missing).nonzero()[0].tolist() if code]
    return min(enough, key=lambda code: (rooms[code], names[code]), default=0)


def _roomiest(names: Sequence[str], rooms: NDArray[Any], missing: int) -> int:
    """The domain with the most room, for pods of which nobody says how many come; 0 if there is none."""
    enough = [code for code in (rooms >= missing).nonzero()[0].tolist() if code]
    return min(enough, key=lambda code: (-rooms[code], names[code]), default=0)
