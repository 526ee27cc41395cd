"""The handlers with a state, a policy and a namespace for each of its profiles: what most tests of answers need."""

from base64 import b64decode
from typing import Any

import jsonpatch
import orjson

from tests.builders import GPU, admission_review
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from tests.state.objects import state
from tests.strategies import ZONE
from webhook.admission.decision import Decision
from webhook.errors import BadReview
from webhook.kube.pod import PROFILE_LABEL, Pod
from webhook.kube.review import Request
from webhook.placement.placer import Placer
from webhook.policy.model import Policy
from webhook.server.handlers import Handlers
from webhook.state.state import ClusterState

POLICY = Policy.load("""
profiles:
  default: {}
  pinned: {injectors: {nodeAffinity: {mode: required}}}
  apart: {injectors: {topologySpread: {mode: antiAffinity}}, placement: {strategies: {}, otherwise: spread}}
  void: {injectors: {voidDevices: {everyPod: true}}}
  every: {placement: {everyPod: true}}
  fed: {injectors: {cpuPerGpu: {enabled: true}}}
  pools:
    placement:
      preferences:
        - {weight: 100, nodes: [{key: topology.kubernetes.io/zone, values: [zone-b]}]}
        - weight: 30
          nodes: [{key: topology.kubernetes.io/zone, operator: Exists}, {key: kubernetes.io/hostname, values: [gpu-a2]}]
        - {weight: 5, classes: [training], nodes: [{key: nobody.has/this, operator: DoesNotExist}]}
  dry-run: {dryRun: true}
""")
PROFILES = ("default", "pinned", "apart", "void", "every", "fed", "pools")
GPU_TAINT = {"key": GPU, "value": "present", "effect": "NoSchedule"}
NODES = [
    node("gpu-a1", labels={ZONE: "zone-a"}, taints=[GPU_TAINT]),
    node("gpu-a2", labels={ZONE: "zone-a"}, taints=[GPU_TAINT]),
    node("gpu-b1", 4, labels={ZONE: "zone-b"}, taints=[GPU_TAINT], resources={"nvidia.com/mig-1g.10gb": "7"}),
]
NOW = 100.0


def cluster() -> ClusterState:
    """Three nodes with GPUs, the priority classes of the policy, and a namespace for each profile."""
    made = state(NODES, now=NOW)
    for name, value in (
        ("gpu-inference", 3),
        ("gpu-service", 2),
        ("gpu-training", 2),
        ("gpu-development", 1),
        ("everyday", 0),
    ):
        made.priority_classes.seen({"metadata": {"name": name}, "value": value, "globalDefault": name == "everyday"})
    made.namespaces.seen({"metadata": {"name": "plain"}})
    made.namespaces.seen({"metadata": {"name": "odd", "labels": {PROFILE_LABEL: "no such"}}})
    for profile in (*PROFILES, "dry-run"):
        made.namespaces.seen({"metadata": {"name": profile, "labels": {PROFILE_LABEL: profile}}})
    return made


class Recorder:
    """What was told, in order."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []
        self.asked: list[tuple[str, str]] = []
        """Uid and name in each request."""

    def decided(self, hook: str, request: Request, decision: Decision, seconds: float) -> None:
        assert seconds >= 0
        self.told.append((hook, decision.result))
        self.asked.append((request.uid, request.name))

    def bad_review(self, hook: str, error: BadReview) -> None:
        self.told.append((hook, str(error)))


class Server:
    """The handlers with a state of their own."""

    def __init__(self, made: ClusterState | None = None, policy: Policy | None = POLICY) -> None:
        self.state = cluster() if made is None else made
        self.current = policy
        self.recorder = Recorder()
        self.handlers = Handlers(self, self.state, Placer(self.state), self.recorder, lambda: NOW)

    def mutate(self, obj: Any, **request: Any) -> dict[str, Any]:
        return self.answered(*self.handlers.mutate(review(obj, **request)))

    def validate(self, obj: Any, **request: Any) -> dict[str, Any]:
        return self.answered(*self.handlers.validate(review(obj, **request)))

    @staticmethod
    def answered(status: int, answer: bytes) -> dict[str, Any]:
        assert status == 200, answer
        response: dict[str, Any] = orjson.loads(answer)["response"]
        return response


def _in(namespace: str, obj: Any) -> Any:
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    if not isinstance(metadata, dict) or "namespace" not in metadata:
        return obj
    return {**obj, "metadata": {**metadata, "namespace": namespace}}


def review(obj: Any, namespace: str = "default", name: str = "", **request: Any) -> bytes:
    """A review of a pod. Where the pod says a namespace, it says this one: the API server sees to that."""
    obj = _in(namespace, obj)
    if "oldObject" in request:
        request["oldObject"] = _in(namespace, request["oldObject"])
    named = {"name": name} if name else {}
    return orjson.dumps(admission_review(obj, namespace, **named | request))


def patch_of(response: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = orjson.loads(b64decode(response.get("patch", "W10=")))
    return found


def after(response: dict[str, Any], before: Pod) -> Pod:
    """The pod as the API server would store it."""
    stored: Pod = jsonpatch.apply_patch(before, patch_of(response))
    return stored


def plain_pod(**tweaks: Any) -> Pod:
    """A pod that asks for a GPU and for nothing else."""
    return pod(**{"labels": {"app": "web", "pod-template-hash": "5f6d"}, "owned_by": "ReplicaSet", **tweaks})
