"""Explains the taints of nodes and their cordons.

k8s.io/kubernetes pkg/scheduler/framework/plugins/tainttoleration, nodeunschedulable.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from webhook.kube.pod import Pod
from webhook.kube.taints import CORDON, Taint, kind_of, passes, toleration
from webhook.placement.constraints import Mask
from webhook.placement.feasible import CORDONED, NOT_READY
from webhook.text import bare, listed, quoted
from webhook.whatif.cluster.report import gpus_of
from webhook.whatif.commands import kubectl
from webhook.whatif.waiting.causes import Cause, Fix, NodeCheck
from webhook.whatif.waiting.situation import Case, failing, with_spec


def kept_for_others(case: Case) -> Mask:
    """Nodes with lasting taints that the pod does not tolerate. Those that keep only pods without GPUs away do not count if it
    has GPUs."""
    s, policy = case.situation, case.situation.policy
    with_gpus = bool(gpus_of(case.pod, policy) or case.pod["spec"].get("resourceClaims"))

    def is_kept(taint: Taint) -> bool:
        of_gpus = kind_of(taint) == "gpu" or policy.gpus.kind(taint.key) is not None
        return not (passes(taint) or (with_gpus and of_gpus))

    kept = [any(map(is_kept, case.judgement.untolerated(status.taints))) for status in s.nodes.statuses]
    return np.asarray(s.by_status(kept), bool)


def cordoned(case: Case) -> NodeCheck:
    """Nodes that are cordoned, unless the pod tolerates it."""
    s, checks = case.situation, case.judgement.status(case.situation.nodes, case.situation.rows)

    def explain(mask: Mask, alone: Mask) -> Iterator[Cause]:
        text, fixes = f"{s.where(mask)}: cordoned (spec.unschedulable)", list[Fix]()
        for name in [*s.named(mask & alone), *s.named(mask)][:1]:
            there = tolerating(case.pod, [CORDON])
            fixes.append(Fix("uncordon when the work on it is done", kubectl("uncordon", name), there, on=name))
        yield s.cause("cordoned", text, mask, alone, *fixes)

    return NodeCheck(failing(s, [check for check in checks if check.word == CORDONED]), explain)


def taints(case: Case) -> NodeCheck:
    """Nodes with taints that the pod does not tolerate."""
    s = case.situation
    checks = [c for c in case.judgement.status(s.nodes, s.rows) if c.word != CORDONED]

    def explain(mask: Mask, alone: Mask) -> Iterator[Cause]:
        left = mask
        for word, passing, untolerated in checks:
            others = np.all([check.passes for check in checks if check.word != word], axis=0)
            of: dict[tuple[Taint, ...], int] = {}
            codes = s.by_status([of.setdefault((*untolerated(x.taints),), len(of)) for x in s.nodes.statuses])
            each = _not_ready if word == NOT_READY else _untolerated
            for kept_by, code in of.items():
                if (rows := left & ~passing & (codes == code)).any():
                    yield each(case, kept_by, rows, alone & others)
            left = left & passing

    return NodeCheck(failing(s, checks), explain)


def _not_ready(case: Case, taints: tuple[Taint, ...], rows: Mask, alone: Mask) -> Cause:
    """The cause for nodes with taints that pass by themselves."""
    s = case.situation
    name = s.named(rows)[0]
    look = kubectl("describe", "node", name)
    if leaving := [taint for taint in taints if kind_of(taint) == "leaving"]:
        text = f"{s.where(rows)}: it will soon be removed ({listed([bare(taint.key) for taint in leaving])})"
        stay = Fix("if it is to stay", kubectl("taint", "node", name, f"{leaving[0].key}-"))
        return s.cause("notReady", text, rows, alone, Fix("see whether it goes", look), stay)
    why = listed([bare(taint.key.rpartition("/")[2]) for taint in taints if passes(taint)])
    fix = Fix("see what is wrong there; the taint goes when it is repaired", look)
    return s.cause("notReady", f"{s.where(rows)}: {why}", rows, alone, fix)


def _untolerated(case: Case, taints: tuple[Taint, ...], rows: Mask, alone: Mask) -> Cause:
    s = case.situation
    words = f"if the pod may run there, add to spec.tolerations: {'; '.join(map(_toleration, taints))}"
    text = f"{s.where(rows)}: tainted {listed([bare(taint.text) for taint in taints])}, which the pod does not tolerate"
    return s.cause("untoleratedTaint", text, rows, alone, Fix(words, pod=tolerating(case.pod, taints)))


def tolerating(pod: Pod, taints: Iterable[Taint]) -> Pod:
    """The pod that tolerates these taints too."""
    more = [toleration(taint.key, taint.value or None, taint.effect) for taint in taints]
    return with_spec(pod, tolerations=[*(pod["spec"].get("tolerations") or ()), *more])


def _toleration(taint: Taint) -> str:
    value = f"operator: Equal, value: {quoted(taint.value)}" if taint.value else "operator: Exists"
    return f"{{key: {bare(taint.key)}, {value}, effect: {taint.effect}}}"
