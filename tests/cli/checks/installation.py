"""An installation without problems as `doctor` reads it, and what spoils it."""

import json
from base64 import b64encode
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from tests.cli.objects import TAKEN, document, placed, write
from tests.controlplane.nodes import node
from tests.controlplane.objects import made, pod
from tests.manifests.files import MANIFESTS, documents
from webhook.cli.cluster.answers import QUESTIONS
from webhook.cli.doctor import READ
from webhook.kube.kinds import KINDS
from webhook.kube.pod import DECISION, PROFILE_LABEL
from webhook.policy.model import Policy
from webhook.policy.written_for import PROGRAM
from webhook.tls.issue import Pair, fingerprint, make_ca, make_leaf, service_names

POLICY = (MANIFESTS / "policy.yaml").read_text()
HASH = Policy.load(POLICY).hash
NOW = datetime.fromtimestamp(TAKEN, UTC)
NAMES = service_names("gpu-admission", "gpu-admission")
Json = dict[str, Any]
Objects = list[Json]
Spoil = Callable[[Objects], Any]


def ca(since: timedelta = timedelta()) -> Pair:
    return make_ca(NOW - since)


def encoded(pair: Pair) -> str:
    return b64encode(pair.certificate).decode()


def leaf_of(authority: Pair, since: timedelta = timedelta(), names: tuple[str, ...] = NAMES) -> Json:
    pem = make_leaf(authority, names, NOW - since).certificate
    return {
        "kind": "ServingCertificate",
        "metadata": {"name": "gpu-admission-tls"},
        "status": {"certificate": pem.decode()},
    }


def replica(name: str) -> Json:
    made = placed(pod(name, 0, labels={"app.kubernetes.io/name": "gpu-admission"}), "cpu-a")
    made["metadata"] |= {"namespace": "gpu-admission"}
    return made


def replica_metrics(name: str, certificate: Json) -> Json:
    """The metrics of a replica."""
    served = fingerprint(certificate["status"]["certificate"].encode())
    info = {
        "policy_info": {"hash": HASH},
        "build_info": {"version": PROGRAM},
        "certificate_info": {"sha256": served},
    }
    numbers = {"cluster_fresh": 1.0, "policy_valid": 1.0, "gpu_metrics_age_seconds": None}
    samples = [[f"gpu_admission_{key}", labels, 1.0] for key, labels in info.items()]
    samples += [[f"gpu_admission_{key}", {}, value] for key, value in numbers.items()]
    return {"kind": "ReplicaMetrics", "metadata": {"name": name}, "status": {"samples": samples}}


def counted(metric: str, value: float, **labels: str) -> list[Any]:
    return [f"apiserver_admission_webhook_{metric}", labels, value]


def healthy() -> Objects:
    """An installation and a cluster without problems, made once."""
    found: Objects = orjson.loads(_healthy())
    return found


@cache
def _healthy() -> bytes:
    return orjson.dumps(installed())


def installed() -> Objects:
    files = (
        "50-priority-classes.yaml",
        "70-guards.yaml",
        "71-running-pods.yaml",
        "80-mutating.yaml",
        "90-validating.yaml",
    )
    found = [obj for file in files for obj in documents(MANIFESTS / file) if obj["kind"] in READ]
    authority = ca()
    for configuration in (obj for obj in found if "webhooks" in obj):
        for hook in configuration["webhooks"]:
            hook["clientConfig"]["caBundle"] = encoded(authority)
    policy = {"policy.yaml": POLICY}
    labels = {"kubernetes.io/service-name": "gpu-admission"}
    ours = {"namespace": "gpu-admission"}
    decided = placed(pod("trainer", 2, labels={"workload-type": "training"}), "gpu-a")
    decided["metadata"]["annotations"] = {DECISION: json.dumps({"class": "training", "policy": HASH})}
    certificate = leaf_of(authority)
    return [
        *found,
        {"kind": "ConfigMap", "metadata": {"name": "gpu-admission-policy", **ours}, "data": policy},
        {
            "kind": "EndpointSlice",
            "metadata": {"name": "s", "labels": labels, **ours},
            "endpoints": [{"conditions": {"ready": True}}] * 2,
        },
        {"kind": "NetworkPolicy", "metadata": {"name": "gpu-admission", **ours}},
        {"kind": "Namespace", "metadata": {"name": "team", "labels": {PROFILE_LABEL: "default"}}},
        node("gpu-a", taints=["nvidia.com/gpu=present:NoSchedule"]),
        decided,
        certificate,
        replica("one"),
        replica("two"),
        replica_metrics("one", certificate),
        replica_metrics("two", certificate),
        {"kind": "ApiServerVersion", "metadata": {"name": "v"}, "status": {"gitVersion": "v1.37.1"}},
        {
            "kind": "ApiServerMetrics",
            "metadata": {"name": "m"},
            "status": {"samples": [counted("request_total", 7, name="mutate.gpu-admission.io")]},
        },
    ]


