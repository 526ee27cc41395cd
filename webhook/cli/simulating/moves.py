"""Which pods to move so that a whole node becomes free. Nothing is moved: it is only said."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from webhook.cli.cluster.report import gpus_of
from webhook.cli.cluster.snapshot import full_name
from webhook.cli.waiting.diagnosis import fits
from webhook.cli.waiting.situation import Case, Situation
from webhook.cluster.pods import counted_demand
from webhook.kube.pod import Pod, owner
from webhook.placement.constraints import Mask

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
    """At most _MAX_FOUND, those that move the fewest GPUs first. No other node loses its wholeness."""
    found = 0
    for row in _partly_used(situation)[:_MAX_TRIED]:
        if found < _MAX_FOUND and (moves := _emptied(situation, row)):
            found += 1
            yield Suggestion(situation.names[row], moves)


def _gpu_masks(s: Situation) -> tuple[Mask, Mask]:
    """The nodes with GPUs, and those of them with none allocated."""
    resources = s.policy.gpus.among(s.capacity)
    offers = np.any([np.zeros_like(s.alive), *[s.capacity[name] > 0 for name in resources]], axis=0)
    unused = np.all([np.ones_like(s.alive), *[s.free[name] >= s.capacity[name] for name in resources]], axis=0)
    return s.alive & offers, s.alive & offers & unused


def _partly_used(s: Situation) -> list[int]:
    """The nodes of which some GPUs are allocated, and could be used again: fewest allocated first."""
    with_gpus, whole = _gpu_masks(s)
    ready = s.by_status([not status.cordoned for status in s.nodes.statuses])
    used = np.sum([s.capacity[name] - s.free[name] for name in s.policy.gpus.among(s.capacity)], axis=0)
    rows = np.flatnonzero(with_gpus & ~whole & ready)
    return sorted(rows.tolist(), key=lambda row: (int(used[row]), s.names[row]))


def _emptied(s: Situation, row: int) -> list[Move]:
    """The moves after which no GPU of the node is allocated; [] if some pod has no other place."""
    pods = [pod for pod in s.pods_on.get(s.names[row], ()) if gpus_of(pod, s.policy)]
    movable = [pod for pod in pods if (made_by := owner(pod)) is not None and made_by.kind != "DaemonSet"]
    if not pods or len(movable) < len(pods) or len(pods) > _MAX_PODS:
        return []  # nobody would create a bare pod again, and one of a DaemonSet comes back
    before, moves = {name: amounts.copy() for name, amounts in s.free.items()}, []
    for pod in sorted(pods, key=lambda pod: (-sum(gpus_of(pod, s.policy).values()), full_name(pod))):
        case = Case.of(s, pod)
        target = _target(s, case, row) if case else None
        if target is None:
            s.free.update(before)
            return []
        for name, amount in counted_demand(pod).requests:
            if name in s.free:
                s.free[name][target] -= amount
                s.free[name][row] += amount
        moves.append(Move(pod, s.names[target]))
    return moves


def _target(s: Situation, case: Case, away_from: int) -> int | None:
    """The node with the fewest free GPUs that could take the pod and is not whole; None if there is none."""
    _, whole = _gpu_masks(s)
    able = fits(case) & ~whole
    able[away_from] = False
    free = np.sum([s.free[name] for name in gpus_of(case.pod, s.policy) if name in s.free], axis=0)
    rows = np.flatnonzero(able).tolist()
    return min(rows, key=lambda each: (int(free[each]), s.names[each]), default=None)
