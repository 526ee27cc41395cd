"""`gpu-admission audit`: what the rules would say of pods that the webhook was not asked about."""

from __future__ import annotations

from typing import Any, Final

import orjson
import typer
from rich.text import Text

from webhook.admission import words
from webhook.admission.context import PROFILE_LABEL
from webhook.cli import offline, options
from webhook.cli.cluster.kinds import ENGINE
from webhook.cli.cluster.report import gpus_of, record_of
from webhook.cli.cluster.snapshot import FINISHED, Snapshot
from webhook.cli.options import Format
from webhook.cli.printing import document, table
from webhook.cli.reading import namespace_of, policy_of, snapshot_of
from webhook.cli.selecting import selector
from webhook.cli.terminal import REFUSED, say
from webhook.cli.waiting.situation import workload_name
from webhook.errors import BadInput
from webhook.kube.pod import Pod, labels_of, owner
from webhook.placement.placer import Placer
from webhook.policy.model import DEFAULT_PROFILE, Policy
from webhook.text import listed, plural

_CHANGES: Final = frozenset(("filled", "limitsFilled", "filledLess", "added", "set", "neutral", "antiAffinity"))
"""Results of injectors that change the pod itself; those that only prefer a node are left out."""
_STYLES: Final = {"refused": "red", "warned": "yellow", "changed": "cyan", "unchanged": "green", "notRead": "red"}


def audit(
    namespace: options.Namespace = None,
    everywhere: options.AllNamespaces = False,
    labels: options.Selector = None,
    output: options.Output = Format.table,
    policy: options.Policy = None,
    cluster: options.Snapshot = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
) -> None:
    """Say what the rules would say of GPU pods that have no decision: made while the webhook was away, or before.

    Without -n: of all namespaces that have opted in. With -n: of that namespace as if it had, for a roll-out without
    surprises; who may list its pods only is told what needs no nodes. With -A: of all as if they had. One line for each
    workload; `-o wide` shows every finding. Exit status 1 if one would be refused.
    """
    matches = selector(labels)
    snapshot = snapshot_of(cluster, kubeconfig, context, ENGINE, namespace, nodes_needed=False)
    namespace_of(namespace, everywhere, snapshot)
    if namespace is None and (why := snapshot.missing.get("Namespace")):
        raise BadInput(f"{why}: which have opted in is not known. Ask for it, or give one with -n")
    entries = audited(snapshot, policy_of(policy, snapshot), namespace, everywhere=everywhere, matches=matches)
    if not document(entries, output):
        _print(entries, wide=output is Format.wide)
    if any(entry["outcome"] == "refused" for entry in entries):
        raise typer.Exit(REFUSED)


def _print(entries: list[dict[str, Any]], *, wide: bool) -> None:
    if not entries:
        say("no GPU pod without a decision")
        return
    rows = [
        [a["namespace"], a["of"], a["pods"], Text(a["outcome"], _STYLES[a["outcome"]]), _why(a, wide=wide)]
        for a in entries
    ]
    table(["NAMESPACE", "WORKLOAD", "PODS", "OUTCOME", "WHY"], rows)
    counts = [f"{sum(a['pods'] for a in entries if a['outcome'] == word)} {word}" for word in _STYLES]
    say(", ".join(each for each in counts if not each.startswith("0 ")))


