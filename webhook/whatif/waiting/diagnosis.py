"""Finds every cause for which a pod waits, in the order in which a person would look at them."""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np
import orjson

from webhook.devices.source_kai import KAI
from webhook.devices.sources import ANNOTATIONS
from webhook.errors import BadInput, BadReview
from webhook.kube.other_gpus import part_key
from webhook.kube.pod import PROFILE_LABEL, REQUIRED, Pod, annotations_of, labels_of
from webhook.placement.constraints import Mask
from webhook.placement.placer import Placer
from webhook.whatif import offline
from webhook.whatif.waiting import claims, nodes, notes, peers, resources, taints, volumes
from webhook.whatif.waiting.causes import Cause, NodeCheck, ordered
from webhook.whatif.waiting.free_devices import is_simulated
from webhook.whatif.waiting.prerequisites import prerequisites
from webhook.whatif.waiting.scheduler_message import scheduler_message, told, unexplained
from webhook.whatif.waiting.situation import Case, Situation
from webhook.whatif.waiting.workloads import refusal

_CHECKS: Final[tuple[Callable[[Case], NodeCheck], ...]] = (
    *(nodes.pinned, taints.cordoned, taints.taints, nodes.selection, peers.ports, resources.resources),
    *(
        volumes.in_use,
        volumes.limits,
        volumes.unreachable,
        peers.spread,
        peers.affinity,
        peers.anti_affinity,
        peers.existing_anti_affinity,
    ),
    claims.devices,
)
"""In the order of the scheduler (pkg/scheduler/apis/config/v1/default_plugins.go). A node counts for its first failing check."""
_NO_CLAIM: Final = "create claim for extended resources "
"""How the scheduler says that it may not create the claim of a pod (dynamicresources/extendeddynamicresources.go)."""
_SHAPE: Final = (
    *("nodeSelector", "tolerations", "topologySpreadConstraints", "priority", "preemptionPolicy", "priorityClassName"),
    *("schedulingGates", "schedulerName", "schedulingGroup", "resourceClaims", "overhead", "resources"),
)
"""Fields of the pod's spec that `shape_of` keeps as they are."""


_SILENT: Final = Cause(
    "schedulerOther", "the scheduler has said nothing yet, and nodes and pods may not be read", "ask again in a moment"
)


class Findings(NamedTuple):
    """What is known of one pod that waits."""

    causes: list[Cause]
    """In the order in which a person would look at them."""
    notes: list[str]
    """What a person asks next: see `waiting.notes`."""
    says: str = ""
    """The message of the scheduler; "" if there is none."""


class Diagnosis:
    """Finds why the pods of a situation wait. Pods of one shape are looked at once."""

    def __init__(self, situation: Situation) -> None:
        self.situation = situation
        self._known: dict[bytes, Findings] = {}

    def of(self, pod: Pod) -> Findings:
        message = scheduler_message(self.situation, pod)
        key = shape_of(pod)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._look_at(pod)
        if self.situation.snapshot.missing.keys() & {"Node", "Pod"}:
            sure = [cause._replace(helps=0) for cause in found.causes if cause.cause != "fitsNow"]
            causes = [*sure, *told(message, sure)] or [_SILENT]
        elif _NO_CLAIM in message:  # for an extended resource, on a node that fits
            lacks = "the scheduler could not create its ResourceClaim: "
            refused = refusal(self.situation, pod["metadata"]["namespace"], lacks, message)
            causes = [refused, *[cause for cause in found.causes if cause.cause != "fitsNow"]]
        else:
            causes = [*found.causes, *unexplained(message, found.causes)]
        return Findings(causes, [*found.notes, *notes.autoscaler(self.situation, pod, found.causes)], message)

    def _look_at(self, pod: Pod) -> Findings:
        case = Case(self.situation, pod)
        if first := causes_before_filtering(case):
            return Findings(ordered(first), [])
        if "Node" in self.situation.snapshot.missing:
            return Findings([], [])
        filtered = _Filtered(case)
        causes = self._offered(case, ordered([self._tried(cause) for cause in filtered.causes()]))
        causes.sort(
            key=lambda cause: cause.cause != "fitsNow"
        )  # then nothing has to be changed: what else is true comes after it
        full = filtered.only_full
        more = [
            *notes.unhealthy(case, full),
            *notes.preemption(case, full),
            *notes.ending(case, full),
            *notes.limit_range(pod, causes),
        ]
        return Findings(causes, [*notes.ahead(case), *more])

    def _offered(self, case: Case, causes: list[Cause]) -> list[Cause]:
        """The causes. The fix for a taint says that opting in would do too, where that was tried."""
        tainted = any(cause.cause == "untoleratedTaint" for cause in causes)
        if not tainted or offline.opted_in(
            case.namespace, self.situation.snapshot.state.view(self.situation.snapshot.taken)
        ):
            return causes
        pod = _changed(self.situation, case.pod)
        able = set(self.situation.named(fits(Case(self.situation, pod)))) if pod else set()
        more = (
            f", or opt in, and create the pod again: kubectl label namespace {case.namespace} {PROFILE_LABEL}=default"
        )
        return [
            each._replace(fix=f"{each.fix}{more}")
            if each.cause == "untoleratedTaint" and not able.isdisjoint(each.nodes)
            else each
            for each in causes
        ]

    def _tried(self, cause: Cause) -> Cause:
        """The cause, with what becomes of the pod with its fix: how many nodes would take it, or what it would wait for then."""
        if cause.fixed is None:
            return cause
        case = Case(self.situation, cause.fixed)
        able = fits(case)
        if able.any():
            names = self.situation.named(able)
            if cause.cause == "untoleratedTaint" and set(names).isdisjoint(cause.nodes):
                fix = f"{cause.fix}. That is not enough: none of these nodes could take it then"
                return cause._replace(helps=0, fix=fix)
            helps = len({*names} & {*cause.nodes}) if cause.elsewhere else len(names)
            return cause._replace(helps=helps, fix=self._with_place(cause.fix, able))
        then = ordered(list(_Filtered(case).causes()))[0]
        return cause._replace(helps=0, fix=f"{cause.fix}. That is not enough: then {then.text}")

    def _with_place(self, fix: str, able: Mask) -> str:
        """The fix. If it removes a wish for nodes: with the nodes that could take the pod then, and their GPUs."""
        if not fix.startswith(("remove ", "widen ")):
            return fix
        first, comma, others = fix.partition(", or ")
        gpus = self.situation.models(able)
        return f"{first}: {self.situation.where(able)} could take it then{f' ({gpus})' if gpus else ''}{comma}{others}"


