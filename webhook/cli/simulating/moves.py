"""Which pods to move so that a whole node becomes free. Nothing is moved: it is only said."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from webhook.cli.cluster.devices import PodGpus
from webhook.cli.cluster.report import stays
from webhook.cli.cluster.snapshot import full_name
from webhook.cli.waiting.diagnosis import fits
from webhook.cli.waiting.free_devices import SIMULATED
from webhook.cli.waiting.situation import Case, Situation
from webhook.devices.source_kai import KAI
from webhook.kube.pod import Pod, owner

_MAX_TRIED: Final = 100
"""Maximum number of nodes that are tried, those with the fewest allocated GPUs first."""
_MAX_PODS: Final = 8
"""Maximum number of pods that a suggestion moves."""
_MAX_FOUND: Final = 3


class Move(NamedTuple):
    pod: Pod
    to: str


class Suggestion(NamedTuple):
    """These moves free the node as a whole. Each suggestion counts on those before it."""

    node: str
    moves: list[Move]

    def document(self) -> dict[str, Any]:
        return {"node": self.node, "moves": [{"pod": full_name(move.pod), "to": move.to} for move in self.moves]}


def suggestions(situation: Situation) -> Iterator[Suggestion]:
    """At most _MAX_FOUND, those that move the fewest GPUs first. No other node loses its wholeness, and none to which pods have
    moved is to be emptied."""
    found, devices, targets = 0, PodGpus(situation.snapshot, situation.policy), set[str]()
    for row in _partly_used(situation)[:_MAX_TRIED]:
        name = situation.names[row]
        if found < _MAX_FOUND and name not in targets and (moves := _emptied(situation, devices, row)):
            found += 1
            targets.update([move.to for move in moves])
            yield Suggestion(name, moves)


def _partly_used(s: Situation) -> list[int]:
    """The nodes of which some GPUs are allocated, and could be used again: fewest allocated first."""
    used = sum([each.offered - each.free for each in s.gpus.of.values()], np.zeros(len(s.alive)))
    rows = np.flatnonzero(s.alive & ~s.cordoned & (used > 0))
    return sorted(rows.tolist(), key=lambda row: (float(used[row]), s.names[row]))


def _emptied(s: Situation, devices: PodGpus, row: int) -> list[Move]:
    """The moves after which no GPU of the node is allocated; [] if some pod has no other place. KAI says where its parts go."""
    pods = [pod for pod in s.pods_on.get(s.names[row], ()) if devices.of(pod)]
    movable = [pod for pod in pods if _is_movable(pod) and KAI.name not in devices.of(pod)]
    if not pods or len(movable) < len(pods) or len(pods) > _MAX_PODS:
        return []
    before, saved, moves = {name: amounts.copy() for name, amounts in s.free.items()}, s.devices.saved(), list[Move]()
    for pod in sorted(pods, key=lambda pod: (-sum(devices.of(pod).values()), full_name(pod))):
        case = Case(s, _again(pod))
        target = _target(s, case, row, list(devices.of(pod)))
        if target is None:
            s.free.update(before)
            s.devices.restore(saved)
            for move in moves:
                s.gpus.count(s.nodes.row_of[move.to])
            return []
        for name, amount in case.demand.requests:
            if name in s.free:
                s.free[name][target] -= amount
                s.free[name][row] += amount
        s.devices.bind(case.wants, target)
        s.gpus.count(target)
        moves.append(Move(pod, s.names[target]))
    s.devices.release(row, {holder for pod in pods for holder in devices.holders(pod)})
    s.gpus.count(row)
    return moves


def _is_movable(pod: Pod) -> bool:
    """Nobody would create a bare pod again, one of its node comes back, and a claim that it names stays where it is."""
    named = any(entry.get("resourceClaimName") for entry in pod["spec"].get("resourceClaims") or ())
    return owner(pod) is not None and not stays(pod) and not named


def _again(pod: Pod) -> Pod:
    """The pod as its controller will create it again: nobody has made its claims."""
    return {
        **pod,
        "metadata": {**pod["metadata"], "uid": f"{SIMULATED}{pod['metadata'].get('uid')}"},
        "status": {name: value for name, value in pod["status"].items() if name != "resourceClaimStatuses"},
    }


def _target(s: Situation, case: Case, away_from: int, gpus: list[str]) -> int | None:
    """The node with the fewest free GPUs that could take the pod and is not whole; None if there is none."""
    able = fits(case) & s.healthy & ~s.gpus.whole()
    able[away_from] = False
    free = sum([s.gpus.of[name].free for name in gpus if name in s.gpus.of], np.zeros(len(s.alive)))
    rows = np.flatnonzero(able).tolist()
    return min(rows, key=lambda each: (float(free[each]), s.names[each]), default=None)
