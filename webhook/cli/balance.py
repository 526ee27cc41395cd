"""`gpu-admission balance`: on which nodes the GPU pods of each workload are, which nodes are free as a whole, and which GPUs
are stranded."""

from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, Final

import numpy as np
import orjson
import typer
from rich.text import Text

from webhook.cli import offline, options
from webhook.cli.before import before
from webhook.cli.cluster.devices import PodGpus
from webhook.cli.cluster.report import workload_name
from webhook.cli.cluster.snapshot import CLAIMS, ENGINE, Snapshot
from webhook.cli.manifests import Planned
from webhook.cli.pending import KINDS
from webhook.cli.reading import measure_gpus, namespace_of, policy_of, snapshot_of
from webhook.cli.simulating.moves import Suggestion, suggestions
from webhook.cli.simulating.run import free_gpus, simulate, whole_nodes
from webhook.cli.terminal import document, no_such, out, say, show, table
from webhook.cli.waiting.situation import Situation
from webhook.errors import BadInput
from webhook.kube.pod import Pod
from webhook.policy.model import DEFAULT_PROFILE, Policy
from webhook.state.gpu_amounts import gpu_number
from webhook.text import listed, plural

_MAX_LISTED: Final = 20


def balance(
    workload: Annotated[
        str | None,
        typer.Argument(help="One workload, such as `deployment/chat`: also show what re-creating it would give."),
    ] = None,
    namespace: options.Namespace = None,
    everywhere: options.AllNamespaces = False,
    suggest: Annotated[
        bool, typer.Option("--suggest", help="Also say which nodes could be drained: where their GPU pods would go.")
    ] = False,
    output: options.Output = "table",
    metrics: options.Metrics = None,
    policy: options.Policy = None,
    cluster: options.Snapshot = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
) -> None:
    """Show where the GPU pods of each workload are, how uneven that is, whole nodes left, and GPUs stranded by CPU or memory.

    Example: `gpu-admission balance -A --suggest`: which nodes could be drained.

    SKEW: the difference between the most and the fewest pods on one node, over the nodes that the workload uses. Stranded:
    free GPUs on a node without the free CPU or memory that the rule cpuPerGpu requires for them. With --suggest: a pod is
    moved by deleting it. Its controller makes another, and the webhook chooses its node.
    """
    snapshot = snapshot_of(cluster, kubeconfig, context, KINDS if suggest else (*ENGINE, *CLAIMS), namespace)
    rules, where = policy_of(policy, snapshot), namespace_of(namespace, everywhere, snapshot)
    answer = balanced(snapshot, rules, where, suggest=suggest)
    if workload is not None:
        kept = [each for each in answer["workloads"] if each["of"] == workload]
        if not kept:
            raise no_such("GPU pods of", workload, [each["of"] for each in answer["workloads"]])
        measure_gpus(snapshot, rules, metrics)
        answer["workloads"] = [each | {"recreated": _recreated(snapshot, rules, each)} for each in kept]
    if not document(answer, output):
        _print(answer, where)


def balanced(snapshot: Snapshot, policy: Policy, namespace: str | None, *, suggest: bool = False) -> dict[str, Any]:
    """The document that `-o json` prints, for one namespace or, with None, for all."""
    situation, devices = Situation(snapshot, policy), PodGpus(snapshot, policy)
    nodes: dict[tuple[str, str], Counter[str]] = {}
    gpus: dict[tuple[str, str], dict[str, float]] = {}
    for node, pods in snapshot.pods_on.items():
        for pod in pods:
            here, count = pod["metadata"]["namespace"], sum(devices.of(pod).values())
            if count and namespace in (None, here):
                key = here, workload_name(pod)
                nodes.setdefault(key, Counter())[node] += 1
                of = gpus.setdefault(key, {})
                of[node] = of.get(node, 0) + count
    workloads = [
        {
            "namespace": key[0],
            "of": key[1],
            "pods": pods_on.total(),
            "skew": _skew(pods_on),
            "gpus": {node: gpu_number(count) for node, count in sorted(gpus[key].items())},
        }
        for key, pods_on in sorted(nodes.items())
    ]
    unused = _least_first(situation, _unused(situation, cordoned=False))
    return {
        "workloads": workloads,
        "wholeNodes": len(whole := _least_first(situation, whole_nodes(situation))),
        "whole": whole,
        "cordoned": _unused(situation, cordoned=True),
        "freeGpus": free_gpus(situation),
        "free": {name: free for name in situation.gpus.of if (free := free_gpus(situation, name))},
        "strandedGpus": _stranded(situation, policy),
        **({"drainable": [{"node": name, "of": _gpus_of(situation, name)} for name in unused]} if suggest else {}),
        **({"suggestions": [_suggested(situation, each) for each in suggestions(situation)]} if suggest else {}),
    }


def _least_first(s: Situation, names: list[str]) -> list[str]:
    """The nodes, those first whose loss costs least: with the fewest whole GPUs, the fewest GPUs."""

    def key(name: str) -> tuple[float, float, str]:
        row = s.nodes.row_of[name]
        counts = {resource: float(each.offered[row]) for resource, each in s.gpus.of.items()}
        whole = (
            0.0
            if s.nodes.columns.sharing[row] > 1
            else sum([count for resource, count in counts.items() if s.policy.gpus.kind(resource) in ("whole", None)])
        )
        return whole, sum(counts.values()), name

    return sorted(names, key=key)


def _unused(s: Situation, *, cordoned: bool) -> list[str]:
    """The nodes that have all their GPUs free, healthy or not, and are cordoned or are not."""
    return list(s.named(s.alive & (s.cordoned == cordoned) & s.gpus.whole()))


