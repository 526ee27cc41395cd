"""`gpu-admission balance`: where the pods of each workload are, what is left whole, and what nobody can use."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any

import numpy as np
import orjson
import typer

from webhook.cli import offline, options
from webhook.cli.audit import as_new
from webhook.cli.cluster.kinds import ENGINE
from webhook.cli.cluster.report import gpus_of, record_of
from webhook.cli.cluster.snapshot import Snapshot
from webhook.cli.manifests import Planned
from webhook.cli.options import Format
from webhook.cli.printing import document, table
from webhook.cli.reading import measure_gpus, namespace_of, policy_of, snapshot_of
from webhook.cli.simulating.outcome import free_gpus, whole_nodes
from webhook.cli.simulating.run import simulate
from webhook.cli.terminal import no_such, say
from webhook.cli.waiting.situation import Situation, workload_name
from webhook.errors import BadInput
from webhook.framework.node_terms import named_node
from webhook.kube.pod import DECISION, PREFERRED, Pod
from webhook.policy.model import DEFAULT_PROFILE, Policy
from webhook.text import listed, plural


def balance(
    workload: Annotated[
        str | None, typer.Argument(help="As `deployment/chat`: also what re-creating it would give.")
    ] = None,
    namespace: options.Namespace = None,
    everywhere: options.AllNamespaces = False,
    output: options.Output = Format.table,
    metrics: options.Metrics = None,
    policy: options.Policy = None,
    cluster: options.Snapshot = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
) -> None:
    """Show where the GPU pods of each workload are, how uneven that is, whole nodes left, and GPUs stranded by CPU or memory.

    SKEW: most pods on one node less fewest, over the nodes that it uses. Stranded: free GPUs beside too little free CPU or
    memory for them, by the least of the rule cpuPerGpu.
    """
    snapshot = snapshot_of(cluster, kubeconfig, context, ENGINE, namespace)
    rules, where = policy_of(policy, snapshot), namespace_of(namespace, everywhere, snapshot)
    answer = balanced(snapshot, rules, where)
    if workload is not None:
        kept = [each for each in answer["workloads"] if each["of"] == workload]
        if not kept:
            raise no_such("GPU pods of", workload, [each["of"] for each in answer["workloads"]])
        measure_gpus(snapshot, rules, metrics)
        answer["workloads"] = [each | {"recreated": _recreated(snapshot, rules, each)} for each in kept]
    if not document(answer, output):
        _print(answer, where)


def balanced(snapshot: Snapshot, policy: Policy, namespace: str | None) -> dict[str, Any]:
    """The document."""
    situation = Situation(snapshot, policy)
    nodes: dict[tuple[str, str], Counter[str]] = {}
    gpus: dict[tuple[str, str], Counter[str]] = {}
    for node, pods in snapshot.pods_on.items():
        for pod in pods:
            here, count = pod["metadata"]["namespace"], sum(gpus_of(pod, policy).values())
            if count and namespace in (None, here):
                key = here, workload_name(pod)
                nodes.setdefault(key, Counter())[node] += 1
                gpus.setdefault(key, Counter())[node] += count
    workloads = [
        {
            "namespace": key[0],
            "of": key[1],
            "pods": sum(on.values()),
            "skew": _skew(on),
            "gpus": dict(sorted(gpus[key].items())),
        }
        for key, on in sorted(nodes.items())
    ]
    resources, stranded = policy.gpus.among(situation.capacity), _stranded(situation, policy)
    return {
        "workloads": workloads,
        "wholeNodes": whole_nodes(situation, resources),
        "freeGpus": free_gpus(situation, resources),
        "strandedGpus": stranded,
    }


def _skew(on: Counter[str]) -> int:
    return max(on.values()) - min(on.values())


def _stranded(s: Situation, policy: Policy) -> dict[str, int]:
    """By node: free GPUs beside too little free CPU or memory."""
    per = policy.profile(DEFAULT_PROFILE)[1].rules.cpu_per_gpu.classes.values()
    least = {name: min((each.least[name] for each in per), default=0) for name in ("cpu", "memory")}
    whole = [name for name in policy.gpus.among(s.capacity) if policy.gpus.kind(name) == "whole"]
    free = (
        np.sum([np.maximum(s.free[name], 0) for name in whole], axis=0) if whole else np.zeros(len(s.alive), np.int64)
    )
    usable = np.min([np.maximum(s.free[name], 0) // max(1, amount) for name, amount in least.items()], axis=0)
    stranded = np.where(s.alive, np.maximum(free - usable, 0), 0)
    return {s.names[row]: int(stranded[row]) for row in np.flatnonzero(stranded).tolist()}


def _recreated(snapshot: Snapshot, policy: Policy, workload: dict[str, Any]) -> dict[str, Any]:
    """What would become of its pods if all were deleted and made anew now: as `simulate` would have it."""
    namespace, name = workload["namespace"], workload["of"]
    pods = [
        pod
        for on in snapshot.pods_on.values()
        for pod in on
        if workload_name(pod) == name and pod["metadata"]["namespace"] == namespace
    ]
    pods.sort(key=lambda pod: str(pod["metadata"]["name"]))
    outcome = simulate(snapshot.without(pods), policy, [[Planned(_document(pod), name, 1) for pod in pods]])
    sides = [each.sides["with"] for each in outcome.workloads]
    on = sum([side.bound for side in sides], Counter[str]())
    return {
        "nodes": dict(sorted(on.items())),
        "skew": _skew(on) if on else 0,
        "waits": len(pods) - on.total(),
        "wholeNodes": outcome.whole_nodes,
    }


def _document(pod: Pod) -> offline.Document:
    """The pod as its author wrote it, as far as can be told: without the node that was chosen for it."""
    written: Pod = orjson.loads(orjson.dumps(as_new(pod)))
    (written["metadata"].get("annotations") or {}).pop(DECISION, None)
    chosen = {entry[0] for entry in record_of(pod).get("nodes") or () if isinstance(entry, list)}
    affinity = (written["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    if PREFERRED in affinity:
        kept = [term for term in affinity[PREFERRED] if named_node(term.get("preference")) not in chosen]
        affinity[PREFERRED] = kept
    (parsed,) = offline.documents(orjson.dumps(written), pod["metadata"]["name"])
    if isinstance(parsed, BadInput):
        raise parsed
    return parsed


def _print(answer: dict[str, Any], namespace: str | None) -> None:
    if answer["workloads"]:
        rows = [
            [w["namespace"], w["of"], w["pods"], w["skew"], listed([f"{n} {c}" for n, c in w["gpus"].items()], 8)]
            for w in answer["workloads"]
        ]
        table(["NAMESPACE", "WORKLOAD", "PODS", "SKEW", "GPUS BY NODE"], rows)
    else:
        of = f" of namespace {namespace} (-A: of all)" if namespace else ""
        say(f"no GPU pod{of} is on a node")
    for workload in answer["workloads"]:
        if again := workload.get("recreated"):
            nodes = listed([f"{name} {count}" for name, count in again["nodes"].items()], 8)
            lost = f"; {again['waits']} would wait" if again["waits"] else ""
            left = plural(again["wholeNodes"], "whole node")
            say(f"re-created it would be on {nodes} (pods), skew {again['skew']}, {left} left{lost}")
    stranded = sum(answer["strandedGpus"].values())
    where = f": {listed([f'{name} {count}' for name, count in answer['strandedGpus'].items()], 6)}" if stranded else ""
    left, free = plural(answer["wholeNodes"], "whole node"), plural(answer["freeGpus"], "GPU")
    say(f"{left} left; {free} free, {stranded} of them stranded{where}")
