"""The objects that tests create, as plain dicts with one container each: change in them what the test is about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]

COMPLETE_AFTER = "controlplane/complete-after"  # annotation of a pod: it succeeds that long after it runs, such as 1s


def pod_spec(
    gpus: int = 1, *, resource: str = "nvidia.com/gpu", container: Mapping[str, Any] | None = None, **spec: Any
) -> Json:
    """One container with a GPU limit (none for 0). `container` and `spec`: more fields, or other ones."""
    main: Json = {"name": "main", "image": "registry.example/app:1"}
    if gpus:
        main["resources"] = {"limits": {resource: str(gpus)}}
    return {"containers": [main | dict(container or {})], **spec}


def pod(
    name: str,
    gpus: int = 1,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Json:
    """A bare pod; `spec`: arguments of pod_spec."""
    metadata = _metadata(name, {"app": name} | dict(labels or {}), annotations)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec(gpus, **spec)}


def deployment(
    name: str,
    replicas: int = 1,
    gpus: int = 1,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Json:
    """A Deployment whose pods are labelled app=`name`; labels, annotations and `spec` are those of its pods."""
    template = {
        "metadata": _metadata(None, {"app": name} | dict(labels or {}), annotations),
        "spec": pod_spec(gpus, **spec),
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(name, {"app": name}, None),
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template},
    }


def job(
    name: str,
    pods: int = 1,
    gpus: int = 1,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Json:
    """A Job of `pods` pods at once, labelled app=`name`. They run until they are asked to end (COMPLETE_AFTER)."""
    template = {
        "metadata": _metadata(None, {"app": name} | dict(labels or {}), annotations),
        "spec": {"restartPolicy": "Never", **pod_spec(gpus, **spec)},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(name, {"app": name}, None),
        "spec": {"parallelism": pods, "completions": pods, "template": template},
    }


def _metadata(name: str | None, labels: Mapping[str, str], annotations: Mapping[str, str] | None) -> Json:
    metadata: Json = {"labels": dict(labels)}
    if name:
        metadata["name"] = name
    if annotations:
        metadata["annotations"] = dict(annotations)
    return metadata
