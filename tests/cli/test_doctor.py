"""`gpu-admission doctor`: every check, without and with the problem that it looks for.

Covers cli.checks, cli.checks.certificate, cli.checks.configurations, cli.checks.guards, cli.checks.nodes,
cli.checks.policy_references, cli.checks.replicas, cli.checks.result.
"""

import copy
import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.cli.objects import CLUSTER, call, placed, write
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from tests.controlplane.programs import KUBERNETES
from tests.manifests.files import documents
from webhook.cli.checks import CHECKS
from webhook.cli.checks.replicas import TESTED
from webhook.cli.cluster.answers import QUESTIONS
from webhook.cli.cluster.snapshot import ENGINE
from webhook.cli.doctor import READ
from webhook.kube.kinds import KINDS
from webhook.kube.pod import DECISION
from webhook.policy.model import Policy
from webhook.telemetry.metrics import program_version
from webhook.tls import issue
from webhook.tls.issue import Pair, fingerprint, make_ca, make_leaf, service_names

MANIFESTS = Path(__file__).resolve().parents[2] / "manifests"
POLICY = (MANIFESTS / "policy.yaml").read_text()
HASH = Policy.load(POLICY).hash
PROFILE = "gpu-admission.io/profile"
NAMES = service_names("gpu-admission", "gpu-admission")
Json = dict[str, Any]
Objects = list[Json]
Spoil = Callable[[Objects], Any]


def ca(since: timedelta = timedelta()) -> Pair:
    return make_ca(datetime.now(UTC) - since)


def encoded(pair: Pair) -> str:
    return b64encode(pair.certificate).decode()


def shipped(*files: str) -> Objects:
    return [found for file in files for found in documents(MANIFESTS / file)]


def leaf_of(authority: Pair, since: timedelta = timedelta(), names: tuple[str, ...] = NAMES) -> Json:
    pem = make_leaf(authority, names, datetime.now(UTC) - since).certificate
    return {
        "kind": "ServingCertificate",
        "metadata": {"name": "gpu-admission-tls"},
        "status": {"certificate": pem.decode()},
    }


def replica(name: str, **labels: str) -> Json:
    made = placed(pod(name, 0, labels={"app.kubernetes.io/name": "gpu-admission"}), "cpu-a")
    made["metadata"] |= {"namespace": "gpu-admission"}
    return made


def replica_metrics(name: str, certificate: Json, policy: str = HASH, **changes: float | None) -> Json:
    """The metrics of a replica."""
    served = fingerprint(certificate["status"]["certificate"].encode())
    info = {
        "policy_info": {"hash": policy},
        "build_info": {"version": program_version()},
        "certificate_info": {"sha256": served},
    }
    numbers = {"cluster_fresh": 1.0, "policy_valid": 1.0, "gpu_metrics_age_seconds": None} | changes
    samples = [[f"gpu_admission_{key}", labels, 1.0] for key, labels in info.items()]
    samples += [[f"gpu_admission_{key}", {}, value] for key, value in numbers.items()]
    return {"kind": "ReplicaMetrics", "metadata": {"name": name}, "status": {"samples": samples}}


def counted(metric: str, value: float, **labels: str) -> list[Any]:
    return [f"apiserver_admission_webhook_{metric}", labels, value]


