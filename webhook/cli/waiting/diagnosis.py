"""Finds every cause for which a pod waits, in the order in which a person would look at them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import orjson

from webhook.cli.waiting import claims, nodes, peers, resources, volumes
from webhook.cli.waiting.prerequisites import prerequisites
from webhook.cli.waiting.scheduler_message import scheduler_message, unexplained
from webhook.cli.waiting.situation import Case, Cause, NodeCheck, Situation, ordered
from webhook.kube.pod import REQUIRED, Pod, labels_of
from webhook.placement.constraints import Mask
from webhook.text import listed

_CHECKS: Final[tuple[Callable[[Case], NodeCheck], ...]] = (
    *(nodes.cordoned, nodes.taints, nodes.selection, nodes.ports, resources.resources, volumes.limits),
    *(volumes.unreachable, peers.spread, peers.affinity, peers.anti_affinity, peers.existing_anti_affinity),
    claims.devices,
)
"""In the order of the scheduler (pkg/scheduler/apis/config/v1/default_plugins.go). A node counts for its first failing check."""
_SHAPE: Final = (
    *("nodeSelector", "tolerations", "topologySpreadConstraints", "priority", "preemptionPolicy", "priorityClassName"),
    *("schedulingGates", "schedulerName", "schedulingGroup", "resourceClaims", "overhead", "resources"),
)
"""Fields of the pod's spec that `shape_of` keeps as they are."""


class Diagnosis:
    """Finds why the pods of a situation wait. Pods of one shape are looked at once."""

    def __init__(self, situation: Situation) -> None:
        self.situation = situation
        self._known: dict[bytes, list[Cause]] = {}

    def of(self, pod: Pod) -> tuple[list[Cause], str]:
        """The causes, and the message of the scheduler."""
        message = scheduler_message(self.situation, pod)
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
        first = causes_before_filtering(case)
        yield from first
        if not first:
            yield from self._of_nodes(case)

    def _of_nodes(self, case: Case) -> Iterator[Cause]:
        """The causes that exclude nodes."""
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
        reserved = [*resources.nominated(case), *resources.preemption(case)]
        yield from reserved
        for cause in reserved:
            left[[s.nodes.row_of[name] for name in cause.nodes]] = False
        if left.any():
            text = f"{s.where(left)} could take it now: the scheduler has not looked since, or something else kept it from there"
            fix = "wait: it tries again when something changes, and every 5 minutes; if it stays so, look at the scheduler's log"
            yield s.cause("fitsNow", text, fix, left, left)


def causes_before_filtering(case: Case) -> list[Cause]:
    """The causes for which the scheduler looks at no node."""
    return [*prerequisites(case), *claims.missing(case), *volumes.missing(case)]


def fits(case: Case) -> Mask:
    """The nodes to which the scheduler could bind the pod now."""
    left = case.situation.alive.copy()
    for check in _CHECKS:
        left &= ~check(case).fails
    for cause in resources.nominated(case) if left.any() else ():
        left[[case.situation.nodes.row_of[name] for name in cause.nodes]] = False
    return left


def shape_of(pod: Pod) -> bytes:
    """All of a pod that its causes depend on. Preferences are left out: they exclude no node, and differ from pod to pod."""
    spec = pod["spec"]
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    volume_claims = [v for v in spec.get("volumes") or () if "persistentVolumeClaim" in v or "ephemeral" in v]
    shape = (
        pod["metadata"]["namespace"],
        labels_of(pod),
        pod["status"].get("nominatedNodeName"),
        {name: spec[name] for name in _SHAPE if name in spec},
        {kind: (terms or {}).get(REQUIRED) for kind, terms in (spec.get("affinity") or {}).items()},
        [(each.get("resources"), each.get("ports"), each.get("restartPolicy")) for each in containers],
        volume_claims,
        pod["metadata"]["name"] if volume_claims or spec.get("resourceClaims") else "",
    )
    return orjson.dumps(shape, option=orjson.OPT_SORT_KEYS)


def bound(pod: Pod) -> Cause:
    """The cause for a pod that has its node and does not run yet: it waits for the kubelet, not for the scheduler."""
    statuses = pod["status"].get("containerStatuses") or pod["status"].get("initContainerStatuses") or ()
    waiting = [(status.get("state") or {}).get("waiting") for status in statuses]
    waits = sorted({state.get("reason", "") for state in waiting if state})
    node, name = pod["spec"]["nodeName"], pod["metadata"]["name"]
    text = f"it has its node, {node}, and waits there{f' ({listed(waits)})' if waits else ''}: see the kubelet"
    return Cause("bound", text, f"kubectl describe pod -n {pod['metadata']['namespace']} {name}", (node,), 1)
