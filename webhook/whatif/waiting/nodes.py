"""Explains why a node is none that the pod's nodeSelector and node affinity select.

k8s.io/kubernetes pkg/scheduler/framework/plugins/nodeaffinity.
"""

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Final

import numpy as np

from webhook.framework.cluster_view import Expression
from webhook.kube.gpus import MODEL_LABELS
from webhook.kube.pod import HOSTNAME, REQUIRED, Pod, labels_of
from webhook.kube.record import record_of
from webhook.placement.constraints import Mask, Term
from webhook.placement.feasible import SELECTOR
from webhook.placement.why_not import nearest_label
from webhook.text import bare, listed, nearest, plural, quoted
from webhook.whatif.waiting.causes import Cause, NodeCheck
from webhook.whatif.waiting.situation import Case, failing, with_spec, without_affinity

_FACTS: Final = (
    "nvidia.com/gpu.",
    "amd.com/gpu.",
    "gpu.intel.com/",
    "feature.node.kubernetes.io/",
    "kubernetes.io/",
    "node.kubernetes.io/",
)
"""Prefixes of labels that programs write after the hardware of a node."""


def unselected(case: Case) -> Mask:
    """Nodes that the selector and the affinity of the pod exclude."""
    return failing(case.situation, case.judgement.selection(case.situation.nodes, case.situation.rows))


def unselected_by_each(case: Case) -> Iterator[Mask]:
    """The same, by each label of nodeSelector alone, the rarest first, and then by the affinity."""
    s, terms = case.situation, case.constraints.required
    yield from sorted([~s.matching([(each,)]) for each in case.constraints.selector], key=_count, reverse=True)
    if terms is not None:
        yield ~s.matching(terms)


def pinned(case: Case) -> NodeCheck:
    """Nodes other than those that node affinity names by their field: the scheduler leaves them out before it filters."""
    s = case.situation

    def explain(mask: Mask, alone: Mask) -> Iterator[Cause]:
        yield _affinity(case, mask, alone)

    return NodeCheck(failing(s, case.judgement.pinned(s.nodes, s.rows)), explain)


def selection(case: Case) -> NodeCheck:
    """Nodes that nodeSelector or required node affinity excludes. To the scheduler both are one reason."""
    s, checks = case.situation, [*case.judgement.selection(case.situation.nodes, case.situation.rows)]

    def explain(mask: Mask, alone: Mask) -> Iterator[Cause]:
        left = mask
        for word, passes, _ in checks:
            if (off := left & ~passes).any() and word == SELECTOR:
                text, fix, fixed = _selector(case, mask, alone)
                yield s.cause("nodeSelector", text, fix, off, alone, fixed)
            elif off.any():
                yield _affinity(case, off, alone)
            left = left & passes

    return NodeCheck(failing(s, checks), explain)


def _selector(case: Case, mask: Mask, alone: Mask) -> tuple[str, str, Pod | None]:
    """Text, fix and the pod with it for the label of nodeSelector that the fewest nodes have."""
    s = case.situation
    having = {expression: s.alive & s.matching([(expression,)]) for expression in case.constraints.selector}
    left = {expression: rows for expression, rows in having.items() if (mask & ~rows).any()}
    worst = min(left, key=lambda e: (_count(left[e]), e.key))
    key, value = worst.key, worst.values[0]
    if (of := _of_runtime_class(case, key)) and not left[worst].any():
        fix = f"label the nodes that have its runtime: kubectl label node NAME {bare(key)}={bare(value)}"
        text = f"nodeSelector {bare(key)}={bare(value)}, which RuntimeClass {bare(of)} adds, is on no node"
        return text, f"{fix}, or name another spec.runtimeClassName", None
    selector = f"nodeSelector {bare(key)}={bare(value)}"
    count = _count(left[worst])
    if (left[worst] & _but_for(case, worst)).any():
        more = f"label more nodes: kubectl label node NAME {bare(key)}={bare(value)}"
        or_more = "add such a node" if _is_fact(key) else more
        fix = f"remove spec.nodeSelector[{bare(key)}] if the pod may run elsewhere, or {or_more}"
        where = f"{plural(count, 'node')} of {_count(s.alive)} ({listed(s.named(left[worst]), 3)})"
        return f"{selector} is on {where}; {s.where(mask)} without it", fix, _reselected(case.pod, key)
    near, fix, instead = _instead(case, worst, f"spec.nodeSelector[{bare(key)}]", alone)
    where = f"{plural(count, 'node')}, but on none that the pod selects otherwise" if count else "no node"
    return f"{selector} is on {where}{near}", fix, _reselected(case.pod, key, instead)


