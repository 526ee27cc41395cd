"""Workloads whose pods do not even exist: refused at their creation, by quota, by a webhook, by a limit range."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from webhook.cli.waiting.cause import Cause
from webhook.cli.waiting.situation import Situation
from webhook.text import bare, listed

_QUOTA: Final = re.compile(r"exceeded quota: (\S+), requested: (.+?), used: (.+?), limited: (.+)")
_WEBHOOK: Final = re.compile(r'admission webhook "([^"]+)" denied the request: (.+)', re.DOTALL)
_OURS: Final = "gpu-admission"
_LIMITS: Final = re.compile(r"\b(?:maximum|minimum) .* (?:usage|limit)|LimitRange|limit to request ratio")
_KINDS: Final = ("ReplicaSet", "Job", "StatefulSet", "DaemonSet")
Object = Mapping[str, Any]


class NotCreated(NamedTuple):
    """A workload that has fewer pods than it wants, and what its controller was told."""

    namespace: str
    name: str
    """As kubectl takes it: replicaset/chat-5d8."""
    causes: list[Cause]


def not_created(s: Situation, namespace: str | None) -> Iterator[NotCreated]:
    for kind in _KINDS:
        for obj in s.snapshot.of(kind):
            here = obj["metadata"].get("namespace", "")
            if namespace in (None, here) and (short := _missing(kind, obj)) > 0 and (why := _why(s, kind, obj)):
                causes = [_cause(s, here, short, why)]
                yield NotCreated(here, f"{kind.lower()}/{obj['metadata']['name']}", causes)


def _missing(kind: str, obj: Object) -> int:
    """How many pods it has too few."""
    spec, status = obj["spec"], obj["status"]
    if kind == "Job":
        if any(
            c.get("type") in ("Complete", "Failed", "Suspended") and c.get("status") == "True"
            for c in status.get("conditions") or ()
        ):
            return 0
        wanted = min(spec.get("parallelism", 1), max(0, spec.get("completions", 1 << 30) - status.get("succeeded", 0)))
        return int(wanted) - int(status.get("active", 0))
    if kind == "DaemonSet":
        return int(status.get("desiredNumberScheduled", 0)) - int(status.get("currentNumberScheduled", 0))
    return int(spec.get("replicas", 1)) - int(status.get("replicas", 0))


def _why(s: Situation, kind: str, obj: Object) -> str:
    for condition in obj["status"].get("conditions") or ():
        if condition.get("type") == "ReplicaFailure" and condition.get("status") == "True":
            return str(condition.get("message") or "")
    return next((str(e.get("message") or "") for e in s.events_of(kind, obj) if e.get("reason") == "FailedCreate"), "")


def _cause(s: Situation, namespace: str, short: int, why: str) -> Cause:
    lacks = f"{short} pod{'s' if short > 1 else ''} could not be created: "
    if found := _QUOTA.search(why):
        quota, asked, used, limited = found.groups()
        text = f"{lacks}quota {bare(quota)}: {bare(used)} used, {bare(asked)} asked for, {bare(limited)} at most"
        more = f"raise it: kubectl edit quota {bare(quota)} -n {namespace}"
        fix = f"ask for less, end what uses it (kubectl get pods -n {namespace}), or {more}"
        return Cause("quotaExceeded", text, fix)
    if found := _WEBHOOK.search(why):
        ours = _OURS in found[1]
        text = f"{lacks}{'' if ours else f'webhook {bare(found[1])}: '}{_plain(found[2])}"
        return Cause(
            "refused",
            text,
            "mend the pod template as it says" if ours else "mend the pod template, or ask who runs that webhook",
        )
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
