"""Checks nodes against the pods that are bound: pod affinity, pod anti-affinity and topology spread constraints.

k8s.io/kubernetes pkg/scheduler/framework/plugins/{interpodaffinity,podtopologyspread}/filtering.go.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from webhook.cli.cluster.report import workload_name
from webhook.cli.reading import selects
from webhook.cli.waiting.causes import Cause, NodeCheck
from webhook.cli.waiting.nodes import unselected
from webhook.cli.waiting.situation import Case, Situation, with_spec, without_affinity
from webhook.kube.pod import REQUIRED, Pod, labels_of
from webhook.placement.constraints import Mask
from webhook.text import bare, listed


def affinity(case: Case) -> NodeCheck:
    """Nodes in whose domain there is no pod that the pod's affinity requires."""
    s, fails, near = case.situation, np.zeros_like(case.situation.alive), np.zeros_like(case.situation.alive)
    terms = _terms(case.pod, "podAffinity")
    for term in terms:
        domains = s.domains(term["topologyKey"])
        rows = [row for row, pod in s.bound if domains[row] and _selects(s, term, case.pod, pod)]
        near[rows] = True
        there = {domains[row] for row in rows}
        first = not there and _selects(s, term, case.pod, case.pod)  # of a group of pods that select each other
        fails |= np.array([not value or not (first or value in there) for value in domains], bool)

    def explain(mask: Mask, alone: Mask) -> Iterator[Cause]:
        wanted = listed([f"{_selector_text(t['labelSelector'])} in the same {bare(t['topologyKey'])}" for t in terms])
        text = f"required pod affinity wants pods with {wanted}: none where {s.where(mask)}"
        fix = "start the pods that it wants to be near first, or make the affinity preferred"
        if near.any():
            text = f"{text}, they are on {s.where(near)}"
            fix = "make the affinity preferred, or let those pods run where this one can"
        yield s.cause(
            "podAffinity", text, fix, mask, alone, without_affinity(case.pod, "podAffinity") if near.any() else None
        )

    return NodeCheck(s.alive & fails, explain)


def anti_affinity(case: Case) -> NodeCheck:
    """Nodes in whose domain there is a pod that the pod's anti-affinity excludes."""
    s = case.situation
    fails, workloads = np.zeros_like(s.alive), Counter[str]()
    for term in _terms(case.pod, "podAntiAffinity"):
        domains = s.domains(term["topologyKey"])
        near = [(domains[row], pod) for row, pod in s.bound if domains[row] and _selects(s, term, case.pod, pod)]
        workloads.update(workload_name(pod) for _, pod in near)
        there = {value for value, _ in near}
        fails |= np.array([value in there for value in domains], bool)

    def explain(mask: Mask, alone: Mask) -> Iterator[Cause]:
        text = f"its pod anti-affinity keeps it from {s.where(mask)}, where {_workloads_text(workloads)} are"
        fix = "make the anti-affinity preferred, run fewer replicas, or add a node"
        yield s.cause("podAntiAffinity", text, fix, mask, alone, without_affinity(case.pod, "podAntiAffinity"))

    return NodeCheck(s.alive & fails, explain)


def existing_anti_affinity(case: Case) -> NodeCheck:
    """Nodes in whose domain there is a pod with an anti-affinity that excludes the pod."""
    s = case.situation
    fails, workloads, taken = np.zeros_like(s.alive), Counter[str](), dict[str, set[str]]()
    for row, pod in s.with_anti_affinity:
        for term in _terms(pod, "podAntiAffinity"):
            key = term["topologyKey"]
            if (domain := s.domains(key)[row]) and _selects(s, term, pod, case.pod):
                workloads[workload_name(pod)] += 1
                taken.setdefault(key, set()).add(domain)
    for key, values in taken.items():
        fails |= np.array([value in values for value in s.domains(key)], bool)

    def explain(mask: Mask, alone: Mask) -> Iterator[Cause]:
        text = f"anti-affinity of {_workloads_text(workloads)} keeps pods with these labels from {s.where(mask)}"
        fix = "change the labels of this pod or the anti-affinity of the others, or add a node"
        yield s.cause("existingAntiAffinity", text, fix, mask, alone)

    return NodeCheck(s.alive & fails, explain)