def _is_fact(key: str) -> bool:
    """Whether a program writes this label after the hardware: by hand it would say what is not so."""
    return key in MODEL_LABELS or key.startswith(_FACTS)


def _of_runtime_class(case: Case, key: str) -> str:
    """The RuntimeClass of the pod, if it adds this label to the pod's nodeSelector; else ""."""
    name = str(case.pod["spec"].get("runtimeClassName") or "")
    found = case.situation.snapshot.named("RuntimeClass").get(("", name)) or {}
    return name if key in ((found.get("scheduling") or {}).get("nodeSelector") or {}) else ""


def _reselected(pod: Pod, key: str, label: tuple[str, str] | None = None) -> Pod:
    """The pod with this label in its nodeSelector in place of the one with `key`."""
    selector = {name: value for name, value in pod["spec"]["nodeSelector"].items() if name != key}
    return with_spec(pod, nodeSelector=selector | dict([label] if label else []))


def _affinity(case: Case, mask: Mask, alone: Mask) -> Cause:
    """The cause for nodes that required node affinity excludes."""
    s = case.situation
    terms = case.constraints.required or ()
    pins = [_pin(term) for term in terms]
    if terms and all(pins):
        names = sorted({name for pin in pins for name in pin or ()})
        gone = [name for name in names if name not in s.snapshot.nodes]
        ours = record_of(case.pod).get("nodes")
        by = "the webhook (nodeAffinity mode required)" if ours else "its manifest"
        said = f", and {listed(gone)} is no node of this cluster" if gone else ""
        if ours:
            fix = "delete the pod: its controller makes another, for which a node is chosen anew"
        else:
            or_free = "" if gone == names else ", or free that node"
            fix = f"remove the node's name from spec.affinity.nodeAffinity{or_free}"
        text = f"pinned to {plural(len(names), 'node')} ({listed(names)}) by {by}{said}"
        return s.cause("pinnedNode", text, fix, mask, alone)
    selected = s.alive & s.matching([case.constraints.selector])
    within = selected if selected.any() else s.alive
    fitting = within & s.matching(terms)
    wrong = next((e for term in terms for e in term if not (within & s.matching([(e,)])).any()), None)
    if fitting.any() or wrong is None:
        text = f"required node affinity leaves {plural(_count(fitting), 'node')} of {_count(within)}"
        fix = "widen spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution, or label more nodes"
        return s.cause("nodeAffinity", text, fix, mask, alone, without_affinity(case.pod, "nodeAffinity"))
    values = f" {listed(map(bare, wrong.values))}" if wrong.values else ""
    near, fix, instead = _instead(case, wrong, "spec.affinity.nodeAffinity", alone)
    text = f"required node affinity «{bare(wrong.key)} {wrong.operator}{values}» matches no node{near}"
    return s.cause("nodeAffinity", text, fix, mask, alone, _reworded(case.pod, wrong, instead))


def _pin(term: Term) -> tuple[str, ...] | None:
    """The names of the nodes to which a term pins the pod; None if it does not name nodes."""
    return next((e.values for e in term if e.operator == "In" and (e.field or e.key == HOSTNAME)), None)


def _but_for(case: Case, wrong: Expression) -> Mask:
    """The nodes that everything selects but this expression; all if there are none."""
    s, left = case.situation, case.situation.alive
    kept: list[Sequence[Term]] = [[(each,)] for each in case.constraints.selector if each != wrong]
    if wrong in case.constraints.selector and case.constraints.required is not None:
        kept.append(case.constraints.required)
    for terms in kept:
        left = left & s.matching(terms)
    return left if left.any() else s.alive


def _known_values(case: Case, key: str, rows: Mask) -> list[str]:
    """The values that these nodes have for the key."""
    numbers, values = case.situation.domains(key)
    return sorted([values[number] for number in np.unique(numbers[rows]).tolist() if number])


