"""`gpu-admission nodes`: the GPUs of every node and pool, who has them, and what is free."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from rich.text import Text

from webhook.cli import options
from webhook.cli.cluster.kinds import ENGINE
from webhook.cli.cluster.report import gpu_nodes, report
from webhook.cli.options import Format
from webhook.cli.printing import bar, document, table
from webhook.cli.reading import policy_of, snapshot_of
from webhook.cli.selecting import selector
from webhook.cli.terminal import out, say
from webhook.errors import BadInput
from webhook.text import listed, nearest, quoted

_EVERY = 5.0
"""Seconds between two looks of --watch."""
_STYLES = {"healthy": "green", "cordoned": "yellow", "notReady": "red", "unhealthy": "red", "offersNoGpus": "red"}


def nodes(
    name: Annotated[list[str] | None, typer.Argument(help="Nodes; all that have GPUs, if none is given.")] = None,
    labels: options.Selector = None,
    output: options.Output = Format.table,
    watch: Annotated[bool, typer.Option("-w", "--watch", help="Again every 5 seconds, until Ctrl-C.")] = False,
    policy: options.Policy = None,
    cluster: options.Snapshot = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
) -> None:
    """Show GPUs by node and pool: all, allocated to pods, promised to pods on their way, and free.

    `promised`: the webhook chose the node for a pod that is not yet bound. `-o wide` shows taints and pods too.
    Health: `healthy`, `cordoned`, `notReady`, `unhealthy` (by the labels and conditions that the policy names), and
    `offersNoGpus`: it has GPUs by its labels, but its device plugin offers none.
    """
    if watch and cluster is not None:
        raise BadInput("saw -w with --cluster, wanted one of them: a file does not change")
    while True:
        snapshot = snapshot_of(cluster, kubeconfig, context, ENGINE)
        for missed in [each for each in name or () if each not in snapshot.nodes]:
            near = nearest(missed, list(snapshot.nodes))
            raise BadInput(f"no node {quoted(missed)}{f'; did you mean {near}?' if near else ''}")
        matches = selector(labels)
        rules = policy_of(policy, snapshot)
        wanted = name or gpu_nodes(snapshot, rules)
        found = report(
            snapshot, rules, [n for n in wanted if matches(snapshot.nodes[n]["metadata"].get("labels") or {})]
        )
        if not document(found, output):
            _print(found, wide=output is Format.wide)
        if not watch:
            return
        time.sleep(_EVERY)


def _print(found: list[dict[str, Any]], *, wide: bool) -> None:
    titles = ["NODE", "POOL", "MODEL", "HEALTH", "RESOURCE", "TOTAL", "ALLOCATED", "RESERVED", "FREE", "USED"]
    rows = [
        [each["name"], each["pool"], each["model"], _health(each), *amounts]
        for each in found
        for amounts in _rows(each)
    ]
    if wide:
        titles += ["TAINTS", "PODS"]
        extra = [[listed(each["taints"]), _pods(each)] for each in found for _ in _rows(each)]
        rows = [[*row, *more] for row, more in zip(rows, extra, strict=True)]
    if not rows:
        return say("no node has GPUs")
    table(titles, rows)
    out("")
    return table(["POOL", "NODES", *titles[4:10]], _sums(found))


def _rows(node: dict[str, Any]) -> Iterator[list[Any]]:
    for resource, gpus in node["gpus"].items():
        yield [resource, *gpus.values(), bar(gpus["allocated"] + gpus["promised"], gpus["total"])]
    if not node["gpus"]:
        yield ["", 0, 0, 0, 0, ""]


def _sums(found: list[dict[str, Any]]) -> Iterator[list[Any]]:
    """Of each pool, and of all of them where there are several."""
    pools = sorted({node["pool"] for node in found})
    for pool in [*pools, None] if len(pools) > 1 else pools:
        members = [node for node in found if pool is None or node["pool"] == pool]
        for resource in sorted({resource for node in members for resource in node["gpus"]}):
            of = [node["gpus"][resource] for node in members if resource in node["gpus"]]
            sums = [sum(each[key] for each in of) for key in ("total", "allocated", "promised", "free")]
            yield ["all" if pool is None else pool or "-", len(of), resource, *sums, bar(sums[1] + sums[2], sums[0])]


def _health(node: dict[str, Any]) -> Text:
    return Text(node["health"], style=_STYLES[node["health"]])


def _pods(node: dict[str, Any]) -> str:
    return listed([f"{pod['namespace']}/{pod['name']} ({sum(pod['gpus'].values())})" for pod in node["pods"]])
