"""Finds every cause for which a pod waits, in the order in which a person would look at them."""

from collections.abc import Callable, Iterator
from math import inf
from typing import Any, Final, NamedTuple

import numpy as np
import orjson

from webhook.devices.source_kai import KAI
from webhook.devices.sources import ANNOTATIONS
from webhook.errors import BadInput
from webhook.kube.other_gpus import part_key
from webhook.kube.pod import PROFILE_LABEL, REQUIRED, SCHEDULER, Pod, annotations_of, labels_of
from webhook.kube.stores import full_name
from webhook.placement.constraints import Mask
from webhook.placement.placer import Placer
from webhook.text import bare, listed
from webhook.whatif import offline
from webhook.whatif.cluster.report import gpus_of
from webhook.whatif.cluster.snapshot import created
from webhook.whatif.commands import kubectl
from webhook.whatif.verdict import verdict
from webhook.whatif.waiting import claims, nodes, notes, peers, resources, taints, volumes
from webhook.whatif.waiting.causes import Cause, Fix, NodeCheck, ordered
from webhook.whatif.waiting.free_devices import again, is_simulated
from webhook.whatif.waiting.gangs import together
from webhook.whatif.waiting.prerequisites import prerequisites
from webhook.whatif.waiting.revisions import outdated
from webhook.whatif.waiting.scheduler_message import Reason, by_message, scheduler_message, unexplained
from webhook.whatif.waiting.situation import Case, Situation
from webhook.whatif.waiting.workloads import refusal

