"""The first decision of a process takes a hundred times as long as the next: imports on demand, caches to fill. It is made
for a pod that nobody created, so that no real one waits for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import orjson

from webhook.admission.decision import Decision
from webhook.cluster.state import ClusterState
from webhook.errors import BadReview
from webhook.kube import review
from webhook.placement.placer import Placer
from webhook.server.handlers import Answer, Handlers, PolicySource

_WHOLE: Final = "nvidia.com/gpu"


class _Nobody:
    """Counts nothing and logs nothing."""

    def decided(self, hook: str, request: review.Request, decision: Decision, seconds: float) -> None:
        pass

    def bad_review(self, hook: str, error: BadReview) -> None:
        pass


def warm_up(policies: PolicySource, state: ClusterState, placer: Placer, clock: Callable[[], float]) -> list[Answer]:
    """Decide for a pod of a Job, and for the Job, in both hooks: as a dry run, which reserves nothing. The four answers."""
    handlers = Handlers(policies, state, placer, _Nobody(), clock)
    policy = policies.current
    offered = state.view(clock()).resources()
    resource = next((name for name in offered if policy is not None and policy.gpus.kind(name)), _WHOLE)
    bodies = (_review("Pod", _pod(resource)), _review("Job", _job(resource)))
    return [decide(body) for body in bodies for decide in (handlers.mutate, handlers.validate)]


def _pod(resource: str) -> dict[str, Any]:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "warm-up", "uid": "warm-up", "controller": True}
    metadata = {"generateName": "warm-up-", "labels": {"app": "warm-up"}, "ownerReferences": [owner]}
    container = {"name": "main", "image": "warm-up", "resources": {"limits": {resource: "1"}}}
    return {"metadata": metadata, "spec": {"containers": [container], "restartPolicy": "Never"}}


def _job(resource: str) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "warm-up"}}, "spec": _pod(resource)["spec"]}
    return {"metadata": {"name": "warm-up"}, "spec": {"parallelism": 1, "template": template}}


def _review(kind: str, obj: dict[str, Any]) -> bytes:
    """Of a namespace that no cluster has: one that is not known counts as opted in, to the default profile."""
    group = "" if kind == "Pod" else "batch"
    request = {
        "uid": "warm-up",
        "kind": {"group": group, "version": "v1", "kind": kind},
        "resource": {"group": group, "version": "v1", "resource": f"{kind.lower()}s"},
        "operation": "CREATE",
        "namespace": "-warm-up-",
        "dryRun": True,
        "object": obj,
    }
    return orjson.dumps({"apiVersion": review.API_VERSION, "kind": "AdmissionReview", "request": request})
