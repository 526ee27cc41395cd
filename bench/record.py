"""Records reviews that real API servers send: `python -m bench.record`.

On a control plane of each supported version of Kubernetes, the same pod is created by kubectl, by server-side apply, and by the
controllers of ReplicaSets, Jobs and StatefulSets. The reviews of the first pod of each are written to tests/data/reviews, byte
for byte. Both hooks decide as usual, so that the pod in the review of the validating hook has the patch of the mutating one. A
review has no secret in it: the token of the ServiceAccount is in a volume that the kubelet fills.
"""

import argparse
import json
import sys
import time
from typing import Any

import orjson

from bench.recorded import FOLDER, NAME, NAMESPACE, Silent
from bench.samples import cluster, state_of
from tests.controlplane.plane import ControlPlane
from tests.controlplane.programs import KUBERNETES, find
from tests.manifests.files import kustomized
from tests.manifests.recorder import LABEL, Recorder
from webhook.placement.placer import Placer
from webhook.server.handlers import Handlers

HOOKS = ("mutate", "validate")
OWNERS = {
    "create": f"{NAME}-create",
    "apply": f"{NAME}-apply",
    "replicaset": NAME,
    "job": f"{NAME}-job",
    "statefulset": f"{NAME}-set",
}
"""How the pod is created, and the name of its workload."""


def pod_template(name: str, **spec: Any) -> dict[str, Any]:
    """The template of a vLLM server with one GPU, as in the documentation of vLLM."""
    probe = {"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": 10}
    quantities = {"cpu": "8", "memory": "48Gi", "nvidia.com/gpu": "1"}
    environment = {
        "HF_HOME": "/models",
        "HF_HUB_OFFLINE": "1",
        "VLLM_LOGGING_LEVEL": "INFO",
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
        "NCCL_DEBUG": "WARN",
        "OMP_NUM_THREADS": "8",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
    }
    container = {
        "name": "server",
        "image": "vllm/vllm-openai:v0.11.0",
        "args": ["--model", "/models/llama", "--tensor-parallel-size", "1", "--max-model-len", "32768"],
        "ports": [{"name": "http", "containerPort": 8000}],
        "env": [{"name": key, "value": value} for key, value in environment.items()],
        "resources": {"limits": quantities, "requests": quantities},
        "volumeMounts": [{"name": "models", "mountPath": "/models"}, {"name": "shm", "mountPath": "/dev/shm"}],
        "readinessProbe": probe,
        "livenessProbe": {**probe, "failureThreshold": 6},
        "startupProbe": {**probe, "failureThreshold": 60},
    }
    volumes = [
        {"name": "models", "persistentVolumeClaim": {"claimName": "models"}},
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}},
    ]
    labels = {"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "chat"}
    annotations = {"prometheus.io/scrape": "true", "prometheus.io/port": "8000"}
    return {
        "metadata": {"labels": labels, "annotations": annotations},
        "spec": {"containers": [container], "volumes": volumes, **spec},
    }


def manifest(owner: str) -> dict[str, Any]:
    """The manifest to apply for a pod of this owner. `owner`: a key of OWNERS."""
    name = OWNERS[owner]
    metadata = {"name": name, "namespace": NAMESPACE}
    template = pod_template(name)
    if owner in ("create", "apply"):
        return {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {**metadata, **template["metadata"]}}
    if owner == "job":
        spec = {"parallelism": 1, "completions": 1, "template": pod_template(name, restartPolicy="Never")}
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
    selector = {"matchLabels": {"app.kubernetes.io/name": name}}
    kind = {"replicaset": "Deployment", "statefulset": "StatefulSet"}[owner]
    spec = {"replicas": 1, "selector": selector, "template": template}
    if kind == "StatefulSet":
        spec["serviceName"] = name
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}


def record(version: str) -> dict[str, bytes]:
    """The first review of each owner's pod for each hook, by file name. `version`: of Kubernetes."""
    bodies: dict[str, bytes] = {}
    sample = cluster(8)
    state = state_of(sample)
    silent = Silent()
    handlers = Handlers(silent, state, Placer(state), silent, time.monotonic)
    decide = {"mutate": handlers.mutate, "validate": handlers.validate}

    def answer(path: str, body: bytes) -> bytes:
        return decide[path[1:].split("-", maxsplit=1)[0]](body)[1]

    with ControlPlane(find(version)) as plane, Recorder(answer) as recorder:
        classes = [each for each in sample["items"] if each["kind"] == "PriorityClass"]
        labelled = {"name": NAMESPACE, "labels": {LABEL: "default"}}
        hooks = [
            recorder.configuration(each) for each in kustomized(plane) if each["kind"].endswith("WebhookConfiguration")
        ]
        objects = [{"apiVersion": "v1", "kind": "Namespace", "metadata": labelled}, *classes, *hooks]
        plane.kubectl("apply", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        time.sleep(3)  # until the API server has both configurations, and the namespace its ServiceAccount
        for owner in OWNERS:
            ask = ("apply", "--server-side") if owner == "apply" else ("create",)
            plane.kubectl(*ask, "-f", "-", input=json.dumps(manifest(owner)))
        deadline = time.monotonic() + 60
        while len(bodies) < len(OWNERS) * len(HOOKS):
            assert time.monotonic() < deadline, f"60 s, and only {', '.join(sorted(bodies))} came"
            time.sleep(0.5)
            for path, body in list(recorder.bodies):
                if owner := _owner(orjson.loads(body)["request"]):
                    bodies.setdefault(f"{owner}-{path[1:].split('-')[0]}.json", body)
    return bodies


def _owner(request: dict[str, Any]) -> str | None:
    """The owner of the pod in a request to create one of our pods, by the name of its workload; None for other requests."""
    if request["kind"]["kind"] != "Pod" or request["operation"] != "CREATE":
        return None
    name = request["object"]["metadata"]["labels"].get("app.kubernetes.io/name")
    return next((owner for owner, workload in OWNERS.items() if workload == name), None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--k8s", default=",".join(KUBERNETES), help="versions, with commas (default: %(default)s)")
    for version in parser.parse_args().k8s.split(","):
        folder = FOLDER / version
        folder.mkdir(parents=True, exist_ok=True)
        for name, body in record(version).items():
            (folder / name).write_bytes(body)
            print(f"{folder / name}: {len(body)} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
