"""Other pods that keep a pod from nodes: pod affinity and anti-affinity, and topology spread constraints.

k8s.io/kubernetes pkg/scheduler/framework/plugins/{interpodaffinity,podtopologyspread}/filtering.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from webhook.cli.selecting import selects
from webhook.cli.waiting.cause import Cause, Check
from webhook.cli.waiting.situation import Case, Situation, holder
from webhook.kube.pod import Pod, labels_of
from webhook.placement.constraints import Mask, matches
from webhook.text import bare, listed

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def affinity(case: Case) -> Check:
    s, fails = case.situation, np.zeros(len(case.situation.alive), bool)
    terms = _terms(case.pod, "podAffinity")
    for term in terms:
        domains = _domains(s, term["topologyKey"])
        there = {domains[row] for row, pod in s.bound if domains[row] and _picks(s, term, case.pod, pod)}
        alone = not there and _picks(s, term, case.pod, case.pod)  # the first of a group that wants to be together
        fails |= np.array([not value or not (alone or value in there) for value in domains], bool)

    def explain(mask: Mask, alone: Mask) -> Iterator[Cause]:
        wanted = listed([f"{_selector_text(t['labelSelector'])} in the same {bare(t['topologyKey'])}" for t in terms])
        text = f"required pod affinity wants pods with {wanted}: none where {s.where(mask)}"
        fix = "start the pods that it wants to be near first, or make the affinity preferred"
        yield s.cause("podAffinity", text, fix, mask, alone)

    return Check(s.alive & fails, explain)


def anti_affinity(case: Case) -> Check:
    s = case.situation
    fails, holders = np.zeros(len(s.alive), bool), Counter[str]()
    for term in _terms(case.pod, "podAntiAffinity"):
        domains = _domains(s, term["topologyKey"])
        near = [(domains[row], pod) for row, pod in s.bound if domains[row] and _picks(s, term, case.pod, pod)]
        holders.update(holder(pod) for _, pod in near)
        there = {value for value, _ in near}
        fails |= np.array([bool(value) and value in there for value in domains], bool)

    def explain(mask: Mask, alone: Mask) -> Iterator[Cause]:
        text = f"its pod anti-affinity keeps it from {s.where(mask)}, where {_holders_text(holders)} are"
        fix = "make the anti-affinity preferred, run fewer replicas, or add a node"
        yield s.cause("podAntiAffinity", text, fix, mask, alone)

    return Check(s.alive & fails, explain)


def existing_anti_affinity(case: Case) -> Check:
    s = case.situation
    fails, holders, taken = np.zeros(len(s.alive), bool), Counter[str](), dict[str, set[str]]()
    for row, pod in s.with_anti_affinity:
        for term in _terms(pod, "podAntiAffinity"):
            key = term["topologyKey"]
            if (domain := _domains(s, key)[row]) and _picks(s, term, pod, case.pod):
                holders[holder(pod)] += 1
                taken.setdefault(key, set()).add(domain)
    for key, values in taken.items():
        fails |= np.array([value in values for value in _domains(s, key)], bool)

    def explain(mask: Mask, alone: Mask) -> Iterator[Cause]:
        text = f"anti-affinity of {_holders_text(holders)} keeps pods with these labels from {s.where(mask)}"
        fix = "change the labels of this pod or the anti-affinity of the others, or add a node"
        yield s.cause("existingAntiAffinity", text, fix, mask, alone)

    return Check(s.alive & fails, explain)


def spread(case: Case) -> Check:
    s = case.situation
    constraints = [
        c
        for c in case.pod["spec"].get("topologySpreadConstraints") or ()
        if c.get("whenUnsatisfiable") == "DoNotSchedule"
    ]
    keys = [_domains(s, c["topologyKey"]) for c in constraints]
    fails, texts, fixes = np.zeros(len(s.alive), bool), [], list[str]()
    if not constraints:
        return Check(fails, _nothing)
    counted = s.alive & np.array([all(domain[row] for domain in keys) for row in range(len(s.alive))], bool)
    for constraint, domains in zip(constraints, keys, strict=True):
        counts = _counts(case, constraint, domains, counted)
        fewest = 0 if len(counts) < int(constraint.get("minDomains") or 1) else min(counts.values(), default=0)
        own = int(selects(constraint.get("labelSelector"), labels_of(case.pod)))
        over = {value for value in set(domains) if counts.get(value, 0) + own - fewest > int(constraint["maxSkew"])}
        now = np.array([not value or value in over for value in domains], bool)
        if (s.alive & now).any():
            shown = ", ".join(f"{bare(value)} {count}" for value, count in sorted(counts.items())[:6])
            texts.append(f"{bare(constraint['topologyKey'])} with maxSkew {constraint['maxSkew']} (pods now: {shown})")
            if len(counts) < (wanted := int(constraint.get("minDomains") or 1)):
                texts[-1] += f" and minDomains {wanted}, of which there are {len(counts)},"
                fixes.append(f"lower minDomains to {len(counts)}, or add nodes where there are none")
        fails |= now

    def explain(mask: Mask, alone: Mask) -> Iterator[Cause]:
        text = f"topology spread over {listed(texts)} keeps it from {s.where(mask)}"
        fix = "raise maxSkew, set whenUnsatisfiable: ScheduleAnyway, or make room where there are fewest"
        yield s.cause("topologySpread", text, "; or ".join([*fixes, fix]), mask, alone)

    return Check(s.alive & fails, explain)


def _nothing(mask: Mask, alone: Mask) -> Iterator[Cause]:
    return iter(())


def _counts(case: Case, constraint: Mapping[str, Any], domains: list[str], counted: Mask) -> Counter[str]:
    """Pods that the selector picks, by domain: of the nodes that count under the constraint's policies."""
    s, rows = case.situation, slice(0, len(case.situation.alive))
    if constraint.get("nodeAffinityPolicy", "Honor") == "Honor":
        counted = counted & matches(case.constraints.selector, s.nodes, rows)
        if case.constraints.required is not None:
            counted = counted & np.any(
                [matches(t, s.nodes, rows) for t in case.constraints.required] or [~s.alive], axis=0
            )
    if constraint.get("nodeTaintsPolicy") == "Honor":
        fine = [all(case.constraints.tolerate(taint) for taint in status.taints) for status in s.nodes.statuses]
        counted = counted & np.array(fine)[s.nodes.columns.status[rows]]
    counts = Counter({domains[row]: 0 for row in np.flatnonzero(counted).tolist()})
    labels = labels_of(case.pod)
    same = {key: labels[key] for key in constraint.get("matchLabelKeys") or () if key in labels}
    for row, pod in s.bound:
        if (
            counted[row]
            and pod["metadata"]["namespace"] == case.namespace
            and not pod["metadata"].get("deletionTimestamp")
        ):
            theirs = labels_of(pod)
            if selects(constraint.get("labelSelector"), theirs) and same.items() <= theirs.items():
                counts[domains[row]] += 1
    return counts