def healthy() -> Objects:
    """An installation and a cluster without problems."""
    installed = shipped(
        *("50-priority-classes.yaml", "70-guards.yaml", "71-running-pods.yaml"),
        *("80-mutating.yaml", "90-validating.yaml"),
    )
    found = [obj for obj in installed if obj["kind"] in READ]
    authority = ca()
    for configuration in (obj for obj in found if "webhooks" in obj):
        for hook in configuration["webhooks"]:
            hook["clientConfig"]["caBundle"] = encoded(authority)
    policy = {"policy.yaml": POLICY}
    labels = {"kubernetes.io/service-name": "gpu-admission"}
    ours = {"namespace": "gpu-admission"}
    decided = placed(pod("trainer", 2, labels={"workload-type": "training"}), "gpu-a")
    decided["metadata"]["annotations"] = {DECISION: json.dumps({"class": "training", "policy": HASH})}
    certificate = leaf_of(authority)
    return [
        *found,
        {"kind": "ConfigMap", "metadata": {"name": "gpu-admission-policy", **ours}, "data": policy},
        {
            "kind": "EndpointSlice",
            "metadata": {"name": "s", "labels": labels, **ours},
            "endpoints": [{"conditions": {"ready": True}}] * 2,
        },
        {"kind": "NetworkPolicy", "metadata": {"name": "gpu-admission", **ours}},
        {"kind": "Namespace", "metadata": {"name": "team", "labels": {PROFILE: "default"}}},
        node("gpu-a", taints=["nvidia.com/gpu=present:NoSchedule"]),
        decided,
        certificate,
        replica("one"),
        replica("two"),
        replica_metrics("one", certificate),
        replica_metrics("two", certificate),
        {"kind": "ApiServerVersion", "metadata": {"name": "v"}, "status": {"gitVersion": "v1.37.1"}},
        {
            "kind": "ApiServerMetrics",
            "metadata": {"name": "m"},
            "status": {"samples": [counted("request_total", 7, name="mutate.gpu-admission.io")]},
        },
    ]


def of(objects: Objects, kind: str, name: str | None = None) -> dict[str, Any]:
    return next(obj for obj in objects if obj["kind"] == kind and name in (None, obj["metadata"]["name"]))


def checked(folder: Path, objects: Objects, kinds: Iterable[str] = (*KINDS, *QUESTIONS)) -> list[dict[str, str]]:
    file = write(folder, *objects, kinds=kinds)
    found: list[dict[str, str]] = json.loads(call("doctor", "--cluster", file, "-o", "json").stdout)
    return found


def test_without_problems_every_check_is_ok(tmp_path: Path) -> None:
    result = call("doctor", "--cluster", write(tmp_path, *healthy(), kinds=[*KINDS, *QUESTIONS]))
    assert [line for line in result.stdout.splitlines() if not line.startswith("ok ")] == []
    assert result.exit_code == 0
    answered = "nothing is broken, and every call was answered (of 7 calls since the API server started)"
    assert result.stderr == f"the webhook: {answered}; {len(result.stdout.splitlines()) - 3} ok\nthe nodes: 3 ok\n"


def called_by_url(objects: Objects) -> None:
    for each in objects:
        for hook in each.get("webhooks") or ():
            hook["clientConfig"] = {"url": "https://elsewhere:8443/", "caBundle": hook["clientConfig"].get("caBundle")}
    objects[:] = [each for each in objects if each["kind"] not in ("ReplicaMetrics", "EndpointSlice")]


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        pytest.param(
            called_by_url,
            ["and every call was answered (of 7 calls since the API server started); ", "\nnot known, as it is called by URL: endpoints, replicas, policyLoaded\n"],
            id="called by URL",
        ),
        pytest.param(
            lambda o: of(o, "Node")["status"].update(conditions=[{"type": "Ready", "status": "False"}]),
            ["the webhook: nothing is broken, ", "\nthe nodes: 1 broken, 1 warn, "],
            id="a node is no part of the webhook",
        ),
        pytest.param(
            lambda o: o.remove(of(o, "MutatingWebhookConfiguration")), ["the webhook: 1 broken, "], id="something is broken",
        ),
    ],
)  # fmt: skip
def test_the_last_lines_say_whether_the_webhook_is_healthy(tmp_path: Path, spoil: Spoil, said: list[str]) -> None:
    objects = healthy()
    spoil(objects)
    result = call("doctor", "--cluster", write(tmp_path, *objects, kinds=[*KINDS, *QUESTIONS]))
    for each in said:
        assert each in result.stderr


