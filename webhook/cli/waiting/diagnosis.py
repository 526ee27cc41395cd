"""Why a pod waits: every cause, in the order in which a person would try to mend them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import orjson

from webhook.cli.waiting import claims, nodes, peers, resources, volumes
from webhook.cli.waiting.before import before
from webhook.cli.waiting.cause import Cause, Check, ordered
from webhook.cli.waiting.says import said, unexplained
from webhook.cli.waiting.situation import Case, Situation
from webhook.kube.pod import Pod, labels_of
from webhook.placement.constraints import Mask
from webhook.text import listed

_CHECKS: Final[tuple[Callable[[Case], Check], ...]] = (
    *(
        nodes.cordoned,
        nodes.taints,
        nodes.selection,
        nodes.ports,
        resources.resources,
        volumes.limits,
        volumes.elsewhere,
    ),
    *(peers.spread, peers.affinity, peers.anti_affinity, peers.existing_anti_affinity, claims.devices),
)
"""In the scheduler's order (pkg/scheduler/apis/config/v1/default_plugins.go): a node counts for the first that fails."""
_SHAPE: Final = (
    *("nodeSelector", "tolerations", "topologySpreadConstraints", "priority", "preemptionPolicy", "priorityClassName"),
    *("schedulingGates", "schedulerName", "schedulingGroup", "resourceClaims"),
)


class Diagnosis:
    """Why the pods of a situation wait. Pods of one shape are looked at once."""

    def __init__(self, situation: Situation) -> None:
        self.situation = situation
        self._known: dict[bytes, list[Cause]] = {}

    def of(self, pod: Pod) -> tuple[list[Cause], str]:
        """The causes, and what the scheduler says."""
        message = said(self.situation, pod)
        key = shape_of(pod)
        causes = self._known.get(key)
        if causes is None:
            causes = self._known[key] = ordered(list(self._causes(pod)))
        return [*causes, *unexplained(message, causes)], message

    def _causes(self, pod: Pod) -> Iterator[Cause]:
        case = Case.of(self.situation, pod)
        if case is None:
            text = "it states more about nodes than this program looks at"
            yield Cause("schedulerOther", text, "simplify its affinity and tolerations")
            return
        first = kept_back(case)
        yield from first
        if not first:
            yield from self._of_nodes(case)

    def _of_nodes(self, case: Case) -> Iterator[Cause]:
        s = case.situation
        if not s.alive.any():
            yield Cause("noNodes", "the cluster has no node", "add a node")
            return
        checks = [check(case) for check in _CHECKS]
        failed = np.sum([check.fails for check in checks], axis=0)
        left = s.alive.copy()
        for check in checks:
            if (mask := left & check.fails).any():
                yield from check.explain(mask, mask & (failed == 1))
            left &= ~check.fails
        kept = [*resources.nominated(case), *resources.preemption(case)]
        yield from kept
        for cause in kept:
            left[[s.nodes.row_of[name] for name in cause.nodes]] = False
        if left.any():
            text = f"{s.where(left)} could take it now: the scheduler has not looked since, or something else kept it from there"
            fix = "wait: it tries again when something changes, and every 5 minutes; if it stays so, look at the scheduler's log"
            yield s.cause("fitsNow", text, fix, left, left)


def kept_back(case: Case) -> list[Cause]:
    """What it waits for whatever nodes there are: the scheduler looks at none."""
    return [*before(case), *claims.missing(case), *volumes.missing(case)]


def fits(case: Case) -> Mask:
    """The nodes that the scheduler could bind it to now."""
    left = case.situation.alive.copy()
    for check in _CHECKS:
        left &= ~check(case).fails
    for cause in resources.nominated(case) if left.any() else ():
        left[[case.situation.nodes.row_of[name] for name in cause.nodes]] = False
    return left


def shape_of(pod: Pod) -> bytes:
    """All that the causes depend on. Not the preferences: they keep no node away, and differ from pod to pod."""
    spec = pod["spec"]
    affinity: dict[str, Any] = {}
    for kind, terms in (spec.get("affinity") or {}).items():
        affinity[kind] = (terms or {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    asks = [[c.get("resources"), c.get("ports"), c.get("restartPolicy")] for c in _containers(spec)]
    volume_claims = [v for v in spec.get("volumes") or () if "persistentVolumeClaim" in v or "ephemeral" in v]
    own = pod["metadata"]["name"] if volume_claims or spec.get("resourceClaims") else ""
    stated = {name: spec[name] for name in _SHAPE if name in spec}
    status = pod["status"].get("nominatedNodeName")
    about = [
        pod["metadata"]["namespace"],
        labels_of(pod),
        stated,
        affinity,
        asks,
        volume_claims,
        own,
        status,
        spec.get("overhead"),
    ]
    return orjson.dumps([*about, spec.get("resources")], option=orjson.OPT_SORT_KEYS)


def _containers(spec: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()


def bound(pod: Pod) -> Cause:
    """Of a pod that has a node and does not run: no longer the scheduler's."""
    states = [
        c.get("state") or {}
        for c in pod["status"].get("containerStatuses") or pod["status"].get("initContainerStatuses") or ()
    ]
    waits = sorted({state["waiting"].get("reason", "") for state in states if state.get("waiting")})
    node, name = pod["spec"]["nodeName"], pod["metadata"]["name"]
    text = f"it has its node, {node}, and waits there{f' ({listed(waits)})' if waits else ''}: see the kubelet"
    return Cause("bound", text, f"kubectl describe pod -n {pod['metadata']['namespace']} {name}", (node,), 1)