def of(objects: Objects, kind: str, name: str | None = None) -> dict[str, Any]:
    return next(obj for obj in objects if obj["kind"] == kind and name in (None, obj["metadata"]["name"]))


def checked(folder: Path, objects: Objects, kinds: Iterable[str] = (*KINDS, *QUESTIONS)) -> list[dict[str, str]]:
    file = write(folder, *objects, kinds=kinds)
    found: list[dict[str, str]] = document("doctor", "--from", file)
    return found


# --- what spoils it ---------------------------------------------------------------------------------------------------


def client_ca(objects: Objects, name: str) -> None:
    of(objects, "Pod", name)["spec"]["containers"][0].update(name="gpu-admission", args=["serve", "--client-ca=/c"])


def hook(objects: Objects, kind: str) -> dict[str, Any]:
    hook: dict[str, Any] = of(objects, f"{kind}WebhookConfiguration")["webhooks"][0]
    return hook


def hooks(objects: Objects, kind: str, **change: str) -> None:
    for hook in of(objects, f"{kind}WebhookConfiguration")["webhooks"]:
        hook["clientConfig"].update(change)


def called_by_url(objects: Objects) -> None:
    for each in objects:
        for hook in each.get("webhooks") or ():
            hook["clientConfig"] = {"url": "https://elsewhere:8443/", "caBundle": hook["clientConfig"].get("caBundle")}
    objects[:] = [each for each in objects if each["kind"] not in ("ReplicaMetrics", "EndpointSlice")]


def policy(text: str) -> Callable[[Objects], Any]:
    """Replaces the policy; both replicas have loaded it."""

    def spoil(objects: Objects) -> None:
        of(objects, "ConfigMap")["data"] = {"policy.yaml": text}
        for each in objects:
            if each["kind"] == "ReplicaMetrics":
                each["status"]["samples"][0][1]["hash"] = Policy.load(text).hash

    return spoil


def sample(objects: Objects, name: str, value: Any) -> None:
    """Replaces the value or the labels of one metric of the second replica."""
    (found,) = [s for s in of(objects, "ReplicaMetrics", "two")["status"]["samples"] if s[0] == f"gpu_admission_{name}"]
    found[1 if isinstance(value, dict) else 2] = value


def certified(authority: Pair, **others: Any) -> Callable[[Objects], Any]:
    """Replaces the certificate; both replicas serve it."""

    def spoil(objects: Objects) -> None:
        made = leaf_of(authority, **others)
        of(objects, "ServingCertificate")["status"] = made["status"]
        for name in ("one", "two"):
            of(objects, "ReplicaMetrics", name)["status"] = replica_metrics(name, made)["status"]

    return spoil


def trusted_but(**others: Any) -> Callable[[Objects], Any]:
    """Replaces the certificate and its authority, also in caBundle."""

    def spoil(objects: Objects) -> None:
        authority = ca(timedelta(days=100))
        hooks(objects, "Mutating", caBundle=encoded(authority))
        hooks(objects, "Validating", caBundle=encoded(authority))
        certified(authority, **others)(objects)

    return spoil


def calls(*found: list[Any]) -> Callable[[Objects], Any]:
    return lambda objects: of(objects, "ApiServerMetrics")["status"].update(samples=list(found))


def another_webhook(name: str) -> Json:
    rules = [{"resources": ["pods"], "operations": ["CREATE"]}]
    return {
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [{"name": "w", "rules": rules, "namespaceSelector": {}}],
    }


def mutating_policy(expression: str) -> Objects:
    spec = {"matchConstraints": {"resourceRules": [{"resources": ["pods"], "operations": ["CREATE"]}]}}
    spec["mutations"] = [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}]  # type: ignore[assignment]
    return [
        {"kind": "MutatingAdmissionPolicy", "metadata": {"name": "theirs"}, "spec": spec},
        {"kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": "theirs"}, "spec": {"policyName": "theirs"}},
    ]


def pod_groups(*, default: str = "") -> Objects:
    """What the component `pod-groups` installs, beside a PriorityClass that is the globalDefault."""
    component = documents(MANIFESTS / "components" / "pod-groups" / "class.yaml")
    return [*component, made("PriorityClass", default, value=5, globalDefault=True)] if default else component


def both(*spoils: Callable[[Objects], Any]) -> Callable[[Objects], Any]:
    return lambda objects: [spoil(objects) for spoil in spoils]
