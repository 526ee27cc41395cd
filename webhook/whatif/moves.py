"""Where the GPU pods of a node could go, so that the whole node becomes free. Nothing is moved: it is only said."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from webhook.devices.source_kai import KAI
from webhook.kube.gpus import GPU_KINDS
from webhook.kube.pod import Pod
from webhook.kube.record import record_of
from webhook.kube.stores import full_name
from webhook.placement.constraints import Mask
from webhook.whatif.cluster.devices import PodGpus
from webhook.whatif.disruption import forbidden
from webhook.whatif.waiting.causes import ordered
from webhook.whatif.waiting.diagnosis import Filtered, becomes, causes_before_filtering
from webhook.whatif.waiting.notes import sick_words
from webhook.whatif.waiting.situation import Case, Situation

_MAX_TRIED: Final = 100
"""Maximum number of nodes that are tried, those with the fewest allocated GPUs first."""
_MAX_PODS: Final = 8
"""Maximum number of pods that a suggestion moves."""
_MAX_FOUND: Final = 3


class Move(NamedTuple):
    pod: Pod
    to: str
    """The name of a node; "" if the pod cannot go."""
    why: str = ""
    """Why it cannot."""

    def document(self) -> dict[str, Any]:
        return {"pod": full_name(self.pod), "to": self.to, **({"why": self.why} if self.why else {})}


class Suggestion(NamedTuple):
    """These moves free the node as a whole. Each suggestion counts on those before it."""

    node: str
    moves: list[Move]

    def document(self) -> dict[str, Any]:
        return {"node": self.node, "moves": [move.document() for move in self.moves]}


def suggestions(situation: Situation) -> Iterator[Suggestion]:
    """At most _MAX_FOUND, those that move the fewest GPUs first. No other node loses its wholeness, and none to which pods have
    moved is to be emptied. Pods that train are not moved: they would begin again."""
    found, moving, targets = 0, Moving(situation), set[str]()
    for row in _partly_used(situation)[:_MAX_TRIED]:
        name = situation.names[row]
        if found < _MAX_FOUND and name not in targets and (moves := moving.emptied(row, most=_MAX_PODS)):
            found += 1
            targets.update([move.to for move in moves])
            yield Suggestion(name, moves)


def _partly_used(s: Situation) -> list[int]:
    """The nodes of which some GPUs are allocated, and could be used again: fewest allocated first."""
    used = sum([each.offered - each.free for each in s.gpus.of.values()], np.zeros(len(s.alive)))
    rows = np.flatnonzero(s.alive & ~s.cordoned & (used > 0))
    return sorted(rows.tolist(), key=lambda row: (float(used[row]), s.names[row]))


class Moving:
    """Moves the GPU pods of nodes to others, in one situation."""

    def __init__(self, situation: Situation) -> None:
        self._s, self._devices = situation, PodGpus(situation.snapshot, situation.policy)

    def pods(self, row: int) -> list[Pod]:
        """The pods on the node that have GPUs, those with most first."""
        pods = [pod for pod in self._s.pods_on.get(self._s.names[row], ()) if self._devices.of(pod)]
        return sorted(pods, key=lambda pod: (-sum(self._devices.of(pod).values()), full_name(pod)))

    def emptied(self, row: int, *, most: int) -> list[Move]:
        """The moves after which no GPU of the node is allocated; [], and nothing is moved, if some pod has no other place."""
        pods = self.pods(row)
        if not pods or len(pods) > most or any(self._why_not(pod) or _trains(pod) for pod in pods):
            return []
        after, moves = self._moved(row, pods, self._s.healthy & ~self._s.gpus.whole())
        if any(not move.to for move in moves):
            return []
        self._s = after
        return moves

    def all_from(self, node: str) -> dict[str, Any]:
        """For each pod of the node with GPUs where it could go, or why it cannot: the document of `drain NODE`."""
        row = self._s.nodes.row_of[node]
        moves = self._moved(row, self.pods(row), self._s.healthy)[1]
        entries = [each.document() | {"gpus": self._devices.of(each.pod)} for each in moves]
        one = GPU_KINDS[self._s.nodes.columns.one[row]]
        head = {"node": node, "possible": all(move.to for move in moves), **({"one": one} if one != "whole" else {})}
        return {**head, "moves": entries}

    def _moved(self, row: int, pods: list[Pod], allowed: Mask) -> tuple[Situation, list[Move]]:
        """The cluster once these pods have moved, as far as they can, and their moves."""
        s, moves = self._s, list[Move]()
        for pod in pods:
            if why := self._why_not(pod):
                moves.append(Move(pod, "", why))
                continue
            # Its controller creates it again, and the webhook changes the new one by the policy of today.
            after = s.without([pod])
            new, refused = becomes(after, pod)
            case = Case(after, new)
            case.nodes = case.nodes & (np.arange(len(case.nodes)) != row)
            target = None if refused else _target(case, list(self._devices.of(pod)), allowed)
            if target is None:
                why = f"it would be refused: {refused}" if refused else _why_nowhere(case)
                moves.append(Move(pod, "", why))
            else:
                after.bind(case, target)
                s = after
                moves.append(Move(pod, s.names[target]))
        return s, moves

    def _why_not(self, pod: Pod) -> str:
        """Why the pod is not moved; "" if it may be. KAI says where its parts go."""
        if KAI.name in self._devices.of(pod):
            return f"{KAI.own_scheduler} says where its part of a GPU goes"
        return "; ".join(forbidden(pod, self._s.budgets))


def _trains(pod: Pod) -> bool:
    return record_of(pod).get("class") == "training"


def _target(case: Case, gpus: list[str], allowed: Mask) -> int | None:
    """The node with the fewest free GPUs that could take the pod and is allowed; None if there is none."""
    s, able = case.situation, Filtered(case).able & allowed
    free = sum([s.gpus.of[name].free for name in gpus if name in s.gpus.of], np.zeros(len(s.alive)))
    rows = np.flatnonzero(able).tolist()
    return min(rows, key=lambda each: (float(free[each]), s.names[each]), default=None)


def _why_nowhere(case: Case) -> str:
    """Why none of the nodes of a case is one for its pod: the first cause, as `why` has it."""
    filtered, nowhere = Filtered(case), "no other node could take it now"
    if filtered.able.any():
        return f"{nowhere}: {sick_words([*case.situation.named(filtered.able)])}"
    causes = (causes_before_filtering(case) or ordered([*filtered.causes()])) if case.nodes.any() else []
    return ": ".join([nowhere, *[first.text for first in causes[:1]]])
