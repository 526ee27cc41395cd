"""Asking the API server and the replicas about themselves: what is kept, and which right is missing."""

import asyncio
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from tests.cli.objects import kubeconfig
from tests.feeds.fake_api import FakeApi, fake_api
from webhook.cli.cluster.answers import QUESTIONS, samples
from webhook.cli.cluster.load import load
from webhook.whatif.cluster.snapshot import Snapshot

OURS = "/api/v1/namespaces/gpu-admission"
REPLICA_PATH = f"{OURS}/pods/one:8080/proxy/metrics"
TEXT = """\
# HELP apiserver_admission_webhook_fail_open_count x
# TYPE apiserver_admission_webhook_fail_open_count counter
apiserver_admission_webhook_fail_open_count{name="mutate.gpu-admission.io",type="admit"} 3
apiserver_admission_webhook_fail_open_count{name="of.somebody.else",type="admit"} 9
apiserver_other 1
"""
REPLICA = """\
gpu_admission_policy_info{hash="1f0c"} 1.0
gpu_admission_gpu_metrics_age_seconds NaN
gpu_admission_review_seconds_bucket{hook="mutate",le="0.1"} 7.0
process_cpu_seconds_total 3.0
"""


def fill(fake: FakeApi) -> None:
    fake.texts = {"/version": '{"gitVersion": "v1.37.1"}', "/metrics": TEXT, REPLICA_PATH: REPLICA}
    fake.put("/api/v1/nodes", "n")
    labels = {"app.kubernetes.io/name": "gpu-admission"}
    fake.put("/api/v1/pods", "one", metadata={"namespace": "gpu-admission", "labels": labels}, spec={}, status={})
    fake.put("/api/v1/pods", "tenant", metadata={"namespace": "team", "labels": labels}, spec={}, status={})
    data = {key: b64encode(key.encode()).decode() for key in ("tls.crt", "tls.key", "ca.key")}
    fake.put(f"{OURS}/secrets", "gpu-admission-tls", data=data)


async def asked(folder: Path, refuse: dict[str, tuple[int, str]] | None = None) -> Snapshot:
    async with fake_api() as fake:
        fill(fake)
        fake.refuse = {("get", path): answer for path, answer in (refuse or {}).items()}
        return await asyncio.to_thread(load, kubeconfig(folder, fake.url), None, ("Node", "Pod", *QUESTIONS))


async def test_everything_is_asked_for_once_and_no_key_is_kept(tmp_path: Path) -> None:
    found = await asked(tmp_path)
    assert found.missing == {}
    (version,), (counts,) = found.of("ApiServerVersion"), found.of("ApiServerMetrics")
    assert version["status"]["gitVersion"] == "v1.37.1"
    labels = {"name": "mutate.gpu-admission.io", "type": "admit"}
    assert counts["status"]["samples"] == [("apiserver_admission_webhook_fail_open_count", labels, 3.0)]
    (certificate,) = found.of("ServingCertificate")
    assert certificate["status"] == {"certificate": "tls.crt"}
    (replica,) = found.of("ReplicaMetrics")
    assert replica["metadata"]["name"] == "one", "nobody asks a pod of a tenant"
    assert replica["status"]["samples"] == [
        ("gpu_admission_policy_info", {"hash": "1f0c"}, 1.0),
        ("gpu_admission_gpu_metrics_age_seconds", {}, None),
    ]


def descheduler(name: str, namespace: str, *config_maps: str) -> dict[str, Any]:
    """The fields of a pod that runs a descheduler, and mounts these ConfigMaps."""
    volumes = [{"name": each, "configMap": {"name": each}} for each in config_maps]
    image = f"registry.k8s.io/descheduler/{name}:v0.36.0"
    return {"metadata": {"namespace": namespace}, "spec": {"containers": [{"image": image}], "volumes": volumes}}


async def test_only_the_config_map_that_a_descheduler_mounts_is_read(tmp_path: Path) -> None:
    async with fake_api() as fake:
        fill(fake)
        fake.put("/api/v1/pods", "d-1", **descheduler("descheduler", "kube-system", "policy", "gone"), status={})
        fake.put(
            "/api/v1/pods", "d-2", **descheduler("descheduler", "kube-system", "policy"), status={"phase": "Succeeded"}
        )
        fake.put("/api/v1/pods", "other", **descheduler("scheduler", "kube-system", "secret"), status={})
        for name, text in {"policy": "kind: DeschedulerPolicy", "secret": "kind: DeschedulerPolicy"}.items():
            fake.put("/api/v1/namespaces/kube-system/configmaps", name, data={"note": "x", "policy.yaml": text})
        found = await asyncio.to_thread(load, kubeconfig(tmp_path, fake.url), None, ("Pod", "DeschedulerPolicy"))
    (policy,) = found.of("DeschedulerPolicy")
    assert policy["metadata"] == {"name": "policy", "namespace": "kube-system"}
    assert policy["status"] == {"text": "kind: DeschedulerPolicy"}
    assert found.missing == {}


async def test_the_policy_of_a_descheduler_that_may_not_be_read_is_missing(tmp_path: Path) -> None:
    async with fake_api() as fake:
        fill(fake)
        fake.put("/api/v1/pods", "d-1", **descheduler("descheduler", "kube-system", "policy"), status={})
        fake.refuse = {("get", "/api/v1/namespaces/kube-system/configmaps/policy"): (403, "no")}
        found = await asyncio.to_thread(load, kubeconfig(tmp_path, fake.url), None, ("Pod", "DeschedulerPolicy"))
    assert found.missing == {"DeschedulerPolicy": "no right to get the ConfigMap of the descheduler that runs"}


FORBIDDEN = [
    ("ApiServerMetrics", "/metrics", "forbidden", "no right to get /metrics"),
    ("ServingCertificate", f"{OURS}/secrets/gpu-admission-tls", "no", "no right to get secrets/gpu-admission-tls of gpu-admission"),
    ("ReplicaMetrics", REPLICA_PATH, 'pods "one:8080" is forbidden: User "reader" cannot get resource "pods/proxy"', "no right to get pods/proxy of gpu-admission"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "path", "message", "why"), FORBIDDEN)
async def test_a_right_that_is_missing_is_named(tmp_path: Path, kind: str, path: str, message: str, why: str) -> None:
    found = await asked(tmp_path, {path: (403, message)})
    assert found.missing == {kind: why}
    assert found.of(kind) == []


async def test_a_replica_that_gives_no_answer_has_an_error(tmp_path: Path) -> None:
    found = await asked(tmp_path, {REPLICA_PATH: (503, "dial tcp: connection refused")})
    (replica,) = found.of("ReplicaMetrics")
    assert replica["status"] == {"error": '503: "dial tcp: connection refused"'}


async def test_without_the_secret_there_is_no_certificate(tmp_path: Path) -> None:
    found = await asked(tmp_path, {f"{OURS}/secrets/gpu-admission-tls": (404, "not found")})
    assert (found.of("ServingCertificate"), found.missing) == ([], {})


async def test_any_other_error_is_reported(tmp_path: Path) -> None:
    found = await asked(tmp_path, {"/version": (500, "oops")})
    assert found.missing == {"ApiServerVersion": 'no version of the API server: GET /version: 500: "oops"'}


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (["a 1", "b{c"], [("a", {}, 1.0)]),
        (['a{b="\\"} 1"} 2'], [("a", {"b": '"} 1'}, 2.0)]),
        (["# TYPE a counter"], []),
    ],
)
def test_samples(lines: list[str], found: list[Any]) -> None:
    assert list(samples(lines)) == found
