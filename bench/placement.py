"""How well placement uses a cluster: `python -m bench.placement --nodes NODES.csv --pods PODS.csv`; for a cluster of your own,
`python -m bench.placement --from cluster.json`, a file of `gpu-admission snapshot`.

Replays a trace in the format of the Alibaba GPU trace 2023 (github.com/alibaba/clusterdata, "openb") through the webhook's own
ranking and a model of the stock kube-scheduler, and through published policies (FGD, USENIX ATC'23). Nodes start empty. Pods come
in random order until they have requested as many GPUs as there are; a pod that fits nowhere is dropped. The table has the share
of GPUs that are not allocated, and the share of refused pods of each size. Both matter: a policy that spreads small pods looks
good by the first, and leaves no room for large pods.

Policies: "ours, first choice" binds to the first ranked node that can take the pod. In "ours, scheduler" the modelled scheduler
binds, and our ten ranked nodes are preferences. "random", "best-fit" and "FGD" see every device and bind at once. For traces with
published figures the table shows these too. On the trace "default" with 10 seeds, random, best-fit and FGD must agree with the
published figures within 0.3, or the exit status is 1.
"""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any, Final

from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench.output import save, stdout
from bench.plot import lines
from bench.replay import POLICIES, Options, Result, replay
from bench.simulator import CHOOSERS
from bench.traces import TraceError, load, of_cluster
from webhook.errors import BadInput

PUBLISHED: Final[dict[str, tuple[float, float, float]]] = {
    "default": (13.70, 7.14, 4.77),
    "cpu050": (10.98, 6.44, 5.00),
    "cpu200": (16.97, 7.85, 5.18),
    "gpushare40": (15.14, 8.56, 6.04),
    "gpushare60": (17.19, 10.94, 8.75),
    "gpushare100": (21.10, 15.38, 13.36),
    "gpuspec10": (13.74, 6.90, 5.34),
    "gpuspec33": (16.13, 19.60, 12.16),
    "multigpu20": (13.08, 6.27, 4.47),
    "multigpu30": (13.37, 5.43, 3.64),
    "multigpu50": (18.72, 4.38, 2.91),
}
"""Published percentages of unallocated GPUs for random, best-fit and FGD, by trace."""
CHECKED: Final = ("random", "best-fit", "FGD")
TOLERANCE: Final = 0.3
"""Allowed difference from the published figures, in percentage points."""
_BOTH: Final = ("stock", "ours, scheduler")
"""Without the webhook and with it."""
_GATE_SEEDS: Final = 10
"""Number of seeds from which on the figures are checked."""
progress = Console(stderr=True)


def summary(results: list[Result]) -> dict[str, Any]:
    """The means over all seeds, as they stand in placement.json."""
    sizes = sorted({size for result in results for size in result.refused})
    points = min(len(result.curve) for result in results)
    return {
        "unallocated": round(fmean(result.unallocated for result in results), 3),
        "stdev": round(pstdev([result.unallocated for result in results]), 3),
        "refused": {
            str(size): round(fmean([r.refused[size] for r in results if size in r.refused]), 3) for size in sizes
        },
        "first": round(fmean(result.first for result in results), 2),
        "listed": round(fmean(result.listed for result in results), 2),
        "curve": [[round(fmean(r.curve[at][axis] for r in results), 3) for axis in (0, 1)] for at in range(points)],
        "seeds": [round(result.unallocated, 3) for result in results],
    }


def gate(trace: str, results: dict[str, dict[str, Any]]) -> list[str]:
    """A message for each figure that differs too much from the published one. Only the trace "default" is checked."""
    if trace != "default":
        return []
    pairs = zip(CHECKED, PUBLISHED[trace], strict=True)
    return [
        f"{name}: saw {results[name]['unallocated']:.2f} % unallocated, wanted {wanted:.2f} ± {TOLERANCE} as published"
        for name, wanted in pairs
        if name in results and abs(results[name]["unallocated"] - wanted) > TOLERANCE
    ]


def table(title: str, results: dict[str, dict[str, Any]], published: dict[str, float]) -> Table:
    sizes = sorted({int(size) for values in results.values() for size in values["refused"]} & {0, 1, 2, 4, 8})
    made = Table(
        title=title,
        caption="In percent. no N: refused pods of N GPUs. first, listed: bound to the first ranked node, to any of them.",
    )
    made.add_column("policy", no_wrap=True)
    for head in ("unallocated", *(["published"] if published else []), *(f"no {n}" for n in sizes), "first", "listed"):
        made.add_column(head, justify="right")
    for name, values in results.items():
        refused = (values["refused"].get(str(size)) for size in sizes)
        made.add_row(
            name,
            f"{values['unallocated']:.2f}±{values['stdev']:.2f}",
            *([f"{published[name]:.2f}" if name in published else ""] if published else []),
            *("" if value is None else f"{value:.1f}" for value in refused),
            *(f"{values[key]:.1f}" if values["listed"] else "" for key in ("first", "listed")),
        )
    return made