def spread(case: Case) -> NodeCheck:
    """Nodes on which the pod would exceed the maxSkew of a topology spread constraint."""
    s = case.situation
    constraints = [
        constraint
        for constraint in case.pod["spec"].get("topologySpreadConstraints") or ()
        if constraint.get("whenUnsatisfiable") == "DoNotSchedule"
    ]
    domains_of = [s.domains(constraint["topologyKey"]) for constraint in constraints]
    fails, texts, fixes = np.zeros_like(s.alive), list[str](), list[str]()
    counted = s.alive
    for domains in domains_of:
        counted = counted & np.array([bool(value) for value in domains], bool)
    for constraint, domains in zip(constraints, domains_of, strict=True):
        counts = _pods_by_domain(case, constraint, domains, counted)
        min_domains = int(constraint.get("minDomains") or 1)
        fewest = 0 if len(counts) < min_domains else min(counts.values(), default=0)
        own = int(selects(constraint.get("labelSelector"), labels_of(case.pod)))
        over = {value for value in set(domains) if counts.get(value, 0) + own - fewest > int(constraint["maxSkew"])}
        exceeded = np.array([not value or value in over for value in domains], bool)
        if (s.alive & exceeded).any():
            shown = ", ".join(f"{bare(value)} {count}" for value, count in sorted(counts.items())[:6])
            texts.append(f"{bare(constraint['topologyKey'])} with maxSkew {constraint['maxSkew']} (pods now: {shown})")
            if len(counts) < min_domains:
                texts[-1] += f" and minDomains {min_domains}, of which there are {len(counts)},"
                fixes.append(f"lower minDomains to {len(counts)}, or add nodes where there are none")
        fails |= exceeded

    def explain(mask: Mask, alone: Mask) -> Iterator[Cause]:
        text = f"topology spread over {listed(texts)} keeps it from {s.where(mask)}"
        fix = "set whenUnsatisfiable: ScheduleAnyway, raise maxSkew, or make room where there are fewest"
        softer = [{**each, "whenUnsatisfiable": "ScheduleAnyway"} for each in constraints]
        fixed = None if fixes else with_spec(case.pod, topologySpreadConstraints=softer)
        yield s.cause("topologySpread", text, "; or ".join([*fixes, fix]), mask, alone, fixed)

    return NodeCheck(s.alive & fails, explain)


def _pods_by_domain(case: Case, constraint: Mapping[str, Any], domains: list[str], counted: Mask) -> Counter[str]:
    """The number of pods that the constraint selects in each domain with a node in `counted` that its policies include."""
    s = case.situation
    if constraint.get("nodeAffinityPolicy", "Honor") == "Honor":
        counted = counted & ~unselected(case)
    if constraint.get("nodeTaintsPolicy") == "Honor":
        tolerated = [all(map(case.constraints.admits, status.taints)) for status in s.nodes.statuses]
        counted = counted & s.by_status(tolerated)
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
    """The required terms. The API server has merged their matchLabelKeys into the selector."""
    return list(((pod["spec"].get("affinity") or {}).get(kind) or {}).get(REQUIRED) or ())


def _selects(s: Situation, term: Mapping[str, Any], of: Pod, other: Pod) -> bool:
    """Whether an affinity term of the pod `of` selects the pod `other`, by namespace and labels."""
    return _in_namespaces(s, term, of, other["metadata"]["namespace"]) and selects(
        term.get("labelSelector"), labels_of(other)
    )


def _in_namespaces(s: Situation, term: Mapping[str, Any], of: Pod, namespace: str) -> bool:
    names: Iterable[str] = term.get("namespaces") or ()
    selector = term.get("namespaceSelector")
    if not names and selector is None:
        return bool(namespace == of["metadata"]["namespace"])
    if namespace in names:
        return True
    return selects(selector, labels_of(s.snapshot.named("Namespace").get(("", namespace)) or {"metadata": {}}))


def _selector_text(selector: Any) -> str:
    selector = selector or {}
    parts = [f"{bare(key)}={bare(value)}" for key, value in (selector.get("matchLabels") or {}).items()]
    parts += [
        f"{bare(each.get('key'))} {each.get('operator')} {listed(map(bare, each.get('values') or ()))}".strip()
        for each in selector.get("matchExpressions") or ()
    ]
    return listed(parts) or "any labels"


def _workloads_text(workloads: Counter[str]) -> str:
    texts = [f"{bare(name)} ({count})" if count > 1 else bare(name) for name, count in workloads.most_common()]
    return listed(texts, 3)
