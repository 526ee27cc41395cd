"""Tries pods on a copy of the cluster: each is decided by the webhook's engine, and takes its place before the next is.

`ours`: changed by the webhook, on the first node that it would choose. Else unchanged, as the scheduler alone would: among the
nodes that can take the pod the one with the least allocated CPU and memory (NodeResourcesFit, LeastAllocated, the default),
ties by name. Topology spread and affinity between pods are not looked at.
"""

from __future__ import annotations

from typing import NamedTuple

import jsonpatch
import numpy as np
import orjson

from webhook.admission.pods import mutate
from webhook.cli import offline
from webhook.cli.waiting.situation import Case, Situation
from webhook.cluster.pods import counted_demand
from webhook.framework.cluster_view import Placement
from webhook.kube.pod import Pod
from webhook.placement.filters import Filter
from webhook.placement.placer import Placer
from webhook.placement.settings import Health
from webhook.policy.model import Policy
from webhook.text import listed, plural

_SCORED = ("cpu", "memory")


class Tried(NamedTuple):
    """Where a pod would go; `node` "" and `why`, where it would wait or be refused."""

    node: str
    why: str = ""
    refused: bool = False


class Trial:
    """Of one situation, of which it changes what is free; with `ours` also the pods in the state."""

    def __init__(self, situation: Situation, policy: Policy) -> None:
        self.situation, self._policy = situation, policy
        self._placer = Placer(situation.snapshot.state)
        self._filters: dict[bytes, Filter] = {}
        self._refusals: dict[bytes, str] = {}
        self._count = 0

    def place(self, document: offline.Document, *, ours: bool) -> Tried:
        """Try one pod; a replica is the same document again. Raises BadInput where it is no pod."""
        if not ours:
            return self._schedule(document.request.object or {}, ours=False)
        if refusal := self._refusal(document):
            return Tried("", refusal, refused=True)
        state, now = self.situation.snapshot.state, self.situation.snapshot.taken
        decision = mutate(document.request, self._policy, state.view(now), self._placer)
        pod = orjson.loads(document.original)
        if decision.patch is not None:
            pod = jsonpatch.apply_patch(pod, orjson.loads(decision.patch))
        placement = decision.placement
        if placement is None or not placement.nodes:
            return self._schedule(pod, placement, ours=True)
        chosen = placement.nodes[0].node
        self._take(pod, chosen)
        self._bind(pod, chosen)
        return Tried(chosen)

    def _refusal(self, document: offline.Document) -> str:
        found = self._refusals.get(document.original)
        if found is None:
            state, now = self.situation.snapshot.state, self.situation.snapshot.taken
            judged = offline.run(document, offline.decide_validate, self._policy, state, now).decision
            found = self._refusals[document.original] = judged.message if judged.result == "denied" else ""
        return found

    def _schedule(self, pod: Pod, placement: Placement | None = None, *, ours: bool) -> Tried:
        row = self._least_allocated(pod)
        if row is not None:
            node = self.situation.names[row]
            self._take(pod, node)
            if ours:
                self._bind(pod, node)
            return Tried(node)
        rejected = placement.rejected if placement is not None else ()
        why = listed([f"{plural(count, 'node')} {reason}" for reason, count in rejected], 4)
        return Tried("", why or (placement.reason if placement is not None else "") or "no node can take it now")

    def _least_allocated(self, pod: Pod) -> int | None:
        s = self.situation
        case = Case.of(s, {**pod, "status": {}})
        if case is None:
            return None
        stated = [pod["spec"].get(part) for part in ("nodeSelector", "affinity", "tolerations")]
        chosen = self._filters.setdefault(
            orjson.dumps(stated), Filter(case.constraints, Health(labels={}, conditions={}))
        )
        rows = slice(0, len(s.alive))
        able = s.alive & chosen.mask(s.nodes, rows)
        for name, amount in case.demand.requests:
            able &= s.free[name] >= amount if name in s.free else False
        if not able.any():
            return None
        left = [(s.free[name] - case.demand.amount(name)) / np.maximum(s.capacity[name], 1) for name in _SCORED]
        score = np.where(able, np.mean(left, axis=0), -np.inf)
        best = np.flatnonzero(score == score.max()).tolist()
        return int(min(best, key=lambda row: s.names[row]))

    def _take(self, pod: Pod, node: str) -> None:
        """What it asks for is gone."""
        free, row = self.situation.free, self.situation.nodes.row_of[node]
        for name, amount in counted_demand(pod).requests:
            if name in free:
                free[name][row] -= amount

    def _bind(self, pod: Pod, node: str) -> None:
        """The webhook sees it there: the next pod finds its peers."""
        self._count += 1
        metadata = {**pod["metadata"], "uid": f"tried-{self._count}", "name": f"tried-{self._count}"}
        made = {**pod, "metadata": metadata, "spec": {**pod["spec"], "nodeName": node}, "status": {"phase": "Running"}}
        self.situation.snapshot.state.pod_seen(made, self.situation.snapshot.taken)


def whole_nodes(situation: Situation, policy: Policy) -> int:
    """Nodes all of whose GPUs are free."""
    s = situation
    gpus = policy.gpus.among(s.capacity)
    has = np.any([s.capacity[name] > 0 for name in gpus], axis=0) if gpus else ~s.alive
    untouched = np.all([s.free[name] == s.capacity[name] for name in gpus], axis=0) if gpus else s.alive
    return int(np.count_nonzero(s.alive & has & untouched))


def free_gpus(situation: Situation, policy: Policy) -> int:
    return int(
        sum(
            np.maximum(situation.free[name], 0)[situation.alive].sum() for name in policy.gpus.among(situation.capacity)
        )
    )