def _word(key: str) -> str:
    return key.rpartition("/")[2]


def _alike(case: Case, wrong: Expression) -> tuple[str, str] | None:
    """The key and the value of the label most like one that no node has, of the nodes that are left; "" as value: a key alone."""
    s, rows = case.situation, _but_for(case, wrong)
    if wrong.operator == "In" and (near := nearest_label(s.nodes, wrong.key, wrong.values, rows)):
        return near[:2]
    keys = sorted({key for name in s.named(rows) for key in labels_of(s.snapshot.nodes[name])})
    same_word = [key for key in keys if nearest(_word(wrong.key), [_word(key)])]
    key = None if wrong.key in keys else nearest(wrong.key, same_word)
    return (key, "") if key else None


def _instead(case: Case, wrong: Expression, field: str, alone: Mask) -> tuple[str, str, tuple[str, str] | None]:
    """Of an expression in `field` that no node matches: «; nearest: …», what nodes have that is most like it; the fix; and the
    label to ask for in its place, None: no label. `alone`: the nodes that nothing else excludes."""
    key, near, label = bare(wrong.key), _alike(case, wrong), None
    values = _known_values(case, wrong.key, _but_for(case, wrong))
    shown = "=".join(map(bare, filter(None, near or ())))
    said = f"; nearest: {shown}" if near else ""
    said = (
        f"{said}; nodes have {listed(map(bare, values), 6)}"
        if values
        else f"; no node has a label {quoted(wrong.key)}{said}"
    )
    label_a_node = f"kubectl label node NAME {key}"
    if wrong.operator in ("NotIn", "DoesNotExist"):
        return said, f"remove it from {field}, or the label from a node: {label_a_node}-", None
    if wrong.operator in ("Gt", "Lt"):
        return said, f"write another number in {field}, or label a node with one that fits: {label_a_node}=…", None
    if values and wrong.values and (near is None or near[0] == wrong.key):
        label = (
            wrong.key,
            near[1] if near else _closest(wrong.values[0], _known_values(case, wrong.key, alone) or values),
        )
        fix = f"set {field} to {bare(label[1])}"
    elif near:
        label = near[0], near[1] or next(iter(wrong.values), "")
        fix = f"write {shown} in place of {key} in {field}"
    else:
        fix = f"remove {field}"
    value = bare(wrong.values[0]) if wrong.values else ""
    return (
        said,
        f"{fix}, or {'add such a node' if _is_fact(wrong.key) else f'label nodes: {label_a_node}={value}'}",
        label,
    )


def _closest(word: str, values: Sequence[str]) -> str:
    """The value of which a part between dashes is most like the word: of H20O, that with H200."""

    def likeness(value: str) -> float:
        parts = [part.lower() for part in value.split("-")]
        return max(SequenceMatcher(None, word.lower(), part).ratio() for part in [value.lower(), *parts])

    return max(values, key=likeness)


def _reworded(pod: Pod, wrong: Expression, label: tuple[str, str] | None) -> Pod | None:
    """The pod that requires this label in place of the expression; None if no other number is known that would fit."""
    if wrong.operator in ("Gt", "Lt"):
        return None
    required = pod["spec"]["affinity"]["nodeAffinity"][REQUIRED]
    instead = [{"key": label[0], "operator": "In", "values": [label[1]]}] if label else []

    def expressions(term: Mapping[str, Any]) -> list[Any]:
        found = term.get("matchExpressions") or ()
        others = [e for e in found if (e["key"], e["operator"]) != (wrong.key, wrong.operator)]
        return [*others, *(instead if len(others) < len(found) else ())]

    terms = [{**term, "matchExpressions": expressions(term)} for term in required["nodeSelectorTerms"]]
    kept = [term for term in terms if term["matchExpressions"] or term.get("matchFields")]
    node_affinity = {REQUIRED: {"nodeSelectorTerms": kept}} if kept else {}
    return with_spec(pod, affinity={**pod["spec"]["affinity"], "nodeAffinity": node_affinity})


def _count(mask: Mask) -> int:
    return int(np.count_nonzero(mask))
