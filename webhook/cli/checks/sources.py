"""Checks what the webhook works with: the API server, its version and its failed calls, and the source of GPU metrics."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from webhook.cli.checks.replicas import samples_of
from webhook.cli.checks.result import KUBECTL, LOGS, Result, newest_decision
from webhook.cli.cluster.snapshot import Snapshot
from webhook.kube.pod import labels_of
from webhook.policy.model import Policy
from webhook.text import bare, listed, plural, quoted

TESTED: Final = ((1, 34), (1, 37))
"""The oldest and the newest version of Kubernetes that is tested: see README.md, tests/controlplane/programs.py."""
_FAIL_OPEN: Final = "apiserver_admission_webhook_fail_open_count"
_REJECTED: Final = "apiserver_admission_webhook_rejection_count"
_ASKED: Final = "apiserver_admission_webhook_request_total"
_LOGS: Final = f"{LOGS}; {KUBECTL} get pods"


def api_server(snapshot: Snapshot, policy: Policy) -> Iterator[Result]:
    """The API server is not older than the versions that are tested."""
    seen = next((str(each["status"].get("gitVersion")) for each in snapshot.of("ApiServerVersion")), "")
    match = re.match(r"v(\d+)\.(\d+)", seen)
    oldest, newest = (f"{major}.{minor}" for major, minor in TESTED)
    if match is None:
        yield Result("apiServer", "unknown", f"the API server gives its version as {quoted(seen)}")
        return
    number = (int(match[1]), int(match[2]))
    if number < TESTED[0]:
        text = f"kube-apiserver {bare(seen)} is older than {oldest}, the oldest that is tested"
        yield Result("apiServer", "warn", text, f"upgrade the cluster to {oldest} or newer")
    else:
        newer = f", newer than {newest}, the newest that is tested" if number > TESTED[1] else ""
        yield Result("apiServer", "ok", f"kube-apiserver {bare(seen)}{newer}")


def fail_open(snapshot: Snapshot, policy: Policy) -> Iterator[Result]:
    """The API server could call the webhook for every request. The counts are of one API server since it started."""
    passed, refused, asked = Counter[str](), Counter[str](), 0
    for server in snapshot.of("ApiServerMetrics"):
        for name, labels, value in server["status"].get("samples") or ():
            hook = bare(labels.get("name"))
            if name == _FAIL_OPEN:
                passed[hook] += int(value or 0)
            elif name == _REJECTED and labels.get("error_type") == "calling_webhook_error":
                refused[hook] += int(value or 0)
            elif name == _ASKED:
                asked += int(value or 0)
    passed, refused = +passed, +refused
    since = f"(of {plural(asked, 'call')} since the API server started)"
    if passed:
        text = f"went on without an answer: {_requests_text(passed)} {since}; those objects are as their authors wrote them"
        yield Result("failOpen", "warn", text, f"gpu-admission audit names such pods; {_LOGS}")
    if refused:
        yield Result("failOpen", "warn", f"refused since no replica answered: {_requests_text(refused)} {since}", _LOGS)
    if not passed and not refused:
        yield Result("failOpen", "ok", f"every call was answered {since}")


def _requests_text(counts: Counter[str]) -> str:
    return listed([f"{plural(count, 'request')} to {hook}" for hook, count in sorted(counts.items())])


def gpu_metrics(snapshot: Snapshot, policy: Policy) -> Iterator[Result]:
    """The replicas have recent GPU metrics. If no replica answers, the newest decision was made by GPU metrics."""
    settings = policy.file.gpu_metrics
    if settings.source == "off":
        yield Result("gpuMetrics", "ok", "off in the policy: nodes are ranked by what is allocated")
        return
    step = f"see why: {_LOGS}"
    if settings.source == "dcgm":
        dcgm = settings.dcgm
        if not any(
            namespace == dcgm.namespace and dcgm.selector.items() <= labels_of(pod).items()
            for (namespace, _), pod in snapshot.named("Pod").items()
        ):
            labels = ",".join(f"{key}={value}" for key, value in dcgm.selector.items())
            text = f"no DCGM exporter: no pod with {labels} in namespace {dcgm.namespace}"
            yield Result(
                "gpuMetrics", "broken", text, "correct gpuMetrics.dcgm in the policy, or install the exporters"
            )
            return
    ages = {pod: age for pod, _, age in samples_of(snapshot, "gpu_metrics_age_seconds")}
    if not ages:
        yield _by_decision(snapshot, settings.source)
        return
    stale = {pod: age for pod, age in ages.items() if age is None or age > settings.stale_after}
    for pod, age in stale.items():
        seen = "has none" if age is None else f"has none newer than {age:.0f} s"
        text = f"{pod} {seen} from {settings.source}: it ranks by what is allocated"
        yield Result("gpuMetrics", "broken", text, step)
    if not stale:
        oldest = max([age for age in ages.values() if age is not None], default=0.0)
        text = f"{plural(len(ages), 'replica')} have numbers from {settings.source}, {oldest:.0f} s old"
        yield Result("gpuMetrics", "ok", text)


def _by_decision(snapshot: Snapshot, source: str) -> Result:
    """If no replica answers: whether the newest decision was made by GPU metrics."""
    why = snapshot.missing.get("ReplicaMetrics", "no replica answered")
    pod, record = newest_decision(snapshot)
    by = [str(part) for part in record.get("by") or ()]
    if not by:
        return Result("gpuMetrics", "unknown", f"whether {source} gives numbers: {why}; and no decision says")
    if by[0] == "metrics":
        return Result("gpuMetrics", "ok", f"the newest decision, on {pod}, used numbers from {bare(by[1])}")
    text = f"the newest decision, on {pod}, used what is allocated: {bare(by[-1])}"
    return Result("gpuMetrics", "warn", text, f"see why: {_LOGS}")
