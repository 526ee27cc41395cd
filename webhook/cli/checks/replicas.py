"""Checks the replicas, and what they work with: the API server and the source of GPU metrics."""

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from typing import Final

from webhook.cli.checks.configurations import MUTATING, hooks_of
from webhook.cli.checks.result import All, broken, unknown, warn
from webhook.cli.cluster.answers import replica_pods
from webhook.kube.pod import Pod, labels_of
from webhook.nodes.gpu_metrics import PODS
from webhook.policy.model import Policy
from webhook.policy.written_for import PROGRAM, later_version
from webhook.text import bare, listed, plural, quoted
from webhook.whatif.cluster.release import NAME, OUR_POLICY
from webhook.whatif.cluster.snapshot import Snapshot


def samples_of(snapshot: Snapshot, name: str) -> Iterator[tuple[str, dict[str, str], float | None]]:
    """The samples of the metric `gpu_admission_<name>` of all replicas: pod, labels, and value (None for NaN)."""
    for replica in snapshot.of("ReplicaMetrics"):
        for sample, labels, value in replica["status"].get("samples") or ():
            if sample == f"gpu_admission_{name}":
                yield replica["metadata"]["name"], labels, value


def is_called_by_url(snapshot: Snapshot) -> bool:
    """Whether the API server calls the webhook by URL: then its replicas need not be pods of this cluster."""
    return any("url" in (hook.get("clientConfig") or {}) for hook in hooks_of(snapshot, MUTATING).values())


def endpoints(snapshot: Snapshot, policy: Policy) -> All:
    """At least two replicas are ready."""
    if is_called_by_url(snapshot):
        return [unknown("the webhook is called by URL, not by a Service")]
    ready = sum(
        (endpoint.get("conditions") or {}).get("ready", True)
        for endpoint_slice in snapshot.of("EndpointSlice")
        if labels_of(endpoint_slice).get("kubernetes.io/service-name") == NAME
        for endpoint in endpoint_slice.get("endpoints") or ()
    )
    look = snapshot.release.kubectl("get", "pods")
    if not ready and (why := snapshot.missing.get(MUTATING)):
        return [unknown(f"the Service has none, and whether it is called is not known: {why}")]
    if not ready:
        return [broken("no replica is ready: namespaces that opted in start no GPU pods", command=look)]
    if ready == 1:
        return [warn("1 replica is ready: its restart stops pod creation", "run two at least", look)]
    return f"{ready} replicas are ready"


def versions(snapshot: Snapshot, policy: Policy) -> All:
    """All replicas run the same image, and the version of this command."""
    images: dict[str, list[str]] = {}
    for pod in replica_pods(snapshot):
        images.setdefault(_image(pod), []).append(pod["metadata"]["name"])
    running = {pod: labels.get("version", "") for pod, labels, _ in samples_of(snapshot, "build_info")}
    other = {pod: version for pod, version in running.items() if version != PROGRAM}
    found = []
    if len(images) > 1:
        lines = [f"{image} on {listed(pods)}" for image, pods in sorted(images.items())]
        look = snapshot.release.kubectl("rollout", "status", f"deployment/{NAME}")
        found.append(warn(f"replicas run different images: {listed(lines)}", command=look))
    if other:
        lines = [f"{pod} runs {bare(version)}" for pod, version in other.items()]
        text = f"this command is {PROGRAM} and compares with its own manifests; {listed(lines)}"
        found.append(warn(text, "use the command of that version"))
    if not images:
        return [*found, unknown(f"no pod of the webhook in namespace {snapshot.release.namespace}")]
    program = f"version {PROGRAM}" if running else next(iter(images))
    return found or f"{plural(len(replica_pods(snapshot)), 'replica')} with {program}"


def _image(pod: Pod) -> str:
    """The image that runs in the pod; before it runs, the image in its spec."""
    of_status = [each.get("imageID") or each.get("image") for each in pod["status"].get("containerStatuses") or ()]
    of_spec = [each.get("image") for each in pod["spec"].get("containers") or ()]
    return bare(next((str(image) for image in (*of_status, *of_spec) if image), "?"))


def answering(snapshot: Snapshot, policy: Policy) -> All:
    """Each replica answers through the API server, and knows the current state of the cluster."""
    asked, found = snapshot.of("ReplicaMetrics"), []
    for replica in asked:
        if error := replica["status"].get("error"):
            text = f"{replica['metadata']['name']} gave no metrics through the API server: {bare(error)}"
            step = "a NetworkPolicy may keep the API server from port 8080; then ask Prometheus in its place"
            found.append(unknown(text, step))
    stale = [pod for pod, _, value in samples_of(snapshot, "cluster_fresh") if not value]
    if stale:
        text = f"{listed(stale)} have not heard from the API server for a minute, and choose no nodes"
        found.append(broken(text, command=snapshot.release.kubectl("logs", stale[0])))
    if not asked:
        return [unknown(f"no pod of the webhook in namespace {snapshot.release.namespace}")]
    fresh = list(samples_of(snapshot, "cluster_fresh"))
    return found or f"{plural(len(fresh), 'replica')} know the cluster as it is"