def audited(
    snapshot: Snapshot, policy: Policy, namespace: str | None, *, everywhere: bool = False, matches: Any = None
) -> list[dict[str, Any]]:
    """The document, worst first: pods of one workload that are decided alike are one entry."""
    entitled = {n["metadata"]["name"]: n["metadata"].get("labels") or {} for n in snapshot.of("Namespace")}
    for name in [namespace] if namespace else list(entitled) if everywhere else ():
        labels = {PROFILE_LABEL: DEFAULT_PROFILE, **entitled.get(name, {})}
        snapshot.state.seen("namespaces", {"metadata": {"name": name, "labels": labels}}, snapshot.taken)
        entitled[name] = labels
    groups: dict[tuple[str, str, bytes], dict[str, Any]] = {}
    judge = _Judge(snapshot, policy)
    for pod in snapshot.of("Pod"):
        here = pod["metadata"]["namespace"]
        asked = (
            namespace in (None, here)
            and PROFILE_LABEL in entitled.get(here, {})
            and pod["status"].get("phase") not in FINISHED
        )
        if asked and gpus_of(pod, policy) and not record_of(pod) and (matches is None or matches(labels_of(pod))):
            key = (here, workload_name(pod), _shape(pod))
            if key in groups:
                groups[key]["pods"] += 1
            else:
                groups[key] = {"namespace": here, "of": key[1], "pods": 1, **judge.of(pod, key[2])}
    order = list(_STYLES)
    return sorted(groups.values(), key=lambda a: (order.index(a["outcome"]), a["namespace"], a["of"]))


class _Judge:
    """Asks the engine, once for all pods that it cannot tell apart. No node is chosen: the pods exist already."""

    def __init__(self, snapshot: Snapshot, policy: Policy) -> None:
        self._view, self._policy = snapshot.state.view(snapshot.taken), policy
        self._placer = Placer(snapshot.state)
        self._known: dict[bytes, dict[str, Any]] = {}

    def of(self, pod: Pod, shape: bytes) -> dict[str, Any]:
        """What would be answered if the pod came now."""
        controller, labels = owner(pod), labels_of(pod)
        kind = controller.kind if controller is not None else ""
        key = orjson.dumps([pod["metadata"]["namespace"], kind, labels]) + shape
        answer = self._known.get(key)
        if answer is None:
            answer = self._known[key] = self._asked(pod)
        return answer

    def _asked(self, pod: Pod) -> dict[str, Any]:
        (read,) = offline.documents(orjson.dumps(as_new(pod)).decode(), pod["metadata"]["name"])
        if isinstance(read, BadInput):
            return {"outcome": "notRead", "findings": [], "changes": [str(read)]}
        first, second, _ = offline.ask(read.request, self._policy, self._view, self._placer, chooses=False)
        judged = first if first.message else second
        changes = [f"{n}: {words.sentence(n, _result(o))}" for n, o in first.outcomes.items() if o.result in _CHANGES]
        findings = [{"unit": unit, "action": action, "text": f.message} for unit, action, f in judged.findings]
        outcome = "refused" if judged.message else "warned" if findings else "changed" if changes else "unchanged"
        return {"outcome": outcome, "findings": findings, "changes": [] if judged.message else changes}


def as_new(pod: Pod) -> Pod:
    """The pod as it was asked for: without what the API server, the scheduler and the kubelet wrote."""
    metadata = {
        k: pod["metadata"][k]
        for k in ("name", "namespace", "labels", "annotations", "ownerReferences")
        if k in pod["metadata"]
    }
    spec = {k: v for k, v in pod["spec"].items() if k not in ("nodeName", "priority", "preemptionPolicy")}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _result(outcome: Any) -> list[Any]:
    return [outcome.result] if outcome.detail is None else [outcome.result, outcome.detail]


def _shape(pod: Pod) -> bytes:
    """Pods of one template differ in the names of mounted tokens and in nothing else."""
    spec = {k: v for k, v in as_new(pod)["spec"].items() if k not in ("volumes", "hostname")}
    for kind in ("containers", "initContainers"):
        if kind in spec:
            spec[kind] = [{k: v for k, v in container.items() if k != "volumeMounts"} for container in spec[kind]]
    return orjson.dumps(spec, option=orjson.OPT_SORT_KEYS)


def _why(entry: dict[str, Any], *, wide: bool) -> str:
    if entry["findings"]:
        texts = [f"{f['text']} [{f['unit']}]" for f in entry["findings"]]
        return (
            " ".join(texts)
            if wide
            else texts[0] + (f" and {plural(len(texts) - 1, 'more finding')}" if len(texts) > 1 else "")
        )
    return "; ".join(entry["changes"]) if wide else listed([change.partition(":")[0] for change in entry["changes"]])