def test_a_field_that_is_not_as_shipped_is_given_with_both_values(tmp_path: Path) -> None:
    objects = healthy()
    of(objects, "MutatingWebhookConfiguration")["webhooks"][0] |= {"timeoutSeconds": 30, "rules": []}
    (found,) = [each["text"] for each in checked(tmp_path, objects) if each["check"] == "webhooks"]
    assert found.endswith("rules, timeoutSeconds (30, shipped is 3) not as shipped")


def policy(text: str) -> Callable[[Objects], Any]:
    """Replaces the policy; both replicas have loaded it."""

    def spoil(objects: Objects) -> None:
        of(objects, "ConfigMap")["data"] = {"policy.yaml": text}
        for each in objects:
            if each["kind"] == "ReplicaMetrics":
                each["status"]["samples"][0][1]["hash"] = Policy.load(text).hash

    return spoil


def sample(objects: Objects, name: str, value: Any) -> None:
    """Replaces the value or the labels of one metric of the second replica."""
    (found,) = [s for s in of(objects, "ReplicaMetrics", "two")["status"]["samples"] if s[0] == f"gpu_admission_{name}"]
    found[1 if isinstance(value, dict) else 2] = value


def certified(authority: Pair, **others: Any) -> Callable[[Objects], Any]:
    """Replaces the certificate; both replicas serve it."""

    def spoil(objects: Objects) -> None:
        made = leaf_of(authority, **others)
        of(objects, "ServingCertificate")["status"] = made["status"]
        for name in ("one", "two"):
            of(objects, "ReplicaMetrics", name)["status"] = replica_metrics(name, made)["status"]

    return spoil


def trusted_but(**others: Any) -> Callable[[Objects], Any]:
    """Replaces the certificate and its authority, also in caBundle."""

    def spoil(objects: Objects) -> None:
        authority = ca(timedelta(days=100))
        _hooks(objects, "Mutating", caBundle=encoded(authority))
        _hooks(objects, "Validating", caBundle=encoded(authority))
        certified(authority, **others)(objects)

    return spoil


def calls(*found: list[Any]) -> Callable[[Objects], Any]:
    return lambda objects: of(objects, "ApiServerMetrics")["status"].update(samples=list(found))


def another_webhook(name: str) -> Json:
    rules = [{"resources": ["pods"], "operations": ["CREATE"]}]
    return {
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [{"name": "w", "rules": rules, "namespaceSelector": {}}],
    }


def mutating_policy(expression: str) -> Objects:
    spec = {"matchConstraints": {"resourceRules": [{"resources": ["pods"], "operations": ["CREATE"]}]}}
    spec["mutations"] = [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}]  # type: ignore[assignment]
    return [
        {"kind": "MutatingAdmissionPolicy", "metadata": {"name": "theirs"}, "spec": spec},
        {"kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": "theirs"}, "spec": {"policyName": "theirs"}},
    ]


EVERY_POD = "profiles: {default: {placement: {everyPod: true}}}"
TAINT = "profiles: {default: {injectors: {tolerations: {taints: [{key: example.com/gpus}]}}}}"
SPREAD = "profiles: {default: {injectors: {topologySpread: {constraints: [{key: example.com/rack, whenUnsatisfiable: %s}]}}}}"
LABEL = "profiles: {default: {placement: {preferences: [{weight: 9, nodes: [{key: nvidia.com/gpu.product, values: [NVIDIA-H100]}]}]}}}"
TEMPLATE = "profiles: {default: {templates: {custom: [{group: example.com, kind: Train, path: spec.template}]}}}"
DCGM = "gpuMetrics: {source: dcgm}"
PROMETHEUS = "gpuMetrics: {source: prometheus, url: 'http://p:9090'}"


CRITICAL = "class.gpu-admission.io/inference-critical"
ENTITLED = "classes: [{class: inference-critical, namespaces: [team]}]"
PREEMPTING = "profiles: {default: {injectors: {priorityClass: {classes: {training: high}}}}}"
STRICT = "profiles: {default: {rules: {priorityClass: {reserved: {gpu-inference: []}}}}}"


