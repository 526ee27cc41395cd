"""What a pod says about nodes and nodes about pods: cordons, taints, selectors and affinity.

k8s.io/kubernetes pkg/scheduler/framework/plugins/{nodeunschedulable,tainttoleration,nodeaffinity,nodeports}.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from webhook.cli.cluster.report import record_of
from webhook.cli.waiting.cause import Cause, Check
from webhook.cli.waiting.situation import Case, nearest
from webhook.framework.cluster_view import Expression, Taint
from webhook.kube.pod import containers
from webhook.placement.constraints import Mask, Term, matches
from webhook.text import bare, listed, plural, quoted

_HOSTNAME: Final = "kubernetes.io/hostname"
_CONDITIONS: Final = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Taints that follow from the state of a node: nobody should tolerate them."""


def cordoned(case: Case) -> Check:
    nodes, s = case.situation.nodes, case.situation
    fails = s.alive & np.array([status.cordoned for status in nodes.statuses])[nodes.columns.status[: len(s.alive)]]

    def explain(mask: Mask, alone: Mask) -> Iterator[Cause]:
        text = f"{s.where(mask)}: cordoned (spec.unschedulable)"
        fix = f"uncordon when the work on it is done: kubectl uncordon {_example(s.named(mask))}"
        yield s.cause("cordoned", text, fix, mask, alone)

    return Check(fails & (not case.constraints.tolerates_cordon), explain)


def taints(case: Case) -> Check:
    s, nodes = case.situation, case.situation.nodes
    distinct: dict[tuple[Taint, ...], int] = {}
    of_status = [distinct.setdefault(status.taints, len(distinct)) for status in nodes.statuses]
    codes = np.array(of_status)[nodes.columns.status[: len(s.alive)]]
    missing = [[t for t in node_taints if not case.constraints.admits(t)] for node_taints in distinct]
    fails = s.alive & np.array([bool(node_taints) for node_taints in missing])[codes]

    def explain(mask: Mask, alone: Mask) -> Iterator[Cause]:
        for code in np.unique(codes[mask]):
            rows = mask & (codes == code)
            passing = [taint for taint in missing[code] if taint.key.startswith(_CONDITIONS)]
            if passing:
                why = listed([taint.key.rpartition("/")[2] for taint in passing])
                look = f"kubectl describe node {_example(s.named(rows))}"
                fix = f"see what is wrong there: {look}; the taint goes when it is mended"
                yield s.cause("notReady", f"{s.where(rows)}: {why}", fix, rows, alone)
            else:
                taints_text = listed([bare(_text(taint)) for taint in missing[code]])
                fix = f"if the pod may run there, add to spec.tolerations: {'; '.join(_toleration(t) for t in missing[code])}"
                text = f"{s.where(rows)}: tainted {taints_text}, which the pod does not tolerate"
                yield s.cause("untoleratedTaint", text, fix, rows, alone)

    return Check(fails, explain)


def selection(case: Case) -> Check:
    """nodeSelector and required node affinity: one plugin, one reason."""
    s, constraints = case.situation, case.constraints
    rows = slice(0, len(s.alive))
    selected = matches(constraints.selector, s.nodes, rows)
    terms = constraints.required
    allowed = np.ones(len(s.alive), bool)
    if terms is not None:
        allowed = np.any([matches(term, s.nodes, rows) for term in terms], axis=0) if terms else ~allowed

    def explain(mask: Mask, alone: Mask) -> Iterator[Cause]:
        if constraints.selector and (off := mask & ~selected).any():
            text, fix = _selector(case, mask)
            yield s.cause("nodeSelector", text, fix, off, alone & allowed)
        if terms is not None and (off := mask & selected & ~allowed).any() | (not constraints.selector):
            off = mask & selected & ~allowed
            yield _affinity(case, off, alone)

    return Check(s.alive & ~(selected & allowed), explain)


def ports(case: Case) -> Check:
    """Host ports that a pod on the node has."""
    s, fails = case.situation, np.zeros(len(case.situation.alive), bool)
    wanted = _host_ports(case.pod)
    taken: dict[int, list[str]] = {}
    if wanted:
        for row, pod in s.bound:
            clash = [port for port in _host_ports(pod) if any(_clashes(port, other) for other in wanted)]
            if clash:
                fails[row] = True
                taken.setdefault(row, []).append(
                    f"{clash[0][2]} by {pod['metadata']['namespace']}/{pod['metadata']['name']}"
                )

    def explain(mask: Mask, alone: Mask) -> Iterator[Cause]:
        example = taken[int(np.flatnonzero(mask)[0])]
        text = f"host ports taken on {s.where(mask)}: {listed(example)}"
        fix = "leave hostPort out (a Service needs none), take another, or run at most one such pod on a node"
        yield s.cause("hostPort", text, fix, mask, alone)

    return Check(s.alive & fails, explain)


def _selector(case: Case, mask: Mask) -> tuple[str, str]:
    """Text and fix for the label that the fewest nodes have."""
    s = case.situation
    rows = slice(0, len(s.alive))
    left = {e: s.alive & matches((e,), s.nodes, rows) for e in case.constraints.selector}
    worst = min(left, key=lambda e: (_count(left[e]), e.key))
    key, value = worst.key, worst.values[0]
    selector = f"nodeSelector {bare(key)}={bare(value)}"
    if left[worst].any():
        count = _count(left[worst])
        more = f"label more nodes: kubectl label node NAME {bare(key)}={bare(value)}"
        fix = f"remove spec.nodeSelector[{bare(key)}] if the pod may run elsewhere, or {more}"
        return (
            f"{selector} is on {plural(count, 'node')} of {_count(s.alive)} ({_some(case, left[worst])}); "
            f"{s.where(mask)} without it",
            fix,
        )
    return f"{selector} is on no node{_nearest(case, worst)}", _mend(case, worst, f"spec.nodeSelector[{bare(key)}]")


