"""The answer to each review, from body to body, with a real cluster state."""

from typing import Any

import orjson
import pytest

from tests.builders import GPU
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from tests.served import NOW, POLICY, Server, after, plain_pod, review
from tests.state.objects import free, state
from tests.strategies import PREFERRED, ZONE
from webhook.injectors.tolerations import Tolerations
from webhook.kube.pod import DECISION
from webhook.placement.strategies import WEIGHTS
from webhook.policy.model import Policy
from webhook.rules.gpu_limit import GpuLimit
from webhook.server.http import Early

# --- the answer as a whole --------------------------------------------------------------------------------------------


def test_a_plain_gpu_pod_gets_all_that_it_lacks() -> None:
    server = Server()
    before = plain_pod(priority=0, preemptionPolicy="PreemptLowerPriority")
    response = server.mutate(before)
    stored = after(response, before)
    record = stored["metadata"].pop("annotations")[DECISION]
    terms = stored["spec"]["affinity"]["nodeAffinity"].pop(PREFERRED)
    assert stored == pod(
        requests={GPU: "1"},
        labels={"app": "web", "pod-template-hash": "5f6d"},
        owned_by="ReplicaSet",
        tolerations=[{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}],
        priorityClassName="gpu-service",
        priority=2,
        preemptionPolicy="PreemptLowerPriority",
        topologySpreadConstraints=[
            {
                "maxSkew": skew,
                "topologyKey": key,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"pod-template-hash": "5f6d"}},
            }
            for key, skew in (("kubernetes.io/hostname", 3), (ZONE, 5))
        ],
        affinity={"nodeAffinity": {}},
    )
    assert [t["preference"]["matchExpressions"][0]["values"] for t in terms] == [["gpu-b1"], ["gpu-a1"], ["gpu-a2"]]
    assert [t["weight"] for t in terms] == [*WEIGHTS[:3]]
    found = orjson.loads(record)
    assert len(found.pop("read")) == 12
    assert found == {
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
        "nodes": [["gpu-b1", 4, 0, -0.281], ["gpu-a1", 8, 0, -1000.234], ["gpu-a2", 8, 0, -1000.234]],
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


def test_pods_without_a_gpu_are_packed_if_the_policy_says_so() -> None:
    """They get no tolerations."""
    server = Server()
    server.state.node_seen(node("gpu-a1", labels={ZONE: "zone-a"}))  # a node without taints
    before = pod(gpus=0, requests={"cpu": "8"}, labels={"app": "web"}, owned_by="ReplicaSet")
    stored = after(server.mutate(before, namespace="every"), before)
    record = orjson.loads(stored["metadata"]["annotations"].pop(DECISION))
    assert (record["strategy"], record["nodes"], record["units"]) == (
        "pack",
        [["gpu-a1", 0, 0, record["nodes"][0][3]]],
        {"nodeAffinity": ["preferred", 1]},
    )
    assert "tolerations" not in stored["spec"]
    assert server.state.nodes.columns.free["cpu"][0] == 120_000, "their requests are reserved"
    full = pod(gpus=0, limits={"cpu": "1000"}, requests={"cpu": "1000"})
    assert after(server.mutate(full, namespace="every"), full)["spec"] == full["spec"], "no node fits"


def test_without_a_policy_every_answer_is_503() -> None:
    server = Server(policy=None)
    answer = (503, b"no policy is loaded yet: see the ConfigMap gpu-admission-policy")
    assert [hook(review(plain_pod())) for hook in (server.handlers.mutate, server.handlers.validate)] == [answer] * 2
    assert server.recorder.told == []


DEEP = b'"x":' + b"[" * 500 + b"]" * 500
APPS = {"group": "apps", "version": "v1"}
TEMPLATE = {"metadata": {}, "spec": pod()["spec"] | {"x": 0}}
DEPLOYMENT = review(
    {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {}, "spec": {"template": TEMPLATE}},
    kind=APPS | {"kind": "Deployment"},
    resource=APPS | {"resource": "deployments"},
)
MALFORMED = [
    pytest.param(b"[]", "wanted an AdmissionReview, saw a list", id="no review"),
    pytest.param(review(None), "object: wanted a Pod, saw none", id="no pod"),
    pytest.param(review({"metadata": {}}), "spec: wanted a map, saw nothing", id="a pod without a spec"),
    pytest.param(
        review(pod(containers=[{"name": "a", "resources": 5}])),
        "spec.containers[0].resources: wanted a map, saw a number",
        id="a malformed pod",
    ),
]


@pytest.mark.parametrize("hook", ["mutate", "validate"])
@pytest.mark.parametrize(("body", "message"), MALFORMED)
def test_a_malformed_review_is_a_bad_request(hook: str, body: bytes, message: str) -> None:
    server = Server()
    assert getattr(server.handlers, hook)(body) == (400, message.encode())
    assert server.recorder.told == [(hook, message)]


def test_what_is_nested_too_deeply_is_a_bad_request_where_it_is_compared() -> None:
    """No rule reads that deep in a pod."""
    handlers, too_deep = Server().handlers, b"request.object: nested too deeply: wanted what a Kubernetes type can hold"
    assert handlers.validate(DEPLOYMENT.replace(b'"x":0', DEEP)) == (400, too_deep)
    assert handlers.validate(review(pod(x=0)).replace(b'"x":0', DEEP))[0] == 200


def _broken(*_: Any) -> Any:
    raise ZeroDivisionError("recursion")


def test_a_bug_is_not_reported_as_a_bad_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server answers 500, and the failure policy decides. The pod is never allowed by accident."""
    monkeypatch.setattr(Tolerations, "inject", _broken)
    monkeypatch.setattr(GpuLimit, "check", _broken)
    server = Server(policy=Policy.load("{}"))
    for hook in (server.handlers.mutate, server.handlers.validate):
        with pytest.raises(ZeroDivisionError):
            hook(review(plain_pod()))
    assert server.recorder.told == []


# --- a pod that comes before its Job is known -------------------------------------------------------------------------


def job(uid: str = "u-1") -> dict[str, Any]:
    """A Job of two pods of a whole node each."""
    metadata = {"name": "train", "namespace": "default", "uid": uid}
    return {"metadata": metadata, "spec": {"parallelism": 2}}


def test_a_pod_that_comes_before_its_job_is_early_and_then_goes_where_all_of_the_job_have_room() -> None:
    server = Server(
        state([node("a1", labels={ZONE: "a"}), *[node(b, labels={ZONE: "b"}) for b in ("b1", "b2")]], now=NOW)
    )
    server.state.replace("jobs", [job("another of this name")], NOW)
    before = pod("train", 8, owned_by="Job")
    with pytest.raises(Early) as early:
        server.mutate(before)
    assert not early.value.known()
    server.state.seen("jobs", job(), NOW)
    assert early.value.known()
    stored = after(server.answered(*early.value.answer()), before)
    assert orjson.loads(stored["metadata"]["annotations"][DECISION])["nodes"][0][0] in ("b1", "b2")
    assert server.recorder.told == [("mutate", "patched")]


@pytest.mark.parametrize(
    ("jobs", "owned_by", "metadata"),
    [
        pytest.param([job()], "Job", {}, id="its Job is known"),
        pytest.param([], "ReplicaSet", {}, id="of something else"),
        pytest.param(None, "Job", {}, id="Jobs are not watched"),
        pytest.param([], "Job", {"ownerReferences": [5]}, id="malformed"),
    ],
)
def test_other_pods_are_not_early(jobs: Any, owned_by: str, metadata: dict[str, Any]) -> None:
    server = Server()
    if jobs is not None:
        server.state.replace("jobs", jobs, NOW)
    new = pod("train", 8, owned_by=owned_by)
    server.handlers.mutate(review(new | {"metadata": new["metadata"] | metadata}))
    server.handlers.validate(review(new))
