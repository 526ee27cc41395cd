"""`gpu-admission policy diff`: what another policy would change for pods that exist, for recorded requests or for manifests; and
what the policy would change for pods that the webhook has not decided on, before their namespace opts in."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Final

import orjson
import typer
from rich.text import Text

from webhook.admission import words
from webhook.admission.words import finding_line
from webhook.cli import options
from webhook.cli.policy.recorded import Entry, recorded
from webhook.cli.reading import decided_by, namespace_of, no_cluster, policy_of, selector, snapshot_of
from webhook.cli.terminal import COULD_NOT, REFUSED, document, say, table, totals
from webhook.errors import BadInput
from webhook.kube.pod import FINISHED, PROFILE_LABEL, Pod, controller_reference, labels_of, owner
from webhook.kube.record import record_of
from webhook.kube.review import Request
from webhook.kube.suspended import FIELDS, finished
from webhook.placement.placer import Placer
from webhook.policy.model import DEFAULT_PROFILE, Policy
from webhook.text import bare, listed, plural
from webhook.whatif.cluster.report import asks_for_gpus, workload_name
from webhook.whatif.cluster.snapshot import CLAIMS, ENGINE, Object, Snapshot
from webhook.whatif.disruption import Budgets
from webhook.whatif.manifests import Planned, planned_in
from webhook.whatif.names import Names
from webhook.whatif.offline import Document, as_submitted, documents, opted_in, policy_named
from webhook.whatif.verdict import Verdict, verdict
from webhook.whatif.waiting.diagnosis import signature_of, would_start
from webhook.whatif.waiting.situation import Situation

CHANGES: Final = ("refused", "allowed", "changed", "placed", "found", "same")
"""All values of the key `change`, worst first. docs/documents.md describes them."""
_STYLES: Final = {"refused": "red", "allowed": "green", "changed": "yellow", "placed": "cyan", "found": "yellow"}
_PREFERRED: Final = ("spec.affinity", "spec.topologySpreadConstraints")
"""Fields in which injectors write preferences that follow from the chosen node."""
_CHANGED: Final = frozenset(("filled", "limitsFilled", "filledLess", "added", "set", "antiAffinity"))
"""Results of injectors that are listed. Those that only make the pod prefer a node are not."""
_STARTS: Final = {True: "it waits now, and would start", False: "it waits now, and still would"}
_MAX_FIELDS: Final = 4
"""Maximum number of changed fields that are named."""
WORKLOADS: Final = ("Deployment", "StatefulSet", "DaemonSet", *FIELDS)
"""Kinds with templates of pods."""
Policies = tuple[Policy | None, Policy]
"""The policy to compare with, None for pods as they are, and the one to try."""


def diff(
    policy: Annotated[
        str | None, typer.Argument(metavar="FILE|default", help="The policy to try. Default: that of the cluster.")
    ] = None,
    before: Annotated[
        str | None,
        typer.Option(help="The policy to compare with. Default: that of the cluster.", metavar="FILE|default"),
    ] = None,
    files: Annotated[
        list[str] | None,
        typer.Option(
            "-f",
            "--filename",
            metavar="FILE|DIR|URL|-",
            help="Reviews, an audit log, or manifests, in place of the pods of the cluster; may be repeated.",
        ),
    ] = None,
    namespace: Annotated[
        str | None, typer.Option("-n", "--namespace", help="As if this namespace had opted in. Default: all that have.")
    ] = None,
    everywhere: options.AllNamespaces = False,
    labels: options.Selector = None,
    output: options.Output = "table",
    file: options.From = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
) -> None:
    """Show which pods another policy would refuse, change or place otherwise. Exit status 1 if it would refuse one that is not
    refused now.

    `gpu-admission policy diff new.yaml` is about the GPU pods of namespaces that have opted in. With `-f audit.log` it is about
    pods that an API server recorded (level Request), each as if it were the only new one; with `-f manifests/` about manifests.

    Before a namespace opts in, `gpu-admission policy diff -n my-team` shows what the policy of the cluster would do with
    pods on which the webhook has not decided. The right to list these pods is enough, but then rules that read nodes find
    nothing. With -A: all namespaces, as if all had opted in. A workload without pods (suspended, with 0 replicas, a CronJob)
    counts as the pods that it would make. Pods that run stay as they are. `-o wide` also shows every finding, and pods for
    which nothing changes.
    """
    matches, errors = selector(labels), list[BadInput]()
    if files:
        entries, errors, text = _of_files(files, policy, before, (file, kubeconfig, context), namespace)
    else:
        snapshot = snapshot_of(file, kubeconfig, context, (*ENGINE, *CLAIMS, *WORKLOADS), namespace, needed=("Pod",))
        namespace_of(namespace, everywhere, snapshot)
        if namespace is None and not everywhere and (why := snapshot.missing.get("Namespace")):
            raise BadInput(f"{why}: which have opted in is not known. Ask for it, or give one with -n")
        old = None if policy is None and before is None else policy_of(before, snapshot)
        where = None if everywhere else namespace
        entries = live(snapshot, (old, policy_of(policy, snapshot)), where, everywhere=everywhere, matches=matches)
        text = f"{decided_by(policy, snapshot)}; pods that run stay as they are"
    for error in errors:
        say(f"error: {error}", "red")
    if not document(entries, output, "PolicyDiff"):
        _print(entries, text, wide=output == "wide")
    if errors:
        raise typer.Exit(COULD_NOT)
    if any(entry["change"] == "refused" for entry in entries):
        raise typer.Exit(REFUSED)


def _of_files(
    files: list[str],
    policy: str | None,
    before: str | None,
    cluster: tuple[Path | None, Path | None, str | None],
    namespace: str | None,
) -> tuple[list[dict[str, Any]], list[BadInput], str]:
    """The entries for recorded requests, what was wrong with others, and by which policies. With a cluster nodes are chosen."""
    if policy is None:
        raise BadInput("wanted the policy to try: gpu-admission policy diff new.yaml -f FILE")
    snapshot = snapshot_of(*cluster, (*ENGINE, *CLAIMS)) if any(cluster) else no_cluster("no cluster is named")
    new, old = policy_named(policy), policy_of(before, snapshot)
    entries, left_out, errors = compared(recorded(files, new, snapshot, namespace), (old, new), snapshot)
    for reason, count in left_out.items():
        say(f"left out: {reason} ({count})")
    if not entries and not errors:
        wanted = "wanted AdmissionReviews or an audit log, as JSON lines, or manifests"
        raise BadInput(f"{', '.join(files)}: no request to create a pod in it: {wanted}")
    return entries, errors, f"{decided_by(policy, snapshot)}, compared with {decided_by(before, snapshot)}"


def live(
    snapshot: Snapshot,
    policies: Policies,
    namespace: str | None,
    *,
    everywhere: bool = False,
    matches: Callable[[Mapping[str, str]], bool] = lambda _: True,
) -> list[dict[str, Any]]:
    """The document that `-o json` prints for the pods of a cluster, and for those that its workloads would make which have none
    now. `namespace`: as if it had opted in; `everywhere`: as if all had. Without a policy to compare with: for pods without a
    decision, as they are."""
    before, after = policies
    namespaces = {n["metadata"]["name"]: n["metadata"].get("labels") or {} for n in snapshot.of("Namespace")}
    for name in [namespace] if namespace else list(namespaces) if everywhere else ():
        labels = {PROFILE_LABEL: DEFAULT_PROFILE, **namespaces.get(name, {})}
        snapshot.state.seen("namespaces", {"metadata": {"name": name, "labels": labels}}, snapshot.taken)
    view = snapshot.state.view(snapshot.taken)

    def asked(obj: Object) -> bool:
        here = obj["metadata"]["namespace"]
        return namespace in (None, here) and opted_in(here, view) and matches(labels_of(obj))

    pods = [
        pod
        for pod in snapshot.of("Pod")
        if pod["status"].get("phase") not in FINISHED and asked(pod) and not (before is None and record_of(pod))
    ]
    stopped = _stopped(snapshot, after, asked) if before is not None or namespace or everywhere else ()
    found, _, errors = compared(chain(map(_planned, pods), stopped), policies, snapshot, chooses=False)
    for error in errors:
        say(f"warning: not read: {error}", "yellow")
    waiting = [pod for pod in pods if not pod["spec"].get("nodeName")]
    if waiting and not snapshot.missing.keys() & {"Node", "Pod"}:
        _say_which_start(found, waiting, Situation(snapshot, after))
    return found


def _planned(pod: Pod) -> Entry:
    (read,) = documents(orjson.dumps(as_submitted(pod)), pod["metadata"]["name"])
    return read if isinstance(read, BadInput) else Planned(read, workload_name(pod), 1)


def _stopped(snapshot: Snapshot, policy: Policy, asked: Callable[[Object], bool]) -> Iterator[Entry]:
    """The pods that workloads without any would make: what is suspended, has 0 replicas, or is a CronJob."""
    names = Names(snapshot)
    have = {names.top(pod) for pod in snapshot.of("Pod")}
    for obj in [obj for kind in WORKLOADS for obj in snapshot.of(kind) if asked(obj)]:
        here, name = obj["metadata"]["namespace"], obj["metadata"]["name"]
        if not (controller_reference(obj) or finished(obj) or f"{obj['kind'].lower()}/{name} in {here}" in have):
            yield from planned_in(orjson.dumps(obj), name, policy, here)


def _say_which_start(found: list[dict[str, Any]], waiting: list[Pod], situation: Situation) -> None:
    """Add to each entry of pods that wait whether they would start."""
    first_of, starts = dict[tuple[str, str], Pod](), dict[tuple[str, bytes], bool]()
    for pod in waiting:
        first_of.setdefault((pod["metadata"]["namespace"], workload_name(pod)), pod)
    for each in found:
        first = first_of.get((each["namespace"], each["workload"]))
        if first is not None and each["change"] != "refused" and asks_for_gpus(first, situation.policy):
            made_by = owner(first)
            if (signature := (made_by.kind if made_by else "", signature_of(first))) not in starts:
                starts[signature] = would_start(situation, first)
            each["starts"] = starts[signature]


def compared(
    entries: Iterable[Entry], policies: Policies, snapshot: Snapshot, *, chooses: bool = True
) -> tuple[list[dict[str, Any]], Counter[str], list[BadInput]]:
    """The document that `-o json` prints, worst change first: pods of one workload with the same result are one entry. Then how
    many requests were left out, by the reason, and what was wrong with others."""
    placer, view = Placer(snapshot.state), snapshot.state.view(snapshot.taken)
    known, groups = dict[bytes, tuple[Verdict, Verdict]](), dict[bytes, dict[str, Any]]()
    verdicts = dict[bytes, tuple[Verdict, Verdict]]()
    left_out, errors = Counter[str](), list[BadInput]()
    for each in entries:
        if isinstance(each, str):
            left_out[each] += 1
        elif isinstance(each, BadInput):
            errors.append(each)
        else:
            try:
                key = _key(each.document.request)
                if key not in known:
                    known[key] = _both(each.document, policies, view, placer, chooses=chooses)
            except (BadInput, TypeError, RecursionError) as error:  # orjson refuses what is nested too deeply
                errors.append(error if isinstance(error, BadInput) else BadInput(f"{each.document.where}: {error}"))
                continue
            if not chooses and _is_none_of_ours(*known[key]):
                continue
            entry = _entry(each, *known[key])
            same = {key: entry[key] for key in entry.keys() - {"text", "findings"}}  # texts name the pod
            of = orjson.dumps(same, option=orjson.OPT_SORT_KEYS)
            group = groups.setdefault(of, {**entry, "pods": 0})
            verdicts.setdefault(of, known[key])
            group["pods"] += each.replicas or 1
    budgets = Budgets(snapshot)
    for of, group in groups.items():
        _look_for_budget(group, verdicts[of], policies, budgets)
    order = sorted(
        groups.values(), key=lambda each: (CHANGES.index(each["change"]), each["namespace"], each["workload"])
    )
    return order, left_out, errors


def _look_for_budget(
    group: dict[str, Any], verdicts: tuple[Verdict, Verdict], policies: Policies, budgets: Budgets
) -> None:
    """Add to an entry that pods which serve, and did not by the former policy, have no budget."""
    then, now = (
        policy is not None
        and budgets.lacks(
            each.decided, group["pods"], serves=policy.spreads(each.mutated.profile, each.mutated.workload)
        )
        for policy, each in zip(policies, verdicts, strict=True)
    )
    if now and not then and verdicts[1].outcome != "refused":
        group["findings"].append({"unit": "pdbMissing", "action": "warn", "text": now})
        if group["change"] == "same":
            group |= {"change": "found", "text": now}


def _both(
    document: Document, policies: Policies, view: Any, placer: Placer, *, chooses: bool
) -> tuple[Verdict, Verdict]:
    before, after = policies
    then = verdict(document, after, view, placer, chooses=chooses)
    if before is None:
        return Verdict("notAsked", then.request, then.brought), then
    return verdict(document, before, view, placer, chooses=chooses), then


def _is_none_of_ours(*verdicts: Verdict) -> bool:
    """Whether none has to do with the pod, as with one without a GPU in which no rule finds anything."""
    return not any(each.outcome == "refused" or each.validated.findings or record_of(each.decided) for each in verdicts)


def _key(request: Request) -> bytes:
    """A key that is equal for requests with equal verdicts, such as those of replicas of one template.

    The API server adds a token volume with a random name to each pod, and its mounts.
    """
    pod = request.object or {}
    differing = ("name", "uid", "creationTimestamp")
    metadata = {key: value for key, value in (pod.get("metadata") or {}).items() if key not in differing}
    spec = {key: value for key, value in (pod.get("spec") or {}).items() if key != "hostname"}
    tokens = {v.get("name") for v in spec.get("volumes") or () if str(v.get("name")).startswith("kube-api-access-")}
    if tokens:
        spec["volumes"] = [v for v in spec["volumes"] if v.get("name") not in tokens]
        for kind in ("containers", "initContainers"):
            if kind in spec:
                spec[kind] = [{k: v for k, v in each.items() if k != "volumeMounts"} for each in spec[kind]]
    parts = [request.namespace, request.user, request.groups, {**pod, "metadata": metadata, "spec": spec}]
    return orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)


def _workload(plan: Planned) -> str:
    """Of a pod that its controller has made already, the workload."""
    request = plan.document.request
    pod = request.object or {}
    name = {"name": request.name or request.generated}
    return (
        workload_name({**pod, "metadata": {**name, **(pod.get("metadata") or {})}})
        if plan.of.startswith("pod/")
        else plan.of
    )


def _entry(plan: Planned, before: Verdict, after: Verdict) -> dict[str, Any]:
    """An entry of the document, but for the number of pods."""
    fields = [] if "refused" in (before.outcome, after.outcome) else list(_differing(before.pod, after.pod))
    moved = before.ranking != after.ranking
    changed = [field for field in fields if not (moved and field.startswith(_PREFERRED))]
    new = [each for each in after.validated.findings if each.unit not in before.units]
    outcomes = {} if after.outcome == "refused" else after.mutated.outcomes
    done = [f"{name}: {words.sentence(name, of.recorded)}" for name, of in outcomes.items() if of.result in _CHANGED]
    if before.outcome != "refused" == after.outcome:
        change, text = "refused", after.message
    elif before.outcome == "refused" != after.outcome:
        change, text = "allowed", f"was refused: {before.message}"
    elif changed:
        of_injectors = [each.partition(":")[0] for each in done] if before.mutated.result == "ignored" else []
        change, text = "changed", listed(of_injectors or changed, _MAX_FIELDS)
    elif moved:
        change, text = "placed", _moved(before, after)
    elif before.units != after.units:
        lines = [finding_line(each.unit, each.finding) for each in new]
        change, text = "found", "; ".join(lines) or f"no more: {listed(sorted({*before.units} - {*after.units}), 20)}"
    else:
        change, text = "same", after.message
    return {
        "namespace": after.request.namespace,
        "workload": _workload(plan),
        "change": change,
        "text": text,
        "fields": changed,
        "findings": [{"unit": unit, "action": action, "text": finding.message} for unit, action, finding in new],
        "changes": done,
        "before": {"outcome": before.outcome, "node": before.node, "findings": before.units},
        "after": {"outcome": after.outcome, "node": after.node, "findings": after.units},
    }


def _moved(before: Verdict, after: Verdict) -> str:
    if before.node == after.node:
        return f"{after.node}, and others after it"
    return f"{before.node or 'none'} → {after.node or 'none'}"


def _differing(one: Any, other: Any, path: str = "") -> Iterator[str]:
    """The paths of the fields in which two pods differ: `spec.containers[0].image`."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other}):
            if one.get(key) != other.get(key):
                step = f".{key}" if key.isidentifier() else f"[{bare(key)}]"
                yield from _differing(one.get(key), other.get(key), f"{path}{step}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, (left, right) in enumerate(zip(one, other, strict=True)):
            if left != right:
                yield from _differing(left, right, f"{path}[{number}]")
    else:
        yield path.lstrip(".")


def _print(entries: list[dict[str, Any]], text: str, *, wide: bool) -> None:
    counts = Counter[str]()
    for entry in entries:
        counts[entry["change"]] += entry["pods"]
    rows = [
        [Text(e["change"], _STYLES.get(e["change"], "")), e["namespace"], e["workload"], e["pods"], _what(e, wide=wide)]
        for e in entries
        if wide or e["change"] != "same" or "starts" in e
    ]
    if rows:
        table(["CHANGE", "NAMESPACE", "WORKLOAD", "PODS", "WHAT"], rows, drop=["PODS"])
    say(f"{plural(counts.total(), 'pod')}: {totals(counts, CHANGES) or 'nothing to compare'}, by {text}")


def _what(entry: dict[str, Any], *, wide: bool) -> str:
    """What changes, on one line. Without `wide`: the first finding, and the names of injectors or fields."""
    said = [_STARTS[entry["starts"]]] if "starts" in entry else []
    texts = [f"{each['text']} [{each['unit']}]" for each in entry["findings"]]
    if not texts or entry["change"] not in ("changed", "found"):
        more = ["; ".join(entry["changes"]) if wide and entry["change"] == "changed" else entry["text"]]
    else:
        shown = (
            " ".join(texts) if wide or len(texts) == 1 else f"{texts[0]} and {plural(len(texts) - 1, 'more finding')}"
        )
        done = "; ".join(entry["changes"]) if wide else f"changed: {entry['text']}"
        more = [shown, done if entry["change"] == "changed" else ""]
    return " ".join("; ".join(filter(None, [*said, *more])).split())
