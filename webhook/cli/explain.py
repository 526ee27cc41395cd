"""`gpu-admission explain`: the decision on an existing pod and its reasons, or the decision that the pods of a file would get."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from webhook.admission import words
from webhook.admission.events import MAX_MESSAGE, WOULD
from webhook.cli import offline, options
from webhook.cli.alike import alike
from webhook.cli.cluster.report import asks_for_gpus
from webhook.cli.cluster.snapshot import FINISHED, NEEDED, Snapshot
from webhook.cli.elsewhere import elsewhere
from webhook.cli.manifests import NO_PODS, Planned, planned_in, texts_of
from webhook.cli.pending import KINDS, answers, cause_lines, pods_named
from webhook.cli.reading import measure_gpus, namespace_of, policy_of, snapshot_of
from webhook.cli.terminal import COULD_NOT, DIFF_COLOURS, REFUSED, diff, document, say, show, table
from webhook.cli.verdict import without_record
from webhook.cli.waiting.causes import Cause
from webhook.errors import BadInput, GpuAdmissionError, PolicyError
from webhook.kube.pod import PROFILE_LABEL, Pod, controller_reference
from webhook.kube.pod_requests import counted_demand
from webhook.kube.record import record_of
from webhook.policy.model import Policy
from webhook.text import bare, listed


def explain(
    pod: Annotated[str | None, typer.Argument(help="A pod that exists, or its workload, such as `job/train`.")] = None,
    file: Annotated[
        list[str] | None, typer.Option("-f", "--filename", metavar="FILE|-", help="Manifests; may be repeated.")
    ] = None,
    namespace: options.Namespace = None,
    output: options.Output = "table",
    policy: options.Policy = None,
    metrics: options.Metrics = None,
    cluster: options.Snapshot = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
) -> None:
    """Explain the decision on a pod: what each injector did or why it did nothing, the ranking, and where the pod was bound.

    With -f: what would happen to the pods of these manifests now, as a diff with the findings; exit status 1 if one would
    be refused. Nothing is created. Example: `gpu-admission explain -f job.yaml -n team-a`.

    A node that is kept back comes after the others by score, and the table says why: it is kept whole for large pods, its GPUs
    are shared, what would be left is of no use or needed as it is, or another replica of the webhook fills it now.
    """
    if bool(pod) == bool(file):
        raise BadInput("wanted the name of a pod, or -f FILE, and not both")
    snapshot = snapshot_of(cluster, kubeconfig, context, KINDS, namespace, needed=("Pod",) if pod else NEEDED)
    rules, where = policy_of(policy, snapshot), namespace_of(namespace, False, snapshot)
    if pod:
        try:
            first = pods_named(snapshot, where, pod)[0]
        except BadInput:
            explanation, causes = _without_pods(snapshot, rules, where, pod)
        else:
            explanation, causes = explained(snapshot, rules, first)
            explanation |= alike(snapshot, first, pod)
        if not document(explanation, output):
            _print_workload(explanation)
            _print_record(explanation, causes)
        return
    measure_gpus(snapshot, rules, metrics)
    explanations, status = list(of_files(snapshot, rules, where, file or [])), 0
    if not explanations:
        raise BadInput(f"{', '.join(file or [])}: {NO_PODS}")
    for explanation in explanations:
        status = max(status, COULD_NOT if "error" in explanation else REFUSED if explanation["refused"] else 0)
    if not document(explanations, output):
        for explanation in explanations:
            _print_planned(explanation)
    raise typer.Exit(status)


def _without_pods(
    snapshot: Snapshot, policy: Policy, namespace: str | None, name: str
) -> tuple[dict[str, Any], list[Cause]]:
    """The document for a workload whose pods could not be created, and why. Raises BadInput if there is none of this name."""
    found = answers(snapshot, policy, namespace, name)[0]
    head = {"namespace": found.namespace, "name": found.name, "undecided": "it has no pod"}
    return {**head, "causes": [cause.document() for cause in found.causes]}, found.causes


def explained(
    snapshot: Snapshot, policy: Policy, pod: Pod, known: list[Cause] | None = None
) -> tuple[dict[str, Any], list[Cause]]:
    """The document for an existing pod, and why it waits. `known`: that, where it was found already."""
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    record, bound = record_of(pod), pod["spec"].get("nodeName")
    explanation = {"namespace": namespace, "name": name, **of_record(record, bound, pod, snapshot)}
    with suppress(PolicyError):
        if record.get("policy") and snapshot.policy and snapshot.policy.hash != record["policy"]:
            explanation["policyNow"] = snapshot.policy.hash
    if explanation.get("choice") in ("ranked", "other"):
        explanation["text"] = elsewhere(snapshot, pod, str(bound), [node["name"] for node in explanation["nodes"]])
    if not record:
        explanation["undecided"] = _undecided(snapshot, policy, pod)
    if bound or pod["status"].get("phase") in FINISHED or pod["metadata"].get("deletionTimestamp"):
        return explanation, []
    causes = answers(snapshot, policy, namespace, name)[0].causes if known is None else known
    explanation["causes"] = [cause.document() for cause in causes]
    return explanation, causes


def of_files(snapshot: Snapshot, policy: Policy, namespace: str | None, files: list[str]) -> Iterator[dict[str, Any]]:
    """The document for each pod that the manifests would create. Pods are decided in order, and each sees the reservations
    of those before it."""
    for name, text in texts_of(files):
        for plan in planned_in(text, name, policy, namespace):
            try:
                yield {"error": str(plan)} if isinstance(plan, BadInput) else _would(snapshot, policy, plan)
            except GpuAdmissionError as error:
                yield {"error": str(error)}


def _would(snapshot: Snapshot, policy: Policy, plan: Planned) -> dict[str, Any]:
    request, state = plan.document.request, snapshot.state
    if request.operation != "CREATE" or request.subresource:
        seen = f"{request.operation} {request.subresource}".rstrip()
        raise BadInput(f"{plan.document.where}: saw a review of {seen}, wanted one of the CREATE of a pod")
    replicas = 1 if plan.replicas is None else plan.replicas
    head = {"namespace": request.namespace, "of": plan.of, "replicas": replicas, "refused": False}
    head |= {"template": plan.template} if plan.template else {}
    asked = offline.opted_in(request.namespace, state.view(snapshot.taken))
    validated = offline.run(plan.document, offline.decide_validate, policy, state, snapshot.taken).decision
    if validated.result != "denied" and not asked:
        return head | {"undecided": _not_opted_in(request.namespace)}
    mutated = offline.run(plan.document, offline.decide_mutate, policy, state, snapshot.taken)
    if message := validated.message or mutated.decision.message:
        head |= {"refused": validated.result == "denied", "message": message}
    findings = [
        {"unit": unit, "action": action, "path": f.path, "seen": f.seen, "wanted": f.wanted, "fix": f.fix}
        for unit, action, f in validated.findings
    ]
    record = {} if head["refused"] else record_of(mutated.pod)
    if mutated.decision.result == "shadow":
        head["undecided"] = f"nothing is changed: profile {mutated.decision.profile} is in shadow"
    elif not record and not head["refused"]:
        head["undecided"] = (
            "nothing is changed: it asks for no GPU that the policy names, or no injector for it is enabled"
        )
    return head | {
        "diff": []
        if head["refused"]
        else list(diff(mutated.document.request.object or {}, without_record(mutated.pod), around=2)),
        "findings": findings,
        "warnings": list(validated.warnings),
        **of_record(record, None, mutated.pod, snapshot, planned=True),
    }


def _undecided(snapshot: Snapshot, policy: Policy, pod: Pod) -> str:
    """Why the pod has no decision, and what would have been done under a profile in shadow."""
    namespace = pod["metadata"]["namespace"]
    obj = snapshot.named("Namespace").get(("", namespace))
    if obj is not None and PROFILE_LABEL not in (obj["metadata"].get("labels") or {}):
        return _not_opted_in(namespace)
    profile, settings = policy.profile(((obj or {}).get("metadata", {}).get("labels") or {}).get(PROFILE_LABEL, ""))
    if settings.shadow:
        uids = {pod["metadata"].get("uid"), (controller_reference(pod) or {}).get("uid")} - {None}
        said = {
            str(event.get("message"))
            for event in snapshot.of("Event")
            if event.get("reason") in WOULD and (event.get("involvedObject") or {}).get("uid") in uids
        }
        found = sorted([each[:MAX_MESSAGE] for each in said if each.isprintable()])[:2]  # anybody may write an Event
        nothing = "no Event says what would be done (they need manifests/components/events, and are kept for an hour)"
        return f"profile {profile} is in shadow, so nothing was done: {'; '.join(found) or nothing}"
    if not asks_for_gpus(pod, policy):
        return "it has no decision: it asks for no GPU"
    if obj is None and (why := snapshot.missing.get("Namespace")):
        return f"it has no decision: whether its namespace has opted in is not known: {why}"
    return "it has no decision: it is older than the opt-in of its namespace, or the webhook was away when it was made"


def _not_opted_in(namespace: str) -> str:
    label = f"kubectl label namespace {namespace} {PROFILE_LABEL}=default"
    return f"the webhook is not asked: namespace {namespace} has not opted in ({label})"


def _print_workload(explanation: dict[str, Any]) -> None:
    if workload := explanation.get("workload"):
        groups = [Text(f"  {group['text']}: {listed(group['pods'])}") for group in workload["groups"][:8]]
        show(Text(workload["text"], style="bold"), *groups, Text(f"of {explanation['name']}:"))


def _print_record(explanation: dict[str, Any], causes: list[Cause]) -> None:
    show(Text(f"{explanation['namespace']}/{explanation['name']}", style="bold"))
    if undecided := explanation.get("undecided"):
        show(Text(f"  {undecided}"))
    print_decision(explanation)
    if causes:
        show(Text("  it waits, ! marks what is enough alone:"), *cause_lines(causes, wide=False))


def _print_planned(explanation: dict[str, Any]) -> None:
    if error := explanation.get("error"):
        say(f"error: {error}", "red")
        return
    times = f" ({explanation['replicas']} pods)" if explanation["replicas"] != 1 else ""
    of = f"{explanation['of']} {explanation.get('template', '')}".rstrip()
    show(Text(f"{explanation['namespace']}: {of}{times}", style="bold"))
    if message := explanation.get("message"):
        show(Text(f"  {'refused' if explanation['refused'] else 'would be refused (shadow)'}: {message}", style="red"))
    for finding in explanation.get("findings") or ():
        if finding["action"] == "warn":
            text = f"{finding['path']}: saw {finding['seen']}, wanted {finding['wanted']}. {finding['fix']}. [{finding['unit']}]"
            show(Text(f"  warning: {text}", style="yellow"))
    for warning in explanation.get("warnings") or ():
        show(Text(f"  warning: {warning}", style="yellow"))
    if undecided := explanation.get("undecided"):
        show(Text(f"  {undecided}"))
    for line in explanation.get("diff") or ():
        show(Text(f"  {line}", style=DIFF_COLOURS.get(line[0], "dim")))
    print_decision(explanation)


_NUMBERS: Final = ("name", "free", "peers", "score", "usable", "load")
"""Keys for the values that the record has of each ranked node, in order. The last two exist only if GPU metrics were used."""


def of_record(
    record: Mapping[str, Any], bound: str | None, pod: Pod, snapshot: Snapshot, *, planned: bool = False
) -> dict[str, Any]:
    """The document of the record of a pod. `bound`: the node that the pod is on; None: it has none yet. `planned`: the pod does
    not exist."""
    if not record:
        return {"boundTo": bound}
    nodes = [dict(zip(_NUMBERS, each, strict=False)) for each in record.get("nodes") or ()]
    state = None if "Node" in snapshot.missing else snapshot.state
    for node in nodes:
        if why := words.why_last(node, counted_demand(pod), state, alone=planned):
            node["score"] = words.own_score(node["score"])
            if len(nodes) > 1:
                node["last"] = why
    word, sentence = words.binding([node["name"] for node in nodes], bound)
    if bound and not nodes:
        sentence = f"bound to {bare(bound)} by the scheduler"
    if planned and nodes:
        sentence = f"{nodes[0]['name']} would be chosen"
    return {
        **{key: record.get(key) for key in ("class", "profile", "policy", "strategy")},
        "units": [{"name": name, "text": text} for name, text in words.units(record)],
        "nodes": nodes,
        "decided": words.decided(record, {node["name"]: node["last"] for node in nodes if "last" in node}),
        "why": words.why_none(record),
        "by": words.source(record),
        "boundTo": bound,
        "choice": word,
        "text": sentence,
    }


def print_decision(decision: dict[str, Any]) -> None:
    """Print the document that `of_record` gives. Prints nothing if there is no decision."""
    if "class" not in decision:
        return
    since = f" (changed since: now {decision['policyNow']})" if "policyNow" in decision else ""
    show(Text(f"  class {decision['class']}, profile {decision['profile']}, policy {decision['policy']}{since}"))
    for unit in decision["units"]:
        show(Text.assemble(("  " + unit["name"], "cyan"), f": {unit['text']}"))
    if decision["why"]:
        where = f"; {decision['text']}" if decision["text"] else ""
        show(Text(f"  no node chosen: {decision['why']}{where}"))
    if decision["nodes"]:
        used = f", {decision['by']}" if decision["by"] else ""
        show(Text(f"  strategy {decision['strategy']}{used}; {decision['text']}"))
        if decision["decided"]:
            show(Text(f"  {decision['decided']}"))
        metered = any("usable" in n for n in decision["nodes"])
        rows = [
            [
                *("  " + n["name"], n["free"], n["peers"], n["score"]),
                *([_metrics(n)] if metered else []),
                _remark(n, decision["boundTo"], first=not at),
            ]
            for at, n in enumerate(decision["nodes"])
        ]
        table(["  NODE", *words.MEANINGS, *(["METRICS"] if metered else []), ""], rows)
        show(Text("  " + "; ".join(f"{name}: {meaning}" for name, meaning in words.MEANINGS.items()), style="dim"))


def _remark(node: Mapping[str, Any], bound: str | None, *, first: bool) -> str:
    kept = (
        f"{'first, though it would be kept back' if first else 'kept back'}: {node['last']}" if "last" in node else ""
    )
    return "; ".join(filter(None, ["← bound" if node["name"] == bound else "", kept]))


def _metrics(node: Mapping[str, Any]) -> str:
    load = "" if node.get("load") is None else f", {node['load']} % used"
    return "" if node.get("usable") is None else f"{node['usable']} fit for use{load}"
