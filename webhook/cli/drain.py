"""`gpu-admission drain`: which nodes can be emptied, where their GPU pods would go, and what forbids it."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

import numpy as np
import typer
from rich.text import Text

from webhook.cli import options
from webhook.cli.reading import policy_of, say_by, snapshot_of
from webhook.cli.terminal import REFUSED, document, out, say, show, table
from webhook.errors import BadInput
from webhook.kube.gpus import DIVIDED, GPU_KINDS
from webhook.policy.model import DEFAULT_PROFILE, Policy
from webhook.state.gpu_amounts import gpu_number
from webhook.text import listed, no_such, plural
from webhook.whatif.answers import KINDS
from webhook.whatif.cluster.snapshot import Snapshot
from webhook.whatif.moves import Moving, suggestions
from webhook.whatif.tried import FREE, free_by_resource, whole_nodes
from webhook.whatif.waiting.situation import Situation

_MAX_LISTED: Final = 20


def drain(
    node: Annotated[
        str | None, typer.Argument(help="Can this node be emptied? Default: which can.", show_default=False)
    ] = None,
    output: options.Output = "table",
    policy: options.Policy = None,
    file: options.From = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
) -> None:
    """Show which nodes can be emptied of GPU pods, where these pods would go, and what forbids it. Nothing is moved.

    Examples: `gpu-admission drain` lists the nodes without GPU pods, and those that a few moves would empty. `gpu-admission drain
    gpu-a1` says of each GPU pod there where it could go, or why it cannot. Exit status 1 if one cannot.

    To move a pod, delete it: its controller makes another, and the webhook chooses its node. A pod cannot be moved if it has no
    controller, if a PodDisruptionBudget allows no disruption now, or if an annotation says so (karpenter.sh/do-not-disrupt,
    cluster-autoscaler.kubernetes.io/safe-to-evict). Without a NODE, pods that train are not moved either.
    GPUs are stranded if they are free on a node without the free CPU or memory that the rule cpuPerGpu requires for them.
    """
    snapshot = snapshot_of(file, kubeconfig, context, KINDS)
    if why := snapshot.missing.get("Pod"):
        raise BadInput(f"{why}: whose pods are on the nodes is not known")
    rules = policy_of(policy, snapshot)
    if node is None:
        if not document(answer := drainable(snapshot, rules), output, "Drain"):
            _print(answer)
    else:
        if node not in snapshot.nodes:
            raise no_such("node", node, list(snapshot.nodes))
        if not document(answer := Moving(Situation(snapshot, rules)).all_from(node), output, "Drain"):
            _print_moves(answer)
    say_by(policy, snapshot)
    if node is not None and not answer["possible"]:
        raise typer.Exit(REFUSED)


def drainable(snapshot: Snapshot, policy: Policy) -> dict[str, Any]:
    """The document that `-o json` prints."""
    situation = Situation(snapshot, policy)
    unused = _least_first(situation, _unused(situation, cordoned=False))
    return {
        "wholeNodes": len(whole := _least_first(situation, whole_nodes(situation))),
        "whole": whole,
        "cordoned": _unused(situation, cordoned=True),
        **{key: free_by_resource(situation, one) for key, one in zip(FREE, GPU_KINDS, strict=True)},
        "strandedGpus": _stranded(situation, policy),
        "drainable": [{"node": name, "gpus": _gpus_of(situation, name)} for name in unused],
        "suggestions": [each.document() | {"gpus": _gpus_of(situation, each.node)} for each in suggestions(situation)],
    }


def _least_first(s: Situation, names: list[str]) -> list[str]:
    """The nodes, those first whose loss costs least: with the fewest whole GPUs, the fewest GPUs."""

    def key(name: str) -> tuple[float, float, str]:
        row = s.nodes.row_of[name]
        counts = {resource: float(each.offered[row]) for resource, each in s.gpus.of.items()}
        whole = (
            0.0
            if s.nodes.columns.one[row]
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


def _stranded(s: Situation, policy: Policy) -> dict[str, int]:
    """By node: how many of its free GPUs lack the free CPU or memory that a GPU needs at least, over all classes."""
    classes = policy.profile(DEFAULT_PROFILE)[1].rules.cpu_per_gpu.classes.values()
    least = {name: min((each.least[name] for each in classes), default=0) for name in ("cpu", "memory")}
    whole = [each.free for name, each in s.gpus.of.items() if policy.gpus.kind(name) in ("whole", None)]
    free = np.floor(sum([np.maximum(each, 0) for each in whole], np.zeros(len(s.alive)))).astype(np.int64)
    usable = np.min([np.maximum(s.free[name], 0) // max(1, amount) for name, amount in least.items()], axis=0)
    stranded = np.where(s.healthy, np.maximum(free - usable, 0), 0)
    return {s.names[row]: int(stranded[row]) for row in np.flatnonzero(stranded).tolist()}


def _print(answer: dict[str, Any]) -> None:
    """A line for each pod that has to move: the nodes on which no pod has a GPU, then those that are whole after some moves."""
    free, rows = answer["drainable"], []
    for each in free[:_MAX_LISTED]:
        rows.append([each["node"], each["gpus"], "none", ""])
    for each in answer["suggestions"]:
        head = [each["node"], each["gpus"]]
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
    stranded = sum(answer["strandedGpus"].values())
    where = f": {_listed(answer['strandedGpus'], 6)}" if stranded else ""
    parts = zip(FREE, ("", "slices of ", "shares of "), strict=True)
    free = listed([f"{number} {word}{of}" for key, word in parts for of, number in answer[key].items()], 10)
    left = plural(answer["wholeNodes"], "whole node")
    say(f"{left} left; free on healthy nodes: {free or 'no GPU'}, {stranded} of them stranded{where}")


def _print_moves(answer: dict[str, Any]) -> None:
    """A line for each pod that has to move from one node."""
    if not answer["moves"]:
        return show(Text(f"{answer['node']}: no pod has a GPU there"))
    one = answer.get("one", "")
    rows = [[each["pod"], _amounts([each], one), each["to"] or "-", each.get("why", "")] for each in answer["moves"]]
    table(["POD TO MOVE", "GPUS", "IT GOES TO", "WHO FORBIDS IT"], rows, drop=["GPUS"])
    stay = sum(not each["to"] for each in answer["moves"])
    end = f"{plural(stay, 'pod')} cannot go" if stay else "it can be emptied"
    return show(Text(f"{answer['node']}: pods have {_amounts(answer['moves'], one)}; {end}"))


def _amounts(moves: Iterable[Mapping[str, Any]], one: str) -> str:
    """`3 nvidia.com/gpu, 2 nvidia.com/mig-1g.10gb`: what these pods have in all, by resource. `one`: what a GPU is there, see
    `top`; "" for a whole one."""
    counts = Counter[str]()
    for each in moves:
        counts.update(each["gpus"])
    return ", ".join(
        [
            f"{f'{plural(int(count), one)} of' if one and of in DIVIDED else gpu_number(count)} {of}"
            for of, count in counts.items()
        ]
    )


def _listed(counts: Mapping[str, float], limit: int) -> str:
    """`gpu-a 8, gpu-b 4 and 3 more`."""
    return listed([f"{name} {count}" for name, count in counts.items()], limit)
