"""Checks nodes against the pods that are bound: pod affinity, pod anti-affinity, topology spread constraints and host ports.

k8s.io/kubernetes pkg/scheduler/framework/plugins/{interpodaffinity,podtopologyspread}/filtering.go and nodeports.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from webhook.kube.pod import REQUIRED, Pod, containers, labels_of
from webhook.kube.selectors import matcher
from webhook.kube.stores import full_name
from webhook.placement.constraints import Mask
from webhook.text import bare, listed
from webhook.whatif.cluster.report import workload_name
from webhook.whatif.waiting.causes import Cause, Fix, NodeCheck
from webhook.whatif.waiting.nodes import unselected
from webhook.whatif.waiting.situation import Case, Situation, with_spec, without_affinity

_ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104  compared as the scheduler does, not bound
_Port = tuple[str, str, int]
"""Address, protocol and number."""


def affinity(case: Case) -> NodeCheck:
    """Nodes in whose domain there is no pod that the pod's affinity requires. A pod counts if all terms select it."""
    s, fails, near = case.situation, np.zeros_like(case.situation.alive), np.zeros_like(case.situation.alive)
    terms = _terms(case.pod, "podAffinity")
    domains = [s.domains(term["topologyKey"])[0] for term in terms]
    selecting = [_selecting(s, term, case.pod) for term in terms]
    for row, pod in s.bound if terms else ():
        if all(selects(pod) for selects in selecting):
            near[row] |= any(of[row] for of in domains)
    # the first of a group of pods that select each other
    first = not near.any() and all(selects(case.pod) for selects in selecting)
    for of in domains:
        fails |= (of == 0) | ~(first | np.isin(of, of[near & (of > 0)]))

    def explain(mask: Mask, alone: Mask) -> Iterator[Cause]:
        wanted = listed(
            [f"{_selector_text(t.get('labelSelector'))} in the same {bare(t['topologyKey'])}" for t in terms]
        )
        text = f"required pod affinity wants pods with {wanted}: none where {s.where(mask)}"
        prefer = Fix("make the affinity preferred", pod=without_affinity(case.pod, "podAffinity"))
        if any(term.get("labelSelector") is None for term in terms):
            yield s.cause("podAffinity", text, mask, alone, prefer, "write its labelSelector")
        elif near.any():
            text = f"{text}, they are on {s.where(near)}"
            yield s.cause("podAffinity", text, mask, alone, prefer, "let those pods run where this one can")
        else:
            first = "start the pods that it wants to be near first"
            yield s.cause("podAffinity", f"{text}{_elsewhere(s, terms, case.pod)}", mask, alone, first, prefer)

    return NodeCheck(s.alive & fails, explain)


def _elsewhere(s: Situation, terms: Iterable[Mapping[str, Any]], pod: Pod) -> str:
    """That such pods are in other namespaces, which the terms do not name."""
    named = [term for term in terms if not term.get("namespaces") and term.get("namespaceSelector") is None]
    matching = [matcher(term.get("labelSelector")) for term in named]
    here = {
        bare(other["metadata"]["namespace"])
        for _, other in (s.bound if named else ())
        if all(matches(labels_of(other)) for matches in matching)
    } - {pod["metadata"]["namespace"]}
    return f"; such pods are in namespace {listed(sorted(here), 3)}, and its terms name no namespaces" if here else ""


def anti_affinity(case: Case) -> NodeCheck:
    """Nodes in whose domain there is a pod that the pod's anti-affinity excludes."""
    s = case.situation
    terms = _terms(case.pod, "podAntiAffinity")
    selecting = [(term["topologyKey"], _selecting(s, term, case.pod)) for term in terms]
    near = [(key, row, pod) for key, selects in selecting for row, pod in s.bound if selects(pod)]
    fails, workloads = _beside(s, near)

    def explain(mask: Mask, alone: Mask) -> Iterator[Cause]:
        text = f"its pod anti-affinity keeps it from {s.where(mask)}, where {workloads} are"
        prefer = Fix("make the anti-affinity preferred", pod=without_affinity(case.pod, "podAntiAffinity"))
        yield s.cause("podAntiAffinity", text, mask, alone, prefer, "add a node")

    return NodeCheck(fails, explain)


