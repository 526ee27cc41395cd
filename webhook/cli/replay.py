"""`gpu-admission replay`: compares the decisions of two policies on recorded requests, to try a policy before it is in force.

Requests are AdmissionReviews, or the audit log of an API server. An audit event has the object as the client sent it, before
admission, if the audit policy has the level Request or above (k8s.io/apiserver pkg/apis/audit/v1/types.go).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Final

import orjson
import typer
from rich.text import Text

from webhook.admission.words import finding_line
from webhook.cli import options
from webhook.cli.cluster.report import workload_name
from webhook.cli.cluster.snapshot import CLAIMS, ENGINE
from webhook.cli.manifests import Planned, planned_in
from webhook.cli.offline import Document, load_state, policy_named
from webhook.cli.reading import policy_of, snapshot_of
from webhook.cli.terminal import COULD_NOT, REFUSED, document, read, say, table, totals
from webhook.cli.verdict import Verdict, verdict
from webhook.errors import BadInput
from webhook.kube.review import Request
from webhook.placement.placer import Placer
from webhook.policy.model import Policy
from webhook.state.state import ClusterState
from webhook.text import bare, listed, plural

_AUDIT: Final = b'"audit.k8s.io/'
_DONE: Final = "ResponseComplete"
_NO_POD: Final = "requests that create no pod"


Entry = Document | BadInput | str
"""A request to create a pod; or what is wrong with it; or why it is left out."""


def recorded(file: str, policy: Policy) -> Iterator[Entry]:
    """The entries of a file. `policy` says which custom resources are workloads. Raises BadInput if it cannot be read."""
    text = read(file)
    if _AUDIT not in text.lstrip().partition(b"\n")[0]:
        yield from _of_reviews(planned_in(text, file, policy, None))
        return
    for number, line in enumerate(text.splitlines(), 1):
        where = f"{file}: line {number}"
        try:
            event = orjson.loads(line) if line.strip() else {}
        except orjson.JSONDecodeError as error:
            yield BadInput(f"{where}: not JSON: {error}")
            continue
        items = event.get("items") if isinstance(event, dict) else None  # of an EventList
        for item in items if isinstance(items, list) else [event]:
            if isinstance(item, dict):
                yield from _of_event(item, where, policy)


def _of_reviews(planned: Iterator[Planned | BadInput]) -> Iterator[Entry]:
    for plan in planned:
        if isinstance(plan, BadInput):
            yield plan
            continue
        request = plan.document.request
        if not plan.of.startswith("pod/"):
            yield "workloads: their pods are recorded themselves"
        elif request.operation != "CREATE" or request.subresource:
            yield _NO_POD
        else:
            yield plan.document


def _of_event(event: Mapping[str, Any], where: str, policy: Policy) -> Iterator[Entry]:
    about, user = [value if isinstance(value := event.get(key), dict) else {} for key in ("objectRef", "user")]
    if not event or event.get("stage") not in (None, _DONE):
        return
    if event.get("verb") != "create" or about.get("resource") != "pods" or about.get("subresource"):
        yield _NO_POD
    elif "dryRun=" in str(event.get("requestURI")):
        yield "dry runs"
    elif not isinstance(event.get("requestObject"), dict):
        yield "pods without the object: the audit policy must log them at level Request"
    else:
        pod = orjson.dumps({"apiVersion": "v1", "kind": "Pod", **event["requestObject"]})
        groups = user.get("groups")
        groups = tuple(map(str, groups)) if isinstance(groups, list) else ()
        for entry in _of_reviews(planned_in(pod, where, policy, about.get("namespace"))):
            if isinstance(entry, Document):
                request = entry.request._replace(user=str(user.get("username") or ""), groups=groups)
                yield entry._replace(request=request)
            else:
                yield entry


CHANGES: Final = ("refused", "allowed", "changed", "placed", "found", "same")
"""All values of the key `change`, worst first. docs/cli.md describes them."""
_STYLES: Final = {"refused": "red", "allowed": "green", "changed": "yellow", "placed": "cyan", "found": "yellow"}
_PREFERRED: Final = ("spec.affinity", "spec.topologySpreadConstraints")
"""Fields in which injectors write preferences that follow from the chosen node."""
_MAX_FIELDS: Final = 4
"""Maximum number of changed fields that are named."""


def replay(
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="AdmissionReviews, or an API server's audit log.")],
    policy: Annotated[str | None, typer.Option(help="The policy to try.", metavar="FILE|default")] = None,
    before: Annotated[
        str | None,
        typer.Option(help="The policy to compare with. Default: that of the cluster.", metavar="FILE|default"),
    ] = None,
    output: options.Output = "table",
    cluster: options.Snapshot = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
) -> None:
    """Show which recorded pods would be refused, changed or placed otherwise under another policy.

    `gpu-admission replay audit.log --policy new.yaml` compares with the policy of the cluster that `--cluster`, `--kubeconfig`
    or `--context` names. Without a cluster it compares with the shipped policy, and no node is chosen. Each pod is decided on
    as if it were the only new one. `-o wide` also shows pods for which nothing changes. An audit log must have the objects:
    level Request for pods. Exit status 1 if a pod would be refused that was not refused before.
    """
    if policy is None:
        raise BadInput("wanted --policy FILE: the policy to try")
    state, now, old = load_state(None), 0.0, None
    if cluster or kubeconfig or context:
        snapshot = snapshot_of(cluster, kubeconfig, context, (*ENGINE, *CLAIMS))
        state, now, old = snapshot.state, snapshot.taken, policy_of(before, snapshot)
    new = policy_named(policy)
    entries, left_out, errors = replayed(recorded(file, new), (old or policy_named(before), new), state, now)
    for reason, count in left_out.items():
        say(f"left out: {reason} ({count})")
    for error in errors:
        say(f"error: {error}", "red")
    if not entries and not errors:
        raise BadInput(
            f"{file}: no request to create a pod in it: wanted AdmissionReviews or an audit log, as JSON lines"
        )
    if not document(entries, output):
        _print(entries, wide=output == "wide")
    if errors:
        raise typer.Exit(COULD_NOT)
    if any(entry["change"] == "refused" for entry in entries):
        raise typer.Exit(REFUSED)


def replayed(
    recorded: Iterable[Entry], policies: tuple[Policy, Policy], state: ClusterState, now: float
) -> tuple[list[dict[str, Any]], Counter[str], list[BadInput]]:
    """The document that `-o json` prints, worst change first: pods of one workload with the same result are one entry. Then how
    many requests were left out, by the reason, and what was wrong with others.

    `policies`: the policy to compare with, and the one to try.
    """
    placer, known = Placer(state), dict[bytes, tuple[Verdict, Verdict]]()
    groups: dict[tuple[Any, ...], dict[str, Any]] = {}
    left_out, errors = Counter[str](), list[BadInput]()
    for each in recorded:
        if isinstance(each, str):
            left_out[each] += 1
        elif isinstance(each, BadInput):
            errors.append(each)
        else:
            request = each.request
            key = _key(request)
            try:
                if key not in known:
                    before, after = (verdict(each, policy, state, placer, now) for policy in policies)
                    known[key] = before, after
            except BadInput as error:
                errors.append(error)
                continue
            entry = _entry(request, *known[key])
            group = groups.setdefault(tuple(map(str, entry.values())), {**entry, "pods": 0})
            group["pods"] += 1
    order = sorted(groups.values(), key=lambda each: (CHANGES.index(each["change"]), each["namespace"], each["of"]))
    return order, left_out, errors


def _key(request: Request) -> bytes:
    """A key that is equal for requests with equal verdicts, such as those of replicas of one template."""
    pod = request.object or {}
    differing = ("name", "uid", "creationTimestamp")
    metadata = {key: value for key, value in (pod.get("metadata") or {}).items() if key not in differing}
    parts = [request.namespace, request.user, request.groups, {**pod, "metadata": metadata}]
    return orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)


def _entry(request: Request, before: Verdict, after: Verdict) -> dict[str, Any]:
    """An entry of the document, but for the number of pods."""
    fields = [] if "refused" in (before.outcome, after.outcome) else list(_differing(before.pod, after.pod))
    moved = before.ranking != after.ranking
    changed = [field for field in fields if not (moved and field.startswith(_PREFERRED))]
    new = [finding_line(each.unit, each.finding) for each in after.findings if each.unit not in before.units]
    if before.outcome != "refused" == after.outcome:
        change, text = "refused", after.message
    elif before.outcome == "refused" != after.outcome:
        change, text = "allowed", f"was refused: {before.message}"
    elif changed:
        change, text = "changed", listed(changed, _MAX_FIELDS)
    elif moved:
        change, text = "placed", _moved(before, after)
    elif before.units != after.units:
        change, text = "found", "; ".join(new) or f"no more: {listed(sorted({*before.units} - {*after.units}), 20)}"
    else:
        change, text = "same", after.message
    named = {"metadata": {"name": request.name or request.generated, **(request.object or {}).get("metadata", {})}}
    return {
        "namespace": request.namespace,
        "of": workload_name({**(request.object or {}), **named}),
        "change": change,
        "text": text,
        "fields": changed,
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


def _print(entries: list[dict[str, Any]], *, wide: bool) -> None:
    counts = Counter[str]()
    for entry in entries:
        counts[entry["change"]] += entry["pods"]
    rows = [
        [
            Text(entry["change"], _STYLES.get(entry["change"], "")),
            *(entry["namespace"], entry["of"], entry["pods"]),
            " ".join(entry["text"].split()),
        ]
        for entry in entries
        if wide or entry["change"] != "same"
    ]
    if rows:
        table(["CHANGE", "NAMESPACE", "WORKLOAD", "PODS", "WHAT"], rows, drop=["PODS"])
    if entries:
        say(f"{plural(counts.total(), 'pod')}: {totals(counts, CHANGES)}")
