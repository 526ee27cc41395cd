"""`gpu-admission try`: what would become of the pods of manifests, and what they would wait for."""

import copy
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer
from rich.console import Console
from rich.text import Text

from webhook.admission.words import finding_line
from webhook.cli import options
from webhook.cli.cluster.load import has_cluster
from webhook.cli.decided import of_record, show_decision
from webhook.cli.reading import measure_gpus, namespace_of, no_cluster, policy_of, say_by, snapshot_of
from webhook.cli.reports import REPORTS
from webhook.cli.terminal import COULD_NOT, DIFF_COLOURS, PROGRAM, REFUSED, diff, document, out, say, show, table
from webhook.cli.why import cause_lines
from webhook.errors import BadInput
from webhook.kube.record import record_of
from webhook.kube.taints import node_taints, passes
from webhook.kube.yaml import to_yaml
from webhook.policy.model import Policy
from webhook.text import listed, no_such, number_of, plural, quoted
from webhook.whatif.answers import KINDS
from webhook.whatif.cluster.report import stays
from webhook.whatif.cluster.snapshot import Object, Snapshot
from webhook.whatif.manifests import NO_PODS, Planned, planned_in, put_beside, texts_of
from webhook.whatif.offline import opted_in
from webhook.whatif.tried import FREE, Outcome, Tried, try_pods

Output = Literal["diff", "wide", "patch", "yaml", "json", "junit", "sarif"]
_NO_CLUSTER: Final = (
    "without a cluster or a snapshot: nodes, quotas and priorities are not known, and no node is chosen"
)
_LEFT: Final = ("free GPUs", "free slices", "free shares", "whole nodes")
_UNKNOWN: Final = (
    ". If they make pods, these were not tried: templates.custom of the policy can name where their templates are"
)
_MAX_ADDED: Final = 10_000


