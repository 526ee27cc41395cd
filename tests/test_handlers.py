"""From bytes to bytes, with a real state behind: what is answered, and what must always hold (design: invariants)."""

from __future__ import annotations

import copy
import re
from base64 import b64decode
from collections.abc import Iterator
from typing import Any

import jsonpatch
import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.builders import GPU, container, pod
from tests.cluster.objects import facts, free, node, state
from tests.placement.oracle import matches
from tests.strategies import PREFERRED, REQUIRED, ZONE, pods
from webhook import admission
from webhook.admission import Decision
from webhook.cluster.state import ClusterState
from webhook.errors import BadReview
from webhook.handlers import Handlers
from webhook.injectors.tolerations import Tolerations
from webhook.placement.strategies import WEIGHTS
from webhook.pod import DECISION, Pod
from webhook.policy import Policy
from webhook.review import Request
from webhook.rules.gpu_limit import GpuLimit

POLICY = Policy.load("""
profiles:
  default: {}
  pinned: {injectors: {nodeAffinity: {mode: required}}}
  apart: {injectors: {topologySpread: {mode: antiAffinity}}, placement: {strategies: {}, otherwise: spread}}
  void: {injectors: {voidDevices: {everyPod: true}}}
  shadow: {shadow: true}
""")
PROFILES = ("default", "pinned", "apart", "void")
GPU_TAINT = {"key": GPU, "value": "present", "effect": "NoSchedule"}
NODES = [
    node("gpu-a1", labels={ZONE: "zone-a"}, taints=[GPU_TAINT]),
    node("gpu-a2", labels={ZONE: "zone-a"}, taints=[GPU_TAINT]),
    node("gpu-b1", 4, labels={ZONE: "zone-b"}, taints=[GPU_TAINT], **{"nvidia.com/mig-1g.10gb": "7"}),
]
NOW = 100.0


def cluster() -> ClusterState:
    """Three nodes with GPUs, the priority classes of the policy, and a namespace for each profile."""
    made = state(NODES, now=NOW)
    for name, value in (("gpu-inference", 3), ("gpu-training", 2), ("gpu-development", 1), ("everyday", 0)):
        made.priority_class_seen({"metadata": {"name": name}, "value": value, "globalDefault": name == "everyday"})
    made.namespace_seen({"metadata": {"name": "plain"}})
    made.namespace_seen({"metadata": {"name": "odd", "labels": {admission.PROFILE_LABEL: "no such"}}})
    for profile in (*PROFILES, "shadow"):
        made.namespace_seen({"metadata": {"name": profile, "labels": {admission.PROFILE_LABEL: profile}}})
    return made


