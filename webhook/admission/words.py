"""Describes decisions in sentences: what each injector did, what is wrong, where the pod was bound and why.

Refusals, Events and the command line all use these sentences.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from webhook.framework.interface import Finding
from webhook.kube.gpus import GPU_KINDS, PARTS
from webhook.kube.pod import Pod
from webhook.kube.pod_requests import counted_requests
from webhook.kube.record import outcome_of
from webhook.nodes.table import LAST
from webhook.placement.constraints import NO_CONSTRAINTS, compiled
from webhook.placement.feasible import Feasible
from webhook.placement.order import CRITERIA, NAME
from webhook.policy.model import Injectors, named
from webhook.state.state import ClusterState
from webhook.text import amount_words, bare, listed, plural

_LEFT_ALONE: Final = {"leftAlone": "left alone: the pod's annotation gpu-admission.io/injection says so"}
_SENTENCES: Final[Mapping[str, Mapping[str, str]]] = {
    name: {**injector.sentences, **_LEFT_ALONE} for name, injector in named(Injectors())
}
"""Sentences by injector and result; `{}` stands for the detail, `{node}` for that number of nodes."""
_COUNTED: Final = re.compile(r"\{([a-z]+)\}")
MEANINGS: Final = {
    "FREE": "GPUs of that name that were free before this pod",
    "PEERS": "pods of its owner there",
    "SCORE": "by the strategy; of nodes that are equal by all before it the higher comes first, and what is kept back last",
}
OTHER_SCORES: Final = "the scheduler's other scores weighed more"
_NUMBERS: Final = {"peers": 2, "score": 3, "fitForUse": 4, "load": 5}
"""Where the record of a node has the number that a criterion compares."""


def units(record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The injectors in a record, each with a sentence that says what it did."""
    for name, outcome in (record.get("units") or {}).items():
        yield str(name), sentence(str(name), outcome)


def sentence(unit: str, outcome: Any) -> str:
    """The sentence for an entry of the record: `[result]` or `[result, detail]`. An unknown result is shown as it is."""
    result, *detail = outcome if isinstance(outcome, list) and outcome else [str(outcome)]
    text = _SENTENCES.get(unit, {}).get(str(result), f"{bare(result)}{' {}' if detail else ''}")
    if (counted := _COUNTED.search(text)) and detail and isinstance(detail[0], int):
        return text.replace(counted[0], plural(detail[0], counted[1]))
    return _COUNTED.sub(r"\1", text).replace("{}", _detail(detail[0]) if detail else "")


def why_none(record: Mapping[str, Any]) -> str:
    """Why no node was chosen; "" if one was."""
    if not (why := record.get("why")):
        return ""
    reasons = listed([f"{plural(number, 'node')} {reason}" for reason, number in record.get("rejected") or ()], 8)
    return f"{bare(why)}{f': {reasons}' if reasons else ''}"


def decided(record: Mapping[str, Any], kept: Mapping[str, str] | None = None) -> str:
    """Why the first ranked node is before the second, by the criterion that decided, with the numbers that the record has, or
    that there is no second; "" if the record does not say. `kept`: why nodes are kept back, by name (`why_last`)."""
    ranked, word = (record.get("nodes") or [])[:2], record.get("decided")
    sentences = {criterion.name: criterion.sentence for criterion in CRITERIA}
    if len(ranked) == 1:
        return f"{bare(str(ranked[0][0]))} was the only node that could take it"
    if len(ranked) < 2 or word not in (*sentences, NAME):
        return ""
    first, second = (bare(str(node[0])) for node in ranked)
    if word == NAME:
        return f"{first} comes before {second} by its name: they are equal by all criteria"
    why, at = sentences[word], _NUMBERS.get(word, 9)
    if word == "score" and second in (kept or {}) and first not in (kept or {}):
        why = f"{second} is kept back: {(kept or {})[second]}"
    elif at < min(len(ranked[0]), len(ranked[1])) and ranked[0][at] != ranked[1][at]:
        numbers = [own_score(node[at]) if word == "score" else node[at] for node in ranked]
        why = f"{why}: {numbers[0]}, not {numbers[1]}"
    before = "" if word == CRITERIA[0].name else "; equal by all before it"
    return f"{first} comes before {second}: {why} (criterion {word}{before})"


def finding_line(unit: str, finding: Finding) -> str:
    """A finding with the unit that yielded it, on one line."""
    return f"{finding.message} [{unit}]"


