"""Explains which nodes have too little free of a resource: GPUs, CPU, memory, storage, number of pods and any other.

k8s.io/kubernetes pkg/scheduler/framework/plugins/noderesources/fit.go.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from webhook.devices.source_kai import KAI
from webhook.kube.pod import Pod, labels_of, priority_of
from webhook.kube.pod_requests import counted_demand
from webhook.kube.quantity import parse_quantity
from webhook.placement.constraints import Mask
from webhook.placement.feasible import BY_DRA, NO_GPU
from webhook.text import amount_number, bare, listed, quoted
from webhook.whatif.cluster.report import gpus_of
from webhook.whatif.cluster.snapshot import full_name
from webhook.whatif.waiting.causes import Cause, NodeCheck
from webhook.whatif.waiting.situation import Case, Situation, failing
from webhook.whatif.waiting.unoffered import unknown, without

_CAUSE_OF: Final = {
    "cpu": "insufficientCpu",
    "memory": "insufficientMemory",
    "ephemeral-storage": "insufficientEphemeralStorage",
    "pods": "tooManyPods",
}
_OWN: Final = ("let the old ones go first", "run fewer replicas")
"""What to do where the pod's own workload has what it lacks: nobody waits for that to end."""
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
    """Nodes without any GPU or device, if the pod asks for GPUs or claims devices."""
    s = case.situation
    if not (gpus_of(case.pod, s.policy) or case.wants.claims):
        return np.zeros_like(s.alive)
    by_label = np.array([gpus is None for gpus in s.gpus_at], bool)
    without: Mask = ~(s.nodes.with_gpus(s.policy.gpus) | s.devices.told | by_label)
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
    asked, who = amount_number(name, amount), _asks_most(case.pod, name)
    if (large := off & (capacity >= amount)).any():
        yield _taken(case, name, amount, large, able, f"{who}asks for {asked} {bare(name)}" if who else "")
    if (small := off & (capacity < amount)).any():
        largest, now = int(capacity[small].max()), _most_free(case, name, alone & small)
        alone = alone & (s.free[name] >= max(now, 1))
        ask = _smaller(case, name, amount, now, largest) + (", in more pods" if gpu else "")
        if now != largest:
            ask += (
                f" ({amount_number(name, largest)} when nothing else runs there)"
                if now
                else ", and wait until so much is free"
            )
        if gpu and (lost := small & (s.nodes.columns.installed[name][: len(small)] >= amount)).any():
            yield from _not_allocatable(case, name, amount, lost, alone)
            small &= ~lost
        if not small.any():
            return
        if not (s.alive & (capacity >= amount)).any():
            most = amount_number(name, int(capacity[s.alive].max()))
            text = f"{who}asks for {asked} {bare(name)}, and no node has more than {most}"
            yield s.cause("moreThanAnyNode", text, f"{ask}, or add larger nodes", small, alone)
        else:
            text = f"{s.where(small)}: too small: {asked} {bare(name)} asked for, {amount_number(name, largest)} there when empty"
            fix = f"{ask}, or let the pod go to larger nodes"
            yield s.cause("nodesTooSmall", text, fix, small, alone)


def _smaller(case: Case, name: str, amount: int, now: int, largest: int) -> str:
    """«ask for 96 cpu at most»."""
    where, stays = _beside(case.pod, name, amount)
    if (most := (now or largest) - stays) <= 0:
        return f"ask for less {bare(name)}"
    return f"ask for {amount_number(name, most)} {bare(name)} at most{where}"


def _beside(pod: Pod, name: str, amount: int) -> tuple[str, int]:
    """Where the pod asks for most of a resource (« in container "main"», "" if that is plain), and how much of `amount` it needs
    beside that: for its other containers, its sidecars and its runtime class."""
    spec = pod["spec"]
    extra = int(parse_quantity(str((spec.get("overhead") or {}).get(name, "0"))) * (1000 if name == "cpu" else 1))
    if any(name in (stated or {}) for stated in (spec.get("resources") or {}).values()):
        return " in spec.resources", extra
    if _asks_most(pod, name):
        return "", extra
    most = max(spec["containers"], key=lambda container: _amount(container, name))
    stays = amount - _amount(most, name)
    return f" in container {quoted(most.get('name'))}" if stays > extra else "", stays


