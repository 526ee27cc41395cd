"""A cluster and the reviews of its pods, for benchmarks of the server."""

from __future__ import annotations

import time
from base64 import b64decode
from pathlib import Path
from typing import Any

import orjson

from webhook.cli.offline import load_policy, load_state
from webhook.kube.json_patch import apply
from webhook.placement.placer import Placer
from webhook.server.handlers import Handlers


def node(number: int) -> dict[str, Any]:
    """A node with so many GPUs that a thousand of them do not fill up within the ten seconds that a reservation lasts."""
    name = f"gpu-{number:05d}"
    amount = {"cpu": "2048", "memory": "16Ti", "pods": "1000", "nvidia.com/gpu": "128"}
    labels = {
        "kubernetes.io/hostname": name,
        "topology.kubernetes.io/zone": f"zone-{number % 3}",
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]},
        "status": {"allocatable": amount, "capacity": amount, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def cluster(nodes: int) -> dict[str, Any]:
    classes = [("gpu-inference", 100000), ("gpu-training", 10000), ("gpu-development", 1000)]
    priorities = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        for name, value in classes
    ]
    return {"apiVersion": "v1", "kind": "List", "items": [node(i) for i in range(nodes)] + priorities}


def pod(number: int, workloads: int = 500) -> dict[str, Any]:
    """A vLLM replica as the API server hands it over: with defaults, a token volume, managed fields."""
    workload, token = number % workloads, f"kube-api-access-{number:05d}"
    app = f"vllm-{workload}"
    quantities = {"cpu": "8", "memory": "48Gi", "nvidia.com/gpu": "1"}
    probe = {"httpGet": {"path": "/health", "port": 8000, "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": 10}
    mounts = [
        {"name": "models", "mountPath": "/models"},
        {"name": "shm", "mountPath": "/dev/shm"},
        {"name": token, "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"},
    ]
    managed: dict[str, dict[str, Any]] = {
        f"f:{key}": {} for key in ("image", "name", "ports", "resources", "env", "volumeMounts", "args", "command")
    }
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "generateName": f"{app}-6f7d9-",
            "namespace": "serving",
            "labels": {"app.kubernetes.io/name": app, "app.kubernetes.io/part-of": "llm", "pod-template-hash": "6f7d9"},
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "8000"},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": f"{app}-6f7d9",
                    "uid": f"0c3c5d54-{workload:04d}",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": [
                {
                    "manager": "kube-controller-manager",
                    "operation": "Update",
                    "apiVersion": "v1",
                    "time": f"2026-01-01T00:{number // 60 % 60:02d}:{number % 60:02d}Z",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:spec": {"f:containers": {'k:{"name":"server"}': managed}}},
                }
            ],
        },
        "spec": {
            "volumes": [
                {"name": "models", "persistentVolumeClaim": {"claimName": "models"}},
                {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}},
                {"name": token, "projected": {"sources": [{"serviceAccountToken": {"expirationSeconds": 3607}}]}},
            ],
            "containers": [
                {
                    "name": "server",
                    "image": "vllm/vllm-openai:v0.11.0",
                    "command": ["python3", "-m", "vllm.entrypoints.openai.api_server"],
                    "args": ["--model", "/models/llama", "--tensor-parallel-size", "1", "--max-model-len", "32768"],
                    "ports": [{"name": "http", "containerPort": 8000, "protocol": "TCP"}],
                    "env": [{"name": f"VLLM_SETTING_{i}", "value": "some value that is set"} for i in range(24)],
                    "resources": {"limits": quantities, "requests": quantities},
                    "volumeMounts": mounts,
                    "livenessProbe": probe,
                    "readinessProbe": probe,
                    "imagePullPolicy": "IfNotPresent",
                    "terminationMessagePath": "/dev/termination-log",
                }
            ],
            "restartPolicy": "Always",
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default",
            "schedulerName": "default-scheduler",
            "securityContext": {},
            "tolerations": [
                {
                    "key": f"node.kubernetes.io/{key}",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
                for key in ("not-ready", "unreachable")
            ],
            "priority": 0,
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {},
    }


def review(number: int, obj: dict[str, Any]) -> bytes:
    """In the order of the API server, which names the pod before its namespace once it has a name."""
    user = "system:serviceaccount:kube-system:replicaset-controller"
    body = {
        "uid": f"705ab4f5-6393-11e8-b7cc-{number:012d}",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
        "requestResource": {"group": "", "version": "v1", "resource": "pods"},
        **({"name": name} if (name := obj["metadata"].get("name")) else {}),
        "namespace": "serving",
        "operation": "CREATE",
        "userInfo": {"username": user, "uid": "a", "groups": ["system:serviceaccounts", "system:authenticated"]},
        "object": obj,
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    return orjson.dumps({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": body})


def stored(cluster_file: Path, reviews: list[bytes]) -> list[dict[str, Any]]:
    """The pods of these reviews as the validating hook gets them: mutated, and named."""

    class Silent:
        current = load_policy()

        def decided(self, *unused: object) -> None: ...

        def ranked(self, *unused: object) -> None: ...

        def bad_review(self, hook: str, error: Exception) -> None:
            raise error

    state = load_state(cluster_file)
    handlers = Handlers(Silent(), state, Placer(state), Silent(), time.monotonic)
    return [as_stored(number, body, handlers.mutate(body)[1]) for number, body in enumerate(reviews)]


def as_stored(number: int, body: bytes, answer: bytes) -> dict[str, Any]:
    """The pod of this review, mutated as the answer says, and named."""
    obj = apply(b64decode(orjson.loads(answer)["response"]["patch"]), orjson.loads(body)["request"]["object"])
    return obj | {"metadata": _completed(obj["metadata"], number)}


def _completed(metadata: dict[str, Any], number: int) -> dict[str, Any]:
    """In the order of ObjectMeta, as the API server writes it."""
    first = {key: metadata[key] for key in ("generateName", "namespace")}
    own = {
        "uid": f"705ab4f5-{number:012d}",
        "generation": 1,
        "creationTimestamp": f"2026-01-01T01:00:{number % 60:02d}Z",
    }
    return {"name": f"{first['generateName']}{number:05d}", **first, **own, **metadata}


def with_env(obj: dict[str, Any], name: str) -> dict[str, Any]:
    """The same pod with a variable in its container. `obj` stays as it is."""
    found: dict[str, Any] = orjson.loads(orjson.dumps(obj))
    found["spec"]["containers"][0]["env"].append({"name": name, "value": "all"})
    return found


def admitted(obj: dict[str, Any]) -> dict[str, Any]:
    """As long as the refused one, and harmless."""
    return with_env(obj, "HUGGINGFACE_HUB_CACHES")


def refused(obj: dict[str, Any]) -> dict[str, Any]:
    """With the commonest theft in it."""
    return with_env(obj, "NVIDIA_VISIBLE_DEVICES")
