"""Explains which nodes have too little free of a resource: GPUs, CPU, memory, storage, number of pods and any other.

k8s.io/kubernetes pkg/scheduler/framework/plugins/noderesources/fit.go.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np

from webhook.devices.source_kai import KAI
from webhook.kube.gpus import vendor
from webhook.kube.less import less, who_asks
from webhook.kube.pod import Pod, controller_reference, priority_of
from webhook.kube.pod_requests import counted_requests
from webhook.kube.schedulers import queueing
from webhook.kube.stores import full_name
from webhook.nodes.usage import is_unschedulable, nominated_priority
from webhook.placement.constraints import Mask
from webhook.placement.feasible import BY_DRA, NO_GPU
from webhook.text import amount_number, bare, listed
from webhook.whatif.cluster.report import gpus_of
from webhook.whatif.commands import kubectl
from webhook.whatif.waiting.causes import ROLLOUT, Cause, Fix, NodeCheck
from webhook.whatif.waiting.revisions import revision_of
from webhook.whatif.waiting.situation import Case, Situation, failing
from webhook.whatif.waiting.unoffered import unknown, without

_CAUSE_OF: Final = {
    "cpu": "insufficientCpu",
    "memory": "insufficientMemory",
    "ephemeral-storage": "insufficientEphemeralStorage",
    "pods": "tooManyPods",
}
_MAX_NODES, _MAX_WAITS = 50, 3
"""Maximum number of nodes on which a workload is looked for whose end would make room: those with most free."""


def resources(case: Case) -> NodeCheck:
    """Nodes with too little free of a resource that the pod requests."""
    s = case.situation
    checks = [*case.judgement.resources(s.nodes, s.rows, s.policy.gpus, s.free)]
    amounts = {check.about: ~check.passes for check in checks if check.word not in (NO_GPU, BY_DRA)}

    def explain(mask: Mask, alone: Mask) -> Iterator[Cause]:
        nowhere = [
            name
            for name, _ in amounts
            if name not in {*_CAUSE_OF, *case.wants.extended}
            and (name not in s.capacity or not s.capacity[name][s.alive].any())
        ]
        for name in nowhere:
            yield from unknown(case, name, mask, alone)
        for (name, amount), short in amounts.items():
            if name not in nowhere and (off := mask & short).any():
                others = [each for (other, _), each in amounts.items() if other != name]
                others_short = np.any([np.zeros_like(mask), *others], axis=0)
                yield from _short(case, name, amount, off, short & alone & ~others_short)

    return NodeCheck(failing(s, checks), explain)


def without_gpus(case: Case) -> Mask:
    """Nodes without any GPU or device, if the pod asks for GPUs or claims devices; where some offer GPUs of a vendor that it asks
    for, also those that offer others only."""
    s, vendors = case.situation, {*map(vendor, gpus_of(case.pod, case.situation.policy))}
    if not (vendors or case.wants.claims):
        return np.zeros_like(s.alive)
    by_label = np.array([gpus is None for gpus in s.gpus_at], bool)
    without: Mask = ~(s.nodes.with_gpus(s.policy.gpus) | s.devices.published | by_label)
    offered = [{*map(vendor, gpus or ())} for gpus in s.gpus_at]
    if any(map(vendors.intersection, offered)):
        without |= np.array([bool(there) and vendors.isdisjoint(there) for there in offered], bool)
    return without


def large_enough(case: Case) -> Mask:
    """Nodes that could take the pod if they were empty."""
    s = case.situation
    large = case.judgement.room(s.nodes, s.rows, s.capacity)
    if case.part is None:
        return large
    whole: Mask = s.capacity.get(KAI.whole, np.zeros_like(s.alive)) >= case.part.requests[0][0].devices
    return large & whole


def _short(case: Case, name: str, amount: int, off: Mask, alone: Mask) -> Iterator[Cause]:
    """The causes for the nodes `off` that are short of one resource. `alone`: nodes, others too, that nothing else excludes."""
    s, able, alone = case.situation, alone, alone & off
    capacity = s.capacity[name]
    gpu = s.policy.gpus.kind(name) is not None
    if gpu and (none := off & (capacity == 0)).any():
        yield from without(case, name, none, alone & none)
        off, alone = off & ~none, alone & ~none
    (who, parts), asked = who_asks(case.pod, name), amount_number(name, amount)
    wanted = f"{who}asks for {asked} {bare(name)}" if who else f"{asked} {bare(name)} asked for{parts}"
    if (large := off & (capacity >= amount)).any():
        yield _taken(case, name, amount, large, able, wanted if who or parts else "")
    if not (small := off & (capacity < amount)).any():
        return
    largest, now = int(capacity[small].max()), _most_free(case, name, alone & small)
    when_empty = largest if 0 < now < largest else 0
    fewer = _less(case, name, now or largest, " at most", ", in more pods" if gpu else "", when_empty)
    if gpu and (lost := small & (s.nodes.columns.installed[name][: len(small)] >= amount)).any():
        there, has = int(capacity[lost].max()), int(s.nodes.columns.installed[name][np.flatnonzero(lost)[0]])
        text = f"{s.where(lost)}: {there} of {has} {bare(name)} are allocatable, {amount} asked for"
        yield s.cause("nodesTooSmall", text, lost, alone, *_withdrawn(case, name, lost), *fewer)
        small &= ~lost
    if not small.any():
        return
    if not (s.alive & (capacity >= amount)).any():
        most = amount_number(name, int(capacity[s.alive].max()))
        text = f"{who}asks for {asked} {bare(name)}{parts}, and no node has more than {most}"
        yield s.cause("moreThanAnyNode", text, small, alone, *fewer, "add larger nodes")
    else:
        empty = amount_number(name, largest)
        text = f"{s.where(small)}: too small: {wanted}, {empty} there when empty"
        yield s.cause("nodesTooSmall", text, small, alone, *fewer, "let the pod go to larger nodes")


def _withdrawn(case: Case, name: str, rows: Mask) -> list[Fix]:
    """To find out why the first of these nodes has GPUs of a resource that are not allocatable; [] without such a node."""
    s, columns = case.situation, case.situation.nodes.columns
    lost = np.where(rows, columns.installed[name][: len(rows)] - s.capacity[name], 0)
    if not lost.any():
        return []
    first = int(np.flatnonzero(lost)[0])
    text = (
        f"{lost[first]} of {columns.installed[name][first]} {bare(name)} are not allocatable on node {s.names[first]}"
    )
    why = f"see why {text}: a GPU is sick, or the device plugin has not found it"
    return [Fix(why, kubectl("describe", "node", s.names[first]))]


def _less(case: Case, name: str, most: int, limit: str = "", more: str = "", empty: int = 0) -> list[Fix]:
    """«ask for 96 cpu in container "main"», with which the pod asks for `most` in all; [] if it cannot. `empty`: what there is
    without other pods."""
    if (found := less(case.pod, name, most)) is None:
        return []
    text, rest = amount_number(name, found.amount), less(case.pod, name, empty) if empty else None
    instead = "" if limit else f" in place of {amount_number(name, found.before)}"
    unit = "" if instead and case.situation.policy.gpus.kind(name) is not None else f" {bare(name)}"
    later = f" ({amount_number(name, rest.amount)} when nothing else runs there)" if rest is not None else ""
    return [Fix(f"ask for {text}{unit}{instead}{limit}{found.where}{more}{later}", pod=found.change(text))]


def _taken(case: Case, name: str, amount: int, off: Mask, able: Mask, asks: str) -> Cause:
    """The cause for nodes `off` that are large enough for the pod, but have too little free. `able`: nodes, smaller ones too,
    that nothing else excludes. `asks`: which container asks for how much, if that is not plain."""
    s, alone, unit = case.situation, able & off, bare(name)
    if name == "pods":
        text = f"{s.where(off)}: full: {int(s.capacity[name][off].max())} pods at most, says the kubelet"
        return s.cause(
            "tooManyPods", text, off, alone, "remove pods from them", "raise the kubelet's maxPods", "add nodes"
        )
    free, here = np.maximum(s.free[name], 0), alone if alone.any() else off  # what is done elsewhere is not enough
    best, most = _most_free(case, name, able), int(free[off].max())
    where = f" (free on {s.where(able & (free == best))})" if best > most else ""
    held, waits = _waits(case, name, amount, here)
    if s.policy.gpus.kind(name) is None:
        asks = asks or f"{amount_number(name, amount)} asked for"
        text = f"{s.where(off)}: short of {unit}: {asks}, at most {amount_number(name, most)} free{held}"
        fixes = [*_less(case, name, best, more=where), *waits] or [Fix(f"free {unit} there")]
        return s.cause(_CAUSE_OF.get(name, "insufficientResource"), text, off, alone, *fixes)
    total = int(free[off].sum())
    back = _withdrawn(
        case, name, here & (free + s.nodes.columns.installed[name][: len(off)] - s.capacity[name] >= amount)
    )
    one = f" in all, at most {most} on one" if most < total else ""
    amounts = f"{asks or f'{amount} {unit} asked for'}; free on {s.where(off)}: {total}{one}{held}"
    if total >= amount:
        each = less(case.pod, name, best)
        fixes = [Fix(f"ask for {each.amount} in each of more pods", pod=each.change(str(each.amount)))] if each else []
        fixes = [*fixes, Fix("let one node be emptied"), *waits, *back]
        return s.cause("gpusFragmented", f"GPUs are free, but on several nodes: {amounts}", off, alone, *fixes)
    more = () if case.daemon and waits else (Fix("add a node"),)
    fixes = [*_less(case, name, best, more=where), *waits, *back, *more]
    return s.cause("gpusTaken", f"all GPUs are taken: {amounts}", off, alone, *fixes)


def _most_free(case: Case, name: str, rows: Mask) -> int:
    """The most that a pod which asks for less of this resource could have now on one of these nodes."""
    return max(0, int(case.situation.free[name][rows].max(initial=0)))


def _waits(case: Case, name: str, amount: int, off: Mask) -> tuple[str, list[Fix]]:
    """«wait for job/x (8 GPUs on node y) to end»: the workloads any of whose ends makes room, those that end by themselves first,
    then the smallest. For the end of its own workload nobody waits: the text says that it has them."""
    s, own = case.situation, case.situation.names_of.top(case.pod)
    rows = np.flatnonzero(off)
    most_free = rows[np.argsort(-s.free[name][rows], kind="stable")][:_MAX_NODES]
    candidates = [
        (not of.startswith("job/") and _serves(pods), used, of, s.names[row], pods)
        for row in most_free.tolist()
        for of, (pods, used) in s.users(row, name).items()
        if int(s.free[name][row]) + used >= amount
    ]
    others = sorted([each for each in candidates if each[2] != own], key=lambda each: each[:4])
    if others or not candidates:
        return "", [
            Fix(
                f"let {bare(of)} ({has}) be scaled down: it does not end by itself"
                if serves
                else f"wait for {bare(of)} ({has}) to end",
                ends=tuple(pods),
            )
            for serves, used, of, on, pods in others[:_MAX_WAITS]
            for has in [f"{amount_number(name, used)} {bare(name)} on {on}"]
        ]
    siblings = [pod for row in rows.tolist() for pod in s.pods_on.get(s.names[row], ()) if s.names_of.top(pod) == own]
    has = amount_number(name, sum([counted_requests(pod).amount(name) for pod in siblings]))
    older = any(revision_of(pod) not in ("", revision_of(case.pod)) for pod in siblings)
    return f"; its own workload, {bare(own)}, has {has} of them", [ROLLOUT] if older else []


def _serves(pods: Iterable[Pod]) -> bool:
    """Whether a controller runs these pods for ever."""
    return any(controller_reference(pod) and pod["spec"].get("restartPolicy", "Always") == "Always" for pod in pods)


def preemption(case: Case, only_full: Mask) -> Iterator[Cause]:
    """Nodes on which preemption would make room, but the pod's priority class never preempts. `only_full`: nodes that nothing
    but the lack of resources excludes."""
    s, spec = case.situation, case.pod["spec"]
    if (
        queueing(case.pod)
        or spec.get("preemptionPolicy") != "Never"
        or not gpus_of(case.pod, s.policy)
        or not only_full.any()
    ):
        return
    rows = np.zeros_like(only_full)
    rows[[row for row, _ in victims(case, only_full)]] = True
    if rows.any():
        class_name = bare(spec.get("priorityClassName") or "(none)")
        text = f"pods of lower priority hold enough on {s.where(rows)}, but priority class {class_name} never preempts"
        fix = "use a priority class with preemptionPolicy PreemptLowerPriority: it evicts those pods"
        yield s.cause("preemptionNever", text, rows, rows, fix, "wait")


def victims(case: Case, only_full: Mask) -> Iterator[tuple[int, list[Pod]]]:
    """The rows of the nodes on which preemption makes room, and whom it would evict there. `only_full`: see `preemption`."""
    for row in np.flatnonzero(only_full & (case.situation.lowest < priority_of(case.pod))).tolist():
        if found := _victims(case, row):
            yield row, found


def _victims(case: Case, row: int) -> list[Pod]:
    """The fewest pods of lower priority on a node whose end makes room for the pod; [] if all of them are too few. Those whose
    PodDisruptionBudget would be violated stay first (defaultpreemption, SelectVictimsOnNode)."""
    s, own, requests = case.situation, priority_of(case.pod), case.judgement.pod_requests.requests
    here = [pod for pod in s.pods_on.get(s.names[row], ()) if priority_of(pod) < own]
    lower = [(pod, counted_requests(pod)) for pod in here]
    room = {name: (int(s.free[name][row]) if name in s.free else 0) - amount for name, amount in requests}
    for _, holds in lower:
        for name in room:
            room[name] += holds.amount(name)
    if any(amount < 0 for amount in room.values()):
        return []
    found = []
    for pod, holds in sorted(lower, key=lambda of: (bool(s.budgets.spent(of[0])), priority_of(of[0])), reverse=True):
        if any(room[name] < holds.amount(name) for name in room):
            found.append(pod)
            continue
        for name in room:
            room[name] -= holds.amount(name)
    return found


def costs(s: Situation, victims: Sequence[Pod]) -> tuple[int, int, int, int]:
    """What the scheduler compares of two nodes: violated budgets, the highest priority, the sum, the number of victims
    (preemption, pickOneNodeForPreemption)."""
    priorities = [priority_of(pod) for pod in victims]
    return sum(bool(s.budgets.spent(pod)) for pod in victims), max(priorities), sum(priorities), len(victims)


def nominated(case: Case) -> Iterator[Cause]:
    """Nodes with room that the scheduler keeps for pods that preempted others."""
    s = case.situation
    if not (kept := s.snapshot.state.nominations.kept_from(case.pod)):
        return
    free = {name: amounts.copy() for name, amounts in s.free.items()}
    for row, kind in kept:
        for name, amount in kind.pod_requests.requests:
            if name in free:
                free[name][row] -= amount
    room = (case.judgement.room(s.nodes, s.rows, amounts) for amounts in (s.free, free))
    for row in np.flatnonzero(s.alive & next(room) & ~next(room)).tolist():
        others = [other for at, other in s.nominated if at == row and other is not case.pod]
        others = [other for other in others if nominated_priority(other) >= priority_of(case.pod)]
        who, waits = listed(map(full_name, others)), any(map(is_unschedulable, others))
        why = "it preempted others there" if waits else "it is being bound there"
        text = f"node {s.names[row]} has room, which the scheduler keeps for pod {who}: {why}"
        yield Cause.of("nominated", text, f"wait until {who} is bound", "add a node", nodes=(s.names[row],), alone=1)
