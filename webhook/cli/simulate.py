"""`gpu-admission simulate`: whether new pods would start now, without and with the webhook, on the cluster as it is or with more
nodes."""

import copy
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import track
from rich.text import Text

from webhook.cli import options
from webhook.cli.cluster.report import pool_of
from webhook.cli.cluster.snapshot import Object, Snapshot, key_of
from webhook.cli.manifests import NO_PODS, Planned, claims_in, planned_in, texts_of
from webhook.cli.pending import KINDS, cause_lines, words_of
from webhook.cli.reading import measure_gpus, namespace_of, policy_of, snapshot_of
from webhook.cli.simulating.picture import picture
from webhook.cli.simulating.run import Outcome, Side, Workload
from webhook.cli.simulating.run import simulate as run
from webhook.cli.simulating.trace import COLUMNS, read_trace
from webhook.cli.terminal import REFUSED, document, no_such, out, show, table, write
from webhook.errors import BadInput
from webhook.kube.taints import node_taints, passes
from webhook.policy.model import Policy
from webhook.text import listed, number_of, plural, quoted

_LONG_TRACE = 200
"""From so many lines on a bar shows how far it is."""


def simulate(
    file: Annotated[
        list[str] | None,
        typer.Option("-f", "--filename", metavar="FILE|-", help="Manifests, lists of pods, folders; may be repeated."),
    ] = None,
    trace: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|-",
            help="CSV: each line is a number of equal pods; they are created line by line. Columns: "
            + listed(COLUMNS, 20),
        ),
    ] = None,
    add_node: Annotated[
        list[str] | None,
        typer.Option(metavar="LIKE=COUNT", help="Add COUNT empty nodes like the node LIKE; may be repeated."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write a picture of the nodes before and after.")
    ] = None,
    namespace: options.Namespace = None,
    output: options.Output = "table",
    metrics: options.Metrics = None,
    policy: options.Policy = None,
    cluster: options.Snapshot = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
) -> None:
    """Say whether pods would start now: what fits, what waits and why, which nodes stay whole. Nothing is created.

    `gpu-admission simulate -f job.yaml` answers «will my 4 × 8 job start?»; `--add-node gpu-a=2` «and with two more nodes?».
    The file is one for `kubectl create`: pods, Jobs, Deployments and others with pods. Columns WITHOUT and WITH: the webhook.
    Exit status 1 if something would wait or be refused.

    Pods go through the webhook's own code with its reservations, and through a model of the stock scheduler. The model has the
    filters that `pending` uses, and the scores LeastAllocated, BalancedAllocation, preferred node affinity and PreferNoSchedule
    taints; parts of GPUs by KAI go where its default settings put them. Pods that wait already go first. Not modelled:
    preemption, quotas, queues, gang schedulers, pods that end meanwhile, and the scores of topology spread, pod affinity and
    images; by these, pods may go to other nodes than shown here.
    """
    if not file and not trace:
        raise BadInput("wanted -f FILE or --trace FILE: the pods to try")
    snapshot = snapshot_of(cluster, kubeconfig, context, KINDS, namespace)
    for each in add_node or ():
        add_nodes(snapshot, each)
    rules, where = policy_of(policy, snapshot), namespace_of(namespace, False, snapshot)
    pods = []
    for name, text in texts_of(file or []):
        add_claims(snapshot, claims_in(text, name, where))
        pods += manifests(text, name, rules, where)
    measure_gpus(snapshot, rules, metrics)
    lines = _trace(trace, snapshot, rules, where)
    rounds = [pods, *[[line] for line in lines]]  # those of a trace line by line
    console = Console(stderr=True)
    if console.is_terminal and len(lines) >= _LONG_TRACE:
        outcome = run(snapshot, rules, track(rounds, "simulating", console=console, transient=True))
    else:
        with console.status("simulating"):  # is shown on a terminal only
            outcome = run(snapshot, rules, rounds)
    if not any(workload.pods or workload.notes for workload in outcome.workloads):
        raise BadInput(f"{', '.join(file or [])}: {NO_PODS}")
    if html:
        write(html, picture(outcome, {name: pool_of(node) for name, node in snapshot.nodes.items()}))
    if not document(outcome.document(), output):
        _print(outcome, wide=output == "wide")
    raise typer.Exit(0 if all(workload.starts for workload in outcome.workloads) else REFUSED)


def manifests(text: bytes, name: str, policy: Policy, namespace: str | None) -> list[Planned]:
    """The pods of the text of one file. Raises BadInput for the first document that cannot be read."""
    pods = []
    for plan in planned_in(text, name, policy, namespace):
        if isinstance(plan, BadInput):
            raise plan
        pods.append(plan)
    return pods


def _trace(file: str | None, snapshot: Snapshot, policy: Policy, namespace: str | None) -> list[Planned]:
    if file is None:
        return []
    taints = snapshot.state.view(snapshot.taken).gpu_taints(policy.gpus)
    return read_trace(file, namespace or "default", taints)


