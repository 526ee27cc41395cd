"""A decision record in words: what each injector did and why not, and what the numbers of the ranking mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from webhook.text import bare, listed, plural

_SENTENCES: Final[Mapping[str, Mapping[str, str]]] = {
    "gpuResources": {
        "filled": "GPU requests were filled in from limits in {} place(s)",
        "limitsFilled": "GPU limits were filled in from requests, or requests from limits, in {} place(s)",
        "equal": "GPU requests equal limits already",
    },
    "cpuPerGpu": {
        "none": "CPU and memory are its own matter: it asks for no whole GPU, or the policy states no share",
        "skipped": "CPU and memory were left as they are: {}",
        "filled": "CPU and memory were filled in by its GPUs: {}",
        "filledLess": "CPU and memory were filled in by its GPUs, less than their share, since no node has more: {}",
    },
    "tolerations": {
        "covered": "it tolerates the taints of GPU nodes already",
        "added": "it got tolerations of {}",
    },
    "voidDevices": {
        "added": "{} container(s) that ask for no GPU see none",
        "none": "no container had to be kept from GPUs that it did not ask for",
    },
    "topologySpread": {
        "nodeIsFixed": "not spread: one node is required",
        "noOwner": "not spread: no controller made it, so it has no replicas",
        "podAffinity": "not spread: it says itself which pods it wants to be near",
        "noLabels": "not spread: it has no labels to know its replicas by",
        "present": "it has topology spread or anti-affinity of its own",
        "neutral": "the scheduler's own spread was kept from working against the chosen node",
        "antiAffinity": "it prefers nodes without its replicas",
        "added": "it got topology spread over {}",
    },
    "priorityClass": {
        "none": "the policy has no priority class for its class of workload",
        "kept": "it keeps its own priority class {}",
        "missing": "priority class {} does not exist: it was left without",
        "unknown": "priority classes are not known yet: it was left without {}",
        "set": "it got priority class {}",
    },
    "nodeAffinity": {
        "none": "no node is preferred: {}",
        "present": "it prefers the chosen nodes already",
        "preferredPools": "no node was chosen ({}), so pools are preferred by label",
        "notPinned": "not pinned to one node ({}), the chosen ones are preferred",
        "preferred": "{} node(s) are preferred, the chosen one most",
        "required": "it must run on {}",
    },
}
"""By injector and result."""
MEANINGS: Final = {
    "FREE": "GPUs of that name that were free before this pod",
    "PEERS": "pods of its owner there",
    "SCORE": "by the strategy; higher is better, after fewer peers where it keeps them apart",
}


def units(record: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each injector and what it did."""
    for name, done in (record.get("units") or {}).items():
        yield str(name), sentence(str(name), done)


def sentence(unit: str, done: Any) -> str:
    """Of what stands in the record: `[result]` or `[result, detail]`. An unknown result stands for itself."""
    result, *detail = done if isinstance(done, list) and done else [str(done)]
    text = _SENTENCES.get(unit, {}).get(result, f"{bare(result)}{' {}' if detail else ''}")
    return text.replace("{}", _detail(detail[0]) if detail else "")


def why_none(record: Mapping[str, Any]) -> str:
    """Why no node was chosen; "" where one was."""
    if not (why := record.get("why")):
        return ""
    kept = listed([f"{plural(number, 'node')} {reason}" for reason, number in record.get("rejected") or ()], 8)
    return f"{bare(why)}{f': {kept}' if kept else ''}"


def choice(nodes: list[str], bound: str | None) -> tuple[str, str]:
    """Whether it is where it was meant to be: a constant word, and a sentence."""
    if not nodes:
        return "", ""
    if bound is None:
        return "waits", f"not bound yet; chosen was {nodes[0]}"
    if bound == nodes[0]:
        return "first", f"bound to {bound}, the node that was chosen"
    if bound in nodes:
        place = nodes.index(bound) + 1
        return (
            "ranked",
            f"bound to {bound}, number {place} of the ranking, not to {nodes[0]}: the scheduler's other scores weighed more",
        )
    return (
        "other",
        f"bound to {bound}, which is not in the ranking: {nodes[0]} and the others had no room when it was scheduled",
    )


def _detail(detail: Any) -> str:
    if isinstance(detail, dict):
        return listed([f"{bare(key)} {_detail(value)}" for key, value in detail.items()], 8)
    return listed([_detail(each) for each in detail], 8) if isinstance(detail, list) else bare(str(detail))


def source(record: Mapping[str, Any]) -> str:
    """Which numbers of GPUs the ranking used; "" where it says nothing."""
    what, origin, age = (*record.get("by", ()), None, None, None)[:3]
    if what == "metrics":
        return f"by metrics from {origin}, {age} s old"
    return f"by what is allocated: {origin}" if what else ""