class Recorder:
    """What was told, in order."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []

    def decided(self, hook: str, request: Request, decision: Decision, seconds: float) -> None:
        assert seconds >= 0
        self.told.append((hook, decision.result))

    def bad_review(self, hook: str, error: BadReview) -> None:
        self.told.append((hook, str(error)))


class Server:
    """The handlers with a state of their own."""

    def __init__(self, made: ClusterState | None = None, policy: Policy | None = POLICY) -> None:
        self.state = cluster() if made is None else made
        self.current = policy
        self.recorder = Recorder()
        self.handlers = Handlers(self, self.state, self.recorder, lambda: NOW)

    def mutate(self, obj: Any, **request: Any) -> dict[str, Any]:
        return self._answered(*self.handlers.mutate(review(obj, **request)))

    def validate(self, obj: Any, **request: Any) -> dict[str, Any]:
        return self._answered(*self.handlers.validate(review(obj, **request)))

    @staticmethod
    def _answered(status: int, answer: bytes) -> dict[str, Any]:
        assert status == 200, answer
        response: dict[str, Any] = orjson.loads(answer)["response"]
        return response


def review(obj: Any, namespace: str = "default", **request: Any) -> bytes:
    asked = {
        "uid": "u-1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": namespace,
        "operation": "CREATE",
        "userInfo": {"username": "jane"},
        "object": obj,
    } | request
    return orjson.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked})


def patch_of(response: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = orjson.loads(b64decode(response.get("patch", "W10=")))
    return found


def after(response: dict[str, Any], before: Pod) -> Pod:
    """The pod as the API server would store it."""
    stored: Pod = jsonpatch.apply_patch(before, patch_of(response))
    return stored


def plain_pod(**tweaks: Any) -> Pod:
    """A pod that asks for a GPU and for nothing else."""
    main = {"name": "main", "image": "vllm", "resources": {"limits": {GPU: 1}}}
    return pod(main, **{"labels": {"app": "web"}, "owned_by": "ReplicaSet", **tweaks})


# --- the answer as a whole --------------------------------------------------------------------------------------------


def test_a_plain_gpu_pod_is_completed() -> None:
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
        priorityClassName="gpu-inference",
        priority=3,
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
    assert [t["preference"]["matchFields"][0]["values"] for t in terms] == [["gpu-a1"], ["gpu-a2"], ["gpu-b1"]]
    assert [t["weight"] for t in terms] == [*WEIGHTS[:3]]
    assert orjson.loads(record) == {
        "policy": POLICY.hash,
        "profile": "default",
        "class": "inference",
        "units": {
            "gpuResources": ["filled", 1],
            "tolerations": ["added", [GPU]],
            "priorityClass": ["set", "gpu-inference"],
            "voidDevices": ["none"],
            "topologySpread": ["added", ["kubernetes.io/hostname", ZONE]],
            "nodeAffinity": ["preferred", 3],
        },
        "strategy": "spread",
        "nodes": [["gpu-a1", 8, 0, 8.0], ["gpu-a2", 8, 0, 8.0], ["gpu-b1", 4, 0, 4.0]],
        "of": 3,
    }
    assert response == {
        "uid": "u-1",
        "allowed": True,
        "patchType": "JSONPatch",
        "patch": response["patch"],
        "auditAnnotations": {"decision": record},
    }
    assert server.recorder.told == [("mutate", "patched")]
    assert free(server.state, "gpu-a1") == 7, "the GPU is promised"


NOT_OURS = [
    pytest.param(plain_pod(), {"operation": "UPDATE", "oldObject": plain_pod()}, id="an update"),
    pytest.param(None, {"operation": "DELETE", "oldObject": plain_pod()}, id="a deletion"),
    pytest.param(plain_pod(), {"subResource": "binding"}, id="a subresource"),
    pytest.param(plain_pod(), {"resource": {"group": "", "resource": "services"}}, id="another kind"),
    pytest.param(plain_pod(), {"namespace": "plain"}, id="a namespace that has not opted in"),
    pytest.param(pod(container(gpu=None)), {}, id="no GPU"),
    pytest.param(
        pod(container(gpu=None), resourceClaims=[{"name": "x", "resourceClaimName": "y"}]), {}, id="GPUs through claims"
    ),
    pytest.param(pod(container(gpu=0)), {}, id="0 GPUs: no help onto GPU nodes"),
    pytest.param(pod(container(gpu=None, limits={"nvidia.com/gpumem": 4000})), {}, id="GPU memory is no GPU"),
]


@pytest.mark.parametrize(("obj", "request_"), NOT_OURS)
def test_what_is_not_ours_is_let_through_untouched(obj: Any, request_: dict[str, Any]) -> None:
    server = Server()
    before = facts(server.state)
    assert server.mutate(obj, **request_) == {"uid": "u-1", "allowed": True}
    assert server.recorder.told == [("mutate", "ignored")]
    assert facts(server.state) == before


def test_without_a_policy_nothing_is_answered() -> None:
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
            id="a misshapen pod",
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
    if hook == "validate" and message is None:
        assert status == 200, "nothing looks that deep"
        return
    assert status == 400
    assert answer.decode() == message or message is None
    assert server.recorder.told == [(hook, answer.decode())]


class _Broken:
    """Any unit's method, broken."""

    def __call__(self, *_: Any) -> Any:
        raise ZeroDivisionError


def test_a_bug_of_ours_is_not_taken_for_a_bad_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server makes a 500 of it, and the failure policy decides: never allowed by accident."""
    monkeypatch.setattr(Tolerations, "inject", _Broken())
    monkeypatch.setattr(GpuLimit, "check", _Broken())
    server = Server()
    with pytest.raises(ZeroDivisionError):
        server.handlers.mutate(review(plain_pod()))
    with pytest.raises(ZeroDivisionError):
        server.handlers.validate(review(pod()))
    assert server.recorder.told == []


def test_a_patch_that_would_not_hold_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A patch that does not apply is a 500 for the user even under failurePolicy Ignore."""

    def not_recorded(_: Tolerations, edit: Any, __: Any) -> Any:
        edit.object["spec"]["tolerations"] = []
        return admission.Outcome("added")

    monkeypatch.setattr(Tolerations, "inject", not_recorded)
    server = Server()
    before = facts(server.state)
    response = server.mutate(plain_pod())
    assert response["allowed"]
    assert "patch" not in response
    assert response["warnings"] == ["gpu-admission: internal error, the pod was left as it was: please report this"]
    assert server.recorder.told == [("mutate", "gated")]
    assert facts(server.state) == before, "nothing is promised to a pod without its affinity"