def policy_loaded(snapshot: Snapshot, policy: Policy) -> All:
    """Every replica decides by the policy in the ConfigMap."""
    loaded = {pod: labels.get("hash", "") for pod, labels, _ in samples_of(snapshot, "policy_info")}
    refused = {pod for pod, _, value in samples_of(snapshot, "policy_valid") if not value}
    found = []
    for pod, policy_hash in loaded.items():
        if pod in refused:
            text = f"{pod} decides by policy {bare(policy_hash)}: it cannot use the newest"
            found.append(broken(text, command=snapshot.release.kubectl("describe", "configmap", OUR_POLICY)))
        elif policy_hash != policy.hash and not later_version(snapshot.policy_text or ""):
            text = f"{pod} decides by policy {bare(policy_hash)}: it has not taken up {policy.hash}"
            found.append(warn(text, command=snapshot.release.restart))
    if not loaded:
        return [unknown(snapshot.missing.get("ReplicaMetrics", _SILENT))]
    return found or f"{plural(len(loaded), 'replica')} decide by {listed(sorted({*map(bare, loaded.values())}))}"


TESTED: Final = ((1, 34), (1, 37))
"""The oldest and the newest version of Kubernetes that is tested: see README.md, tests/controlplane/programs.py."""
_FAIL_OPEN: Final = "apiserver_admission_webhook_fail_open_count"
_REJECTED: Final = "apiserver_admission_webhook_rejection_count"
_ASKED: Final = "apiserver_admission_webhook_request_total"
_SILENT: Final = "no replica answered"


def api_server(snapshot: Snapshot, policy: Policy) -> All:
    """The API server is not older than the versions that are tested."""
    seen = next((str(each["status"].get("gitVersion")) for each in snapshot.of("ApiServerVersion")), "")
    match = re.match(r"v(\d+)\.(\d+)", seen)
    oldest, newest = (f"{major}.{minor}" for major, minor in TESTED)
    if match is None:
        return [unknown(f"the API server gives its version as {quoted(seen)}")]
    number = (int(match[1]), int(match[2]))
    if number < TESTED[0]:
        text = f"kube-apiserver {bare(seen)} is older than {oldest}, the oldest that is tested"
        return [warn(text, f"upgrade the cluster to {oldest} or newer")]
    newer = f", newer than {newest}, the newest that is tested" if number > TESTED[1] else ""
    return f"kube-apiserver {bare(seen)}{newer}"


def fail_open(snapshot: Snapshot, policy: Policy) -> All:
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
    passed, refused, found = +passed, +refused, []
    since = f"(of {plural(asked, 'call')} since the API server started)"
    if passed:
        text = f"went on without an answer: {_requests_text(passed)} {since}; those objects are as their authors wrote them"
        found.append(warn(text, f"gpu-admission policy diff names such pods; {_logs(snapshot)}"))
    if refused:
        found.append(warn(f"refused since no replica answered: {_requests_text(refused)} {since}", _logs(snapshot)))
    return found or f"every call was answered {since}"


def _logs(snapshot: Snapshot) -> str:
    return f"{shlex.join(snapshot.release.logs)}; {shlex.join(snapshot.release.kubectl('get', 'pods'))}"


def _requests_text(counts: Counter[str]) -> str:
    return listed([f"{plural(count, 'request')} to {hook}" for hook, count in sorted(counts.items())])


def gpu_metrics(snapshot: Snapshot, policy: Policy) -> All:
    """The replicas have recent GPU metrics."""
    settings = policy.file.gpu_metrics
    if settings.source == "off":
        return "off in the policy: nodes are ranked by what is allocated"
    if settings.source in PODS:
        asked = settings.asked
        if not any(
            namespace == asked.namespace and asked.selector.items() <= labels_of(pod).items()
            for (namespace, _), pod in snapshot.named("Pod").items()
        ):
            labels = ",".join(f"{key}={value}" for key, value in asked.selector.items())
            text = f"no {PODS[settings.source].name}: no pod with {labels} in namespace {asked.namespace}"
            return [broken(text, "correct gpuMetrics.pods in the policy, or install them")]
    ages = {pod: age for pod, _, age in samples_of(snapshot, "gpu_metrics_age_seconds")}
    if not ages:
        return [unknown(f"whether {settings.source} gives numbers: {snapshot.missing.get('ReplicaMetrics', _SILENT)}")]
    found = []
    for pod, age in ages.items():
        if age is None or age > settings.stale_after:
            seen = "has none" if age is None else f"has none newer than {age:.0f} s"
            text = f"{pod} {seen} from {settings.source}: it ranks by what is allocated"
            found.append(broken(text, f"see why: {_logs(snapshot)}"))
    oldest = max([age for age in ages.values() if age is not None], default=0.0)
    return found or f"{plural(len(ages), 'replica')} have numbers from {settings.source}, {oldest:.0f} s old"
