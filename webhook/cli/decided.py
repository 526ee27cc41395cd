"""The decision record of a pod as a document, and how it is printed."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from rich.text import Text

from webhook.admission import words
from webhook.admission.events import BOUND_ELSEWHERE, MAX_MESSAGE, WOULD
from webhook.cli.terminal import show, table
from webhook.devices.types import PUBLISHED
from webhook.errors import PolicyError
from webhook.kube.pod import PROFILE_LABEL, Pod, controller_reference
from webhook.kube.pod_requests import counted_requests
from webhook.kube.record import record_of
from webhook.placement.constraints import compiled
from webhook.placement.placer import STALE
from webhook.policy.model import Policy
from webhook.policy.written_for import PROGRAM, version_of
from webhook.text import amount_words, bare
from webhook.whatif.cluster.report import asks_for_gpus
from webhook.whatif.cluster.snapshot import Snapshot, condition, seconds
from webhook.whatif.offline import load_policy, not_opted_in
from webhook.whatif.waiting.started import state_of


def decision_of(snapshot: Snapshot, policy: Policy, pod: Pod) -> dict[str, Any]:
    """The document for an existing pod."""
    metadata, record, bound = pod["metadata"], record_of(pod), pod["spec"].get("nodeName")
    found = {"namespace": metadata["namespace"], "name": metadata["name"], **of_record(record, bound, pod, snapshot)}
    with suppress(PolicyError):
        # A policy for another version has other defaults, and another hash.
        same = version_of(snapshot.policy_text or "") in (None, PROGRAM)
        if same and record.get("policy") and snapshot.policy and snapshot.policy.hash != record["policy"]:
            found["policyNow"] = snapshot.policy.hash
    if found.get("choice") in ("ranked", "other"):
        found["text"] = _elsewhere(snapshot, pod, str(bound), [node["name"] for node in found["nodes"]])
    if not record:
        found["undecided"] = _undecided(snapshot, policy, pod)
    if state := state_of(snapshot, pod):
        found["state"] = state
    return found


def _elsewhere(snapshot: Snapshot, pod: Pod, bound: str, ranked: list[str]) -> str:
    """The sentence for a pod that is bound to another node than the first of its ranking: by our Event, or by times that
    are written at nodes and pods. What no object says is not guessed."""
    _, head = words.binding(ranked, bound)
    for event in snapshot.of("Event"):
        about, said = event.get("involvedObject") or {}, str(event.get("message") or "")
        ours = event.get("reason") == BOUND_ELSEWHERE and about.get("uid") == pod["metadata"].get("uid")
        if ours and said.startswith(head) and said.isprintable():  # anybody may write an Event
            return said
    if "Node" in snapshot.missing:
        return f"{head}why is not known: {snapshot.missing['Node']}"
    node = snapshot.nodes.get(ranked[0])
    if node is None:
        return f"{head}why is not known: that node is gone"
    if known := next(_kept_away(snapshot, pod, node), ""):
        return f"{head}{known}"
    now = words.why_elsewhere(pod, ranked[0], snapshot.state)
    now = "it could take the pod" if now == words.OTHER_SCORES else now.replace("was full by then", "is full")
    return f"{head}why is not known: no Event says it, and no object shows what that node was like then; now {now}"


def _kept_away(snapshot: Snapshot, pod: Pod, node: Mapping[str, Any]) -> Iterator[str]:
    """What kept the pod from the node when it was bound."""
    when = condition(pod, "PodScheduled").get("lastTransitionTime")
    if not (then := seconds(when)):
        return
    ready, constraints = condition(dict(node), "Ready"), compiled(pod["spec"])
    if ready and ready.get("status") != "True" and 0 < seconds(ready.get("lastTransitionTime")) <= then:
        yield f"that node is not ready since {bare(str(ready['lastTransitionTime']))}"
    row = snapshot.state.nodes.row_of[node["metadata"]["name"]]
    columns = snapshot.state.nodes.columns
    since = {(each.get("key"), each.get("effect")): each.get("timeAdded") for each in node["spec"].get("taints") or ()}
    for taint in snapshot.state.nodes.statuses[columns.status[row]].taints:
        added = since.get((taint.key, taint.effect))
        if constraints and not constraints.admits(taint) and 0 < seconds(added) <= then:
            yield f"that node has a taint that the pod does not tolerate, {bare(taint.key)}, since {bare(str(added))}"
    others = [
        counted_requests(each)
        for each in snapshot.pods_on.get(node["metadata"]["name"], ())
        if 0 < seconds(condition(each, "PodScheduled").get("lastTransitionTime")) <= then
    ]
    for resource, asked in counted_requests(pod).requests:
        total = int(columns.capacity[resource][row]) if resource in columns.capacity else 0
        left = total - sum([pod_requests.amount(resource) for pod_requests in others])
        if left < asked:
            wanted, had = amount_words(resource, asked), amount_words(resource, max(0, left))
            yield f"that node was full by then ({when}): the pod asks for {wanted}, and it had {had} left"


def _gpus(pod: Pod, snapshot: Snapshot) -> Sequence[str]:
    """The GPU resources that the pod asks for, devices of claims among them."""
    policy = None
    with suppress(PolicyError):
        policy = snapshot.policy
    known = (policy or load_policy(None)).gpus
    names = [name for name, _ in counted_requests(pod).requests]
    return [name for name in names if known.knows(name) or name.startswith(PUBLISHED)]


def _undecided(snapshot: Snapshot, policy: Policy, pod: Pod) -> str:
    """Why the pod has no decision, and what would have been done under a profile in dry run."""
    namespace = pod["metadata"]["namespace"]
    obj = snapshot.named("Namespace").get(("", namespace))
    if obj is not None and PROFILE_LABEL not in (obj["metadata"].get("labels") or {}):
        return not_opted_in(namespace)
    profile, settings = policy.profile(((obj or {}).get("metadata", {}).get("labels") or {}).get(PROFILE_LABEL, ""))
    if settings.dry_run:
        uids = {pod["metadata"].get("uid"), (controller_reference(pod) or {}).get("uid")} - {None}
        said = {
            str(event.get("message"))
            for event in snapshot.of("Event")
            if event.get("reason") in WOULD and (event.get("involvedObject") or {}).get("uid") in uids
        }
        found = sorted([each[:MAX_MESSAGE] for each in said if each.isprintable()])[:2]  # anybody may write an Event
        nothing = "no Event says what would be done (they need manifests/components/events, and are kept for an hour)"
        return f"profile {profile} is in dry run, so nothing was done: {'; '.join(found) or nothing}"
    if not asks_for_gpus(pod, policy):
        return "it has no decision: it asks for no GPU"
    if obj is None and (why := snapshot.missing.get("Namespace")):
        return f"it has no decision: whether its namespace has opted in is not known: {why}"
    return "it has no decision: it is older than the opt-in of its namespace, or the webhook was away when it was made"


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
    gpus = _gpus(pod, snapshot) if nodes else ()
    for node in nodes:
        if why := words.why_last(node, gpus, state, alone=planned):
            node["score"] = words.own_score(node["score"])
            if len(nodes) > 1:
                node["last"] = why
    blind = planned and state is None
    word, sentence = words.binding([node["name"] for node in nodes], bound)
    if bound and not nodes:
        sentence = f"bound to {bare(bound)} by the scheduler"
    if planned and nodes:
        sentence = f"{nodes[0]['name']} would be chosen"
    return {
        **{key: record.get(key) for key in ("class", "profile", "policy", "strategy")},
        "units": [
            {"name": name, "text": text.replace(STALE, "nodes are not known") if blind else text}
            for name, text in words.units(record)
        ],
        "nodes": nodes,
        "decided": words.decided(record, {node["name"]: node["last"] for node in nodes if "last" in node}),
        **({"karpenter": least} if (least := words.karpenter(record)) and not bound else {}),
        "why": words.why_none(record) if not blind else "nodes are not known",
        "by": words.source(record),
        "boundTo": bound,
        "choice": word,
        "text": sentence,
    }


def show_decision(decision: Mapping[str, Any]) -> None:
    """Print the document that `of_record` gives. Prints nothing if there is no decision."""
    show(*_lines(decision))
    if decision.get("nodes"):
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


def _lines(decision: Mapping[str, Any]) -> Iterator[Text]:
    if "class" not in decision:
        return
    since = f" (changed since: now {decision['policyNow']})" if "policyNow" in decision else ""
    yield Text(f"  class {decision['class']}, profile {decision['profile']}, policy {decision['policy']}{since}")
    for unit in decision["units"]:
        yield Text.assemble(("  " + unit["name"], "cyan"), f": {unit['text']}")
    if decision["why"]:
        where = f"; {decision['text']}" if decision["text"] else ""
        yield Text(f"  no node chosen: {decision['why']}{where}")
    if decision["nodes"]:
        used = f", {decision['by']}" if decision["by"] else ""
        yield Text(f"  strategy {decision['strategy']}{used}; {decision['text']}")
        if decision["decided"]:
            yield Text(f"  {decision['decided']}")
        if "karpenter" in decision:
            yield Text(f"  {decision['karpenter']}")


def _remark(node: Mapping[str, Any], bound: str | None, *, first: bool) -> str:
    kept = (
        f"{'first, though it would be kept back' if first else 'kept back'}: {node['last']}" if "last" in node else ""
    )
    return "; ".join(filter(None, ["← bound" if node["name"] == bound else "", kept]))


def _metrics(node: Mapping[str, Any]) -> str:
    load = "" if node.get("load") is None else f", {node['load']} % used"
    return "" if node.get("usable") is None else f"{node['usable']} fit for use{load}"