# --- refusals ---------------------------------------------------------------------------------------------------------

CONFLICT = {"name": "main", "image": "a", "resources": {"limits": {GPU: "2"}, "requests": {GPU: "1"}}}


def test_a_conflict_is_refused_before_the_api_server_refuses_it() -> None:
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


def test_shadow_refuses_and_changes_nothing_but_records() -> None:
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


@pytest.mark.parametrize(
    ("namespace", "warned"),
    [
        pytest.param("default", None, id="a profile that there is"),
        pytest.param("nobody knows", None, id="a namespace that the watch has not seen: it must have opted in"),
        pytest.param(
            "odd",
            'namespace label gpu-admission.io/profile: the policy has no such profile; "default" is used',
            id="a profile that there is not",
        ),
    ],
)
def test_a_namespace_names_its_profile(namespace: str, warned: str | None) -> None:
    server = Server()
    response = server.mutate(plain_pod(), namespace=namespace)
    assert response.get("warnings") == ([warned] if warned else None)
    assert orjson.loads(response["auditAnnotations"]["decision"])["profile"] == "default"


def test_an_empty_label_is_an_opt_in_to_default() -> None:
    server = Server()
    server.state.namespace_seen({"metadata": {"name": "e", "labels": {admission.PROFILE_LABEL: ""}}})
    assert "warnings" not in server.mutate(plain_pod(), namespace="e")


def test_a_refused_pod_gives_its_promise_back() -> None:
    server = Server()
    before = facts(server.state)
    obj = plain_pod(hostPID=True)
    stored = after(server.mutate(obj), obj)
    assert facts(server.state)["free"] != before["free"]
    response = server.validate(stored)
    assert not response["allowed"], "hostPID"
    assert facts(server.state)["free"] == before["free"]


# --- what must always hold --------------------------------------------------------------------------------------------

OWN = re.compile(
    r"/metadata/annotations(/gpu-admission\.io~1decision)?"
    r"|/spec/(containers|initContainers)/\d+/resources/(limits|requests)(/[^/]+)?"
    r"|/spec/(containers|initContainers)/\d+/env(/-)?"
    r"|/spec/tolerations(/-)?"
    r"|/spec/(priorityClassName|priority|preemptionPolicy)"
    r"|/spec/topologySpreadConstraints(/-)?"
    r"|/spec/affinity|/spec/affinity/podAntiAffinity|/spec/affinity/nodeAffinity"
    rf"|/spec/affinity/podAntiAffinity/{PREFERRED}(/-)?"
    rf"|/spec/affinity/nodeAffinity/{PREFERRED}(/-)?"
    rf"|/spec/affinity/nodeAffinity/{REQUIRED}(/nodeSelectorTerms/\d+/matchFields(/-)?)?"
)
EVERYWHERE = [*NODES, node("gone", labels={ZONE: "zone-b"}), node("elsewhere", None, labels={"missing": "2"})]
NAMESPACES = st.sampled_from(PROFILES)


def allowed_nodes(obj: Pod) -> set[str]:
    """The nodes that the pod's selector and required affinity leave it."""
    spec = obj["spec"]
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED)
    terms = None if required is None else required.get("nodeSelectorTerms") or []
    selector = (spec.get("nodeSelector") or {}).items()
    return {
        n["metadata"]["name"]
        for n in EVERYWHERE
        if all(n["metadata"]["labels"].get(k) == v for k, v in selector)
        and (terms is None or any(matches(n, term) for term in terms))
    }


def strings(value: Any) -> Iterator[str]:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if isinstance(value, str):
        yield value
    for item in items:
        yield from strings(item)


@given(pods(), NAMESPACES)
@example(plain_pod(), "pinned")
def test_invariants_of_mutation(before: Pod, namespace: str) -> None:
    server, sent = Server(), copy.deepcopy(before)
    first = server.mutate(before, namespace=namespace)
    assert before == sent
    assert all(line.isprintable() and len(line) <= 120 for line in first.get("warnings", ()))
    if not first["allowed"]:
        assert first["status"]["message"].replace("\n", "").isprintable()
        assert "patch" not in first
        return
    operations = patch_of(first)
    assert [o["path"] for o in operations if not OWN.fullmatch(o["path"])] == [], "only our own paths"
    stored = after(first, before)
    assert allowed_nodes(stored) <= allowed_nodes(before), "placement is never widened"
    if operations:
        assert 0 < len(stored["metadata"]["annotations"][DECISION]) <= 2048

    promised = facts(server.state)["free"]
    second = server.mutate(stored, namespace=namespace, uid="u-2")
    assert second["allowed"]
    assert patch_of(second) == [], "twice is once"
    assert facts(server.state)["free"] == promised, "nothing is promised twice"

    assert Server().mutate(before, namespace=namespace) == first, "the same input, the same answer"