def existing_anti_affinity(case: Case) -> NodeCheck:
    """Nodes in whose domain there is a pod with an anti-affinity that excludes the pod."""
    s = case.situation
    every = [(term, row, pod) for row, pod in s.with_anti_affinity for term in _terms(pod, "podAntiAffinity")]
    near = [(term["topologyKey"], row, pod) for term, row, pod in every if _selecting(s, term, pod)(case.pod)]
    fails, workloads = _beside(s, near)

    def explain(mask: Mask, alone: Mask) -> Iterator[Cause]:
        text = f"anti-affinity of {workloads} keeps pods with these labels from {s.where(mask)}"
        fix = "change the labels of this pod or the anti-affinity of the others"
        yield s.cause("existingAntiAffinity", text, mask, alone, fix, "add a node")

    return NodeCheck(fails, explain)


def _beside(s: Situation, near: list[tuple[str, int, Pod]]) -> tuple[Mask, str]:
    """The nodes in a domain of these pods, each with a topology key and the row of its node; and their workloads in words."""
    fails, workloads, taken = np.zeros_like(s.alive), Counter[str](), dict[str, set[int]]()
    for key, row, pod in near:
        if domain := int(s.domains(key)[0][row]):
            taken.setdefault(key, set()).add(domain)
            workloads[workload_name(pod)] += 1
    for key, domains in taken.items():
        fails |= np.isin(s.domains(key)[0], [*domains])
    texts = [f"{bare(name)} ({count})" if count > 1 else bare(name) for name, count in workloads.most_common()]
    return s.alive & fails, listed(texts, 3)


def spread(case: Case) -> NodeCheck:
    """Nodes on which the pod would exceed the maxSkew of a topology spread constraint."""
    s, given = case.situation, case.pod["spec"].get("topologySpreadConstraints") or ()
    constraints = [each for each in given if each.get("whenUnsatisfiable") == "DoNotSchedule"]
    fails, texts, fixes, counted = np.zeros_like(s.alive), list[str](), list[str](), s.alive
    for constraint in constraints:
        counted = counted & (s.domains(constraint["topologyKey"])[0] > 0)
    for constraint in constraints:
        domains, names = s.domains(constraint["topologyKey"])
        counts = _pods_by_domain(case, constraint, domains, counted)
        min_domains = int(constraint.get("minDomains") or 1)
        fewest = 0 if len(counts) < min_domains else min(counts.values(), default=0)
        most = fewest + int(constraint["maxSkew"]) - int(matcher(constraint.get("labelSelector"))(labels_of(case.pod)))
        exceeded = (domains == 0) | np.isin(domains, [each for each, number in counts.items() if number > most])
        if (s.alive & exceeded).any():
            shown = ", ".join(
                [f"{name} {n}" for name, n in sorted([(bare(names[d]), n) for d, n in counts.items()])[:6]]
            )
            texts.append(f"{bare(constraint['topologyKey'])} with maxSkew {constraint['maxSkew']} (pods now: {shown})")
            if len(counts) < min_domains:
                texts[-1] += f" and minDomains {min_domains}, of which there are {len(counts)},"
                fixes += [f"lower minDomains to {len(counts)}", "add nodes where there are none"]
        fails |= exceeded

    honoring = [{**each, "nodeTaintsPolicy": "Honor"} for each in constraints]
    honored = None if honoring == constraints else with_spec(case.pod, topologySpreadConstraints=honoring)

    def explain(mask: Mask, alone: Mask) -> Iterator[Cause]:
        text = f"topology spread over {listed(texts)} keeps it from {s.where(mask)}"
        hard = ("minDomains", "whenUnsatisfiable")
        softer = [{key: each[key] for key in each if key not in hard} for each in constraints]
        softer = [{**each, "whenUnsatisfiable": "ScheduleAnyway"} for each in softer]
        soft = with_spec(case.pod, topologySpreadConstraints=softer)
        rest = (
            Fix("set whenUnsatisfiable: ScheduleAnyway", pod=soft),
            "raise maxSkew",
            "make room where there are fewest",
        )
        if honored is not None and (mask & ~spread(Case(s, honored)).fails).any():
            first = "set nodeTaintsPolicy: Honor: without it domains count whose nodes the pod does not tolerate"
            yield s.cause("topologySpread", text, mask, alone, Fix(first, pod=honored), *rest)
        else:
            yield s.cause("topologySpread", text, mask, alone, *fixes, *rest)

    return NodeCheck(s.alive & fails, explain)


