"""`gpu-admission audit`: what the policy would do with existing GPU pods that the webhook has not decided on."""

from collections import Counter
from typing import Annotated, Any, Final

import orjson
import typer
from rich.text import Text

from webhook.admission import words
from webhook.cli import offline, options
from webhook.cli.cluster.report import asks_for_gpus, workload_name
from webhook.cli.cluster.snapshot import CLAIMS, ENGINE, FINISHED, Snapshot
from webhook.cli.reading import namespace_of, policy_of, selector, snapshot_of
from webhook.cli.terminal import REFUSED, document, say, table, totals
from webhook.cli.waiting.diagnosis import shape_of, would_start
from webhook.cli.waiting.situation import Situation
from webhook.errors import BadInput
from webhook.kube.pod import PROFILE_LABEL, Pod, labels_of, owner
from webhook.kube.record import record_of
from webhook.placement.placer import Placer
from webhook.policy.model import DEFAULT_PROFILE, Policy
from webhook.state.view import StateView
from webhook.text import listed, plural

_CHANGES: Final = frozenset(("filled", "limitsFilled", "filledLess", "added", "set", "antiAffinity"))
"""Injector results that are listed as changes. Results that only make the pod prefer a node are not listed."""
_WOULD_START: Final = {True: "it waits now, and would start", False: "it waits now, and still would"}
_STYLES: Final = {"refused": "red", "warned": "yellow", "changed": "cyan", "unchanged": "green", "notRead": "red"}
"""The colour of each outcome, in the order in which outcomes are listed."""


def audit(
    namespace: Annotated[
        str | None,
        typer.Option("-n", "--namespace", help="As if this namespace had opted in. Default: all that have."),
    ] = None,
    everywhere: options.AllNamespaces = False,
    labels: options.Selector = None,
    output: options.Output = "table",
    policy: options.Policy = None,
    cluster: options.Snapshot = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
) -> None:
    """Show what the policy would do with the GPU pods that the webhook has not decided on.

    Example: `gpu-admission audit -n my-team`: what would change for its pods, before it opts in. The right to list its pods is
    enough, but then rules that read nodes find nothing. Without -n: pods of all namespaces that have opted in; with -A: of all
    namespaces, as if all had.

    There is one line for each workload; `-o wide` shows every finding. Exit status 1 if a pod would be refused.
    """
    matches = selector(labels)
    snapshot = snapshot_of(cluster, kubeconfig, context, (*ENGINE, *CLAIMS), namespace, needed=("Pod",))
    namespace_of(namespace, everywhere, snapshot)
    if namespace is None and (why := snapshot.missing.get("Namespace")):
        raise BadInput(f"{why}: which have opted in is not known. Ask for it, or give one with -n")
    rules = policy_of(policy, snapshot)
    entries = audited(snapshot, rules, namespace, everywhere=everywhere, matches=matches)
    if not document(entries, output):
        view = snapshot.state.view(snapshot.taken)
        labels_of_all = [view.namespace_labels(entry["namespace"]) or {} for entry in entries]
        shadow = any(rules.profile(each.get(PROFILE_LABEL, ""))[1].shadow for each in labels_of_all)
        _print(entries, shadow=shadow, wide=output == "wide")
    if any(entry["outcome"] == "refused" for entry in entries):
        raise typer.Exit(REFUSED)


def _print(entries: list[dict[str, Any]], *, shadow: bool, wide: bool) -> None:
    if not entries:
        say("no GPU pod without a decision")
        return
    rows = [
        [a["namespace"], a["of"], a["pods"], Text(a["outcome"], _STYLES[a["outcome"]]), _why(a, wide=wide)]
        for a in entries
    ]
    table(["NAMESPACE", "WORKLOAD", "PODS", "OUTCOME", "WHY"], rows, drop=["PODS"])
    counts = Counter[str]()
    for entry in entries:
        counts[entry["outcome"]] += entry["pods"]
    when = "now, under a profile that is not in shadow" if shadow else "now"
    say(f"if they were created {when}: {totals(counts, _STYLES)}; pods that run stay as they are")