@given(pods(), NAMESPACES)
def test_a_dry_run_leaves_no_trace(before: Pod, namespace: str) -> None:
    server = Server()
    untouched = facts(server.state)
    first = server.mutate(before, namespace=namespace, dryRun=True)
    assert facts(server.state) == untouched
    assert list(server.state.ledger.holders()) == []
    assert server.mutate(before, namespace=namespace, dryRun=True) == first
    assert server.mutate(before, namespace=namespace) == first, "and says what would be"


@given(pods(), NAMESPACES)
def test_a_pod_that_one_node_could_take_is_still_welcome_there(before: Pod, namespace: str) -> None:
    """By default nothing is required that was not: neither a node, nor a domain, nor a runtime."""
    if namespace == "pinned":
        return
    stored = after(Server().mutate(before, namespace=namespace), before)
    assert allowed_nodes(stored) == allowed_nodes(before)
    old, new = (
        [c for c in o["spec"].get("topologySpreadConstraints") or () if c["whenUnsatisfiable"] == "DoNotSchedule"]
        for o in (before, stored)
    )
    assert old == new


@given(pods(), NAMESPACES)
def test_any_pod_is_judged(obj: Pod, namespace: str) -> None:
    server = Server()
    response = server.validate(obj, namespace=namespace)
    assert set(response) <= {"uid", "allowed", "status", "warnings", "auditAnnotations"}
    assert server.validate(obj, namespace=namespace) == response
    unchanged = server.validate(obj, namespace=namespace, operation="UPDATE", oldObject=obj)
    assert unchanged == {"uid": "u-1", "allowed": True}, "an update that changes nothing of ours passes"


RULES = dict(POLICY.rules("default"))


def refusing(response: dict[str, Any]) -> set[str]:
    """The rules that refuse."""
    return set(re.findall(r"\[(\w+)\]", response.get("status", {}).get("message", ""))) & set(RULES)


@given(pods(), NAMESPACES)
def test_a_pod_that_we_made_is_not_refused_for_what_we_made_of_it(obj: Pod, namespace: str) -> None:
    server = Server()
    first = server.mutate(obj, namespace=namespace)
    if not first["allowed"]:
        return
    as_it_was, as_it_is = (server.validate(o, namespace=namespace) for o in (obj, after(first, obj)))
    # gpuFits looks at nodes: once the taints are tolerated, whatever else keeps the pod away comes to light.
    assert refusing(as_it_was) or refusing(as_it_is) <= {"gpuFits"}


# --- attacks ----------------------------------------------------------------------------------------------------------


def paths(value: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*here, key)
        yield from paths(item, (*here, key))


WRONG = st.sampled_from([None, True, 0, -1, 1.5, 2**63, "", "x", [], {}, [None], [[]], {"a": None}, [{}], ["x"]])


@given(pods(), NAMESPACES, WRONG, st.randoms(use_true_random=False), st.sampled_from(["mutate", "validate"]))
def test_a_wrong_value_anywhere_is_an_answer_or_a_bad_request(
    obj: Pod, namespace: str, wrong: Any, random: Any, hook: str
) -> None:
    damaged: Any = copy.deepcopy(obj)
    *parents, last = random.choice(list(paths(damaged)))
    here = damaged
    for part in parents:
        here = here[part]
    here[last] = wrong
    status, _ = getattr(Server().handlers, hook)(review(damaged, namespace=namespace))
    assert status in (200, 400)


def _large(count: int) -> Pod:
    many = [container(f"c{i}", gpu=1 if i % 2 else None) for i in range(count)]
    return pod(*many, labels={f"l{i}": "v" for i in range(count)}, annotations={f"a{i}": "v" for i in range(count)})


def test_twenty_thousand_containers_are_answered() -> None:
    """The largest object that the API server takes has about as many."""
    server, huge = Server(), _large(20_000)
    response = server.mutate(huge)
    assert response["allowed"] is False or after(response, huge)
    refusal = server.validate(huge)
    assert not refusal["allowed"]
    assert len(refusal["status"]["message"]) < 20_000


