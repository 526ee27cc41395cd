"""Checks the taints of nodes and their cordons.

k8s.io/kubernetes pkg/scheduler/framework/plugins/tainttoleration, nodeunschedulable.
"""

from collections.abc import Iterator

import numpy as np

from webhook.cli.cluster.report import gpus_of
from webhook.cli.waiting.causes import Cause, NodeCheck
from webhook.cli.waiting.situation import Case, with_spec
from webhook.kube.taints import CORDON, Taint, kind_of, passes, toleration
from webhook.placement.constraints import Mask
from webhook.text import bare, listed, quoted


def kept_for_others(case: Case) -> Mask:
    """Nodes with taints that the pod does not tolerate. Those that keep only pods without GPUs away do not count if it has
    GPUs, nor those that say something about the node's condition."""
    s, admits = case.situation, case.constraints.admits
    kept = [
        any(not admits(taint) and not _is_general(case, taint) for taint in status.taints)
        for status in s.nodes.statuses
    ]
    return np.asarray(s.by_status(kept), bool)


def _is_general(case: Case, taint: Taint) -> bool:
    spec, policy = case.pod["spec"], case.situation.policy
    of_gpus = kind_of(taint) == "gpu" or policy.gpus.kind(taint.key) is not None
    return passes(taint) or (of_gpus and bool(gpus_of(case.pod, policy) or spec.get("resourceClaims")))


def cordoned(case: Case) -> NodeCheck:
    """Nodes that are cordoned, unless the pod tolerates it."""
    s = case.situation
    fails = s.alive & s.by_status([status.cordoned for status in s.nodes.statuses])

    def explain(mask: Mask, alone: Mask) -> Iterator[Cause]:
        text = f"{s.where(mask)}: cordoned (spec.unschedulable)"
        fix = f"uncordon when the work on it is done: kubectl uncordon {s.named(mask)[0]}"
        yield s.cause("cordoned", text, fix, mask, alone)

    return NodeCheck(fails & (not case.constraints.tolerates_cordon), explain)


def taints(case: Case) -> NodeCheck:
    """Nodes with taints that the pod does not tolerate."""
    s = case.situation
    code_of: dict[tuple[Taint, ...], int] = {}
    codes = s.by_status([code_of.setdefault(status.taints, len(code_of)) for status in s.nodes.statuses])
    not_tolerated = [
        [t for t in node_taints if t.key != CORDON.key and not case.constraints.admits(t)] for node_taints in code_of
    ]
    fails = s.alive & np.array([bool(node_taints) for node_taints in not_tolerated])[codes]

    def explain(mask: Mask, alone: Mask) -> Iterator[Cause]:
        for code in np.unique(codes[mask]):
            rows = mask & (codes == code)
            look = f"kubectl describe node {s.named(rows)[0]}"
            if leaving := [taint for taint in not_tolerated[code] if kind_of(taint) == "leaving"]:
                text = f"{s.where(rows)}: it will soon be removed ({listed([bare(taint.key) for taint in leaving])})"
                stays = f"kubectl taint node {s.named(rows)[0]} {bare(leaving[0].key)}-"
                yield s.cause("notReady", text, f"see whether it goes: {look}; if it is to stay: {stays}", rows, alone)
            elif by_condition := [taint for taint in not_tolerated[code] if passes(taint)]:
                why = listed([bare(taint.key.rpartition("/")[2]) for taint in by_condition])
                fix = f"see what is wrong there: {look}; the taint goes when it is repaired"
                yield s.cause("notReady", f"{s.where(rows)}: {why}", fix, rows, alone)
            else:
                taints_text = listed([bare(taint.text) for taint in not_tolerated[code]])
                fix = f"if the pod may run there, add to spec.tolerations: {'; '.join(map(_toleration, not_tolerated[code]))}"
                text = f"{s.where(rows)}: tainted {taints_text}, which the pod does not tolerate"
                more = [toleration(taint.key, taint.value or None, taint.effect) for taint in not_tolerated[code]]
                fixed = with_spec(case.pod, tolerations=[*(case.pod["spec"].get("tolerations") or ()), *more])
                yield s.cause("untoleratedTaint", text, fix, rows, alone, fixed)

    return NodeCheck(fails, explain)


def _toleration(taint: Taint) -> str:
    value = f"operator: Equal, value: {quoted(taint.value)}" if taint.value else "operator: Exists"
    return f"{{key: {bare(taint.key)}, {value}, effect: {taint.effect}}}"