def _affinity(case: Case, mask: Mask, alone: Mask) -> Cause:
    s = case.situation
    rows = slice(0, len(s.alive))
    terms = case.constraints.required or ()
    pins = [_pin(term) for term in terms]
    if terms and all(pins):
        names = sorted({name for pin in pins for name in pin or ()})
        gone = [name for name in names if name not in s.snapshot.nodes]
        ours = record_of(case.pod).get("nodes")
        by = "the webhook (nodeAffinity mode required)" if ours else "its manifest"
        said = f", and {listed(gone)} is no node of this cluster" if gone else ""
        fix = (
            "delete the pod: its controller makes another, for which a node is chosen anew"
            if ours
            else "remove the node's name from spec.affinity.nodeAffinity"
            + ("" if gone == names else ", or free that node")
        )
        text = f"pinned to {plural(len(names), 'node')} ({listed(names)}) by {by}{said}"
        return s.cause("pinnedNode", text, fix, mask, alone)
    fitting = np.any([matches(term, s.nodes, rows) for term in terms], axis=0) & s.alive if terms else ~s.alive
    if not terms or fitting.any():
        text = f"required node affinity leaves {plural(_count(fitting), 'node')} of {_count(s.alive)}"
        fix = "widen spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution, or label more nodes"
        return s.cause("nodeAffinity", text, fix, mask, alone)
    wrong = next((e for term in terms for e in term if not (s.alive & matches((e,), s.nodes, rows)).any()), terms[0][0])
    values = f" {listed(map(bare, wrong.values))}" if wrong.values else ""
    text = f"required node affinity «{bare(wrong.key)} {wrong.operator}{values}» matches no node{_nearest(case, wrong)}"
    return s.cause("nodeAffinity", text, _mend(case, wrong, "spec.affinity.nodeAffinity"), mask, alone)


def _pin(term: Term) -> tuple[str, ...] | None:
    return next((e.values for e in term if e.operator == "In" and (e.field or e.key == _HOSTNAME)), None)


def _some(case: Case, mask: Mask) -> str:
    return listed(case.situation.named(mask), 3)


def _known(case: Case, key: str) -> list[str]:
    column = case.situation.nodes.labels.column(key)
    return [] if column is None else sorted([column.values[code] for code in np.unique(column.codes) if code])


def _keys(case: Case) -> list[str]:
    return sorted(
        {key for node in case.situation.snapshot.nodes.values() for key in node["metadata"].get("labels") or {}}
    )


def _nearest(case: Case, wrong: Expression) -> str:
    """«; nearest: …»: the most similar label that nodes have."""
    values = _known(case, wrong.key)
    if values:
        near = nearest(wrong.values[0], values) if wrong.operator == "In" else None
        hint = f"; nearest: {bare(wrong.key)}={bare(near)}" if near else ""
        return f"{hint}; nodes have {listed(map(bare, values), 6)}"
    near = nearest(wrong.key, _keys(case))
    return f"; no node has a label {quoted(wrong.key)}{f'; nearest: {bare(near)}' if near else ''}"


def _mend(case: Case, wrong: Expression, field: str) -> str:
    if wrong.operator in ("NotIn", "DoesNotExist"):
        return f"remove it from {field}, or the label from a node: kubectl label node NAME {bare(wrong.key)}-"
    if wrong.operator in ("Gt", "Lt"):
        return f"write another number in {field}, or label a node with one that fits: kubectl label node NAME {bare(wrong.key)}=…"
    values = _known(case, wrong.key)
    if values and wrong.values:
        value = nearest(wrong.values[0], values) or values[0]
        return f"set {field} to {bare(value)}, or label nodes: kubectl label node NAME {bare(wrong.key)}={bare(wrong.values[0])}"
    near = nearest(wrong.key, _keys(case))
    instead = f"write {bare(near)} in place of {bare(wrong.key)} in {field}" if near else f"remove {field}"
    return f"{instead}, or label nodes: kubectl label node NAME {bare(wrong.key)}={bare(wrong.values[0]) if wrong.values else ''}"


def _text(taint: Taint) -> str:
    return f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"


def _toleration(taint: Taint) -> str:
    value = f"operator: Equal, value: {quoted(taint.value)}" if taint.value else "operator: Exists"
    return f"{{key: {bare(taint.key)}, {value}, effect: {taint.effect}}}"


_Port = tuple[str, str, int]


def _host_ports(pod: Any) -> list[_Port]:
    return [
        (port.get("hostIP") or "0.0.0.0", port.get("protocol") or "TCP", port["hostPort"])  # noqa: S104  as the scheduler compares
        for container in containers(pod)
        for port in container.spec.get("ports") or ()
        if port.get("hostPort")
    ]


def _clashes(one: _Port, other: _Port) -> bool:
    anywhere = "0.0.0.0"  # noqa: S104
    return one[1:] == other[1:] and (one[0] == other[0] or anywhere in (one[0], other[0]))


def _example(names: tuple[str, ...]) -> str:
    return names[0] if names else "NAME"


def _count(mask: Mask) -> int:
    return int(np.count_nonzero(mask))