def verdict(results: dict[str, dict[str, Any]]) -> str:
    """What the webhook brings to the stock scheduler; "" where one of the two was not replayed."""
    if not results.keys() >= set(_BOTH):
        return ""
    without, ours = (results[name] for name in _BOTH)
    told = f"{without['unallocated']:.2f} % of the GPUs stay unallocated without the webhook, {ours['unallocated']:.2f} % with it"
    if abs(without["unallocated"] - ours["unallocated"]) <= without["stdev"] + ours["stdev"]:
        return f"No difference beyond the deviations: {told}."
    return f"{told}."


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.placement", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--from", type=Path, dest="cluster", help="a snapshot, in place of the two files of a trace")
    parser.add_argument("--nodes", type=Path, help="columns sn, cpu_milli, memory_mib, gpu, model")
    parser.add_argument(
        "--pods", type=Path, help="columns cpu_milli, memory_mib, num_gpu, gpu_milli, and gpu_spec if any"
    )
    parser.add_argument("--whole-gpu", action="store_true", help="leave out the pods that share a GPU")
    parser.add_argument("--burst", type=int, default=1, help="pods that are ranked before any of them is bound")
    parser.add_argument(
        "--load", type=float, help="pods also end; the share of all GPUs that they request on average, such as 0.95"
    )
    parser.add_argument(
        "--lifetimes", type=float, default=5.0, help="with --load: duration of a run in mean lifetimes (2 warm up)"
    )
    parser.add_argument("--seeds", type=int, default=10, help="runs of each policy")
    parser.add_argument(
        "--policies", default="", help=f"some of: {'; '.join(POLICIES)} (default: all; with --from: {'; '.join(_BOTH)})"
    )
    parser.add_argument(
        "--images", type=float, default=0.0, metavar="P", help="probability that a node has the pod's 20 GB image"
    )
    parser.add_argument(
        "--sampled",
        action="store_true",
        help="the scheduler looks at a part of the nodes (its default from 100 nodes on)",
    )
    parser.add_argument(
        "--gpu-pods-only", action="store_true", help="pods without GPUs are left to the scheduler, as the webhook does"
    )
    parser.add_argument(
        "--replicas", type=int, default=1, help="of the webhook, with --burst: who ranks a pod is random"
    )
    parser.add_argument(
        "--unseen",
        type=int,
        default=16,
        metavar="N",
        help="a replica does not know the others' nodes for the last N pods",
    )
    parser.add_argument("--chooser", choices=CHOOSERS, default="fullest", help="how a node chooses the GPU for a part")
    parser.add_argument("--out", type=Path, help="folder for placement.json and placement.svg")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Exit status 1 if figures differ too much from the published ones, 2 if the arguments or the trace are wrong."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if bool(given.cluster) == bool(given.nodes or given.pods) or bool(given.nodes) != bool(given.pods):
        parser.error("wanted --from, or --nodes and --pods")
    try:
        trace = of_cluster(given.cluster) if given.cluster else load(given.nodes, given.pods, whole=given.whole_gpu)
    except (TraceError, BadInput, OSError) as error:
        progress.print(f"bench.placement: {error}", style="red", markup=False)
        return 2
    every = not given.gpu_pods_only
    options = Options(
        *(given.burst, given.load, given.lifetimes, given.images, given.sampled, every, given.replicas, given.unseen),
        chooser=given.chooser,
    )
    names = [name.strip() for name in given.policies.split(";") if name.strip()] or list(
        _BOTH if given.cluster else POLICIES
    )
    if unknown := [name for name in names if name not in POLICIES]:
        progress.print(f"bench.placement: saw policy {unknown[0]!r}, wanted one of {', '.join(POLICIES)}", markup=False)
        return 2
    results: dict[str, dict[str, Any]] = {}
    for name in names:
        seeds = track(range(given.seeds), description=name, console=progress, transient=True)
        results[name] = summary([replay(trace, POLICIES[name], seed, options) for seed in seeds])
    stem = (given.cluster or given.pods).stem
    known = stem.removeprefix("openb_pod_list_")
    known = known if known in PUBLISHED and not given.whole_gpu and options.load is None and options.burst == 1 else ""
    published = dict(zip(CHECKED, PUBLISHED[known], strict=True)) if known else {}
    title = f"{stem}{', whole GPUs' if given.whole_gpu else ''}, mean of {given.seeds} seeds"
    title += f", bursts of {given.burst}" if given.burst > 1 else ""
    title += f", {given.replicas} replicas, {given.unseen} pods unseen" if given.replicas > 1 else ""
    title += f", load {given.load:g}" if given.load is not None else ""
    title += f", images on {given.images:.0%} of the nodes" if given.images else ""
    title += ", a part of the nodes sampled" if given.sampled else ""
    title += f", a part of a GPU from the {given.chooser}" if given.chooser != "fullest" else ""
    title += ", pods without GPUs left to the scheduler" if given.gpu_pods_only else ""
    out = stdout()
    out.print(table(title, results, published))
    out.print(verdict(results), markup=False, soft_wrap=True)
    document = {"title": title, "options": asdict(options), "published": published, "policies": results}
    save(given.out, "placement.json", json.dumps(document, indent=1) + "\n")
    if curves := {name: values["curve"] for name, values in results.items() if values["curve"]}:
        chart = lines(title, "GPUs asked for, % of all", "GPUs not allocated, % of all", curves)
        save(given.out, "placement.svg", chart)
    wrong = gate(known, results) if given.seeds >= _GATE_SEEDS else []
    for line in wrong:
        progress.print(line, style="red", markup=False)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
