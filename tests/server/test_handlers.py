"""The answer to each review, from body to body, with a real cluster state."""

from typing import Any

import orjson
import pytest

from tests.builders import GPU, container, pod
from tests.cluster.objects import facts, free, node
from tests.served import NOW, POLICY, Server, after, plain_pod, review
from tests.strategies import PREFERRED, ZONE
from webhook.injectors.tolerations import Tolerations
from webhook.kube.pod import DECISION
from webhook.placement.strategies import WEIGHTS
from webhook.rules.gpu_limit import GpuLimit

# --- the answer as a whole --------------------------------------------------------------------------------------------


def test_a_plain_gpu_pod_gets_all_that_it_lacks() -> None:
    server = Server()
    before = plain_pod(priority=0, preemptionPolicy="PreemptLowerPriority")
    response = server.mutate(before)
    stored = after(response, before)
    record = stored["metadata"].pop("annotations")[DECISION]
    terms = stored["spec"]["affinity"]["nodeAffinity"].pop(PREFERRED)
    assert stored == pod(
        {"name": "main", "image": "vllm", "resources": {"limits": {GPU: 1}, "requests": {GPU: 1}}},
        labels={"app": "web"},
        owned_by="ReplicaSet",
        tolerations=[{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}],
        priorityClassName="gpu-service",
        priority=2,
        preemptionPolicy="PreemptLowerPriority",
        topologySpreadConstraints=[
            {
                "maxSkew": 100,
                "topologyKey": key,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app": "web"}},
            }
            for key in ("kubernetes.io/hostname", ZONE)
        ],
        affinity={"nodeAffinity": {}},
    )
    assert [t["preference"]["matchFields"][0]["values"] for t in terms] == [["gpu-b1"], ["gpu-a1"], ["gpu-a2"]]
    assert [t["weight"] for t in terms] == [*WEIGHTS[:3]]
    assert orjson.loads(record) == {
        "policy": POLICY.hash,
        "profile": "default",
        "class": "service",
        "units": {
            "gpuResources": ["filled", 1],
            "tolerations": ["added", [GPU]],
            "priorityClass": ["set", "gpu-service"],
            "voidDevices": ["none"],
            "topologySpread": ["added", ["kubernetes.io/hostname", ZONE]],
            "nodeAffinity": ["preferred", 3],
        },
        "strategy": "apart",
        "nodes": [["gpu-b1", 4, 0, -0.25], ["gpu-a1", 8, 0, -1000.203], ["gpu-a2", 8, 0, -1000.203]],
        "of": 3,
        "decided": "score",
        "by": ["allocation", "GPU metrics are off"],
        "asked": {GPU: 1},
    }
    assert response == {
        "uid": "u-1",
        "allowed": True,
        "patchType": "JSONPatch",
        "patch": response["patch"],
        "auditAnnotations": {"decision": record},
    }
    assert server.recorder.told == [("mutate", "patched")]
    assert free(server.state, "gpu-b1") == 3, "the GPU is reserved"


IGNORED = [
    pytest.param(plain_pod(), {"operation": "UPDATE", "oldObject": plain_pod()}, id="an update"),
    pytest.param(pod(container(gpu=None)), {}, id="no GPU"),
    pytest.param(
        pod(container(gpu=None, limits={"nvidia.com/rdma-vf": 1})), {}, id="another device of the vendor is no GPU"
    ),
]


@pytest.mark.parametrize(("obj", "request_"), IGNORED)
def test_requests_for_other_objects_are_allowed_unchanged(obj: Any, request_: dict[str, Any]) -> None:
    server = Server()
    before = facts(server.state)
    assert server.mutate(obj, **request_) == {"uid": "u-1", "allowed": True}
    assert server.recorder.told == [("mutate", "ignored")]
    assert facts(server.state) == before