def audited(
    snapshot: Snapshot, policy: Policy, namespace: str | None, *, everywhere: bool = False, matches: Any = None
) -> list[dict[str, Any]]:
    """The document that `-o json` prints, worst outcome first. Pods of one workload that are decided alike are one entry.

    `namespace`: audit this namespace as if it had opted in. `everywhere`: all namespaces as if they had. `matches`: whether
    the labels of a pod are selected; None selects every pod.
    """
    namespaces = {n["metadata"]["name"]: n["metadata"].get("labels") or {} for n in snapshot.of("Namespace")}
    for name in [namespace] if namespace else list(namespaces) if everywhere else ():
        labels = {PROFILE_LABEL: DEFAULT_PROFILE, **namespaces.get(name, {})}
        snapshot.state.seen("namespaces", {"metadata": {"name": name, "labels": labels}}, snapshot.taken)
    groups: dict[tuple[str, str, bytes], dict[str, Any]] = {}
    waiting: dict[tuple[str, str, bytes], Pod] = {}
    view, placer = snapshot.state.view(snapshot.taken), Placer(snapshot.state)
    decided: dict[bytes, dict[str, Any]] = {}  # many workloads have equal pods: 4 s of 50,000 pods
    for pod in snapshot.of("Pod"):
        here = pod["metadata"]["namespace"]
        in_scope = (
            namespace in (None, here) and offline.opted_in(here, view) and pod["status"].get("phase") not in FINISHED
        )
        if (
            in_scope
            and asks_for_gpus(pod, policy)
            and not record_of(pod)
            and (matches is None or matches(labels_of(pod)))
        ):
            key = (here, workload_name(pod), _template(pod))
            if key in groups:
                groups[key]["pods"] += 1
            else:
                made_by = owner(pod)
                equal = orjson.dumps([here, made_by.kind if made_by else "", labels_of(pod)]) + key[2]
                if equal not in decided:
                    decided[equal] = _decided(pod, policy, view, placer)
                groups[key] = {"namespace": here, "of": key[1], "pods": 1, **decided[equal]}
            if not pod["spec"].get("nodeName"):
                waiting.setdefault(key, pod)
    if waiting and not snapshot.missing.keys() & {"Node", "Pod"}:
        situation, starts = Situation(snapshot, policy), dict[tuple[str, bytes], bool]()
        for key, pod in waiting.items():
            if groups[key]["outcome"] not in ("refused", "notRead"):
                made_by = owner(pod)
                if (shape := (made_by.kind if made_by else "", shape_of(pod))) not in starts:
                    starts[shape] = would_start(situation, pod)
                groups[key]["starts"] = starts[shape]
    order = list(_STYLES)
    return sorted(groups.values(), key=lambda a: (order.index(a["outcome"]), a["namespace"], a["of"]))


def _decided(pod: Pod, policy: Policy, view: StateView, placer: Placer) -> dict[str, Any]:
    """Outcome, findings and changes if the pod were created now. No node is chosen: the pod exists already."""
    (read,) = offline.documents(orjson.dumps(offline.as_submitted(pod)), pod["metadata"]["name"])
    if isinstance(read, BadInput):
        return {"outcome": "notRead", "findings": [], "changes": [str(read)]}
    mutated, validated, _ = offline.ask(read.request, policy, view, placer, chooses=False)
    decision = mutated if mutated.message else validated
    changes = [f"{n}: {words.sentence(n, o.recorded)}" for n, o in mutated.outcomes.items() if o.result in _CHANGES]
    findings = [{"unit": unit, "action": action, "text": f.message} for unit, action, f in decision.findings]
    outcome = "refused" if decision.message else "warned" if findings else "changed" if changes else "unchanged"
    return {"outcome": outcome, "findings": findings, "changes": [] if decision.message else changes}


def _template(pod: Pod) -> bytes:
    """The spec as JSON, equal for pods of one template: without volumes, mounts and hostname, which differ between them.

    The API server adds a token volume with a random name to each pod, and its mounts.
    """
    spec = {k: v for k, v in offline.as_submitted(pod)["spec"].items() if k not in ("volumes", "hostname")}
    for kind in ("containers", "initContainers"):
        if kind in spec:
            spec[kind] = [{k: v for k, v in container.items() if k != "volumeMounts"} for container in spec[kind]]
    return orjson.dumps(spec, option=orjson.OPT_SORT_KEYS)


def _why(entry: dict[str, Any], *, wide: bool) -> str:
    """Whether a pod that waits would start, the findings and the changes. Without `wide`: the first finding, or the names of
    the injectors."""
    changes = "; ".join(entry["changes"]) if wide else listed([each.partition(":")[0] for each in entry["changes"]])
    said = [_WOULD_START[entry["starts"]]] if "starts" in entry else []
    if texts := [f"{f['text']} [{f['unit']}]" for f in entry["findings"]]:
        all_said = wide or len(texts) == 1
        said.append(" ".join(texts) if all_said else f"{texts[0]} and {plural(len(texts) - 1, 'more finding')}")
        changes = changes and f"changed: {changes}"
    return "; ".join(filter(None, [*said, changes]))