def both(*spoils: Callable[[Objects], Any]) -> Callable[[Objects], Any]:
    return lambda objects: [spoil(objects) for spoil in spoils]


FINE = [
    pytest.param("matchConditions", "with the component every-pod", lambda o: _hook(o, "Mutating")["matchConditions"].pop(), id="the component every-pod"),
    pytest.param("networkPolicy", "--client-ca", lambda o: (o.remove(of(o, "NetworkPolicy")), [_client_ca(o, name) for name in ("one", "two")]), id="client certificates"),
    pytest.param("otherWebhooks", "before us: a; after us: z, and we are asked again", lambda o: o.extend([another_webhook("a"), another_webhook("z")]), id="others before and after"),
    pytest.param("otherWebhooks", "before us: none", lambda o: (o.append(another_webhook("a")), o[-1]["webhooks"][0].update(namespaceSelector={"matchLabels": {"x": "y"}})), id="one for other namespaces"),
    pytest.param("mutatingPolicies", "others: theirs", lambda o: o.extend(mutating_policy("Object{metadata: …labels…}")), id="a policy that labels"),
    pytest.param("apiServer", "newer than 1.37", lambda o: of(o, "ApiServerVersion")["status"].update(gitVersion="v1.41.0"), id="a newer API server"),
    pytest.param("classes", "training", lambda o: (o.append({"kind": "Namespace", "metadata": {"name": "plain"}}), of(o, "Pod", "trainer")["metadata"].update(namespace="plain", labels={"workload-type": "trainig"})), id="a misspelt class where nobody looks"),
    pytest.param("gpuMetrics", "9 s old", both(policy(PROMETHEUS), lambda o: [each["status"]["samples"][-1].__setitem__(2, 9.0) for each in o if each["kind"] == "ReplicaMetrics"]), id="metrics that come"),
    pytest.param("preemption", "by gpu-inference: team; by gpu-inference-critical: none. Pods of a lower priority give way, in any namespace: gpu-inference-critical 200000, gpu-inference 100000, gpu-service 50000 (never preempts), gpu-training 10000 (never preempts), gpu-development 1000 (never preempts); without a class 0. Kubernetes lets namespaces that have not opted in use system-cluster-critical, before all of these", lambda o: o.append({"kind": "Namespace", "metadata": {"name": "plain"}}), id="who can preempt"),
    pytest.param("preemption", "by gpu-inference: team; by gpu-inference-critical: team", lambda o: of(o, "Namespace")["metadata"]["labels"].update({CRITICAL: ""}), id="an entitled namespace"),
    pytest.param("preemption", "by gpu-inference: none; by gpu-inference-critical: none", policy(STRICT), id="nobody can preempt"),
    pytest.param("policyLabels", "every label", policy(LABEL.replace("NVIDIA-H100", "NVIDIA-H100, NVIDIA-A100-SXM4-80GB")), id="one label of several"),
]  # fmt: skip


@pytest.mark.parametrize(("check", "text", "change"), FINE)
def test_a_change_that_is_no_problem(tmp_path: Path, check: str, text: str, change: Spoil) -> None:
    objects = copy.deepcopy(healthy())
    change(objects)
    found = [each for each in checked(tmp_path, objects) if each["check"] == check]
    assert [each["state"] for each in found] == ["ok"], found
    assert text in found[0]["text"]