_CHECKS: Final[tuple[Callable[[Case], NodeCheck], ...]] = (
    *(nodes.pinned, taints.cordoned, taints.taints, nodes.selection, peers.ports, resources.resources),
    *(
        volumes.in_use,
        volumes.limits,
        volumes.unreachable,
        volumes.storage,
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


_SILENT: Final = Cause.of(
    "schedulerOther", "the scheduler has said nothing yet, and nodes and pods may not be read", "ask again in a moment"
)
_MAX_TRIED: Final = 500
"""Of so many pod signatures the fixes are tried: some seconds."""
_MAX_LOOKED: Final = 4
"""Of so many times more the nodes are looked at. Of others the scheduler's word is all that is said."""
UNLOOKED: Final = "its nodes were not looked at, as pods of many kinds wait: ask for it by its name"
UNTRIED: Final = "its fixes were not tried, as pods of many kinds wait: ask for it by its name"
_MANY: Final = Cause.of("schedulerOther", "the scheduler has said nothing yet", "ask for it by its name")
_MAX_ROOM: Final = 100
"""Of so many equal pods it is tried whether there is room for all after a fix."""
_LOOKS_AFTER: Final = 60.0
"""Seconds after which a scheduler that runs has said something about a pod."""


class Findings(NamedTuple):
    """What is known of one pod that waits."""

    causes: list[Cause]
    """In the order in which a person would look at them."""
    notes: list[str]
    """What a person asks next: see `waiting.notes`."""
    says: str = ""
    """The message of the scheduler; "" if there is none."""


class Diagnosis:
    """Finds why the pods of a situation wait. Pods of one signature are looked at once."""

    def __init__(self, situation: Situation, work: float = inf) -> None:
        """`work`: how many nodes and pods on them may be looked at to try fixes. One signature costs each of them a few times."""
        self.situation = situation
        self._known: dict[bytes, Findings] = {}
        self._uncreated = 0
        size = len(situation.alive) + sum(map(len, situation.pods_on.values()))
        self._max_tried = max(1, int(min(_MAX_TRIED, work // max(1, size))))

    def of(self, pod: Pod) -> Findings:
        message = scheduler_message(self.situation, pod)
        key = signature_of(pod)
        s, found = self.situation, self._known.get(key)
        if found is None and len(self._known) >= _MAX_LOOKED * self._max_tried:
            return Findings(by_message(s, message, []) or [_MANY], [UNLOOKED], message)
        if found is None:
            found = self._known[key] = self._look_at(pod)
        causes = found.causes
        if s.snapshot.missing.keys() & {"Node", "Pod"}:
            sure = [cause.untried() for cause in causes if cause.cause != "fitsNow"]
            causes = [*sure, *by_message(s, message, sure)] or [_SILENT]
        elif _NO_CLAIM in message:  # for an extended resource, on a node that fits
            lacks = "the scheduler could not create its ResourceClaim: "
            refused = refusal(s, pod["metadata"]["namespace"], lacks, message)
            causes = [refused, *[cause for cause in causes if cause.cause != "fitsNow"]]
        elif others := unexplained(pod, message, causes):
            causes = [*_but_for(others, causes), *[each for _, each in others]]
        elif not message and s.snapshot.taken - (created(pod) or s.snapshot.taken) > _LOOKS_AFTER:
            causes = [_unseen(pod) if cause.cause == "fitsNow" else cause for cause in causes]
        return Findings(causes, [*found.notes, *notes.autoscaler(s, pod, found.causes)], message)

    def uncreated(self, pods: list[Pod], causes: list[Cause]) -> Findings:
        """The causes for which these equal pods are not created, with the fixes tried. `pods`: [] if they are not known."""
        if not pods or self.situation.snapshot.missing.keys() & {"Node", "Pod"}:
            return Findings(causes, [])
        self._uncreated += 1
        if self._uncreated > self._max_tried:
            return Findings(causes, [UNTRIED])
        case = Case(self.situation, pods[0])
        return Findings(self.for_all(pods, [_tried(case, cause) for cause in causes]), [])

    def for_all(self, pods: list[Pod], causes: list[Cause]) -> list[Cause]:
        """The causes of the first of these equal pods. A fix that is enough for it says for how many there is room then, if not
        for all."""
        if len(pods) < 2:
            return causes
        case = Case(self.situation, pods[0])
        return [
            cause._replace(fixes=tuple([_with_room(case, fix, pods) if fix.helps else fix for fix in cause.fixes]))
            for cause in causes
        ]

    def _look_at(self, pod: Pod) -> Findings:
        case = Case(self.situation, pod)
        blind, tried = "Node" in self.situation.snapshot.missing, len(self._known) < self._max_tried
        old = [*outdated(case)]
        if first := causes_before_filtering(case):
            causes = [*old, *first]
            return Findings(ordered([_tried(case, cause) if tried and not blind else cause for cause in causes]), [])
        if blind:
            return Findings(old, [])
        filtered = Filtered(case)
        causes = [*old, *_offered(case, [*filtered.causes()])]
        causes = ordered([_tried(case, cause) for cause in causes] if tried else causes)
        causes.sort(key=lambda cause: cause.cause != "fitsNow")  # then nothing has to be changed: it comes first
        full = filtered.only_full
        more = [
            *notes.unhealthy(case, full),
            *notes.preemption(case, full),
            *notes.ending(case, full),
            *notes.limit_range(pod, causes),
            *([] if tried else [UNTRIED]),
        ]
        return Findings(causes, [*notes.ahead(case), *notes.label_of_kueue(case), *notes.half_groups(case), *more])


def _but_for(others: list[tuple[Reason, Cause]], causes: list[Cause]) -> list[Cause]:
    """The causes where the scheduler rules out nodes by reasons that no filter here knows. It does not say which nodes: a fix is
    enough only if it leaves more than these, and none of so few is called fit."""
    if any(not reason.nodes for reason, _ in others):
        return [cause.untried() for cause in causes if cause.cause != "fitsNow"]
    out = sum([reason.nodes for reason, _ in others])
    unknown = sum([reason.nodes for reason, _ in others if reason.is_unknown])
    return [cause.untried(out) for cause in causes if cause.cause != "fitsNow" or len(cause.nodes) > unknown]


def _unseen(pod: Pod) -> Cause:
    name = bare(str(pod["spec"].get("schedulerName") or SCHEDULER))
    text = f"a node could take it, and scheduler {name} has said nothing about it since it was created"
    return Cause.of("schedulerOther", text, f"see whether {name} runs, and what its log says")


def _offered(case: Case, causes: list[Cause]) -> list[Cause]:
    """The causes. For a taint that opting in would let the pod tolerate, that is a fix too."""
    s = case.situation
    tainted = any(cause.cause == "untoleratedTaint" for cause in causes)
    if not tainted or offline.opted_in(case.namespace, s.snapshot.state.view(s.snapshot.taken)):
        return causes
    pod, refused = becomes(s, case.pod, everywhere=True)
    able = set() if refused else {*s.named(Filtered(Case(s, pod)).able)}
    label = kubectl("label", "namespace", case.namespace, f"{PROFILE_LABEL}=default")
    more = Fix("opt in, and create the pod again", label)
    return [
        each._replace(fixes=(*each.fixes, more))
        if each.cause == "untoleratedTaint" and not able.isdisjoint(each.nodes)
        else each
        for each in causes
    ]


def _tried(case: Case, cause: Cause) -> Cause:
    """The cause with the first of its fixes that is enough alone before the others: the pod was tried with it, through injectors,
    rules and filters. If none is: with what the pod would wait for after the first."""
    then, fixes = "", cause.fixes if cause.alone or not cause.elsewhere else ()
    for at, fix in enumerate(fixes):
        if fix.pod is None and not fix.ends:
            continue
        able, why, goes = _with(case, fix, why=at == 0)
        names = {*case.situation.named(able)} & ({fix.on} if fix.on else {*case.situation.names})
        helps = names & {*cause.nodes} if cause.elsewhere or cause.cause == "untoleratedTaint" else names
        if helps:
            first = fix._replace(words=_with_place(case, cause, fix, able) + goes, helps=len(helps))
            return cause._replace(fixes=(first, *cause.fixes[:at], *cause.fixes[at + 1 :]))
        if at == 0:
            then = why or "none of these nodes could take it"
    return cause._replace(then=then or cause.then)


def _with(case: Case, fix: Fix, *, why: bool) -> tuple[Mask, str, str]:
    """The nodes that would take the pod with a fix; with `why`, if there are none, what it would wait for; and whom it would
    preempt there."""
    nobody, (changed, refused) = np.zeros_like(case.situation.alive), _changed(case, fix)
    if refused:
        return nobody, f"the pod is refused: {refused}", ""
    if first := causes_before_filtering(changed):
        return nobody, first[0].text, ""
    filtered = Filtered(changed)
    if (able := filtered.able).any():
        few = next(together(changed, able), None)
        return (nobody, few.text, "") if few else (able, "", "")
    if not fix.ends and (found := notes.victims(changed, filtered.only_full)) is not None:
        able[found.row] = True
        return able, "", f"; it preempts {listed(map(full_name, found.pods), 3)} then"
    return able, ordered([*filtered.causes()])[0].text if why else "", ""


def _changed(case: Case, fix: Fix) -> tuple[Case, str]:
    """The pod and the cluster with a fix; and why the pod would be refused then."""
    s, pod, refused = case.situation, fix.pod or case.pod, ""
    if fix.pod is not None and not fix.on:
        pod, refused = becomes(s, fix.pod)
    return Case(s.without(fix.ends) if fix.ends else s, pod), refused


def _with_room(case: Case, fix: Fix, pods: list[Pod]) -> Fix:
    """The fix with the number of these pods that would start with it, if they are not all of them."""
    if fix.pod is None and not fix.ends:
        return fix
    changed, _ = _changed(case, fix)
    s, room, most = changed.situation.without(()), 0, min(len(pods), _MAX_ROOM)
    while room < most:
        one = Case(s, {**changed.pod, "metadata": {**changed.pod["metadata"], **_named(pods[room])}})
        rows = [row for row in np.flatnonzero(Filtered(one).able).tolist() if fix.on in ("", s.names[row])]
        if not rows:
            break
        s.bind(one, rows[0])
        room += 1
    if room in (0, len(pods)):  # 0: it preempts others
        return fix
    least = "at least " if room == _MAX_ROOM else ""
    return fix._replace(words=f"{fix.words}; room for {least}{room} of the {len(pods)} pods")


def _named(pod: Pod) -> dict[str, Any]:
    return {key: pod["metadata"][key] for key in ("name", "uid") if key in pod["metadata"]}


def _with_place(case: Case, cause: Cause, fix: Fix, able: Mask) -> str:
    """The words of a fix; of one that changes what nodes are wished for with the nodes that could take the pod then, and their
    GPUs; of another one that these are parts of GPUs, if others are whole."""
    if cause.cause not in ("nodeSelector", "nodeAffinity"):
        s, names = case.situation, gpus_of(case.pod, case.situation.policy)
        said = [f"{parts} there" for name in names if (parts := s.parts(able, name)) and not s.parts(s.alive, name)]
        return "; ".join([fix.words, *said])
    gpus = case.situation.models(able)
    return f"{fix.words}: {case.situation.where(able)} could take it then{f' ({gpus})' if gpus else ''}"


class Filtered:
    """The nodes of a situation after the filters of the scheduler, for one pod. `able`: those to which it could bind it now."""

    def __init__(self, case: Case) -> None:
        self._case, self._checks, row_of = case, [check(case) for check in _CHECKS], case.situation.nodes.row_of
        self._failed = np.sum([check.fails for check in self._checks], axis=0)
        self._resources = self._checks[_CHECKS.index(resources.resources)]
        self.able: Mask = case.nodes & (self._failed == 0)
        kept = resources.nominated(case) if self.able.any() else ()
        self._kept = [cause for cause in kept if self.able[row_of[cause.nodes[0]]]]
        self.able[[row_of[cause.nodes[0]] for cause in self._kept]] = False

    @property
    def only_full(self) -> Mask:
        """The nodes that nothing but the pods on them excludes."""
        only: Mask = self._resources.fails & (self._failed == 1)
        return only & resources.large_enough(self._case)

    def causes(self) -> Iterator[Cause]:
        """The causes that exclude nodes."""
        case, s = self._case, self._case.situation
        if not s.alive.any():
            yield Cause.of("noNodes", "the cluster has no node", "add a node")
            return
        own = _own(case)
        left = case.nodes.copy()
        for check in self._checks:
            if (mask := left & check.fails).any():
                alone = mask & (self._failed == 1)  # in both parts: who asks for less may go to smaller nodes
                for elsewhere, part in ((False, mask & own), (True, mask & ~own)):
                    for cause in check.explain(part, alone) if part.any() else ():
                        yield cause._replace(elsewhere=elsewhere)
            elif check.fails[case.nodes].all():  # no node would be left even without the earlier checks
                for cause in check.explain(check.fails, np.zeros_like(left)):
                    yield cause._replace(nodes=())
            left &= ~check.fails
        yield from (*self._kept, *resources.preemption(case, self.only_full))
        if (left := self.able).any() and (few := [*together(case, left)]):
            yield from few
        elif left.any():
            text = f"{s.where(left)} could take it now: the scheduler has not looked since, or something else kept it from there"
            fix = "wait: it tries again when something changes, and every 5 minutes; if it stays so, look at the scheduler's log"
            if case.part is not None:
                fix = f"see the events of the pod and of its PodGroup: {KAI.own_scheduler} has queues with quotas"
            yield s.cause("fitsNow", text, left, left, Fix(fix, helps=int(np.count_nonzero(left))))


def _own(case: Case) -> Mask:
    """The nodes that are for the pod: those that have GPUs if it asks for some, that its selector and affinity leave, that have
    enough of all when they are empty, that can reach its volumes and devices, and whose taints it tolerates. What would leave
    none does not count."""
    left = case.nodes
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


def becomes(situation: Situation, pod: Pod, *, everywhere: bool = False) -> tuple[Pod, str]:
    """The pod as it would be stored if it were created now, and why it would be refused; "" if it would not be. `everywhere`: if
    its namespace had opted in. No node is chosen."""
    snapshot = situation.snapshot
    (read,) = offline.documents(orjson.dumps(offline.as_submitted(pod)), pod["metadata"].get("name", "pod"))
    if isinstance(read, BadInput):
        return pod, str(read)
    view, placer = snapshot.state.view(snapshot.taken), Placer(snapshot.state)
    try:
        found = verdict(read, situation.policy, view, placer, chooses=False, everywhere=everywhere)
    except BadInput as error:
        return pod, str(error)
    if found.outcome == "refused":
        return pod, found.message
    of_class = {name: pod["spec"][name] for name in ("priority", "preemptionPolicy") if name in pod["spec"]}
    metadata = {**pod["metadata"], "annotations": annotations_of(found.decided)}
    return again({**pod, "metadata": metadata, "spec": {**of_class, **found.decided["spec"]}}), ""


def would_start(situation: Situation, pod: Pod) -> bool:
    """Whether a node could take the pod if it were created now and changed by the webhook."""
    changed, refused = becomes(situation, pod, everywhere=True)
    case = Case(situation, changed)
    return not refused and not causes_before_filtering(case) and bool(Filtered(case).able.any())


def signature_of(pod: Pod) -> bytes:
    """All of a pod that its causes depend on. Preferences are left out: they exclude no node, and differ from pod to pod."""
    spec = pod["spec"]
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    volume_claims = [v for v in spec.get("volumes") or () if "persistentVolumeClaim" in v or "ephemeral" in v]
    notes = annotations_of(pod)
    signature = (
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
    return orjson.dumps(signature, option=orjson.OPT_SORT_KEYS)