def binding(nodes: Sequence[str], bound: str | None, why: str = "") -> tuple[str, str]:
    """Compares the node to which a pod is bound with its ranked nodes: a constant word, and a sentence.

    `why`: why the pod is not on the first one.
    """
    if not nodes:
        return "", ""
    if bound is None:
        return "waits", f"not bound yet; chosen was {bare(nodes[0])}"
    if bound == nodes[0]:
        return "first", f"bound to {bare(bound)}, the node that was chosen"
    word, place = "other", "which is not in the ranking"
    if bound in nodes:
        word, place = "ranked", f"number {nodes.index(bound) + 1} of the ranking"
    return word, f"bound to {bare(bound)}, {place}, not to {bare(nodes[0])}: {why}"


def why_elsewhere(pod: Pod, node: str, state: ClusterState) -> str:
    """Why the scheduler did not bind the pod to this node, as far as `state` shows it."""
    nodes, columns = state.nodes, state.nodes.columns
    row = nodes.row_of.get(node, -1)
    if row < 0 or not columns.alive[row]:
        return "that node is gone"
    judgement, at = Feasible(compiled(pod["spec"]) or NO_CONSTRAINTS), slice(row, row + 1)
    if judgement.cordoned(nodes, at).any():
        return "that node is cordoned (spec.unschedulable)"
    if judgement.down(nodes, at).any():
        return "that node is not ready"
    for taint in judgement.untolerated(nodes.statuses[columns.status[row]].taints):
        return f"that node has a taint that the pod does not tolerate, {bare(taint.key)}"
    counted = [*state.ledger.holders(state.usage.namespace), *state.nominations.kept_from(pod, kept=False)]
    reserved = [kind.pod_requests for reserved_row, kind in counted if reserved_row == row]
    for resource, amount in counted_requests(pod).requests:
        free = int(columns.free[resource][row]) if resource in columns.free else 0
        free += sum([pod_requests.amount(resource) for pod_requests in reserved])  # the scheduler counts neither
        if free < amount:
            asked, left = amount_words(resource, amount), amount_words(resource, max(0, free))
            return f"that node was full by then: the pod asks for {asked}, and it had {left} left"
    return OTHER_SCORES


def _detail(detail: Any) -> str:
    if isinstance(detail, dict):
        return listed([f"{bare(key)} {_detail(value)}" for key, value in detail.items()], 8)
    return listed([_detail(item) for item in detail], 8) if isinstance(detail, list) else bare(str(detail))


def own_score(score: float) -> float:
    """The score of a node as its strategy gave it: without what keeps the node back."""
    return round(score + LAST * round(-score / LAST), 3) if score < -LAST / 2 else score


def why_last(node: Mapping[str, Any], gpus: Iterable[str], state: ClusterState | None, *, alone: bool = False) -> str:
    """Why the strategy keeps a node back, so that it comes after the others by score (`nodes.table.LAST`), as far as `state`
    shows it; "" if it does not.

    `node`: its "name", "free" and "score" in the record. `gpus`: the GPU resources that the pod asks for. `alone`: the record is
    of a webhook with one replica.
    """
    if node["score"] >= -LAST / 2:
        return ""
    kept = "it is kept for pods that need a whole node, or "
    if state is not None and (row := state.nodes.row_of.get(node["name"])) is not None:
        kept = ""
        columns = state.nodes.columns
        whole = columns.one == 0
        sizes = [int(columns.capacity[gpu].max(where=whole, initial=0)) for gpu in gpus if gpu in columns.capacity]
        if one := columns.one[row]:
            return f"it has {PARTS[GPU_KINDS[one]]}, and the pod fits elsewhere"
        if sizes and 0 < max(sizes) <= node["free"]:
            return "all its GPUs are free, and such nodes are kept for pods that need one"
    needed = "pods like those that run need just what is free there"
    return (
        needed
        if alone
        else f"{kept}{needed}, or another replica of the webhook fills it (the record does not say which)"
    )


def karpenter(record: Mapping[str, Any]) -> str:
    """Which version of Karpenter makes a node for the pod, "" if the record does not say; see `admission.record`."""
    least = str(record.get("karpenter") or "")
    if least != "none":
        return f"Karpenter makes a node for this pod from version {bare(least)} on" if least else ""
    ours = outcome_of(record, "nodeAffinity")[:1] == ["required"]
    fix = "in the policy remove its scheduler from placement.requiredFor"
    by_name = "no version of Karpenter makes a node for a pod that requires one by name"
    return f"{by_name}: {fix if ours else 'remove the name from its affinity'}"


def source(record: Mapping[str, Any]) -> str:
    """The numbers about GPUs that the ranking used, in words; "" if the record does not have them."""
    match record.get("by"):
        case ["metrics", origin, age]:
            return f"by metrics from {origin}, {age} s old"
        case [_, reason]:
            return f"by what is allocated: {reason}"
    return ""
