"""What a pod asks for and nodes have too little of: GPUs, CPU, memory, storage, pods and anything else.

k8s.io/kubernetes pkg/scheduler/framework/plugins/noderesources/fit.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from webhook.cli.cluster.report import gpus_of
from webhook.cli.waiting.cause import Cause, Check
from webhook.cli.waiting.situation import Case, amount_text
from webhook.cluster.node_table import Integers
from webhook.cluster.pods import counted_demand
from webhook.kube.gpus import vendor
from webhook.placement.constraints import Mask
from webhook.text import bare, listed, nearest

_WORDS: Final = {
    "cpu": "insufficientCpu",
    "memory": "insufficientMemory",
    "ephemeral-storage": "insufficientEphemeralStorage",
    "pods": "tooManyPods",
}
_MAX_NODES: Final = 50
"""Nodes, those with most free, on which a workload is looked for whose end would make room."""


def resources(case: Case) -> Check:
    s = case.situation
    nothing = np.zeros(len(s.alive), np.int64)
    short = {name: s.free.get(name, nothing) < amount for name, amount in case.demand.requests}
    for name in case.demand_of_devices:
        short[name] = short[name] & (s.capacity.get(name, nothing) > 0)
    fails = s.alive & np.any([*short.values()], axis=0)

    def explain(mask: Mask, alone: Mask) -> Iterator[Cause]:
        unknown = [
            name
            for name in short
            if name not in {*_WORDS, *case.demand_of_devices} and not s.capacity.get(name, nothing)[s.alive].any()
        ]
        for name in unknown:
            yield _unknown(case, name, mask)
        for name, amount in case.demand.requests:
            if name not in unknown and (off := mask & short[name]).any():
                others_short = (
                    np.any([short[other] for other in short if other != name], axis=0) if len(short) > 1 else ~s.alive
                )
                yield from _short(case, name, amount, off, off & alone & ~others_short)

    return Check(fails, explain)


def _short(case: Case, name: str, amount: int, off: Mask, alone: Mask) -> Iterator[Cause]:
    s = case.situation
    capacity = s.capacity[name]
    gpu = s.policy.gpus.kind(name) is not None
    if gpu and (none := off & (capacity == 0)).any():
        none_alone, off, alone = alone & none, off & ~none, alone & ~none
        yield from _without(case, name, none, none_alone)
    if not off.any():
        return
    asked = amount_text(name, amount)
    if (large := off & (capacity >= amount)).any():
        yield _taken(case, name, amount, large, alone & large, gpu=gpu)
    if (small := off & (capacity < amount)).any():
        largest = int(capacity[off].max() if not large.any() else capacity[small].max())
        nowhere = not (s.alive & (capacity >= amount)).any()
        ask = f"ask for {amount_text(name, largest)} {name} at most{', in more pods' if gpu else ''}"
        if nowhere:
            text = f"asks for {asked} {bare(name)}, and no node has more than {amount_text(name, int(capacity[s.alive].max()))}"
            yield s.cause("moreThanAnyNode", text, f"{ask}, or add larger nodes", small, alone)
        else:
            text = f"{s.where(small)}: too small: {asked} {bare(name)} asked for, {amount_text(name, largest)} there when empty"
            fix = f"{ask}, or let the pod go to larger nodes"
            yield s.cause("nodesTooSmall", text, fix, small, alone)


def _taken(case: Case, name: str, amount: int, off: Mask, alone: Mask, *, gpu: bool) -> Cause:
    """Nodes that are large enough for the pod, but have too little free."""
    s = case.situation
    free, asked = np.maximum(s.free[name], 0), amount_text(name, amount)
    best = int(free[off].max())
    if not gpu:
        unit = bare(name)
        if name == "pods":
            text = f"{s.where(off)}: full: {int(s.capacity[name][off].max())} pods at most, says the kubelet"
            fix = "remove pods from them, raise the kubelet's maxPods, or add nodes"
            return s.cause("tooManyPods", text, fix, off, alone)
        text = f"{s.where(off)}: short of {unit}: {asked} asked for, at most {amount_text(name, best)} free"
        ask = f"ask for {amount_text(name, best)} {unit} in place of {asked}" if best else f"free {unit} there"
        fix = f"{ask}{_or_wait(case, name, amount, off)}"
        return s.cause(_WORDS.get(name, "insufficientResource"), text, fix, off, alone)
    total = int(free[off].sum())
    held = f"{asked} {bare(name)} asked for; free on {s.where(off)}: {total} in all, at most {best} on one"
    if total >= amount:
        fix = f"ask for {best} in each of more pods, or let one node be emptied" if best else "let one node be emptied"
        fix += _or_wait(case, name, amount, off)
        return s.cause("gpusFragmented", f"GPUs are free but apart: {held}", fix, off, alone)
    ask = f"ask for {best} in place of {asked}, or " if best else ""
    wait = _or_wait(case, name, amount, off).removeprefix(", or ") or "wait until pods there end"
    return s.cause("gpusTaken", f"all GPUs are taken: {held}", f"{ask}{wait}, or add a node", off, alone)


def _or_wait(case: Case, name: str, amount: int, off: Mask) -> str:
    """«, or wait for job/x (8 GPUs on node y) to end»: a workload whose end makes room; Jobs first, then the smallest."""
    s = case.situation
    rows = np.flatnonzero(off)
    near = rows[np.argsort(-s.free[name][rows], kind="stable")][:_MAX_NODES]
    best: tuple[int, int, str] | None = None
    for row in near.tolist():
        for who, has in s.held(row, name).items():
            if has and int(s.free[name][row]) + has >= amount:
                kind = 0 if who.startswith("job/") else 1
                best = min(
                    filter(
                        None, [best, (kind, has, f"{who} ({amount_text(name, has)} {bare(name)} on {s.names[row]})")]
                    )
                )
    return f", or wait for {best[2]} to end" if best else ""


def _unknown(case: Case, name: str, mask: Mask) -> Cause:
    """No node offers any of it."""
    s = case.situation
    offered = sorted(n for n, capacity in s.capacity.items() if "/" in n and capacity[s.alive].any())
    silent = sorted([s.names[row] for row, kind in enumerate(s.gpus_at) if kind is None])
    if silent and s.policy.gpus.kind(name) is not None:
        text = f"{listed(silent, 3)} {'have' if len(silent) > 1 else 'has'} GPUs by the labels, but the device plugin offers none"
        fix = f"look at the device plugin there: kubectl get pods -A -o wide --field-selector spec.nodeName={silent[0]}"
        return Cause("devicePluginMissing", text, fix, tuple(silent), len(silent))
    near = nearest(name, offered) or next((each for each in offered if vendor(each) == vendor(name)), None)
    offers = f"; they offer {listed(map(bare, offered)) or 'no extended resource at all'}" if "/" in name else ""
    text = f"no node offers {bare(name)}{offers}"
    fix = (
        f"ask for {bare(near)} in place of {bare(name)}"
        if near
        else f"install what offers {bare(name)}, or add nodes that have it"
    )
    return s.cause("unknownResource", text, fix, mask, mask)


def _without(case: Case, name: str, mask: Mask, alone: Mask) -> Iterator[Cause]:
    """Nodes that offer none of this GPU: their device plugin offers nothing, or another kind, or they have no GPU."""
    s = case.situation
    rows_of: dict[tuple[str, ...] | None, list[int]] = {}
    for row in np.flatnonzero(mask).tolist():
        rows_of.setdefault(s.gpus_at[row], []).append(row)
    for kind, at in rows_of.items():
        rows = np.zeros(len(mask), bool)
        rows[at] = True
        if kind is None:
            text = f"{s.where(rows)}: GPUs by the labels, but the device plugin offers none"
            fix = f"look at the device plugin there: kubectl describe node {s.named(rows)[0]}"
            yield s.cause("devicePluginMissing", text, fix, rows, alone)
        elif kind:
            text = f"{s.where(rows)}: {listed(map(bare, kind))} in place of {bare(name)}"
            fix = f"ask for {bare(kind[0])} if a part of a GPU is enough"
            able = rows & alone & np.any([s.free[other] > 0 for other in kind], axis=0)
            yield s.cause("otherGpuResource", text, fix, rows, able)
        else:
            yield Cause(
                "noGpus", f"{s.where(rows)}: no {bare(name)}", "nothing: they are for other pods", s.named(rows)
            )


def preemption(case: Case) -> Iterator[Cause]:
    """Nodes where preemption would make room, but the pod's priority class never preempts."""
    s, spec = case.situation, case.pod["spec"]
    if spec.get("preemptionPolicy") != "Never":
        return
    own, wanted = s.priority(case.pod), gpus_of(case.pod, s.policy)
    for name, amount in wanted.items():
        lower: Integers = np.zeros(len(s.alive), np.int64)
        for row, pod in s.bound:
            if s.priority(pod) < own:
                lower[row] += counted_demand(pod).amount(name)
        rows = (
            s.alive & (s.free[name] < amount) & (s.free[name] + lower >= amount) if name in s.free else s.alive & False
        )
        if rows.any():
            text = f"pods of lower priority hold enough on {s.where(rows)}, but priority class {_class(case)} never preempts"
            fix = "use a priority class with preemptionPolicy PreemptLowerPriority (it evicts those pods), or wait"
            yield s.cause("preemptionNever", text, fix, rows, rows)


def nominated(case: Case) -> Iterator[Cause]:
    """Nodes with room that the scheduler keeps for pods which preempted others."""
    s, own = case.situation, case.situation.priority(case.pod)
    for row, other in s.nominated:
        if other is not case.pod and s.priority(other) >= own:
            asked = dict(counted_demand(other).requests)
            short = [
                n
                for n, amount in case.demand.requests
                if n in s.free and 0 <= s.free[n][row] - amount < asked.get(n, 0)
            ]
            if short and all(s.free[n][row] >= amount for n, amount in case.demand.requests if n in s.free):
                who = f"{other['metadata']['namespace']}/{other['metadata']['name']}"
                text = (
                    f"node {s.names[row]} has room, which the scheduler keeps for pod {who}: it preempted others there"
                )
                yield Cause("nominated", text, f"wait until {who} is bound, or add a node", (s.names[row],), 1)


def _class(case: Case) -> str:
    return bare(case.pod["spec"].get("priorityClassName") or "(none)")
