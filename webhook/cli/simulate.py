"""`gpu-admission simulate`: what would fit where, with and without the webhook."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Annotated, Any

import typer
from rich.text import Text

from webhook.admission.context import PROFILE_LABEL
from webhook.cli import options
from webhook.cli.cluster.kinds import ENGINE
from webhook.cli.cluster.snapshot import Snapshot
from webhook.cli.manifests import Planned, planned
from webhook.cli.options import Format
from webhook.cli.printing import document, show, table
from webhook.cli.reading import namespace_of, policy_of, snapshot_of
from webhook.cli.terminal import REFUSED
from webhook.cli.trial import Trial, Tried, free_gpus, whole_nodes
from webhook.cli.waiting.situation import Situation
from webhook.errors import BadInput
from webhook.policy.model import DEFAULT_PROFILE, Policy
from webhook.text import listed, nearest, quoted

_MOST = 10_000
"""Pods, and nodes that are added."""


def simulate(
    file: Annotated[list[str], typer.Option("-f", "--filename", metavar="FILE|-", help="Manifests; may be repeated.")],
    add_node: Annotated[
        list[str] | None,
        typer.Option(
            "--add-node", metavar="LIKE=COUNT", help="As if there were COUNT more nodes like this one, empty."
        ),
    ] = None,
    namespace: options.Namespace = None,
    output: options.Output = Format.table,
    policy: options.Policy = None,
    cluster: options.Snapshot = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
) -> None:
    """Try manifests, with all their replicas, on the cluster as it is: what fits where, and what waits and why.

    With the webhook, and beside it as the scheduler alone would place them. Nothing is created. Exit status 1 if a pod would
    wait or be refused. Example: `gpu-admission simulate -f job.yaml --add-node gpu-a1=2`.
    """
    snapshot = snapshot_of(cluster, kubeconfig, context, ENGINE, namespace)
    add_nodes(snapshot, add_node or [])
    rules, where = policy_of(policy, snapshot), namespace_of(namespace, False, snapshot)
    pods = list(planned(file, rules, where))
    for error in [each for each in pods if isinstance(each, BadInput)]:
        raise error
    wanted = [each for each in pods if isinstance(each, Planned)]
    if not wanted:
        raise BadInput(f"{listed(file)}: no pod would be made of it: wanted pods, or workloads that the policy knows")
    if sum(each.replicas for each in wanted) > _MOST:
        raise BadInput(f"{listed(file)}: more than {_MOST} pods: try fewer replicas")
    answer = simulated(snapshot, rules, wanted)
    if not document(answer, output):
        _print(answer)
    if any(each["waits"] for each in answer["withWebhook"]["workloads"]):
        raise typer.Exit(REFUSED)


def simulated(snapshot: Snapshot, policy: Policy, wanted: list[Planned]) -> dict[str, Any]:
    """The document. First without the webhook, which leaves the state as it is."""
    alone = _run(snapshot, policy, wanted, ours=False)
    return {"withWebhook": _run(snapshot, policy, wanted, ours=True), "withoutWebhook": alone}


def add_nodes(snapshot: Snapshot, wanted: list[str]) -> None:
    """Nodes like others, empty. Raises BadInput."""
    for text in wanted:
        like, equals, number = text.rpartition("=")
        if not equals or not number.isdecimal() or not 0 < int(number) <= _MOST:
            raise BadInput(f"--add-node: saw {quoted(text)}, wanted NODE=COUNT, as in gpu-a1=2")
        if like not in snapshot.nodes:
            near = nearest(like, list(snapshot.nodes))
            raise BadInput(f"--add-node: no node {quoted(like)}{f'; did you mean {near}?' if near else ''}")
        for count in range(int(number)):
            node = copy.deepcopy(snapshot.nodes[like])
            name = node["metadata"]["name"] = f"{like}-new-{count + 1}"
            node["metadata"]["labels"] = {**(node["metadata"].get("labels") or {}), "kubernetes.io/hostname": name}
            snapshot.of("Node").append(node)


def _run(snapshot: Snapshot, policy: Policy, wanted: list[Planned], *, ours: bool) -> dict[str, Any]:
    for name in {each.document.request.namespace for each in wanted}:
        labels = (snapshot.named("Namespace").get(("", name)) or {"metadata": {}})["metadata"].get("labels") or {}
        state = {"metadata": {"name": name, "labels": {PROFILE_LABEL: DEFAULT_PROFILE, **labels}}}
        snapshot.state.seen("namespaces", state, snapshot.taken)
    trial = Trial(Situation(snapshot, policy), policy)
    before = {"wholeNodes": whole_nodes(trial.situation, policy), "freeGpus": free_gpus(trial.situation, policy)}
    workloads = []
    for each in wanted:
        tried = [trial.place(each.document, ours=ours) for _ in range(each.replicas)]
        workloads.append(_told(each, tried))
    after = {"wholeNodes": whole_nodes(trial.situation, policy), "freeGpus": free_gpus(trial.situation, policy)}
    return {"workloads": workloads, "before": before, "after": after}


def _told(each: Planned, tried: list[Tried]) -> dict[str, Any]:
    nodes = Counter(t.node for t in tried if t.node)
    why = next((t.why for t in tried if not t.node), "")
    head = {"namespace": each.document.request.namespace, "of": each.of, "replicas": each.replicas}
    fits, refused = sum(nodes.values()), any(t.refused for t in tried)
    return head | {
        "fits": fits,
        "waits": each.replicas - fits,
        "refused": refused,
        "why": why,
        "nodes": dict(sorted(nodes.items())),
    }


def _print(answer: dict[str, Any]) -> None:
    for title, key in (("with the webhook", "withWebhook"), ("the scheduler alone", "withoutWebhook")):
        found = answer[key]
        show(Text(title, style="bold"))
        rows = []
        for each in found["workloads"]:
            state = "refused" if each["refused"] else "waits" if each["waits"] else "fits"
            where = listed([f"{name} {count}" if count > 1 else name for name, count in each["nodes"].items()], 8)
            style = {"fits": "green", "waits": "yellow", "refused": "red"}[state]
            rows.append(
                [
                    f"{each['namespace']}: {each['of']}",
                    f"{each['fits']}/{each['replicas']}",
                    Text(state, style),
                    where,
                    each["why"],
                ]
            )
        table(["WORKLOAD", "FIT", "", "NODES", "WHY"], rows)
        before, after = found["before"], found["after"]
        whole = f"whole nodes left: {after['wholeNodes']} of {before['wholeNodes']}"
        show(Text(f"{whole}; free GPUs: {after['freeGpus']} of {before['freeGpus']}\n"))
