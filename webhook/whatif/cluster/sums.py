"""Sums of the GPUs of nodes by their kind, and the largest job that could start now."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from webhook.kube.gpus import DIVIDED, GpuKind, Gpus
from webhook.kube.taints import node_taints
from webhook.policy.model import DEFAULT_PROFILE, Policy
from webhook.state.gpu_amounts import gpu_number
from webhook.whatif.cluster.report import AMOUNTS
from webhook.whatif.cluster.snapshot import Snapshot

_ORDER: Final[Mapping[GpuKind, str]] = {"whole": "all GPUs", "slice": "all slices", "share": "all shares"}
"""The kinds of GPU in their order, and how the sum of each is called, as on the page."""


def kind_of(resource: str, node: Mapping[str, Any], gpus: Gpus) -> GpuKind:
    """What one of a resource of a node is. Those of a DRA driver are whole GPUs."""
    kind = gpus.kind(resource) or "whole"
    return node.get("one", kind) if kind == "whole" and resource in DIVIDED else kind


def by_kind(reports: Iterable[Mapping[str, Any]], gpus: Gpus) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """For each kind of GPU that there is, how all of them are called, and the nodes that have some, with these alone."""
    reports = list(reports)
    for kind, name in _ORDER.items():
        of = [
            {**each, "gpus": {key: of for key, of in each["gpus"].items() if kind_of(key, each, gpus) == kind}}
            for each in reports
        ]
        if known := [each for each in of if each["gpus"]]:
            yield name, known


def totals(nodes: Iterable[Mapping[str, Any]], gpus: Gpus) -> list[dict[str, Any]]:
    """For each kind of GPU: its sum (the model None), then the sum of each model and resource."""
    sums: dict[tuple[int, str, str], dict[str, Any]] = {}
    for node in nodes:
        for resource, counts in node["gpus"].items():
            kind = kind_of(resource, node, gpus)
            for model, name in ((None, ""), (node["model"], resource)):
                key = ([*_ORDER].index(kind), model or "", name)
                entry = sums.setdefault(
                    key, {"kind": kind, "model": model, "resource": name, "nodes": 0, **dict.fromkeys(AMOUNTS, 0)}
                )
                entry["nodes"] += 1
                for part in counts:
                    entry[part] = gpu_number(entry.get(part, 0) + counts[part])
    return [sums[key] for key in sorted(sums)]


def largest(nodes: Iterable[Mapping[str, Any]], snapshot: Snapshot, policy: Policy) -> list[dict[str, Any]]:
    """For each model and resource, the jobs that could start now: so many nodes have so many free GPUs each, most GPUs on one
    node first. A GPU counts if a CPU of its node is free as well. `taints` are those of these nodes for which the webhook adds no
    toleration; the jobs that need to tolerate none come first."""
    rows, free = snapshot.state.nodes.row_of, snapshot.state.nodes.columns.free
    by_model: dict[tuple[str, str, GpuKind, tuple[str, ...]], list[int]] = {}
    for node in nodes:
        cpus, pods = (int(free[name][rows[node["name"]]]) if name in free else 0 for name in ("cpu", "pods"))
        for resource in node["gpus"] if pods > 0 else ():
            if (startable := min(int(node["gpus"][resource]["free"]), cpus // 1000)) > 0:
                key = (
                    node["model"],
                    resource,
                    kind_of(resource, node, policy.gpus),
                    _further(snapshot, node["name"], policy),
                )
                by_model.setdefault(key, []).append(startable)
    found = [
        {"model": model, "resource": resource, "kind": kind, "taints": [*taints], "steps": list(_steps(sizes))}
        for (model, resource, kind, taints), sizes in by_model.items()
    ]
    return sorted(
        found,
        key=lambda each: ([*_ORDER].index(each["kind"]), bool(each["taints"]), _less(each["steps"]), each["model"]),
    )


def larger(jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first of `largest`, and the one with more GPUs on a node that tolerates more taints, if there is one."""
    more = [job for job in jobs[1:] if job["kind"] == jobs[0]["kind"] and _less(job["steps"]) < _less(jobs[0]["steps"])]
    return [*jobs[:1], *more[:1]]


def _further(snapshot: Snapshot, name: str, policy: Policy) -> tuple[str, ...]:
    """The taints of a node for which the webhook adds no toleration."""
    injector, taints = policy.profile(DEFAULT_PROFILE)[1].injectors.tolerations, node_taints(snapshot.nodes[name])
    further = [
        each.text for each in taints if each.effect != "PreferNoSchedule" and not injector.covers(each, policy.gpus)
    ]
    return tuple(sorted(further))


def _steps(sizes: list[int]) -> Iterator[dict[str, int]]:
    for size in sorted(set(sizes), reverse=True):
        yield {"nodes": sum(each >= size for each in sizes), "gpus": size}


def _less(steps: list[dict[str, int]]) -> tuple[int, int]:
    return -steps[0]["gpus"], -steps[0]["nodes"]
