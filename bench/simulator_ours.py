"""Our ranking, before the model of the stock scheduler.

It is the webhook's own code: the strategy `pack` over `Columns`, with a `View` of the `Requests` of the pods that run.
It knows what a webhook knows: sums by resource, the devices if pods share them, and no future pods. With several replicas, each
knows the choices of the others only some pods later.
"""

from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bench.simulator import SHARE, WHOLE, Fleet, pod_requests_of
from bench.simulator_published import Pick
from bench.simulator_scheduler import NO_ROWS, Rows, Scheduler
from bench.traces import Shape
from webhook.kube.pod_requests import PodRequests
from webhook.nodes.popular import RequestCounts, View
from webhook.nodes.siblings import order_of, place_of, sibling_penalty
from webhook.placement.devices import found_devices
from webhook.placement.scores import DEVICE_LEFT
from webhook.placement.strategies import STRATEGIES

_RANKED = 10
"""Number of ranked nodes of a pod."""


class Ranking:
    """One replica of the webhook: ranks nodes, and counts reservations.

    `every`: whether pods without GPUs are ranked too, as the published policies do; the webhook leaves them to the scheduler, and
    on most clusters taints keep them off GPU nodes. `replica`: the number of this replica.
    """

    def __init__(self, fleet: Fleet, shapes: Sequence[Shape], *, every: bool, replica: int) -> None:
        self.fleet, self.every = fleet, every
        self.columns, self.table = fleet.views[replica], fleet.tables[replica]
        self.gpu = SHARE if fleet.shared else WHOLE
        self.several = len(fleet.views) > 1
        replicas = [f"replica-{number}" for number in range(len(fleet.views))]
        rows = len(self.columns.name)
        place = np.array([place_of(name) for name in self.columns.name])
        self.columns.order[:rows] = order_of(place, self.columns.model[:rows], replicas[replica], replicas)
        self.strategy = STRATEGIES["pack"]
        self.request_counts = [pod_requests_of(shape, fleet.shared) for shape in shapes]
        self.shapes = shapes
        self.running = RequestCounts()
        self.models = {name: number for number, name in enumerate(self.columns.models)}
        self.view = View(0, (self.gpu,))
        self.log: list[int] = []
        self.cpu_of_roaming: dict[int, int] = {}
        self.cached: dict[int, tuple[int, int, NDArray[np.float64]]] = {}

    def rank(self, number: int) -> Rows:
        """The best rows for a pod of shape `number`, best first."""
        if not (self.shapes[number].gpus or self.every):
            return NO_ROWS
        score = self._scores(number)
        rows = np.flatnonzero(score > -np.inf)
        if len(rows) > 4 * _RANKED:
            known = score[rows]
            rows = rows[known >= np.partition(known, -_RANKED)[-_RANKED]]
        order = np.lexsort((self.fleet.by_name[rows], self.columns.order[rows], -score[rows]))
        return rows[order[:_RANKED]]

    def reserve(self, row: int, number: int) -> None:
        """Reserve the node that this replica chose for a pod, or that it learned another replica chose."""
        self._take(row, number, 1)

    def release(self, row: int, number: int) -> None:
        """End a reservation. Its pod is bound directly afterwards."""
        self._take(row, number, -1)

    def changed(self, row: int, pod: int, number: int | None) -> None:
        """A pod of shape `number` was bound to the node of this row, or ended there (None)."""
        self.log.append(row)
        if not self.every:
            self._roam(row, pod, number)
        if number is None:
            self.running.gone(pod)
        else:
            self.running.bound(pod, "", self.request_counts[number], self.shapes[number].models or None)
        if self.running.version != self.view.version:
            self.view = View(self.running.version, self.view.gpus, self.running.popular(self.models, self.view.gpus))

    def _roam(self, row: int, pod: int, number: int | None) -> None:
        """A pod without GPUs, which the scheduler places by itself, came or ended."""
        if number is None:
            self.columns.roaming[row] -= self.cpu_of_roaming.pop(pod, 0)
        elif not self.shapes[number].gpus:
            self.cpu_of_roaming[pod] = self.shapes[number].cpu
            self.columns.roaming[row] += self.shapes[number].cpu

    def _take(self, row: int, number: int, sign: int) -> None:
        for resource, amount in self.request_counts[number].requests:
            self.columns.free[resource][row] -= sign * amount
        if self.request_counts[number].devices:
            self.table.hold(row, self.request_counts[number].devices, sign)
        self.columns.changes.add(row)
        self.log.append(row)

    def _scores(self, number: int) -> NDArray[np.float64]:
        """The score of each row for this shape; -inf where the pod does not fit. Only rows that changed are scored again."""
        version, read, score = self.cached.get(number, (-1, 0, np.zeros(self.fleet.count)))
        stale = version != self.view.version
        rows = np.arange(self.fleet.count) if stale else np.fromiter(set(self.log[read:]), np.intp)
        if len(rows):
            pod_requests, shape = self.request_counts[number], self.shapes[number]
            scored = self.strategy(self.columns, rows, pod_requests, self.view)
            if self.several:
                scored = scored - sibling_penalty(
                    self.columns, rows, pod_requests, self.gpu if shape.gpus else None, burst=True
                )
            if pod_requests.devices:
                found = found_devices(self.table, self.table.states, self.columns.devices[rows], pod_requests.devices)
                scored = np.where(found.ranks >= 0, scored - DEVICE_LEFT * found.left, -np.inf)
            score[rows] = np.where(self._fits(rows, pod_requests, shape), scored, -np.inf)
        self.cached[number] = (self.view.version, len(self.log), score)
        return score

    def _fits(self, rows: NDArray[np.intp], pod_requests: PodRequests, shape: Shape) -> NDArray[np.bool_]:
        free = self.columns.free
        mask = self.fleet.allowed(shape.models)[rows].copy()
        for resource, amount in pod_requests.requests:
            mask &= free[resource][rows] >= amount
        return mask