def test_pods_with_claims_get_the_variable_that_hides_other_gpus_and_nothing_else() -> None:
    server = Server()
    before = pod(container(gpu=None), resourceClaims=[{"name": "x", "resourceClaimName": "y"}])
    stored = after(server.mutate(before), before)
    record = orjson.loads(stored["metadata"]["annotations"].pop(DECISION))
    assert record["units"] == {
        "tolerations": ["covered"],
        "priorityClass": ["none"],
        "voidDevices": ["added", 1],
        "topologySpread": ["noOwner"],
        "nodeAffinity": ["none", "GPUs only through DRA"],
    }
    assert stored["spec"]["containers"][0].pop("env") == [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]
    assert stored["spec"] == before["spec"]


def test_pods_without_a_gpu_are_packed_if_the_policy_says_so() -> None:
    """They get no tolerations."""
    server = Server()
    server.state.node_seen(node("gpu-a1", labels={ZONE: "zone-a"}))  # a node without taints
    before = pod(container(gpu=None), labels={"app": "web"}, owned_by="ReplicaSet")
    stored = after(server.mutate(before, namespace="every"), before)
    record = orjson.loads(stored["metadata"]["annotations"].pop(DECISION))
    assert (record["strategy"], record["nodes"], record["units"]) == (
        "pack",
        [["gpu-a1", 0, 0, record["nodes"][0][3]]],
        {"topologySpread": ["neutral"], "nodeAffinity": ["preferred", 1]},
    )
    assert "tolerations" not in stored["spec"]
    assert server.state.nodes.columns.free["cpu"][0] == 88_000, "their demand is reserved"
    full = pod(container(gpu=None, limits={"cpu": "1000"}, requests={"cpu": "1000"}))
    assert after(server.mutate(full, namespace="every"), full)["spec"] == full["spec"], "no node fits"


def test_without_a_policy_every_answer_is_503() -> None:
    server = Server(policy=None)
    answer = (503, b"no policy is loaded yet: see the ConfigMap gpu-admission-policy")
    assert server.handlers.mutate(review(plain_pod())) == answer
    assert server.handlers.validate(review(plain_pod())) == answer
    assert server.recorder.told == []


@pytest.mark.parametrize("hook", ["mutate", "validate"])
@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(b"[]", "wanted an AdmissionReview, saw a list", id="no review"),
        pytest.param(review(None), "object: wanted a Pod, saw none", id="no pod"),
        pytest.param(review({"metadata": {}}), "spec: wanted a map, saw nothing", id="a pod without a spec"),
        pytest.param(
            review(pod({"name": "a", "resources": 5})),
            "spec.containers[0].resources: wanted a map, saw a number",
            id="a malformed pod",
        ),
        pytest.param(
            review(pod(container(), x=0)).replace(b'"x":0', b'"x":' + b"[" * 1010 + b"]" * 1010),
            None,
            id="a pod nested too deeply",
        ),
    ],
)  # fmt: skip
def test_a_malformed_review_is_a_bad_request(hook: str, body: bytes, message: str | None) -> None:
    server = Server()
    status, answer = getattr(server.handlers, hook)(body)
    if message is None or (hook == "validate" and "deeply" in message):
        assert status == 200, "no rule reads that deep"
        return
    assert (status, answer.decode()) == (400, message)
    assert server.recorder.told == [(hook, answer.decode())]


class _Broken:
    """A method of a unit that fails."""

    def __call__(self, *_: Any) -> Any:
        raise ZeroDivisionError("recursion")


def test_a_template_that_is_nested_too_deeply_is_a_bad_request() -> None:
    kind = {"group": "apps", "version": "v1", "kind": "Deployment"}
    template = {"metadata": {}, "spec": pod()["spec"] | {"x": 0}}
    obj = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {}, "spec": {"template": template}}
    resource = {"group": "apps", "version": "v1", "resource": "deployments"}
    body = review(obj, kind=kind, resource=resource).replace(b'"x":0', b'"x":' + b"[" * 500 + b"]" * 500)
    answer = Server().handlers.validate(body)
    assert answer == (400, b"request.object: nested too deeply: wanted what a Kubernetes type can hold")