class _Filtered:
    """The nodes of a situation after the filters of the scheduler, for one pod."""

    def __init__(self, case: Case) -> None:
        self._case, self._checks = case, [check(case) for check in _CHECKS]
        self._failed = np.sum([check.fails for check in self._checks], axis=0)
        self._resources = self._checks[_CHECKS.index(resources.resources)]

    @property
    def only_full(self) -> Mask:
        """The nodes that nothing but the pods on them excludes."""
        only: Mask = self._resources.fails & (self._failed == 1)
        return only & resources.large_enough(self._case)

    def causes(self) -> Iterator[Cause]:
        """The causes that exclude nodes."""
        case, s = self._case, self._case.situation
        if not s.alive.any():
            yield Cause("noNodes", "the cluster has no node", "add a node")
            return
        own = _own(case)
        left = s.alive.copy()
        for check in self._checks:
            if (mask := left & check.fails).any():
                alone = mask & (self._failed == 1)  # in both parts: who asks for less may go to smaller nodes
                for elsewhere, part in ((False, mask & own), (True, mask & ~own)):
                    for cause in check.explain(part, alone) if part.any() else ():
                        yield cause._replace(elsewhere=elsewhere)
            elif check.fails[s.alive].all():  # no node would be left even without the earlier checks
                for cause in check.explain(check.fails, np.zeros_like(left)):
                    yield cause._replace(nodes=())
            left &= ~check.fails
        kept = [cause for cause in resources.nominated(case) if left[s.nodes.row_of[cause.nodes[0]]]]
        reserved = [*kept, *resources.preemption(case, self.only_full)]
        yield from reserved
        for cause in reserved:
            left[[s.nodes.row_of[name] for name in cause.nodes]] = False
        if left.any():
            text = f"{s.where(left)} could take it now: the scheduler has not looked since, or something else kept it from there"
            fix = "wait: it tries again when something changes, and every 5 minutes; if it stays so, look at the scheduler's log"
            if case.part is not None:
                fix = f"see the events of the pod and of its PodGroup: {KAI.own_scheduler} has queues with quotas"
            yield s.cause("fitsNow", text, fix, left, left)


def _own(case: Case) -> Mask:
    """The nodes that are for the pod: those that have GPUs if it asks for some, that its selector and affinity leave, that have
    enough of all when they are empty, that can reach its volumes and devices, and whose taints it tolerates. What would leave
    none does not count."""
    left = case.situation.alive
    for others in (
        resources.without_gpus(case),
        *nodes.unselected_by_each(case),
        ~resources.large_enough(case),
        volumes.unreachable(case).fails | claims.elsewhere(case),
        taints.kept_for_others(case),
    ):
        left = left & ~others if (left & ~others).any() else left
    return left


def causes_before_filtering(case: Case) -> list[Cause]:
    """The causes for which the scheduler looks at no node."""
    return [*prerequisites(case), *claims.missing(case), *volumes.missing(case)]


def _changed(situation: Situation, pod: Pod) -> Pod | None:
    """The pod as the webhook would change it if it were created now and its namespace had opted in; None: it would refuse it.
    No node is chosen."""
    snapshot = situation.snapshot
    (read,) = offline.documents(orjson.dumps(offline.as_submitted(pod)), pod["metadata"]["name"])
    if isinstance(read, BadInput):
        return None
    view, placer = snapshot.state.view(snapshot.taken), Placer(snapshot.state)
    try:
        _, validated, admitted = offline.ask(read.request, situation.policy, view, placer, chooses=False)
    except BadReview:
        return None
    return None if validated.message else {**pod, "spec": {**pod["spec"], **admitted["spec"]}}


def would_start(situation: Situation, pod: Pod) -> bool:
    """Whether a node could take the pod if it were created now and changed by the webhook."""
    changed = _changed(situation, pod)
    if changed is None:
        return False
    case = Case(situation, changed)
    return not causes_before_filtering(case) and bool(fits(case).any())


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
    notes = annotations_of(pod)
    shape = (
        pod["metadata"]["namespace"],
        labels_of(pod),
        {name: notes[name] for name in notes if name in ANNOTATIONS or part_key(name)},
        pod["status"].get("nominatedNodeName"),
        {name: spec[name] for name in _SHAPE if name in spec},
        {kind: (terms or {}).get(REQUIRED) for kind, terms in (spec.get("affinity") or {}).items()},
        [(each.get("resources"), each.get("ports"), each.get("restartPolicy")) for each in containers],
        volume_claims,
        pod["metadata"]["name"] if volume_claims or (spec.get("resourceClaims") and not is_simulated(pod)) else "",
    )
    return orjson.dumps(shape, option=orjson.OPT_SORT_KEYS)