class Ours:
    """The policy that ranks nodes at admission with our code, and reserves the first.

    `exact`: the pod is bound to the first ranked node that can take it, and by the scheduler only if there is none. Otherwise the
    scheduler always binds the pod, with the ranked nodes as preferences. `rankings`: one for each replica. A pod goes to a random
    replica; the others learn of its choice `unseen` pods later, or when the pod is bound.
    """

    def __init__(self, rankings: Sequence[Ranking], scheduler: Scheduler, *, exact: bool, unseen: int) -> None:
        self.rankings, self.scheduler, self.exact, self.unseen = rankings, scheduler, exact, unseen
        self.first = self.listed = self.ranked = 0
        self._unseen_choices: deque[tuple[Ranking, int, int]] = deque()
        """Choices that the other replicas do not know: the replica that chose, the row, the shape."""

    def admit(self, number: int) -> Rows:
        several = len(self.rankings) > 1
        here = self.rankings[int(self.scheduler.rng.integers(len(self.rankings)))] if several else self.rankings[0]
        ranked = here.rank(number)
        if len(ranked):
            here.reserve(int(ranked[0]), number)
            self._unseen_choices.append((here, int(ranked[0]), number))
        self._watch(self.unseen)
        return ranked

    def _watch(self, unseen: int) -> None:
        """The watch of all replicas has seen the pods of all choices but the last `unseen`."""
        while len(self._unseen_choices) > unseen:
            chosen_by, row, number = self._unseen_choices.popleft()
            for ranking in self.rankings:
                if ranking is not chosen_by:
                    ranking.reserve(row, number)

    def pick(self, shape: Shape, number: int, ranked: Rows) -> Pick | None:
        self._watch(0)
        if len(ranked):
            for ranking in self.rankings:
                ranking.release(int(ranked[0]), number)
        fits = self.scheduler.fleet.feasible(shape)[ranked]
        if self.exact and fits.any():
            row: int | None = int(ranked[fits.argmax()])
        else:
            row = self.scheduler.bind(shape, NO_ROWS if self.exact else ranked)
        if row is None:
            return None
        if len(ranked):
            self.ranked += 1
            self.first += row == ranked[0]
            self.listed += row in ranked
        return Pick(row, None)

    def changed(self, row: int, pod: int, number: int | None) -> None:
        for ranking in self.rankings:
            ranking.changed(row, pod, number)