def _not_allocatable(case: Case, name: str, amount: int, rows: Mask, alone: Mask) -> Iterator[Cause]:
    """The cause for nodes that would be large enough if all of their GPUs were allocatable."""
    s = case.situation
    first = int(np.flatnonzero(rows)[0])
    there, has = int(s.capacity[name][rows].max()), int(s.nodes.columns.installed[name][first])
    text = f"{s.where(rows)}: {there} of {has} {bare(name)} are allocatable, {amount} asked for"
    why = "a GPU is sick, or the device plugin has not found it"
    fix = f"see why: kubectl describe node {s.names[first]} ({why}), or ask for {there}"
    yield s.cause("nodesTooSmall", text, fix, rows, alone)


def _asks_most(pod: Pod, name: str) -> str:
    """«init container "x" »: the one that alone asks for as much as the pod needs, where the containers ask for less; else ""."""
    own = sum(_amount(container, name) for container in pod["spec"].get("containers") or ())
    most = max(pod["spec"].get("initContainers") or (), key=lambda container: _amount(container, name), default=None)
    return f"init container {quoted(most.get('name'))} " if most is not None and _amount(most, name) > own else ""


def _amount(container: Mapping[str, Any], name: str) -> int:
    return counted_demand({"metadata": {}, "spec": {"containers": [container]}}).amount(name)


def _taken(case: Case, name: str, amount: int, off: Mask, able: Mask, asks: str) -> Cause:
    """The cause for nodes `off` that are large enough for the pod, but have too little free. `able`: nodes, smaller ones too,
    that nothing else excludes. `asks`: which container asks for how much, if that is not plain."""
    s = case.situation
    alone = able & off
    gpu = s.policy.gpus.kind(name) is not None
    if name == "pods":
        text = f"{s.where(off)}: full: {int(s.capacity[name][off].max())} pods at most, says the kubelet"
        fix = "remove pods from them, raise the kubelet's maxPods, or add nodes"
        return s.cause("tooManyPods", text, fix, off, alone)
    free, asked = np.maximum(s.free[name], 0), amount_number(name, amount)
    here = alone if alone.any() else off  # what is done elsewhere is not enough
    where, stays = _beside(case.pod, name, amount)
    best, instead = max(0, _most_free(case, name, able) - stays), amount_number(name, amount - stays)
    most, wait = int(free[off].max()), _wait(case, name, amount, here)
    where += f" (free on {s.where(able & (free == best + stays))})" if best + stays > most else ""
    or_wait = f", or {wait}" if wait else ""
    if not gpu:
        unit = bare(name)
        text = (
            f"{s.where(off)}: short of {unit}: {asks or f'{asked} asked for'}, at most {amount_number(name, most)} free"
        )
        ask = (
            f"ask for {amount_number(name, best)} {unit} in place of {instead}{where}" if best else f"free {unit} there"
        )
        return s.cause(_CAUSE_OF.get(name, "insufficientResource"), text, f"{ask}{or_wait}", off, alone)
    total = int(free[off].sum())
    asks = asks or f"{asked} {bare(name)} asked for"
    amounts = f"{asks}; free on {s.where(off)}: {total} in all, at most {most} on one"
    if total >= amount:
        fix = f"ask for {best} in each of more pods, or let one node be emptied" if best else "let one node be emptied"
        return s.cause("gpusFragmented", f"GPUs are free but apart: {amounts}", f"{fix}{or_wait}", off, alone)
    ask = f"ask for {best} in place of {instead}{where}, or " if best else ""
    if wait.startswith(_OWN) and not best:
        alone = np.zeros_like(alone)  # what becomes of its own workload then was not tried
    fix = f"{ask}{wait or 'wait until pods there end'}, or add a node"
    return s.cause("gpusTaken", f"all GPUs are taken: {amounts}", fix, off, alone)


def _most_free(case: Case, name: str, rows: Mask) -> int:
    """The most that a pod which asks for less of this resource could have now on one of these nodes."""
    return max(0, int(case.situation.free[name][rows].max(initial=0)))


