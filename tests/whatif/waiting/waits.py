"""Pods that wait, and what they wait for."""

from pathlib import Path
from typing import Any

from tests.cli.objects import Json, placed, snapshot
from tests.controlplane.objects import pod
from webhook.whatif.answers import Answer, answers
from webhook.whatif.offline import load_policy


def obj(kind: str, name: str, spec: Json | None = None, status: Json | None = None, **more: Any) -> Json:
    metadata = {"name": name, "namespace": "team", **more.pop("metadata", {})}
    if not metadata["namespace"]:
        del metadata["namespace"]
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec or {}, "status": status or {}, **more}


def waiting(gpus: int = 1, status: Json | None = None, **spec: Any) -> Json:
    return placed(pod("waits", gpus, **spec), None, **(status or {}))


def claiming(**entry: str) -> Json:
    return waiting(0, resourceClaims=[{"name": "gpu", **entry}])


def mounting(claim: str) -> Json:
    return waiting(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": claim}}])


DEVICE_CLASS = obj(
    "DeviceClass",
    "dc",
    {"selectors": [{"cel": {"expression": "device.driver == 'gpu.x'"}}]},
    metadata={"namespace": ""},
)


def held(gpus: int, on: str, **spec: Any) -> Json:
    """A pod that has so many GPUs of a node."""
    return placed(pod(f"on-{on}", gpus, **spec), on)


def answer(tmp_path: Path, *objects: Json) -> Answer:
    """What is said of the pod that waits."""
    found = answers(snapshot(tmp_path, *objects), load_policy(), None)
    return next(each for each in found if each.name == "waits")