def _pods_by_domain(
    case: Case, constraint: Mapping[str, Any], domains: NDArray[np.int32], counted: Mask
) -> Counter[int]:
    """The number of pods that the constraint selects in each domain with a node in `counted` that its policies include."""
    s = case.situation
    if constraint.get("nodeAffinityPolicy", "Honor") == "Honor":
        counted = counted & ~unselected(case)
    if constraint.get("nodeTaintsPolicy") == "Honor":
        counted = counted & case.judgement.open(s.nodes, s.rows)
    counts = Counter[int](dict.fromkeys(np.unique(domains[counted]).tolist(), 0))
    labels = labels_of(case.pod)
    same = {key: labels[key] for key in constraint.get("matchLabelKeys") or () if key in labels}
    matches = matcher(constraint.get("labelSelector"))
    for row, pod in s.bound:
        if (
            counted[row]
            and pod["metadata"]["namespace"] == case.namespace
            and not pod["metadata"].get("deletionTimestamp")
        ):
            theirs = labels_of(pod)
            if matches(theirs) and same.items() <= theirs.items():
                counts[int(domains[row])] += 1
    return counts


def _terms(pod: Pod, kind: str) -> list[Mapping[str, Any]]:
    """The required terms. The API server has merged their matchLabelKeys into the selector."""
    return list(((pod["spec"].get("affinity") or {}).get(kind) or {}).get(REQUIRED) or ())


def _selecting(s: Situation, term: Mapping[str, Any], of: Pod) -> Callable[[Pod], bool]:
    """Says whether an affinity term of the pod `of` selects a pod, by namespace and labels."""
    names, own = frozenset(term.get("namespaces") or ()), of["metadata"]["namespace"]
    by_labels, matches = term.get("namespaceSelector"), matcher(term.get("labelSelector"))
    if by_labels is None:
        named = names or {own}
        return lambda pod: pod["metadata"]["namespace"] in named and matches(labels_of(pod))
    known, selects = s.snapshot.named("Namespace"), matcher(by_labels)

    def selected(pod: Pod) -> bool:
        namespace = pod["metadata"]["namespace"]
        there = namespace in names or selects(labels_of(known.get(("", namespace)) or {"metadata": {}}))
        return there and matches(labels_of(pod))

    return selected


def _selector_text(selector: Any) -> str:
    if selector is None:
        return "no labelSelector, which selects none,"
    parts = [f"{bare(key)}={bare(value)}" for key, value in (selector.get("matchLabels") or {}).items()]
    parts += [
        f"{bare(each.get('key'))} {each.get('operator')} {listed(map(bare, each.get('values') or ()))}".strip()
        for each in selector.get("matchExpressions") or ()
    ]
    return listed(parts) or "any labels"


def ports(case: Case) -> NodeCheck:
    """Nodes on which other pods use the host ports of the pod."""
    s, fails = case.situation, np.zeros_like(case.situation.alive)
    wanted = _host_ports(case.pod)
    taken: dict[int, list[str]] = {}
    if wanted:
        for row, pod in s.bound:
            clash = [
                port
                for port in _host_ports(pod)
                for other in wanted
                if port[1:] == other[1:] and (port[0] == other[0] or _ANY_ADDRESS in (port[0], other[0]))
            ]
            if clash:
                fails[row] = True
                taken.setdefault(row, []).append(f"{clash[0][2]} by {full_name(pod)}")

    def explain(mask: Mask, alone: Mask) -> Iterator[Cause]:
        example = taken[int(np.flatnonzero(mask)[0])]
        text = f"host ports taken on {s.where(mask)}: {listed(example)}"
        fixes: list[Fix | str] = ["take another"]
        if not case.pod["spec"].get("hostNetwork"):
            without = with_spec(case.pod, containers=[_without_ports(each) for each in case.pod["spec"]["containers"]])
            fixes = [Fix("leave hostPort out: a Service needs none", pod=without), *fixes]
        yield s.cause("hostPort", text, mask, alone, *fixes)

    return NodeCheck(s.alive & fails, explain)


def _without_ports(container: Mapping[str, Any]) -> dict[str, Any]:
    """A container without ports of the host."""
    ports = [{key: value for key, value in port.items() if key != "hostPort"} for port in container.get("ports") or ()]
    return {**container, "ports": ports}


def _host_ports(pod: Pod) -> list[_Port]:
    return [
        (port.get("hostIP") or _ANY_ADDRESS, port.get("protocol") or "TCP", port["hostPort"])
        for container in containers(pod)
        for port in container.spec.get("ports") or ()
        if port.get("hostPort") and (container.sidecar or container.list_name == "containers")
    ]
