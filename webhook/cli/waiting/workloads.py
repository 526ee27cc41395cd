"""Workloads whose pods do not even exist: refused at their creation, by quota, by a webhook, by a limit range."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from webhook.cli.waiting.cause import Cause
from webhook.cli.waiting.situation import Situation
from webhook.cluster.pods import KUEUE
from webhook.text import bare, listed, quoted

_QUOTA: Final = re.compile(r"exceeded quota: (\S+), requested: (.+?), used: (.+?), limited: (.+)")
_WEBHOOK: Final = re.compile(r'admission webhook "([^"]+)" denied the request: (.+)', re.DOTALL)
_OURS: Final = "gpu-admission"
_POLICY: Final = re.compile(r"(?:ValidatingAdmissionPolicy '.+? denied request: .+|violates PodSecurity .+)", re.DOTALL)
_ABSENT: Final = (
    ("serviceAccountMissing", "ServiceAccount", re.compile(r'serviceaccount "([^"]+)" not found')),
    ("priorityClassMissing", "PriorityClass", re.compile(r"no PriorityClass with name (\S+) was found")),
    ("runtimeClassMissing", "RuntimeClass", re.compile(r'RuntimeClass "([^"]+)" not found')),
)
_LIMITS: Final = re.compile(r"\b(?:maximum|minimum) .* (?:usage|limit)|LimitRange|limit to request ratio")
_KINDS: Final = ("ReplicaSet", "Job", "StatefulSet", "DaemonSet")
Object = Mapping[str, Any]


class NotCreated(NamedTuple):
    """A workload that has fewer pods than it wants, and why, as its controller reports."""

    namespace: str
    name: str
    """As kubectl takes it: replicaset/chat-5d8."""
    causes: list[Cause]


def not_created(s: Situation, namespace: str | None) -> Iterator[NotCreated]:
    for kind in _KINDS:
        for obj in s.snapshot.of(kind):
            here = obj["metadata"].get("namespace", "")
            name = f"{kind.lower()}/{obj['metadata']['name']}"
            if namespace in (None, here) and kind == "Job" and obj["spec"].get("suspend") and not _finished(obj):
                yield NotCreated(here, name, [_suspended(here, obj)])
            elif namespace in (None, here) and (short := _missing(kind, obj)) > 0 and (why := _why(s, kind, obj)):
                causes = [_cause(s, here, short, why)]
                yield NotCreated(here, name, causes)


def _suspended(namespace: str, job: Object) -> Cause:
    name = bare(job["metadata"]["name"])
    if queue := (job["metadata"].get("labels") or {}).get(KUEUE):
        look = f"see what its Workload waits for: kubectl describe workloads -n {namespace}"
        return Cause("queued", f"Kueue has not admitted it from queue {quoted(queue)}", look)
    fix = f"""resume it: kubectl patch job {name} -n {namespace} --type merge -p '{{"spec": {{"suspend": false}}}}'"""
    return Cause("suspended", "spec.suspend is true: its pods are made when it is resumed", fix)


def _missing(kind: str, obj: Object) -> int:
    """How many pods it lacks."""
    spec, status = obj["spec"], obj["status"]
    if kind == "Job":
        if _finished(obj) or spec.get("suspend"):
            return 0
        wanted = min(spec.get("parallelism", 1), max(0, spec.get("completions", 1 << 30) - status.get("succeeded", 0)))
        return int(wanted) - int(status.get("active", 0))
    if kind == "DaemonSet":
        return int(status.get("desiredNumberScheduled", 0)) - int(status.get("currentNumberScheduled", 0))
    return int(spec.get("replicas", 1)) - int(status.get("replicas", 0))


def _finished(job: Object) -> bool:
    conditions = job["status"].get("conditions") or ()
    return any(c.get("type") in ("Complete", "Failed") and c.get("status") == "True" for c in conditions)


def _why(s: Situation, kind: str, obj: Object) -> str:
    for condition in obj["status"].get("conditions") or ():
        if condition.get("type") == "ReplicaFailure" and condition.get("status") == "True":
            return str(condition.get("message") or "")
    return next((str(e.get("message") or "") for e in s.events_of(kind, obj) if e.get("reason") == "FailedCreate"), "")


def _cause(s: Situation, namespace: str, short: int, why: str) -> Cause:
    lacks = f"{short} pod{'s' if short > 1 else ''} could not be created: "
    if match := _QUOTA.search(why):
        quota, asked, used, limited = match.groups()
        text = f"{lacks}quota {bare(quota)}: {bare(used)} used, {bare(asked)} asked for, {bare(limited)} at most"
        more = f"raise it: kubectl edit quota {bare(quota)} -n {namespace}"
        fix = f"ask for less, end what uses it (kubectl get pods -n {namespace}), or {more}"
        return Cause("quotaExceeded", text, fix)
    if match := _WEBHOOK.search(why):
        ours = _OURS in match[1]
        text = f"{lacks}{'' if ours else f'webhook {bare(match[1])}: '}{_plain(match[2])}"
        return Cause(
            "refused",
            text,
            "mend the pod template as it says" if ours else "mend the pod template, or ask who runs that webhook",
        )
    if match := _POLICY.search(why):
        return Cause("refused", f"{lacks}{_plain(match[0])}", "mend the pod template, or ask who keeps that policy")
    for word, kind, pattern in _ABSENT:
        if match := pattern.search(why):
            name = bare(match[1])
            where = f" -n {namespace}" if kind == "ServiceAccount" else ""
            how = {
                "ServiceAccount": f"serviceaccount {name}{where}",
                "PriorityClass": f"priorityclass {name} --value=…",
            }
            create = f"create it (kubectl create {how[kind]})" if kind in how else "create it"
            text = f"{lacks}{kind} {quoted(match[1])} does not exist{f' in {namespace}' if where else ''}"
            return Cause(word, text, f"{create}, or name another in the pod template")
    if _LIMITS.search(why):
        return Cause(
            "limitRange",
            f"{lacks}{_plain(why)}",
            f"ask for what the LimitRange allows: kubectl describe limits -n {namespace}",
        )
    return Cause("notCreated", f"{lacks}{_plain(why)}", "mend what it says; the controller tries again by itself")


def _plain(text: str) -> str:
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    return listed(["".join(c if c.isprintable() else "?" for c in line)[:500] for line in lines], 6)
