"""Workloads, and the decisions about them."""

from copy import deepcopy
from typing import Any

from tests.builders import GPU, TWO_NODES, ClusterFacts, request
from webhook.admission import workloads
from webhook.admission.decision import Decision
from webhook.kube.review import Request
from webhook.policy.model import Policy, PolicyFile

Json = dict[str, Any]
ALONE = {"limits": {GPU: "1"}}
HALF, NO_LIMIT, UNEQUAL = (
    {"limits": {GPU: "500m"}},
    {"requests": {GPU: "1"}},
    {"limits": {GPU: "2"}, "requests": {GPU: "1"}},
)
THIEF = {"securityContext": {"privileged": True}}


def policy(mode: str = "warn", *, dry_run: bool = False, **profile: Any) -> Policy:
    found = {"dryRun": dry_run, "templates": {"mode": mode}, **profile}
    return Policy.of(PolicyFile.model_validate({"profiles": {"default": found}}))


def deployment(resources: Json | None = None, *, replicas: int = 2, labels: Json | None = None, **fields: Any) -> Json:
    """A Deployment with one container of these resources (default: one GPU) and `fields`; a `nodeName` goes to the pod."""
    spec = {key: fields.pop(key) for key in ("nodeName", "serviceAccountName") if key in fields}
    main = {"name": "main", "image": "registry.example/app:1", "resources": deepcopy(resources or ALONE), **fields}
    template = {"metadata": {"labels": {"app": "a", **(labels or {})}}, "spec": {"containers": [main], **spec}}
    body = {"replicas": replicas, "selector": {"matchLabels": {"app": "a"}}, "template": template}
    return {"kind": "Deployment", "metadata": {"name": "app"}, "spec": body}


def asked(
    obj: Json, old: Json | None = None, *, group: str = "apps", namespace: str = "team-a", **fields: Any
) -> Request:
    known = {"name": "app", "resource": "x", "groups": (), **fields}
    return request(obj, old, kind=obj["kind"], group=group, namespace=namespace, **known)


def mutated(request: Request, under: Policy, cluster: ClusterFacts = TWO_NODES) -> Decision:
    return workloads.mutate(request, under, cluster.view, None)


def validated(request: Request, under: Policy, cluster: ClusterFacts = TWO_NODES) -> Decision:
    return workloads.validate(request, under, cluster.view, None)