def test_a_bug_is_not_reported_as_a_bad_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server answers 500, and the failure policy decides. The pod is never allowed by accident."""
    monkeypatch.setattr(Tolerations, "inject", _Broken())
    monkeypatch.setattr(GpuLimit, "check", _Broken())
    server = Server()
    with pytest.raises(ZeroDivisionError):
        server.handlers.mutate(review(plain_pod()))
    with pytest.raises(ZeroDivisionError):
        server.handlers.validate(review(pod()))
    assert server.recorder.told == []


# --- refusals ---------------------------------------------------------------------------------------------------------

CONFLICT = {"name": "main", "image": "a", "resources": {"limits": {GPU: "2"}, "requests": {GPU: "1"}}}


def test_a_conflict_between_limit_and_request_is_refused_by_mutate() -> None:
    server = Server()
    response = server.mutate(pod(CONFLICT, name=""))
    assert not response["allowed"]
    assert response["status"]["code"] == 403
    assert response["status"]["message"] == (
        'pod generateName "": spec.containers[0].resources.requests[nvidia.com/gpu]: '
        'saw a request of "1" beside a limit of "2" in container "main", wanted the same number in both. '
        "Keep only limits.nvidia.com/gpu, with the number of GPUs the container needs. "
        f"[gpuQuantity] (policy {POLICY.hash})"
    )
    assert server.recorder.told == [("mutate", "denied")]


def test_shadow_refuses_nothing_and_changes_nothing_but_records() -> None:
    server = Server()
    before = facts(server.state)
    for obj in (pod(CONFLICT), plain_pod()):
        response = server.mutate(obj, namespace="shadow")
        assert response["allowed"]
        assert "patch" not in response
    assert orjson.loads(response["auditAnnotations"]["decision"])["nodes"]
    assert server.validate(pod(container(gpu=64)), namespace="shadow")["allowed"]
    assert server.recorder.told == [("mutate", "shadow"), ("mutate", "shadow"), ("validate", "shadow")]
    assert facts(server.state) == before


def test_a_label_that_names_no_profile_is_warned_about() -> None:
    response = Server().mutate(plain_pod(), namespace="odd")
    told = 'namespace label gpu-admission.io/profile: the policy has no such profile; "default" is used'
    assert response["warnings"] == [told]
    assert orjson.loads(response["auditAnnotations"]["decision"])["profile"] == "default"


@pytest.mark.parametrize(("dry_run", "pods"), [(True, 0), (False, 3)])
def test_a_workload_is_known_as_a_gang_but_not_by_a_dry_run(dry_run: bool, pods: int) -> None:
    server = Server()
    spec = {"pytorchReplicaSpecs": {"Worker": {"replicas": 3, "template": {"spec": plain_pod()["spec"]}}}}
    obj = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "t"}, "spec": spec}
    kinds = {
        "kind": {"group": "kubeflow.org", "version": "v1", "kind": "PyTorchJob"},
        "resource": {"group": "kubeflow.org", "version": "v1", "resource": "pytorchjobs"},
    }
    assert server.validate(obj, **kinds, dryRun=dry_run)["allowed"]
    assert server.state.jobs.pods("", "default/PyTorchJob/t") == pods


def test_the_reservation_of_a_refused_pod_ends_when_it_expires() -> None:
    """The refusal does not end it, because a stranger could cause one."""
    server = Server()
    before = facts(server.state)
    obj = plain_pod(hostPID=True)
    stored = after(server.mutate(obj), obj)
    reserved = facts(server.state)
    assert reserved["free"] != before["free"]
    assert not server.validate(stored)["allowed"], "hostPID"
    assert facts(server.state) == reserved
    server.state.expire(NOW + server.state.ledger.unseen_ttl)
    assert facts(server.state)["free"] == before["free"]
