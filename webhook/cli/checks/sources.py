"""What the webhook depends on: the API server and its version, calls that it could not make, and the GPU metrics."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from webhook.cli.checks.replicas import newest_decision, values
from webhook.cli.checks.result import NAME, Result
from webhook.cli.cluster.kinds import OUR_NAMESPACE
from webhook.cli.cluster.snapshot import Snapshot
from webhook.cli.selecting import selects
from webhook.kube.pod import labels_of
from webhook.policy.model import Policy
from webhook.text import bare, listed, plural, quoted

TESTED: Final = ((1, 34), (1, 37))
"""The oldest and the newest Kubernetes that the tests run on: README.md, tests/controlplane/programs.py."""
_FAIL_OPEN: Final = "apiserver_admission_webhook_fail_open_count"
_REJECTED: Final = "apiserver_admission_webhook_rejection_count"
_ASKED: Final = "apiserver_admission_webhook_request_total"
_LOGS: Final = f"kubectl -n {OUR_NAMESPACE} logs deployment/{NAME}; kubectl -n {OUR_NAMESPACE} get pods"


def api_server(snapshot: Snapshot, policy: Policy) -> Iterator[Result]:
    """Its version is one that is tested."""
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
    """How many requests the API server admitted or refused as it could not call us: one API server, since it started."""
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
    """The source of GPU metrics gives numbers: as the replicas say, else as the newest decision does."""
    settings = policy.file.gpu_metrics
    if settings.source == "off":
        yield Result("gpuMetrics", "ok", "off in the policy: nodes are ranked by what is allocated")
        return
    step = f"see why: {_LOGS}"
    if settings.source == "dcgm":
        at = settings.dcgm
        selector = {"matchLabels": at.selector}
        exporters = [
            pod
            for pod in snapshot.of("Pod")
            if pod["metadata"]["namespace"] == at.namespace and selects(selector, labels_of(pod))
        ]
        if not exporters:
            labels = ",".join(f"{key}={value}" for key, value in at.selector.items())
            text = f"no DCGM exporter: no pod with {labels} in namespace {at.namespace}"
            yield Result("gpuMetrics", "broken", text, "mend gpuMetrics.dcgm in the policy, or install the exporters")
            return
    ages = {pod: age for pod, _, age in values(snapshot, "gpu_metrics_age_seconds")}
    if not ages:
        yield _by_decision(snapshot, settings.source)
        return
    stale = {pod: age for pod, age in ages.items() if age is None or age > settings.stale_after}
    for pod, age in stale.items():
        seen = "has none" if age is None else f"has none newer than {age:.0f} s"
        yield Result(
            "gpuMetrics", "broken", f"{pod} {seen} from {settings.source}: it ranks by what is allocated", step
        )
    if not stale:
        oldest = max([age for age in ages.values() if age is not None], default=0.0)
        text = f"{plural(len(ages), 'replica')} have numbers from {settings.source}, {oldest:.0f} s old"
        yield Result("gpuMetrics", "ok", text)


def _by_decision(snapshot: Snapshot, source: str) -> Result:
    why = snapshot.missing.get("ReplicaMetrics", "no replica answered")
    pod, record = newest_decision(snapshot)
    by = [str(part) for part in record.get("by") or ()]
    if pod is None or not by:
        return Result("gpuMetrics", "unknown", f"whether {source} gives numbers: {why}; and no decision says")
    name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    if by[0] == "metrics":
        return Result("gpuMetrics", "ok", f"the newest decision, on {name}, used numbers from {bare(by[1])}")
    text = f"the newest decision, on {name}, used what is allocated: {bare(by[-1])}"
    return Result("gpuMetrics", "warn", text, f"see why: {_LOGS}")