def try_(
    files: options.Files = None,
    add_node: Annotated[
        list[str] | None,
        typer.Option(metavar="LIKE=COUNT", help="Add COUNT empty nodes like the node LIKE; may be repeated."),
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Ask no cluster: only the policy decides.")] = False,
    namespace: options.Namespace = None,
    output: Annotated[
        Output, typer.Option("-o", "--output", help="`yaml`: the pods as they would be stored.")
    ] = "diff",
    policy: options.Policy = None,
    metrics: options.Metrics = None,
    file: options.From = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
) -> None:
    """Show what would become of the pods of manifests now: whether they are refused, how they are changed (a diff), where
    they would start, and what they would wait for. Nothing is created. Exit status 1 if a pod would be refused or would
    wait.

    Examples: `gpu-admission try -f job.yaml`. With two more nodes like gpu-a: `--add-node gpu-a=2`. In CI, by the policy
    alone: `helm template chart | gpu-admission try --offline -f -`, with `-o junit` or `-o sarif`.

    Files have pods, workloads (Jobs, Deployments, …), Lists, or AdmissionReviews; all else is left out. They are tried on the
    cluster of the kubeconfig, or on a snapshot (`--from`); without either, the policy alone decides.

    Pods go through the code of the webhook, with its reservations, and through a model of the stock scheduler with the
    filters that `why` uses. Pods that wait already go first. The model knows no preemption, no queues, no gang schedulers,
    and no pods that end meanwhile. It does not score topology spread, pod affinity and images, so pods may go to other nodes
    than shown.
    """
    if not files:
        raise BadInput(f"wanted -f FILE: the pods to try, for example {PROGRAM} try -f job.yaml")
    snapshot = _world(file, kubeconfig, context, namespace, offline=offline)
    for each in add_node or ():
        add_nodes(snapshot, each)
    rules, where = policy_of(policy, snapshot), namespace_of(namespace, False, snapshot)
    planned, errors = read_files(snapshot, rules, where, files)
    measure_gpus(snapshot, rules, metrics)
    with Console(stderr=True).status("trying"):  # is shown on a terminal only
        outcome = try_pods(snapshot, rules, planned)
    outcome.errors[:0] = errors
    if not outcome.tried and not outcome.errors:
        raise BadInput(f"{', '.join(files)}: {NO_PODS}")
    _show(outcome, snapshot, output)
    say_by(policy, snapshot, f"tried {snapshot.read_from}, ")
    raise typer.Exit(COULD_NOT if outcome.errors else 0 if all(each.good for each in outcome.tried) else REFUSED)


def _world(
    file: Path | None, kubeconfig: Path | None, context: str | None, namespace: str | None, *, offline: bool
) -> Snapshot:
    """The cluster that pods are tried on; one of which nothing is known with `offline`, and where there is no kubeconfig. Raises
    BadInput."""
    if offline and (file or kubeconfig or context):
        raise BadInput("saw --offline with a cluster or a snapshot, wanted one of them")
    if offline or not (file or kubeconfig or context or has_cluster()):
        return replace(no_cluster("there is no cluster"), read_from=_NO_CLUSTER)
    return snapshot_of(file, kubeconfig, context, KINDS, namespace, needed=())


def read_files(
    snapshot: Snapshot, policy: Policy, namespace: str | None, files: Iterable[str]
) -> tuple[list[Planned], list[BadInput]]:
    """The pods that these files would create, and what of them cannot be read. The rest of the files is added to the snapshot."""
    planned, errors, left_out = list[Planned](), list[BadInput](), set[tuple[str, str]]()
    for name, text in texts_of(files):
        put_beside(snapshot, text, name, namespace)
        for plan in planned_in(text, name, policy, namespace, left_out):
            if isinstance(plan, BadInput):
                errors.append(plan)
                continue
            planned.append(plan)
            if plan.document.unplaced and not opted_in("default", snapshot.state.view(snapshot.taken)):
                raise BadInput(
                    f"{plan.document.where}: names no namespace, and {quoted('default')} has not opted in: give -n"
                )
    built_in = {(group, kind) for group, kind in left_out if "." not in group or group.endswith(".k8s.io")}
    for why, kinds, more in (
        ("they make no pods", built_in, ""),
        ("no pod template is known in them", left_out - built_in, _UNKNOWN),
    ):
        if kinds:
            say(f"left out, since {why}: {listed(sorted([quoted(kind) for _, kind in kinds]), 10)}{more}", "dim")
    return planned, errors


def add_nodes(snapshot: Snapshot, option: str) -> None:
    """Add nodes to the snapshot. `option`: `LIKE=COUNT`. The new nodes are up, uncordoned and empty. Raises BadInput."""
    like, _, count = option.rpartition("=")
    number = number_of(count) or 0
    if not (like and 0 < number <= _MAX_ADDED):
        raise BadInput(f"--add-node: saw {quoted(option)}, wanted NODE=COUNT, as gpu-a=2")
    known = {node["metadata"]["name"]: node for node in snapshot.of("Node")}
    if like not in known:
        raise no_such("node", like, list(known), " for --add-node")
    first = 1 + sum(name.startswith(f"{like}-new-") for name in known)  # the option may be repeated
    slices = [each for each in snapshot.of("ResourceSlice") if each["spec"].get("nodeName") == like]
    daemons = [pod for pod in snapshot.pods_on.get(like, ()) if stays(pod)]
    for name in [f"{like}-new-{each}" for each in range(first, first + number)]:
        snapshot.objects["Node"].append(_new_node(known[like], name))
        snapshot.objects.setdefault("ResourceSlice", []).extend([_new_slice(each, name) for each in slices])
        snapshot.objects.setdefault("Pod", []).extend([_new_daemon(each, name) for each in daemons])
    snapshot.__dict__.pop("pods_on", None)  # it was made of the pods before


def _new_daemon(like: Object, node: str) -> Object:
    """The pod that a DaemonSet runs on each node, on a new one."""
    made = copy.deepcopy(like)
    made["metadata"] |= {"name": f"{like['metadata']['name']}-{node}", "uid": f"{like['metadata'].get('uid')}-{node}"}
    made["spec"]["nodeName"] = node
    return made


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


# --- what is printed --------------------------------------------------------------------------------------------------


def document_of(outcome: Outcome, snapshot: Snapshot) -> dict[str, Any]:
    """The document that `-o json` prints, described in docs/documents.md."""
    items: list[dict[str, Any]] = [_entry(each, snapshot) for each in outcome.tried]
    items += [{"error": str(error)} for error in outcome.errors]
    good = not outcome.errors and all(each.good for each in outcome.tried)
    return {"triedOn": snapshot.read_from, "good": good, "items": items, "gpus": outcome.gpus, "waited": outcome.waited}


def _entry(tried: Tried, snapshot: Snapshot) -> dict[str, Any]:
    found = tried.verdict
    template = {"template": tried.plan.template} if tried.plan.template else {}
    record = {} if tried.refused else record_of(found.decided)
    return {
        "namespace": tried.namespace,
        "workload": tried.plan.of,
        **template,
        "pods": tried.pods,
        "gpus": tried.gpus,
        "outcome": found.outcome,
        "message": found.message,
        "good": tried.good,
        "notes": tried.notes,
        "findings": [
            {"unit": unit, "action": action, "path": f.path, "seen": f.seen, "wanted": f.wanted, "fix": f.fix}
            for unit, action, f in found.validated.findings
        ],
        "warnings": [*found.mutated.warnings, *found.validated.warnings],
        "diff": [] if tried.refused else list(diff(found.brought, found.pod, around=2)),
        "decision": of_record(record, None, found.decided, snapshot, planned=True) if record else {},
        "bound": dict(sorted(tried.bound.items())),
        "waiting": len(tried.waiting),
        "causes": [cause.document() for cause in tried.causes],
    }


def _show(outcome: Outcome, snapshot: Snapshot, output: Output) -> None:
    for error in outcome.errors:
        say(f"error: {error}", "red")
    if output in ("patch", "yaml"):
        _print_pods(outcome.tried, output)
    elif output == "json":
        document(document_of(outcome, snapshot), "json", "TryResult")
    elif output in REPORTS:
        out(REPORTS[output](outcome))
    else:
        for each in outcome.tried:
            _print_tried(each, snapshot, wide=output == "wide")
        if not all(each.refused for each in outcome.tried):
            _print_left(outcome, wide=output == "wide")


def _print_pods(tried: Iterable[Tried], output: Output) -> None:
    """One pod of each template as it would be stored, or the patch that the webhook would answer with."""
    for number, each in enumerate([each for each in tried if not each.refused]):
        if output == "patch":
            out((each.verdict.mutated.patch or b"[]").decode())
        else:
            out(("---\n" if number else "") + to_yaml(each.verdict.decided), end="")
    for each in tried:
        if each.refused:
            say(f"{each.plan.document.where}: {each.plan.title}: refused: {each.verdict.message}", "red")


def _print_tried(tried: Tried, snapshot: Snapshot, *, wide: bool) -> None:
    entry, blind = _entry(tried, snapshot), snapshot.missing.keys() & {"Node", "Pod"}
    show(
        Text.assemble((f"{tried.namespace}: {tried.plan.title}: ", "bold"), _head(tried, wide=wide, blind=bool(blind)))
    )
    if tried.verdict.message:
        word = "refused" if tried.refused else "would be refused (dry run)"
        show(Text(f"  {word}: {tried.verdict.message}", style="red"))
    lines = [
        f"  warning: {finding_line(unit, f)}"
        for unit, action, f in tried.verdict.validated.findings
        if action == "warn"
    ]
    lines += [f"  warning: {warning}" for warning in entry["warnings"]]
    show(*[Text(line, style="yellow") for line in lines], *[Text(f"  {note}") for note in tried.notes])
    show(*[Text(f"  {line}", style=DIFF_COLOURS.get(line[0], "dim")) for line in entry["diff"]])
    show_decision(entry["decision"])
    if tried.waiting:
        count = plural(len(tried.waiting), "pod")
        enough = "enough for one of them" if len(tried.waiting) > 1 else "enough alone"
        show(Text(f"  {count} would wait, ! marks a fix that is {enough}:"), *cause_lines(tried.causes, wide=wide))


def _head(tried: Tried, *, wide: bool, blind: bool) -> Text:
    """`4 pods of 8 nvidia.com/gpu: 2 start on gpu-b (1), gpu-c (1), 2 would wait`."""
    of = f" of {listed([f'{amount} {name}' for name, amount in tried.gpus.items()])}" if tried.gpus else ""
    nodes = listed([f"{node} ({count})" for node, count in sorted(tried.bound.items())], 50 if wide else 5)
    count = plural(tried.pods, "pod")
    if tried.refused:
        return Text.assemble(f"{count}{of}: ", ("refused", "red"))
    if blind:
        return Text(f"{count}{of}: {tried.verdict.outcome}; where they would start is not known")
    if not tried.waiting:
        word = "none is for a node" if not tried.bound else "starts" if tried.pods == 1 else "all start"
        return Text.assemble(f"{count}{of}: ", (word, "green"), f" on {nodes}" if nodes else "")
    bound = tried.bound.total()
    some = f"{bound} {'starts' if bound == 1 else 'start'} on {nodes}, " if bound else ""
    return Text.assemble(f"{count}{of}: {some}", (f"{len(tried.waiting)} would wait", "yellow" if some else "red"))


def _print_left(outcome: Outcome, *, wide: bool) -> None:
    asked = {resource for each in outcome.tried for resource in each.gpus}
    rows = [
        [title, resource, *amounts[key].values()]
        for resource, amounts in outcome.gpus.items()
        if wide
        or not asked
        or resource in asked
        or len(set(amounts["free"].values())) > 1  # KAI takes whole ones for parts
        for title, key in zip(_LEFT, (*FREE, "wholeNodes"), strict=True)
        if key in amounts
    ]
    if outcome.waited["before"]:
        rows.append(["waiting pods of others", "", *outcome.waited.values()])
    if rows:
        out("")
        table(["LEFT", "RESOURCE", "BEFORE", "AFTER"], rows)
