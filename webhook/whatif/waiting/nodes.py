"""Explains why a node is none that the pod's nodeSelector and node affinity select.

k8s.io/kubernetes pkg/scheduler/framework/plugins/nodeaffinity.
"""

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Final

import numpy as np

from webhook.framework.cluster_view import Expression
from webhook.kube.gpus import MODEL_LABELS
from webhook.kube.pod import HOSTNAME, REQUIRED, Pod
from webhook.kube.record import record_of
from webhook.placement.constraints import Mask, Term
from webhook.placement.feasible import SELECTOR
from webhook.placement.why_not import nearest_label
from webhook.text import bare, listed, nearest, number_of, one_edit_apart, plural, quoted
from webhook.vendors.catalogue import labels
from webhook.whatif.waiting.causes import Cause, Fix, NodeCheck
from webhook.whatif.waiting.situation import Case, failing, with_spec, without_affinity

_FACTS: Final = (
    *[key.removesuffix("*") for key in labels("hardware")],
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
            if (off := left & ~passes).any():
                yield (_selector if word == SELECTOR else _affinity)(case, off, alone)
            left = left & passes

    return NodeCheck(failing(s, checks), explain)


def _selector(case: Case, mask: Mask, alone: Mask) -> Cause:
    """The cause for the label of nodeSelector that the fewest nodes have."""
    s = case.situation
    having = {expression: s.alive & s.matching([(expression,)]) for expression in case.constraints.selector}
    left = {expression: rows for expression, rows in having.items() if (mask & ~rows).any()}
    worst = min(left, key=lambda e: (_count(left[e]), e.key))
    key, value, count = bare(worst.key), bare(worst.values[0]), _count(left[worst])
    field, label = f"spec.nodeSelector[{key}]", f"kubectl label node NAME {key}={value}"
    if (of := _of_runtime_class(case, worst.key)) and not count:
        text = f"nodeSelector {key}={value}, which RuntimeClass {bare(of)} adds, is on no node"
        fixes: tuple[Fix | str, ...] = (
            f"label the nodes that have its runtime: {label}",
            "name another spec.runtimeClassName",
        )
    elif (left[worst] & _but_for(case, worst)).any():
        where = f"{plural(count, 'node')} of {_count(s.alive)} ({listed(s.named(left[worst]), 3)})"
        text = f"nodeSelector {key}={value} is on {where}; {s.where(mask)} without it"
        more = "add such a node" if _is_fact(worst.key) else f"label more nodes: {label}"
        fixes = Fix(f"remove {field} if the pod may run elsewhere", pod=_reselected(case.pod, worst.key)), more
    else:
        near, instead, (first, *others) = _instead(case, worst, field, alone)
        where = f"{plural(count, 'node')}, but on none that the pod selects otherwise" if count else "no node"
        text = f"nodeSelector {key}={value} is on {where}{near}"
        fixes = Fix(first, pod=_reselected(case.pod, worst.key, instead)), *others
    return s.cause("nodeSelector", text, mask, alone, *fixes)


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
        fixes: tuple[Fix | str, ...] = (
            Fix(
                "remove the node's name from spec.affinity.nodeAffinity", pod=without_affinity(case.pod, "nodeAffinity")
            ),
            *(() if gone == names else ("free that node",)),
        )
        if ours:
            fixes = ("delete the pod: its controller makes another, for which a node is chosen anew",)
        text = f"pinned to {plural(len(names), 'node')} ({listed(names)}) by {by}{said}"
        return s.cause("pinnedNode", text, mask, alone, *fixes)
    selected = s.alive & s.matching([case.constraints.selector])
    within = selected if selected.any() else s.alive
    fitting = within & s.matching(terms)
    wrong = next((e for term in terms for e in term if not (within & s.matching([(e,)])).any()), None)
    if fitting.any() or wrong is None:
        text = f"required node affinity leaves {plural(_count(fitting), 'node')} of {_count(within)}"
        wider = "widen spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
        widened = Fix(wider, pod=without_affinity(case.pod, "nodeAffinity"))
        return s.cause("nodeAffinity", text, mask, alone, widened, "label more nodes")
    values = f" {listed(map(bare, wrong.values))}" if wrong.values else ""
    near, instead, (first, *others) = _instead(case, wrong, "spec.affinity.nodeAffinity", alone)
    text = f"required node affinity «{bare(wrong.key)} {wrong.operator}{values}» matches no node{near}"
    fixed = Fix(first, pod=None if _numbered(case, wrong) else _reworded(case.pod, wrong, instead))
    return s.cause("nodeAffinity", text, mask, alone, fixed, *others)


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
    if s.domains(wrong.key)[0][rows].any():
        return None
    same_word = [key for key in sorted(s.nodes.labels.keys()) if nearest(_word(wrong.key), [_word(key)])]
    key = nearest(wrong.key, [each for each in same_word if s.domains(each)[0][rows].any()])
    return (key, "") if key else None


def _instead(
    case: Case, wrong: Expression, field: str, alone: Mask
) -> tuple[str, tuple[str, str] | None, tuple[str, ...]]:
    """Of an expression in `field` that no node matches: «; nearest: …», what nodes have that is most like it; the label to ask
    for in its place, None: no label; and the fixes, that first. `alone`: the nodes that nothing else excludes."""
    key, near, label, rows = bare(wrong.key), _alike(case, wrong), None, _but_for(case, wrong)
    values = _known_values(case, wrong.key, rows)
    shown = "=".join(map(bare, filter(None, near or ())))
    said = f"; nearest: {shown}" if near else ""
    said = (
        f"{said}; nodes have {listed(map(bare, values), 6)}"
        if values
        else f"; no node has a label {quoted(wrong.key)}{said}"
    )
    label_a_node = f"kubectl label node NAME {key}"
    if wrong.operator in ("NotIn", "DoesNotExist"):
        return said, None, (f"remove it from {field}", f"remove the label from a node: {label_a_node}-")
    if wrong.operator in ("Gt", "Lt"):
        fits = f"label a node with one that fits: {label_a_node}=…"
        return (
            said,
            None,
            (f"write another number in {field}" if _numbered(case, wrong) else f"remove it from {field}", fits),
        )
    if values and wrong.values and (near is None or near[0] == wrong.key):
        close = _closest(wrong.values[0], _known_values(case, wrong.key, alone & rows) or values)
        label, fix = (wrong.key, near[1] if near else close), f"set {field} to "
        fix += bare(label[1])
    elif near:
        label, fix = (near[0], near[1] or next(iter(wrong.values), "")), f"write {shown} in place of {key} in {field}"
    else:
        fix = f"remove {field}"
    value = bare(wrong.values[0]) if wrong.values else ""
    if _is_fact(wrong.key):
        return said, label, (fix, "add such a node")
    misspelt = near is not None and (near[0] != wrong.key or one_edit_apart(value, near[1]))
    return said, label, (fix, *([] if misspelt else [f"label nodes: {label_a_node}={value}"]))


def _numbered(case: Case, wrong: Expression) -> bool:
    """Whether another number in the expression would match a node; which is meant, nobody knows."""
    values = _known_values(case, wrong.key, case.situation.alive) if wrong.operator in ("Gt", "Lt") else []
    return any(number_of(value) is not None for value in values)


def _closest(word: str, values: Sequence[str]) -> str:
    """The value of which a part between dashes is most like the word: of H20O, that with H200."""

    def likeness(value: str) -> float:
        parts = [part.lower() for part in value.split("-")]
        return max(SequenceMatcher(None, word.lower(), part).ratio() for part in [value.lower(), *parts])

    return max(values, key=likeness)


def _reworded(pod: Pod, wrong: Expression, label: tuple[str, str] | None) -> Pod:
    """The pod that requires this label in place of the expression."""
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