def _of_many_names(prefix: str) -> Pod:
    names = {f"{prefix}{i}": 1 for i in range(60_000)}
    return pod({"name": "main", "image": "app", "resources": {"limits": {GPU: 1, **names}}})


def test_sixty_thousand_resource_names_are_answered() -> None:
    """Each would be looked at on every node, while all other reviews wait."""
    server = Server()
    assert server.mutate(_of_many_names("nvidia.com/mig-")) == {"uid": "u-1", "allowed": True}
    huge = _of_many_names("tenant.example/")
    response = server.mutate(huge)
    assert orjson.loads(response["auditAnnotations"]["decision"])["why"] == "too many resources are asked for"
    after(response, huge)
    for obj in (huge, _of_many_names("nvidia.com/mig-")):
        assert not server.validate(obj)["allowed"]


@pytest.mark.parametrize(
    "tweak",
    [
        pytest.param({"annotations": {DECISION: "x" * 1_000_000}}, id="a huge record"),
        pytest.param(
            {"annotations": {DECISION: '{"nodes":[["gpu-a1",1e300,0,0]]}'}}, id="a record that cannot be encoded"
        ),
        pytest.param({"annotations": {DECISION: '{"nodes":' + "[" * 900 + "]" * 900 + "}"}}, id="a deep record"),
        pytest.param({"name": "a\nb\x1b[31m" * 1000}, id="a name that forges lines"),
        pytest.param({"priorityClassName": "x" * 100_000}, id="a huge priority class"),
        pytest.param({"labels": {"workload-type": "\n" * 1000}}, id="a class that is no word"),
        pytest.param({"namespace": "ns\n"}, id="another namespace inside"),
        pytest.param({"owned_by": "x\n" * 1000}, id="an owner of a strange kind"),
    ],
)
def test_what_a_tenant_writes_is_bounded_and_escaped(tweak: dict[str, Any]) -> None:
    affinity = {"nodeAffinity": {PREFERRED: [{"weight": 1, "preference": {"matchFields": [
        {"key": "metadata.name", "operator": "In", "values": ["gpu-a1"]}]}}]}}  # fmt: skip
    before = plain_pod(**tweak, affinity=affinity)
    for hook in ("mutate", "validate"):
        response = getattr(Server(), hook)(before)
        told = [*response.get("warnings", ()), *response.get("auditAnnotations", {}).values()]
        assert all(line.isprintable() and len(line) <= 2048 for line in told)
        message = response.get("status", {}).get("message", "")
        assert message.replace("\n- ", "").replace("\n", "", 1).isprintable()
        assert len(message) < 20_000


@pytest.mark.parametrize(
    "name",
    [
        "nvidia.com/mig-a~b",
        "nvidia.com/mig-a/b",
        "nvidia.com/mig-~1~0",
        'nvidia.com/mig-"\n',
        "nvidia.com/mig-" + "x" * 5000,
    ],
    ids=["a tilde", "a slash", "what looks escaped", "a quote and a line", "five thousand letters"],
)
def test_resource_names_of_any_form_are_patched_or_refused(name: str) -> None:
    before = pod({"name": "main", "image": "a", "resources": {"limits": {name: 1}}})
    response = Server().mutate(before)
    if response["allowed"]:
        stored = after(response, before)
        assert stored["spec"]["containers"][0]["resources"] == {"limits": {name: 1}, "requests": {name: 1}}


@pytest.mark.parametrize(
    "quantity", ["9" * 64, "9" * 65, "1" + "0" * 5000, "1e99999999999", "-1", "0.5", "x", "", 1e300]
)
def test_quantities_of_any_form_are_answered(quantity: Any) -> None:
    before = pod({"name": "main", "image": "a", "resources": {"limits": {GPU: quantity}}})
    server = Server()
    mutated, validated = server.mutate(before), server.validate(before)
    if mutated["allowed"]:
        after(mutated, before)
    assert not validated["allowed"]
    assert len(validated["status"]["message"]) < 2000


def test_a_forged_record_does_not_promise_a_gpu() -> None:
    server = Server()
    untouched = facts(server.state)["free"]
    affinity = {"nodeAffinity": {PREFERRED: [{"weight": 1, "preference": {"matchFields": [
        {"key": "metadata.name", "operator": "In", "values": ["gpu-a1"]}]}}]}}  # fmt: skip
    forged = plain_pod(annotations={DECISION: '{"nodes":[["gpu-a1",8,0,1]],"strategy":"evil"}'}, affinity=affinity)
    response = server.mutate(forged)
    assert facts(server.state)["free"] == untouched
    assert "evil" not in "".join(strings(response))