def _wait(case: Case, name: str, amount: int, off: Mask) -> str:
    """«wait for job/x (8 GPUs on node y) to end»: the workloads any of whose ends makes room, Jobs first, then the smallest; else
    ""."""
    s, own = case.situation, case.situation.names_of.top(case.pod)
    rows = np.flatnonzero(off)
    most_free = rows[np.argsort(-s.free[name][rows], kind="stable")][:_MAX_NODES]
    candidates = [
        (
            not of.startswith("job/"),
            used,
            f"{bare(of)} ({amount_number(name, used)} {bare(name)} on {s.names[row]})",
            of,
        )
        for row in most_free.tolist()
        for of, used in s.usage(row, name).items()
        if used and int(s.free[name][row]) + used >= amount
    ]
    others = sorted(each[:3] for each in candidates if each[3] != own)
    if others:
        return f"wait for {' or '.join([text for *_, text in others[:_MAX_WAITS]])} to end"
    if not candidates:
        return ""
    held = min(candidates)[2]
    siblings = [pod for row in rows.tolist() for pod in s.pods_on.get(s.names[row], ()) if s.names_of.top(pod) == own]
    if any(_revision(pod) != _revision(case.pod) for pod in siblings):
        return f"{_OWN[0]} (strategy Recreate or maxSurge 0), or run fewer replicas: {held}"
    return f"{_OWN[1]}: its own workload has them, {held}"


def _revision(pod: Pod) -> str:
    return labels_of(pod).get("pod-template-hash") or labels_of(pod).get("controller-revision-hash") or ""


def preemption(case: Case, only_full: Mask) -> Iterator[Cause]:
    """Nodes on which preemption would make room, but the pod's priority class never preempts. `only_full`: nodes that nothing
    but the lack of resources excludes."""
    s, spec = case.situation, case.pod["spec"]
    if spec.get("preemptionPolicy") != "Never" or not gpus_of(case.pod, s.policy) or not only_full.any():
        return
    rows = np.zeros_like(only_full)
    rows[[row for row in np.flatnonzero(only_full).tolist() if victims(case, row)]] = True
    if rows.any():
        class_name = bare(spec.get("priorityClassName") or "(none)")
        text = f"pods of lower priority hold enough on {s.where(rows)}, but priority class {class_name} never preempts"
        fix = "use a priority class with preemptionPolicy PreemptLowerPriority (it evicts those pods), or wait"
        yield s.cause("preemptionNever", text, fix, rows, rows)


def victims(case: Case, row: int) -> list[Pod]:
    """The fewest pods of lower priority on a node whose end makes room for the pod; [] if all of them are too few. Those whose
    PodDisruptionBudget would be violated stay first (defaultpreemption, SelectVictimsOnNode)."""
    s, own, requests = case.situation, priority_of(case.pod), case.judgement.demand.requests
    lower = [pod for pod in s.pods_on.get(s.names[row], ()) if priority_of(pod) < own]
    room = {name: (int(s.free[name][row]) if name in s.free else 0) - amount for name, amount in requests}
    for pod in lower:
        for name in room:
            room[name] += counted_demand(pod).amount(name)
    found = []
    for pod in sorted(lower, key=lambda pod: (bool(s.budgets.spent(pod)), priority_of(pod)), reverse=True):
        demand = counted_demand(pod)
        if any(room[name] < demand.amount(name) for name in room):
            found.append(pod)
            continue
        for name in room:
            room[name] -= demand.amount(name)
    return found if all(amount >= 0 for amount in room.values()) else []


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
        for name, amount in kind.demand.requests:
            if name in free:
                free[name][row] -= amount
    room = (case.judgement.room(s.nodes, s.rows, amounts) for amounts in (s.free, free))
    for row in np.flatnonzero(s.alive & next(room) & ~next(room)).tolist():
        others = [other for at, other in s.nominated if at == row and other is not case.pod]
        who = listed([full_name(other) for other in others if priority_of(other) >= priority_of(case.pod)])
        text = f"node {s.names[row]} has room, which the scheduler keeps for pod {who}: it preempted others there"
        yield Cause("nominated", text, f"wait until {who} is bound, or add a node", (s.names[row],), 1)