def _gpus_of(s: Situation, name: str) -> str:
    """`8 nvidia.com/gpu, NVIDIA-L4`."""
    row, mask = s.nodes.row_of[name], np.zeros(len(s.alive), bool)
    mask[row] = True
    counts = [f"{gpu_number(each.offered[row])} {of}" for of, each in s.gpus.of.items() if each.offered[row]]
    return ", ".join(filter(None, [*counts, s.models(mask)]))


def _suggested(s: Situation, found: Suggestion) -> dict[str, Any]:
    return {"node": found.node, "of": _gpus_of(s, found.node), **found.document()}


def _skew(pods_on: Counter[str]) -> int:
    return max(pods_on.values()) - min(pods_on.values())


def _stranded(s: Situation, policy: Policy) -> dict[str, int]:
    """By node: how many of its free GPUs lack the free CPU or memory that a GPU needs at least, over all classes."""
    classes = policy.profile(DEFAULT_PROFILE)[1].rules.cpu_per_gpu.classes.values()
    least = {name: min((each.least[name] for each in classes), default=0) for name in ("cpu", "memory")}
    whole = [each.free for name, each in s.gpus.of.items() if policy.gpus.kind(name) in ("whole", None)]
    free = np.floor(sum([np.maximum(each, 0) for each in whole], np.zeros(len(s.alive)))).astype(np.int64)
    usable = np.min([np.maximum(s.free[name], 0) // max(1, amount) for name, amount in least.items()], axis=0)
    stranded = np.where(s.healthy, np.maximum(free - usable, 0), 0)
    return {s.names[row]: int(stranded[row]) for row in np.flatnonzero(stranded).tolist()}


def _recreated(snapshot: Snapshot, policy: Policy, workload: dict[str, Any]) -> dict[str, Any]:
    """Where the pods of the workload would be if all were deleted and created again now: a run of `simulate`.

    The snapshot cannot be used afterwards.
    """
    namespace, name = workload["namespace"], workload["of"]
    pods = [
        pod
        for on in snapshot.pods_on.values()
        for pod in on
        if workload_name(pod) == name and pod["metadata"]["namespace"] == namespace
    ]
    pods.sort(key=lambda pod: str(pod["metadata"]["name"]))
    outcome = simulate(snapshot.without(pods), policy, [[Planned(_document(pod, policy), name, 1) for pod in pods]])
    pods_on = sum([each.sides["with"].bound for each in outcome.workloads], Counter[str]())
    return {
        "nodes": dict(sorted(pods_on.items())),
        "skew": _skew(pods_on) if pods_on else 0,
        "waits": len(pods) - pods_on.total(),
        "wholeNodes": outcome.whole_nodes,
    }


def _document(pod: Pod, policy: Policy) -> offline.Document:
    """The pod as its controller makes it anew. Raises BadInput."""
    submitted = offline.as_submitted(before(pod, policy.gpus))
    (parsed,) = offline.documents(orjson.dumps(submitted), pod["metadata"]["name"])
    if isinstance(parsed, BadInput):
        raise parsed
    return parsed


def _print(answer: dict[str, Any], namespace: str | None) -> None:
    if answer["workloads"]:
        rows = [[w["namespace"], w["of"], w["pods"], w["skew"], _listed(w["gpus"], 8)] for w in answer["workloads"]]
        table(["NAMESPACE", "WORKLOAD", "PODS", "SKEW", "GPUS BY NODE"], rows, drop=["SKEW", "PODS"])
    else:
        of = f" of namespace {namespace} (-A: of all)" if namespace else ""
        say(f"no GPU pod{of} is on a node")
    for workload in answer["workloads"]:
        if again := workload.get("recreated"):
            waiting = f"; {again['waits']} would wait" if again["waits"] else ""
            left = plural(again["wholeNodes"], "whole node")
            nodes = _listed(again["nodes"], 8)
            say(f"re-created it would be on {nodes} (pods), skew {again['skew']}, {left} left{waiting}")
    if "suggestions" in answer:
        _print_drainable(answer)
    stranded = sum(answer["strandedGpus"].values())
    where = f": {_listed(answer['strandedGpus'], 6)}" if stranded else ""
    left, free = (
        plural(answer["wholeNodes"], "whole node"),
        listed([f"{n} {name}" for name, n in answer["free"].items()]),
    )
    say(f"{left} left; free on healthy nodes: {free or 'no GPU'}, {stranded} of them stranded{where}")


def _print_drainable(answer: dict[str, Any]) -> None:
    """A line for each pod that has to move: the nodes on which no pod has a GPU, then those that are whole after some moves."""
    free, rows = answer["drainable"], []
    for each in free[:_MAX_LISTED]:
        rows.append([each["node"], each["of"], "none", ""])
    for each in answer["suggestions"]:
        head = [each["node"], each["of"]]
        for move in each["moves"]:
            rows.append([*head, move["pod"], move["to"]])
            head = ["", ""]
    if rows:
        out("")
        table(["TO DRAIN", "GPUS", "POD TO MOVE", "IT GOES TO"], rows, drop=["GPUS"])
    if (more := len(free) - _MAX_LISTED) > 0:
        show(Text(f"and {more} more on which no pod has a GPU (-o json: all of them)"))
    if answer["cordoned"]:
        show(Text(f"cordoned already, and no pod has a GPU there: {listed(answer['cordoned'], _MAX_LISTED)}"))
    if not answer["suggestions"]:
        show(Text(f"no {'other ' if free else ''}node can be made whole by moving a few pods of workloads"))


def _listed(counts: Mapping[str, float], limit: int) -> str:
    """`gpu-a 8, gpu-b 4 and 3 more`."""
    return listed([f"{name} {count}" for name, count in counts.items()], limit)
