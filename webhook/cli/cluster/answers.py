"""Asks the API server and the webhook's replicas for their versions, metrics and certificate.

A snapshot keeps each answer as an object. All requests go to the API server, with the rights of the kubeconfig. Of the Secret
with the serving certificate only the certificate is kept, which every client of the webhook sees; never a key.
"""

import re
from base64 import b64decode
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from webhook.errors import ApiError
from webhook.feeds.api import Api
from webhook.feeds.tasks import together
from webhook.kube.pod import FINISHED, Pod, labels_of
from webhook.nodes.siblings import LABEL
from webhook.whatif.cluster.snapshot import Object, Snapshot

OUR_SECRET: Final = "gpu-admission-tls"  # noqa: S105  its name
_OUR_WEBHOOKS: Final = "gpu-admission.io"
"""Part of the metrics of the API server that are about our webhooks."""
_OUR_METRICS: Final = "gpu_admission_"
_METRICS_SERVICE: Final = "gpu-admission-metrics"
_OPS_PORT: Final = 8080
_REPLICA_TIMEOUT: Final = 5.0
"""Seconds that one replica has to answer."""
_REFUSED: Final = (401, 403)
_DESCHEDULER: Final = re.compile(r"(?:^|/)[\w-]*descheduler(?:[:@]|$)")
"""The image of a descheduler: registry.k8s.io/descheduler/descheduler:v0.36.0, and those that others build."""
_MAX_POLICIES: Final = 8


class Question(NamedTuple):
    """`subject` is what is asked for, in messages. `right` is the right that it needs, as RBAC names it, with {} for our
    namespace."""

    subject: str
    right: str
    ask: Callable[[Api, Snapshot], Awaitable[list[Object]]]


def replica_pods(snapshot: Snapshot) -> list[Pod]:
    """The pods of the webhook, sorted by name."""
    pods = [
        pod
        for pod in snapshot.of("Pod")
        if pod["metadata"].get("namespace") == snapshot.release.namespace
        and labels_of(pod).get(LABEL[0]) == LABEL[1]
        and pod["status"].get("phase") not in FINISHED
    ]
    return sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))


async def ask_all(api: Api, into: Snapshot, names: Iterable[str]) -> None:
    """Ask these questions. An answer becomes objects of that kind; without one, `missing` says why."""
    await together(*[ask(api, into, name, QUESTIONS[name]) for name in names])


async def ask(api: Api, into: Snapshot, name: str, question: Question) -> None:
    """Ask one question; see `ask_all`."""
    try:
        answers = await question.ask(api, into)
    except ApiError as error:
        refused = error.status in _REFUSED
        right = question.right.format(into.release.namespace)
        into.missing[name] = f"no right to get {right}" if refused else f"no {question.subject}: {error}"
    else:
        into.objects[name] = [{"kind": name, "spec": {}, **answer} for answer in answers]


async def _version(api: Api, _: Snapshot) -> list[Object]:
    return [{"metadata": {"name": "kube-apiserver"}, "status": await api.get("/version")}]


async def _api_server(api: Api, _: Snapshot) -> list[Object]:
    lines = await api.lines("/metrics", _OUR_WEBHOOKS)
    return [{"metadata": {"name": "kube-apiserver"}, "status": {"samples": list(samples(lines))}}]


async def _certificate(api: Api, snapshot: Snapshot) -> list[Object]:
    namespace = snapshot.release.namespace
    try:
        data = (await api.get(f"/api/v1/namespaces/{namespace}/secrets/{OUR_SECRET}")).get("data") or {}
    except ApiError as error:
        if error.status == 404:
            return []
        raise
    try:
        text = b64decode(data.get("tls.crt") or "").decode("ascii")
    except ValueError:
        text = ""
    return [{"metadata": {"name": OUR_SECRET, "namespace": namespace}, "status": {"certificate": text}}]


async def _replicas(api: Api, snapshot: Snapshot) -> list[Object]:
    """The metrics of each replica, or the `error` that it gave. Raises ApiError if the right to ask them is missing."""
    return await together(*[_replica(api, pod) for pod in replica_pods(snapshot)])