def _terms(pod: Pod, kind: str) -> list[Mapping[str, Any]]:
    """Required terms. The API server has merged their matchLabelKeys into the selector."""
    return list(((pod["spec"].get("affinity") or {}).get(kind) or {}).get(_REQUIRED) or ())


def _picks(s: Situation, term: Mapping[str, Any], of: Pod, other: Pod) -> bool:
    """Whether a term of one pod means another: its namespaces and its selector."""
    return _in_namespaces(s, term, of, other["metadata"]["namespace"]) and selects(
        term.get("labelSelector"), labels_of(other)
    )


def _in_namespaces(s: Situation, term: Mapping[str, Any], of: Pod, namespace: str) -> bool:
    named: Iterable[str] = term.get("namespaces") or ()
    by_label = term.get("namespaceSelector")
    if not named and by_label is None:
        return bool(namespace == of["metadata"]["namespace"])
    if namespace in named:
        return True
    obj = s.snapshot.named("Namespace").get(("", namespace))
    return selects(by_label, (obj or {"metadata": {}})["metadata"].get("labels") or {})


def _domains(s: Situation, key: str) -> list[str]:
    """The value of a node label by row; "" where there is none."""
    domains = s.domains.get(key)
    if domains is None:
        domains = s.domains[key] = [s.labels(row).get(key, "") for row in range(len(s.alive))]
    return domains


def _selector_text(selector: Any) -> str:
    labels = (selector or {}).get("matchLabels") or {}
    expressions = (selector or {}).get("matchExpressions") or ()
    parts = [f"{bare(k)}={bare(v)}" for k, v in labels.items()]
    parts += [
        f"{bare(e.get('key'))} {e.get('operator')} {listed(map(bare, e.get('values') or ()))}".strip()
        for e in expressions
    ]
    return listed(parts) or "any labels"


def _holders_text(holders: Counter[str]) -> str:
    return listed([f"{bare(name)} ({count})" if count > 1 else bare(name) for name, count in holders.most_common()], 3)