def add_claims(snapshot: Snapshot, claims: Iterable[Object]) -> None:
    """Add claims, templates and classes of devices to the snapshot. One that is there already is replaced."""
    for each in claims:
        others = [other for other in snapshot.of(each["kind"]) if key_of(other) != key_of(each)]
        snapshot.objects[each["kind"]] = [*others, each]


def add_nodes(snapshot: Snapshot, option: str) -> None:
    """Add nodes to the snapshot. `option`: `LIKE=COUNT`. The new nodes are up, uncordoned and empty. Raises BadInput."""
    like, _, count = option.rpartition("=")
    number = number_of(count) or 0
    if not (like and 0 < number <= 10_000):
        raise BadInput(f"--add-node: saw {quoted(option)}, wanted NODE=COUNT, as gpu-a=2")
    known = {node["metadata"]["name"]: node for node in snapshot.of("Node")}
    if like not in known:
        raise no_such("node", like, list(known), " for --add-node")
    first = 1 + sum(name.startswith(f"{like}-new-") for name in known)  # the option may be repeated
    slices = [each for each in snapshot.of("ResourceSlice") if each["spec"].get("nodeName") == like]
    for name in [f"{like}-new-{each}" for each in range(first, first + number)]:
        snapshot.objects["Node"].append(_new_node(known[like], name))
        snapshot.objects.setdefault("ResourceSlice", []).extend([_new_slice(each, name) for each in slices])


def _new_node(like: Object, name: str) -> Object:
    node = copy.deepcopy(like)
    node["metadata"] |= {
        "name": name,
        "labels": {**(node["metadata"].get("labels") or {}), "kubernetes.io/hostname": name},
    }
    node["spec"].pop("unschedulable", None)
    node["spec"]["taints"] = [taint._asdict() for taint in node_taints(node) if not passes(taint)]
    node["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    return node


def _new_slice(like: Object, node: str) -> Object:
    """The devices of a driver of DRA on a new node."""
    made, pool = copy.deepcopy(like), like["spec"].get("pool") or {}
    made["metadata"]["name"] = f"{made['metadata']['name']}-{node}"
    made["spec"] |= {"nodeName": node, "pool": {**pool, "name": f"{pool.get('name')}-{node}"}}
    return made


def _print(outcome: Outcome, *, wide: bool) -> None:
    titles = ["NAMESPACE", "WORKLOAD", "PODS", "GPUS EACH", "WITHOUT", "WITH"]
    table(titles, [_row(each) for each in outcome.workloads], drop=["GPUS EACH", "PODS"])
    for workload in outcome.workloads:
        _explain(workload, wide=wide)
    out("")
    asked = {resource for each in outcome.workloads for resource in each.gpus}
    rows = [
        [title, resource, *amounts[key].values()]
        for resource, amounts in outcome.gpus.items()
        if wide
        or not asked
        or resource in asked
        or len(set(amounts["free"].values())) > 1  # KAI takes whole ones for parts
        for title, key in (("free GPUs", "free"), ("whole nodes", "wholeNodes"))
    ]
    if outcome.waited["before"]:
        waited = outcome.waited
        left = [waited["before"], *[waited["before"] - waited[side] for side in ("without", "with")]]
        rows.append(["waiting pods of others", "", *left])
    if rows:
        table(["LEFT", "RESOURCE", "BEFORE", "WITHOUT", "WITH"], rows)


def _row(workload: Workload) -> list[Any]:
    gpus = listed([f"{amount} {name}" for name, amount in workload.gpus.items()])
    return [workload.namespace, workload.title, workload.pods, gpus, *map(_cell, workload.sides.values())]


def _cell(side: Side) -> Text:
    bound, waiting = side.bound.total(), len(side.waiting)
    if side.refused:
        return Text("refused", "red")
    if not waiting:
        return Text("all start", "green") if bound else Text("not simulated")
    return Text(f"{bound} start, {waiting} wait", "yellow" if bound else "red")


def _explain(workload: Workload, *, wide: bool) -> None:
    name = f"{workload.namespace}/{workload.title}"
    lines = [Text(f"  note: {note}", "yellow") for note in workload.notes]
    if workload.message:
        lines.append(Text(f"  refused: {workload.message}", "red"))
    for title, each in workload.sides.items() if workload.pods else ():
        nodes = listed([f"{node} ({count})" for node, count in sorted(each.bound.items())], 50 if wide else 5)
        why = f"; waits: {words_of(each.causes[0].cause)}" if each.causes and title == "without" else ""
        lines.append(Text(f"  {title} the webhook: {nodes or 'on no node'}{why}", "dim"))
    side = workload.sides["with"]
    if side.waiting:
        lines += [Text(f"  {plural(len(side.waiting), 'pod')} would wait:"), *cause_lines(side.causes, wide=wide)]
    if lines:
        out("")
        show(Text("\n").join([Text(name, "bold"), *lines]))