CASES = [
    pytest.param("policy", "warn", lambda o: o.remove(of(o, "ConfigMap")), id="no policy"),
    pytest.param("policy", "broken", lambda o: of(o, "ConfigMap")["data"].update({"policy.yaml": "gpu: []"}), id="a bad policy"),
    pytest.param("webhooks", "broken", lambda o: o.remove(of(o, "MutatingWebhookConfiguration")), id="no configuration"),
    pytest.param("webhooks", "warn", lambda o: of(o, "ValidatingWebhookConfiguration")["webhooks"].pop(), id="a webhook less"),
    pytest.param("webhooks", "warn", lambda o: _hook(o, "Validating").update(timeoutSeconds=30), id="another timeout"),
    pytest.param("webhooks", "warn", lambda o: _hook(o, "Validating")["rules"][0].update(operations=["UPDATE"]), id="another rule"),
    pytest.param("webhooks", "warn", lambda o: _hook(o, "Validating").update(objectSelector={"matchLabels": {"a": "b"}}), id="an objectSelector"),
    pytest.param("webhooks", "warn", lambda o: _hook(o, "Validating")["namespaceSelector"]["matchExpressions"].pop(), id="another namespaceSelector"),
    pytest.param("failurePolicies", "warn", lambda o: _hook(o, "Validating").update(failurePolicy="Ignore"), id="another failure policy"),
    pytest.param("matchConditions", "warn", lambda o: _hook(o, "Validating")["matchConditions"].pop(), id="a condition less"),
    pytest.param("matchConditions", "warn", lambda o: _hook(o, "Mutating")["matchConditions"][0].update(expression="true"), id="a condition of an older version"),
    pytest.param("matchConditions", "warn", lambda o: _hook(o, "Validating")["matchConditions"].append({"name": "x", "expression": "false"}), id="a condition more"),
    pytest.param("matchConditions", "warn", policy(EVERY_POD), id="every pod wanted, and not asked about"),
    pytest.param("templates", "warn", policy(TEMPLATE), id="templates that nobody is asked about"),
    pytest.param("caBundle", "broken", lambda o: _hook(o, "Validating")["clientConfig"].pop("caBundle"), id="no caBundle"),
    pytest.param("caBundle", "broken", lambda o: _hooks(o, "Mutating", caBundle="AAAA"), id="a caBundle that is none"),
    pytest.param("caBundle", "broken", lambda o: [_hooks(o, kind, caBundle=encoded(ca(timedelta(days=9999)))) for kind in ("Mutating", "Validating")], id="an authority that ended"),
    pytest.param("caBundle", "warn", lambda o: [_hooks(o, kind, caBundle=encoded(ca(timedelta(days=362)))) for kind in ("Mutating", "Validating")], id="an authority that ends"),
    pytest.param("certificate", "broken", lambda o: _hooks(o, "Mutating", caBundle=encoded(ca())), id="another authority than the served one's"),
    pytest.param("certificate", "broken", lambda o: o.remove(of(o, "ServingCertificate")), id="no certificate"),
    pytest.param("certificate", "broken", lambda o: of(o, "ServingCertificate")["status"].update(certificate="junk"), id="a certificate that is none"),
    pytest.param("certificate", "broken", certified(ca()), id="a certificate of another authority"),
    pytest.param("certificate", "broken", trusted_but(since=timedelta(days=40)), id="a certificate that ended"),
    pytest.param("certificate", "warn", trusted_but(since=timedelta(days=27)), id="a certificate that ends"),
    pytest.param("certificate", "broken", trusted_but(names=("gpu.example",)), id="a certificate for another name"),
    pytest.param("certificate", "warn", lambda o: sample(o, "certificate_info", {"sha256": "00"}), id="a replica with another certificate"),
    pytest.param("endpoints", "broken", lambda o: of(o, "EndpointSlice").update(endpoints=[]), id="no replica"),
    pytest.param("endpoints", "warn", lambda o: of(o, "EndpointSlice")["endpoints"].pop(), id="one replica"),
    pytest.param("versions", "warn", lambda o: of(o, "Pod", "two")["spec"]["containers"][0].update(image="gpu-admission:9"), id="two images"),
    pytest.param("versions", "warn", lambda o: sample(o, "build_info", {"version": "9"}), id="a replica of another version"),
    pytest.param("replicas", "broken", lambda o: sample(o, "cluster_fresh", 0.0), id="a replica that hears nothing"),
    pytest.param("policyLoaded", "broken", lambda o: (sample(o, "policy_valid", 0.0), sample(o, "policy_info", {"hash": "old"})), id="a policy that a replica cannot use"),
    pytest.param("policyLoaded", "warn", lambda o: sample(o, "policy_info", {"hash": "old"}), id="a policy that a replica has not taken up"),
    pytest.param("gpuMetrics", "broken", policy(PROMETHEUS), id="no GPU metrics"),
    pytest.param("gpuMetrics", "broken", both(policy(PROMETHEUS), lambda o: sample(o, "gpu_metrics_age_seconds", 999.0)), id="old GPU metrics"),
    pytest.param("gpuMetrics", "broken", policy(DCGM), id="no exporter"),
    pytest.param("apiServer", "warn", lambda o: of(o, "ApiServerVersion")["status"].update(gitVersion="v1.33.9"), id="an old API server"),
    pytest.param("failOpen", "warn", calls(counted("fail_open_count", 3, name="mutate.gpu-admission.io")), id="calls that failed open"),
    pytest.param("failOpen", "warn", calls(counted("rejection_count", 3, name="v", error_type="calling_webhook_error")), id="calls that failed"),
    pytest.param("otherWebhooks", "warn", lambda o: (o.append(another_webhook("z")), _hook(o, "Mutating").update(reinvocationPolicy="Never")), id="one after us that we never see"),
    pytest.param("mutatingPolicies", "warn", lambda o: o.extend(mutating_policy("Object{spec: Object.spec{tolerations: …}}")), id="a policy that tolerates"),
    pytest.param("guards", "warn", lambda o: o.remove(of(o, "ValidatingAdmissionPolicyBinding")), id="no guard"),
    pytest.param("guards", "warn", lambda o: of(o, "ValidatingAdmissionPolicyBinding")["spec"].update(validationActions=["Audit"]), id="a guard that only looks"),
    pytest.param("guards", "warn", policy("profiles: {default: {rules: {deviceAnnotations: {action: warn}}}}"), id="a guard with settings that the policy does not have"),
    pytest.param("networkPolicy", "warn", lambda o: o.remove(of(o, "NetworkPolicy")), id="no network policy"),
    pytest.param("namespaces", "warn", lambda o: of(o, "Namespace")["metadata"]["labels"].update({PROFILE: "defalt"}), id="a misspelt profile"),
    pytest.param("namespaces", "warn", lambda o: of(o, "Namespace")["metadata"]["labels"].clear(), id="nobody opted in"),
    pytest.param("classes", "warn", lambda o: of(o, "Pod", "trainer")["metadata"]["labels"].update({"workload-type": "trainig"}), id="a misspelt class on a pod"),
    pytest.param("classes", "warn", policy("classes: [{class: a}, {class: training, ownerKinds: [Job]}]"), id="a class that another takes"),
    pytest.param("classes", "warn", policy("classes: [{class: a, namespaces: [teem]}, {class: b}]"), id="a class for no namespace"),
    pytest.param("priorityClasses", "broken", lambda o: o.remove(of(o, "PriorityClass")), id="a priority class that is not there"),
    pytest.param("priorityClasses", "warn", lambda o: of(o, "PriorityClass", "gpu-service").update(value=10000), id="a service no higher than training"),
    pytest.param("preemption", "warn", both(policy(PREEMPTING), lambda o: o.append({"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9})), id="a class that preempts and is not guarded"),
    pytest.param("preemption", "warn", policy(ENTITLED), id="a namespace that only the policy entitles"),
    pytest.param("policyTaints", "warn", policy(TAINT), id="a taint on no node"),
    pytest.param("policyLabels", "warn", policy(LABEL), id="a label on no node"),
    pytest.param("policyLabels", "warn", policy(SPREAD % "ScheduleAnyway"), id="a topology on no node"),
    pytest.param("policyLabels", "broken", policy(SPREAD % "DoNotSchedule"), id="a topology that pods wait for"),
    pytest.param("nodes", "warn", lambda o: o.append(node("gpu-b", resources={"nvidia.com/gpu": "0"})), id="a node that offers nothing"),
    pytest.param("nodes", "broken", lambda o: of(o, "Node")["status"]["conditions"][0].update(status="False"), id="no node that is well"),
    pytest.param("taints", "warn", lambda o: o.extend([node("gpu-b"), placed(pod("guest", 0), "gpu-b")]), id="a guest on GPU nodes"),
    pytest.param("timeSlicing", "warn", lambda o: o.append(node("gpu-b", 2, "Tesla-T4", replicas=4)), id="shares beside whole GPUs"),
    pytest.param("decisions", "warn", lambda o: of(o, "Pod", "trainer")["metadata"].pop("annotations"), id="a pod without a decision"),
]  # fmt: skip


@pytest.mark.parametrize(("check", "state", "spoil"), CASES)
def test_a_problem_is_reported_with_the_next_step(tmp_path: Path, check: str, state: str, spoil: Spoil) -> None:
    objects = copy.deepcopy(healthy())
    spoil(objects)
    result = call("doctor", "--cluster", write(tmp_path, *objects, kinds=(*KINDS, *QUESTIONS)), "-o", "json")
    found = [each for each in json.loads(result.stdout) if each["state"] != "ok"]
    assert (check, state) in [(each["check"], each["state"]) for each in found]
    assert all(each["next"] for each in found if each["check"] == check and each["state"] != "unknown")
    assert result.exit_code == int(any(each["state"] == "broken" for each in found))


def test_next_steps_are_those_of_the_release_in_its_namespace(tmp_path: Path) -> None:
    objects = json.loads(json.dumps(healthy()).replace('"namespace": "gpu-admission"', '"namespace": "gpu"'))
    objects = json.loads(json.dumps(objects).replace('["gpu-admission", "kube-system"]', '["gpu", "kube-system"]'))
    objects = [each for each in objects if each["kind"] != "ServingCertificate"]
    configuration = of(objects, "MutatingWebhookConfiguration")
    configuration["metadata"]["labels"] = dict.fromkeys(("app.kubernetes.io/part-of",), "gpu-admission") | {
        "app.kubernetes.io/managed-by": "Helm"
    }
    configuration["metadata"]["annotations"] = {"meta.helm.sh/release-name": "mine"}
    configuration["webhooks"][0]["timeoutSeconds"] = 30
    of(objects, "EndpointSlice")["endpoints"].pop()
    found = {each["check"]: each for each in checked(tmp_path, objects)}
    upgrade = "helm upgrade mine manifests/chart -n gpu --reset-then-reuse-values"
    assert found["webhooks"]["next"] == f"{upgrade}, if nobody meant it"
    assert found["endpoints"]["next"] == "kubectl -n gpu get pods; run two at least"
    assert found["certificate"]["next"] == "see certs/README.md, and kubectl -n gpu logs deployment/gpu-admission"
    assert {check for check, each in found.items() if each["state"] != "ok"} == {"webhooks", "endpoints", "certificate"}


def test_a_check_is_unknown_if_its_kind_may_not_be_read(tmp_path: Path) -> None:
    objects = [each for each in healthy() if each["kind"] != "NetworkPolicy"]
    file = tmp_path / "plain.json"
    file.write_text(json.dumps({"kind": "List", "items": objects}))
    found = {each["check"]: each for each in json.loads(call("doctor", "--cluster", file, "-o", "json").stdout)}
    assert found["networkPolicy"]["state"] == "unknown"
    assert found["networkPolicy"]["text"] == f"{file} has no networkpolicies"


def _unasked(objects: Objects) -> None:
    """Removes the metrics of the replicas."""
    objects[:] = [each for each in objects if each["kind"] != "ReplicaMetrics"]


UNKNOWN = [
    pytest.param("certificate", lambda o: o.remove(of(o, "ServingCertificate")), "has no serving certificate", id="no Secret"),
    pytest.param("endpoints", lambda o: [o.remove(each) for each in o[:] if each["kind"] in ("EndpointSlice", "MutatingWebhookConfiguration")] and o.append({"kind": "EndpointSlice", "metadata": {"name": "another"}}), "whether it is called is not known", id="no endpoints, and no right to see who calls"),
    pytest.param("failOpen", lambda o: o.remove(of(o, "ApiServerMetrics")), "has no metrics of the API server", id="no metrics of the API server"),
    pytest.param("apiServer", lambda o: o.remove(of(o, "ApiServerVersion")), "has no version of the API server", id="no version"),
    pytest.param("replicas", _unasked, "has no metrics of the replicas", id="no metrics of replicas"),
    pytest.param("policyLoaded", _unasked, "has no metrics of the replicas", id="the policy of nobody"),
]  # fmt: skip


@pytest.mark.parametrize(("check", "leave_out", "text"), UNKNOWN)
def test_an_unknown_result_has_the_reason(tmp_path: Path, check: str, leave_out: Spoil, text: str) -> None:
    objects = healthy()
    leave_out(objects)
    found = {each["check"]: each for each in checked(tmp_path, objects, [*ENGINE, *{o["kind"] for o in objects}])}
    assert found[check]["state"] == "unknown"
    assert text in found[check]["text"]


def test_an_anonymous_snapshot_has_the_same_results_but_for_what_it_leaves_out(tmp_path: Path) -> None:
    file, hidden = write(tmp_path, *healthy(), kinds=(*KINDS, *QUESTIONS)), tmp_path / "hidden.json"
    assert call("snapshot", "--anonymous", hidden, "--cluster", file).exit_code == 0
    found = json.loads(call("doctor", "--cluster", hidden, "-o", "json").stdout)
    states = {each["check"]: each["state"] for each in found if each["state"] != "ok"}
    assert states == {"policy": "unknown", "certificate": "unknown"}, found


def test_a_replica_that_does_not_answer_is_named(tmp_path: Path) -> None:
    objects = healthy()
    of(objects, "ReplicaMetrics", "two")["status"] = {"error": "504: no answer in time"}
    states = [(each["state"], each["text"]) for each in checked(tmp_path, objects) if each["check"] == "replicas"]
    assert states == [("unknown", "two gave no metrics through the API server: 504: no answer in time")]


def test_a_certificate_of_three_days_is_fine_on_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(issue, "LEAF_LIFE", timedelta(days=3))
    assert {each["state"] for each in checked(tmp_path, healthy())} == {"ok"}


def test_docs_and_readme_agree_with_the_checks() -> None:
    names = {"policy", *(check.name for check in CHECKS)}
    assert names == set(re.findall(r"^\| `(\w+)` \| ", section("doctor"), re.MULTILINE))
    oldest, newest = [f"{major}.{minor}" for major, minor in TESTED]
    assert f"| Kubernetes {newest} and {oldest} (" in (MANIFESTS.parent / "README.md").read_text()
    assert {oldest, newest} == set(KUBERNETES)


def section(title: str) -> str:
    """A section of docs/cli.md."""
    return (MANIFESTS.parent / "docs" / "cli.md").read_text().partition(f"### {title}\n")[2].partition("\n### ")[0]


def _client_ca(objects: Objects, name: str) -> None:
    of(objects, "Pod", name)["spec"]["containers"][0].update(name="gpu-admission", args=["serve", "--client-ca=/c"])


def _hook(objects: Objects, kind: str) -> dict[str, Any]:
    hook: dict[str, Any] = of(objects, f"{kind}WebhookConfiguration")["webhooks"][0]
    return hook


def _hooks(objects: Objects, kind: str, **change: str) -> None:
    for hook in of(objects, f"{kind}WebhookConfiguration")["webhooks"]:
        hook["clientConfig"].update(change)


def test_classes_are_not_compared_with_unknown_namespaces(tmp_path: Path) -> None:
    result = call("doctor", "--cluster", write(tmp_path, *CLUSTER, kinds=["Node", "Pod"]))
    assert "fits no pod" not in result.stdout