async def _replica(api: Api, pod: Pod) -> Object:
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    path = f"/api/v1/namespaces/{namespace}/pods/{name}:{_ops_port(pod)}/proxy/metrics"
    status: dict[str, Any] = {}
    try:
        status["samples"] = list(samples(await api.lines(path, _OUR_METRICS, _REPLICA_TIMEOUT)))
    except ApiError as error:
        if error.status in _REFUSED and "is forbidden: User" in str(error):  # said by the API server, not by the pod
            raise
        status["error"] = str(error).partition("/proxy/metrics: ")[2] or str(error)
    return {"metadata": {"name": name, "namespace": namespace}, "status": status}


def _ops_port(pod: Pod) -> int:
    """The port of the replica's metrics."""
    ports = [port for container in pod["spec"].get("containers") or () for port in container.get("ports") or ()]
    return next((int(port["containerPort"]) for port in ports if port.get("name") == "ops"), _OPS_PORT)


def samples(lines: Iterable[str]) -> Iterator[tuple[str, dict[str, str], float | None]]:
    """Name, labels and value (None for NaN) of each sample in the Prometheus text format, without histogram buckets."""
    kept = [line for line in lines if not line.startswith("#") and "_bucket{" not in line]
    try:
        for family in text_string_to_metric_families("\n".join(kept) + "\n"):
            for sample in family.samples:
                yield sample.name, dict(sample.labels), None if sample.value != sample.value else sample.value
    except (ValueError, IndexError):  # not in the format: the samples before it count
        return


async def _descheduler_policies(api: Api, snapshot: Snapshot) -> list[Object]:
    """The policy of each descheduler whose pods are there: the ConfigMap that they mount. No other ConfigMap is read."""
    mounted = dict.fromkeys(
        (str(pod["metadata"].get("namespace")), str(volume["configMap"].get("name")))
        for pod in snapshot.of("Pod")
        if any(_DESCHEDULER.search(str(each.get("image"))) for each in pod["spec"].get("containers") or ())
        for volume in pod["spec"].get("volumes") or ()
        if volume.get("configMap")
    )
    found: list[Object] = []
    for namespace, name in list(mounted)[:_MAX_POLICIES]:
        try:
            data = (await api.get(f"/api/v1/namespaces/{namespace}/configmaps/{name}")).get("data") or {}
        except ApiError as error:
            if error.status == 404:
                continue
            raise
        texts = [text for text in data.values() if "DeschedulerPolicy" in text]
        status = {"text": texts[0]}
        found += [{"metadata": {"name": name, "namespace": namespace}, "status": status}] if texts else []
    return found


async def _gpu_sums(api: Api, snapshot: Snapshot) -> list[Object]:
    """What the webhook counts of all GPUs, by model. The component `reader` has the Service and the right."""
    path = f"/api/v1/namespaces/{snapshot.release.namespace}/services/{_METRICS_SERVICE}:ops/proxy/metrics"
    lines = await api.lines(path, "gpu_admission_gpus{", _REPLICA_TIMEOUT)
    return [{"metadata": {"name": _METRICS_SERVICE}, "status": {"samples": list(samples(lines))}}]


def idle_by_namespace(snapshot: Snapshot) -> dict[str, dict[str, int]]:
    """The GPUs of each namespace that the running webhook sees idle, by how long they have been at least. A replica counts from
    its own start, so that the largest number of all replicas is nearest the truth."""
    found: dict[str, dict[str, int]] = {}
    for replica in snapshot.of("ReplicaMetrics"):
        for name, labels, value in replica["status"].get("samples") or ():
            if name == f"{_OUR_METRICS}idle_gpus" and value:
                of, word = found.setdefault(labels.get("namespace", ""), {}), labels.get("idle_for", "")
                of[word] = max(of.get(word, 0), int(value))
    return found


QUESTIONS: Final[Mapping[str, Question]] = {
    "ApiServerVersion": Question("version of the API server", "/version", _version),
    "ApiServerMetrics": Question("metrics of the API server", "/metrics", _api_server),
    "ServingCertificate": Question("serving certificate", f"secrets/{OUR_SECRET} of {{}}", _certificate),
    "ReplicaMetrics": Question("metrics of the replicas", "pods/proxy of {}", _replicas),
    "DeschedulerPolicy": Question(
        "policy of a descheduler", "the ConfigMap of the descheduler that runs", _descheduler_policies
    ),
}
"""By the kind of object that a snapshot keeps the answer as."""
GPU_SUMS: Final = Question("sums of the webhook", f"services/proxy of {_METRICS_SERVICE} in {{}}", _gpu_sums)
"""Asked only for those who may not list pods."""
