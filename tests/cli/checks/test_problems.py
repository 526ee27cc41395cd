"""Each check of `gpu-admission doctor`, without and with the problem that it looks for.

Covers cli.checks, cli.checks.budgets, cli.checks.certificate, cli.checks.configurations, cli.checks.descheduler,
cli.checks.guards, cli.checks.guesses, cli.checks.nodes, cli.checks.policy_references, cli.checks.replicas, cli.checks.result.
"""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.checks.installation import (
    Objects,
    Spoil,
    another_webhook,
    both,
    ca,
    calls,
    certified,
    checked,
    client_ca,
    counted,
    encoded,
    healthy,
    hook,
    hooks,
    mutating_policy,
    of,
    pod_groups,
    policy,
    sample,
    trusted_but,
)
from tests.cli.objects import call, namespace, of_kind, placed, write
from tests.controlplane.nodes import node
from tests.controlplane.objects import made, pod
from tests.devices import dra
from tests.whatif.test_disruption import replica
from webhook.cli.cluster.answers import QUESTIONS
from webhook.export.matching import conditions_yaml
from webhook.kube.kinds import KINDS
from webhook.kube.pod import PREFERRED, PROFILE_LABEL
from webhook.policy.model import Policy
from webhook.whatif.cluster.snapshot import ENGINE

EVERY_POD = "profiles: {default: {placement: {everyPod: true}}}"
TAINT = "profiles: {default: {injectors: {tolerations: {taints: [{key: example.com/gpus}]}}}}"
SPREAD = "profiles: {default: {injectors: {topologySpread: {constraints: [{key: example.com/rack, whenUnsatisfiable: %s}]}}}}"
ZONES = SPREAD.replace("example.com/rack", "topology.kubernetes.io/zone")
LABEL = "profiles: {default: {placement: {preferences: [{weight: 9, nodes: [{key: nvidia.com/gpu.product, values: [NVIDIA-H100]}]}]}}}"
TEMPLATE = "profiles: {default: {templates: {custom: [{group: example.com, kind: Train, path: spec.template}]}}}"
DCGM = "gpuMetrics: {source: dcgm}"
PROMETHEUS = "gpuMetrics: {source: prometheus, url: 'http://p:9090'}"
CRITICAL = "class.gpu-admission.io/inference-critical"
ENTITLED = "classes: [{class: inference-critical, namespaces: [team]}]"
PREEMPTING = "profiles: {default: {injectors: {priorityClass: {classes: {training: high}}}}}"
STRICT = "profiles: {default: {rules: {priorityClass: {reserved: {gpu-inference: []}}}}}"

STRICTER = "profiles: {default: {rules: {priorityClass: {reserved: {night: []}}, hostDevices: {allowed: []}}}}"


def conditions_of(text: str) -> Spoil:
    """The webhooks for pods have the conditions that this policy needs."""

    def change(objects: Objects) -> None:
        (patch,) = yaml.safe_load_all(conditions_yaml(Policy.load(text)))
        named = {each["name"]: each for each in patch["webhooks"]}
        for each in of(objects, patch["kind"])["webhooks"]:
            each.update(named.get(each["name"], {}))

    return change


def quota(operator: str, *values: str) -> dict[str, Any]:
    """Of pods by their PriorityClass."""
    scope = {"scopeName": "PriorityClass", "operator": operator} | ({"values": [*values]} if values else {})
    found = made("ResourceQuota", "gpus", spec={"hard": {"pods": "4"}, "scopeSelector": {"matchExpressions": [scope]}})
    found["metadata"]["namespace"] = "team"
    return found


def exempting_ops(objects: Objects) -> None:
    """As `exemptNamespaces` of the chart does."""
    for webhook in [each for found in objects for each in found.get("webhooks", ())]:
        for expression in webhook["namespaceSelector"]["matchExpressions"]:
            if expression["operator"] == "NotIn":
                expression["values"].append("ops")


def withdrawn(name: str, gpus: str) -> dict[str, Any]:
    """A node without labels of GPUs, whose device plugin has gone: they are in its capacity alone."""
    found = node(name, 0)
    found["status"]["capacity"]["nvidia.com/gpu"], found["status"]["allocatable"]["nvidia.com/gpu"] = gpus, "0"
    return found


def in_zones(*zones: str) -> Spoil:
    """Nodes with GPUs in these zones, and nodes without in those after a minus. No other node has a zone."""

    def spoil(objects: Objects) -> None:
        for each in objects:
            if each["kind"] == "Node":
                each["metadata"]["labels"].pop("topology.kubernetes.io/zone", None)
        for zone in zones:
            name = zone.removeprefix("-")
            objects.append(node(f"in{zone}", 0 if name != zone else 8, zone=name))

    return spoil


def descheduling(text: str) -> Spoil:
    """A descheduler runs with this policy."""
    metadata = {"name": "descheduler", "namespace": "kube-system"}
    return lambda objects: objects.append({"kind": "DeschedulerPolicy", "metadata": metadata, "status": {"text": text}})


def evicting(point: str, plugin: str, of_all: Any = None, **arguments: Any) -> Spoil:
    """A descheduler runs with this plugin. `of_all`: the arguments of its DefaultEvictor."""
    configured = [{"name": "DefaultEvictor", "args": of_all or {}}, {"name": plugin, "args": arguments}]
    profile = {"name": "default", "pluginConfig": configured, "plugins": {point: {"enabled": [plugin]}, "sort": None}}
    policy = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", "profiles": [profile]}
    return descheduling(yaml.safe_dump(policy))


NOT_OPTED_IN = {"matchExpressions": [{"key": PROFILE_LABEL, "operator": "DoesNotExist"}]}
FINE = [
    pytest.param("descheduler", "no descheduler", lambda o: None, id="no descheduler"),
    pytest.param("descheduler", "leaves pods", evicting("deschedule", "RemovePodsViolatingNodeTaints"), id="a descheduler without such plugins"),
    pytest.param("descheduler", "leaves pods", evicting("deschedule", "RemovePodsViolatingNodeAffinity", nodeAffinityType=["requiredDuringSchedulingIgnoredDuringExecution"]), id="a descheduler that heeds requirements"),
    pytest.param("descheduler", "leaves pods", evicting("balance", "RemovePodsViolatingTopologySpreadConstraint"), id="a descheduler that heeds hard constraints"),
    pytest.param("descheduler", "leaves pods", evicting("balance", "RemoveDuplicates", {"namespaceLabelSelector": NOT_OPTED_IN}), id="a descheduler that leaves alone who opted in"),
    pytest.param("descheduler", "leaves pods", evicting("balance", "RemoveDuplicates", namespaces={"exclude": ["team"]}), id="a plugin that leaves the namespace alone"),
    pytest.param("descheduler", "leaves pods", evicting("balance", "RemoveDuplicates", namespaces={"include": ["web"]}), id="a plugin for another namespace"),
    pytest.param("descheduler", "leaves pods", evicting("balance", "LowNodeUtilization", evictableNamespaces={"exclude": ["team"]}), id="a plugin that may not evict from the namespace"),
    pytest.param("descheduler", "leaves pods", evicting("balance", "RemoveDuplicates", excludeOwnerKinds=["Job"]), id="a plugin that leaves Jobs alone where nothing else runs"),
    pytest.param("descheduler", "leaves pods", both(evicting("balance", "RemoveDuplicates"), lambda o: of(o, "Namespace")["metadata"]["labels"].clear()), id="a descheduler where nobody opted in"),
    pytest.param("webhooks", "as shipped, but about nothing in ops", exempting_ops, id="another namespace that is exempt"),
    pytest.param("matchConditions", "with the component every-pod", lambda o: hook(o, "Mutating")["matchConditions"].pop(), id="the component every-pod"),
    pytest.param("matchConditions", "as the manifests", policy("profiles: {default: {rules: {hostNamespaces: {action: warn}}}}"), id="a policy that refuses less"),
    pytest.param("matchConditions", "as the manifests", both(policy(STRICTER), conditions_of(STRICTER)), id="the conditions of a policy that refuses more"),
    pytest.param("networkPolicy", "--client-ca", lambda o: (o.remove(of(o, "NetworkPolicy")), [client_ca(o, name) for name in ("one", "two")]), id="client certificates"),
    pytest.param("otherWebhooks", "before us: a; after us: z, and we are asked again", lambda o: o.extend([another_webhook("a"), another_webhook("z")]), id="others before and after"),
    pytest.param("otherWebhooks", "before us: none", lambda o: (o.append(another_webhook("a")), o[-1]["webhooks"][0].update(namespaceSelector={"matchLabels": {"x": "y"}})), id="one for other namespaces"),
    pytest.param("mutatingPolicies", "others: theirs", lambda o: o.extend(mutating_policy("Object{metadata: …labels…}")), id="a policy that labels"),
    pytest.param("mutatingPolicies", "others: gpu-admission-pod-groups", lambda o: o.extend(pod_groups()), id="the component pod-groups"),
    pytest.param("apiServer", "newer than 1.37", lambda o: of(o, "ApiServerVersion")["status"].update(gitVersion="v1.41.0"), id="a newer API server"),
    pytest.param("classes", "training", lambda o: (o.append(namespace("plain")), of(o, "Pod", "trainer")["metadata"].update(namespace="plain", labels={"workload-type": "trainig"})), id="a misspelt class where nobody looks"),
    pytest.param("classes", "training", lambda o: (of(o, "Pod", "trainer")["metadata"].update(labels={"workload-type": "trainig"}), of(o, "Pod", "trainer")["status"].update(phase="Succeeded")), id="a misspelt class of a pod that has ended"),
    pytest.param("classes", "a, b, c, d", policy("classes: [{class: a, namespaces: [team]}, {class: b, ownerKinds: [Job]}, {class: c, labels: {x: [y]}}, {class: d}]"), id="classes of which none takes all of another"),
    pytest.param("gpuMetrics", "9 s old", both(policy(PROMETHEUS), lambda o: [each["status"]["samples"][-1].__setitem__(2, 9.0) for each in o if each["kind"] == "ReplicaMetrics"]), id="metrics that come"),
    pytest.param("guessedClasses", "as much", lambda o: o.append(quota("In", "gpu-inference")), id="a quota of a class that nobody gets by a guess"),
    pytest.param("guessedClasses", "as much", lambda o: (o.append(made("PriorityClass", "pause", value=-10)), o.append(made("PriorityClass", "calm", value=5, globalDefault=True, preemptionPolicy="Never"))), id="pause pods whose place nobody takes anyway"),
    pytest.param("preemption", "by gpu-inference: team; by gpu-inference-critical: none. Pods of a lower priority give way, in any namespace: gpu-inference-critical 200000, gpu-inference 100000, gpu-service 50000 (never preempts), gpu-training 10000 (never preempts), gpu-development 1000 (never preempts); without a class 0. Kubernetes lets namespaces that have not opted in use system-cluster-critical, before all of these", lambda o: o.append(namespace("plain")), id="who can preempt"),
    pytest.param("preemption", "by gpu-inference: team; by gpu-inference-critical: team", lambda o: of(o, "Namespace")["metadata"]["labels"].update({CRITICAL: ""}), id="an entitled namespace"),
    pytest.param("preemption", "by gpu-inference: none; by gpu-inference-critical: none", policy(STRICT), id="nobody can preempt"),
    pytest.param("taints", "no pods without GPUs", lambda o: o.extend([node("gpu-b"), placed(pod("claims", 0, resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}]), "gpu-b")]), id="a pod with GPUs by a claim"),
    pytest.param("sameNames", "same on every node", lambda o: (of(o, "Node").update(node("gpu-a", 2, "Tesla-T4", replicas=4)), o.append(node("gpu-m", mig={"1g.10gb": 7}))), id="shares beside MIG instances"),
    pytest.param("topologySpread", "no constraint", both(policy(ZONES % "ScheduleAnyway"), in_zones("a", "b", "-c")), id="a preference over zones, one without GPUs"),
    pytest.param("topologySpread", "counts only domains with GPUs", both(policy(ZONES % "DoNotSchedule"), in_zones("a", "b", "-b")), id="zones that all have GPUs"),
    pytest.param("topologySpread", "counts only domains with GPUs", both(policy(ZONES % "DoNotSchedule"), in_zones("a", "-b")), id="one zone with GPUs, for which pods get no constraint"),
    pytest.param("policyLabels", "every label", policy(LABEL.replace("NVIDIA-H100", "NVIDIA-H100, NVIDIA-A100-SXM4-80GB")), id="one label of several"),
]  # fmt: skip


@pytest.mark.parametrize(("check", "text", "change"), FINE)
def test_a_change_that_is_no_problem(tmp_path: Path, check: str, text: str, change: Spoil) -> None:
    objects = healthy()
    change(objects)
    found = [each for each in checked(tmp_path, objects) if each["check"] == check]
    assert [each["state"] for each in found] == ["ok"], found
    assert text in found[0]["text"]


CASES = [
    pytest.param("policy", "warn", lambda o: o.remove(of(o, "ConfigMap")), id="no policy"),
    pytest.param("policy", "broken", lambda o: of(o, "ConfigMap")["data"].update({"policy.yaml": "gpu: []"}), id="a bad policy"),
    pytest.param("webhooks", "broken", lambda o: o.remove(of(o, "MutatingWebhookConfiguration")), id="no configuration"),
    pytest.param("webhooks", "warn", lambda o: of(o, "ValidatingWebhookConfiguration")["webhooks"].pop(), id="a webhook less"),
    pytest.param("webhooks", "warn", lambda o: hook(o, "Validating").update(timeoutSeconds=30), id="another timeout"),
    pytest.param("webhooks", "warn", lambda o: hook(o, "Validating")["namespaceSelector"]["matchExpressions"][1]["values"].remove("kube-system"), id="a namespace that is not exempt"),
    pytest.param("webhooks", "warn", lambda o: hook(o, "Validating")["rules"][0].update(operations=["UPDATE"]), id="another rule"),
    pytest.param("webhooks", "warn", lambda o: hook(o, "Validating").update(objectSelector={"matchLabels": {"a": "b"}}), id="an objectSelector"),
    pytest.param("webhooks", "warn", lambda o: hook(o, "Validating")["namespaceSelector"]["matchExpressions"].pop(), id="another namespaceSelector"),
    pytest.param("webhooks", "warn", lambda o: hook(o, "Validating").update(failurePolicy="Ignore"), id="another failure policy"),
    pytest.param("matchConditions", "warn", lambda o: hook(o, "Validating")["matchConditions"].pop(), id="a condition less"),
    pytest.param("matchConditions", "warn", lambda o: hook(o, "Mutating")["matchConditions"][0].update(expression="true"), id="a condition of an older version"),
    pytest.param("matchConditions", "warn", lambda o: hook(o, "Validating")["matchConditions"].append({"name": "x", "expression": "false"}), id="a condition more"),
    pytest.param("matchConditions", "warn", policy(STRICTER), id="a policy that refuses more pods without devices"),
    pytest.param("matchConditions", "warn", policy(EVERY_POD), id="every pod wanted, and not asked about"),
    pytest.param("templates", "warn", policy(TEMPLATE), id="templates that nobody is asked about"),
    pytest.param("caBundle", "broken", lambda o: hook(o, "Validating")["clientConfig"].pop("caBundle"), id="no caBundle"),
    pytest.param("caBundle", "broken", lambda o: hooks(o, "Mutating", caBundle="AAAA"), id="a caBundle that is none"),
    pytest.param("caBundle", "broken", lambda o: [hooks(o, kind, caBundle=encoded(ca(timedelta(days=9999)))) for kind in ("Mutating", "Validating")], id="an authority that ended"),
    pytest.param("caBundle", "warn", lambda o: [hooks(o, kind, caBundle=encoded(ca(timedelta(days=362)))) for kind in ("Mutating", "Validating")], id="an authority that ends"),
    pytest.param("certificate", "broken", lambda o: hooks(o, "Mutating", caBundle=encoded(ca())), id="another authority than the served one's"),
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
    pytest.param("otherWebhooks", "warn", lambda o: (o.append(another_webhook("z")), hook(o, "Mutating").update(reinvocationPolicy="Never")), id="one after us that we never see"),
    pytest.param("mutatingPolicies", "warn", lambda o: o.extend(mutating_policy("Object{spec: Object.spec{tolerations: …}}")), id="a policy that tolerates"),
    pytest.param("mutatingPolicies", "warn", lambda o: o.extend(pod_groups(default="usual")), id="the component pod-groups, beside a globalDefault"),
    pytest.param("descheduler", "warn", evicting("balance", "RemoveDuplicates"), id="a descheduler that takes pods apart"),
    pytest.param("descheduler", "warn", evicting("balance", "RemoveDuplicates", excludeOwnerKinds=["ReplicaSet"]), id="a descheduler that takes the pods of Jobs apart"),
    pytest.param("descheduler", "warn", evicting("balance", "RemoveDuplicates", namespaces={"exclude": ["kube-system"]}), id="a descheduler that leaves another namespace alone"),
    pytest.param("descheduler", "warn", evicting("balance", "LowNodeUtilization"), id="a descheduler that empties full nodes"),
    pytest.param("descheduler", "warn", evicting("balance", "HighNodeUtilization"), id="a descheduler that empties nodes with little on them"),
    pytest.param("descheduler", "warn", evicting("deschedule", "RemovePodsViolatingNodeAffinity", nodeAffinityType=[PREFERRED]), id="a descheduler that takes preferences for requirements"),
    pytest.param("descheduler", "warn", evicting("balance", "RemovePodsViolatingTopologySpreadConstraint", constraints=["DoNotSchedule", "ScheduleAnyway"]), id="a descheduler that takes soft constraints for hard ones"),
    pytest.param("descheduler", "unknown", descheduling("kind: DeschedulerPolicy\nprofiles: [x]"), id="the policy of a descheduler that is malformed"),
    pytest.param("descheduler", "unknown", descheduling("DeschedulerPolicy: {"), id="the policy of a descheduler that is no YAML"),
    pytest.param("guards", "warn", lambda o: o.remove(of(o, "ValidatingAdmissionPolicyBinding")), id="no guard"),
    pytest.param("guards", "warn", lambda o: of(o, "ValidatingAdmissionPolicyBinding")["spec"].update(validationActions=["Audit"]), id="a guard that only looks"),
    pytest.param("guards", "warn", lambda o: of(o, "ValidatingAdmissionPolicy", "gpu-admission-own-configuration")["spec"]["matchConditions"][0].update(expression="request.userInfo.username == 'system:serviceaccount:elsewhere:gpu-admission'"), id="a guard about an account in another namespace"),
    pytest.param("guards", "warn", policy("profiles: {default: {rules: {deviceAnnotations: {action: warn}}}}"), id="a guard with settings that the policy does not have"),
    pytest.param("networkPolicy", "warn", lambda o: o.remove(of(o, "NetworkPolicy")), id="no network policy"),
    pytest.param("networkPolicy", "warn", lambda o: of(o, "Pod", "two")["spec"].update(hostNetwork=True), id="a network policy beside a replica on the host network"),
    pytest.param("namespaces", "warn", lambda o: of(o, "Namespace")["metadata"]["labels"].update({PROFILE_LABEL: "defalt"}), id="a misspelt profile"),
    pytest.param("namespaces", "warn", lambda o: of(o, "Namespace")["metadata"]["labels"].clear(), id="nobody opted in"),
    pytest.param("classes", "warn", lambda o: of(o, "Pod", "trainer")["metadata"]["labels"].update({"workload-type": "trainig"}), id="a misspelt class on a pod"),
    pytest.param("classes", "warn", policy("classes: [{class: a}, {class: training, ownerKinds: [Job]}]"), id="a class that another takes"),
    pytest.param("classes", "warn", policy("classes: [{class: a, labels: {x: ['*']}}, {class: training, labels: {x: [y]}}]"), id="a class of a label that another takes with any value"),
    pytest.param("classes", "warn", policy("classes: [{class: a, namespaces: [teem]}, {class: b}]"), id="a class for no namespace"),
    *[
        pytest.param("guessedClasses", "warn", spoil, id=why)
        for why, spoil in {
            "pause pods whose place no guess takes": lambda o: o.append(made("PriorityClass", "pause", value=-10)),
            "a global default above all": lambda o: o.append(made("PriorityClass", "everyday", value=10**6, globalDefault=True)),
            "a quota of the class that is guessed": lambda o: o.append(quota("In", "gpu-service")),
            "a quota of those without a class": lambda o: o.append(quota("DoesNotExist")),
        }.items()
    ],
    pytest.param("priorityClasses", "broken", lambda o: o.remove(of(o, "PriorityClass")), id="a priority class that is not there"),
    pytest.param("priorityClasses", "warn", lambda o: of(o, "PriorityClass", "gpu-service").update(value=10000), id="a service no higher than training"),
    pytest.param("preemption", "warn", both(policy(PREEMPTING), lambda o: o.append({"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9})), id="a class that preempts and is not guarded"),
    pytest.param("preemption", "warn", policy(ENTITLED), id="a namespace that only the policy entitles"),
    pytest.param("policyTaints", "warn", policy(TAINT), id="a taint on no node"),
    pytest.param("policyLabels", "warn", policy(LABEL), id="a label on no node"),
    pytest.param("policyLabels", "warn", policy(SPREAD % "ScheduleAnyway"), id="a topology on no node"),
    pytest.param("policyLabels", "broken", policy(SPREAD % "DoNotSchedule"), id="a topology that pods wait for"),
    pytest.param("topologySpread", "warn", both(policy(ZONES % "DoNotSchedule"), in_zones("a", "b", "-c")), id="a zone without GPUs that counts"),
    pytest.param("topologySpread", "warn", both(policy(SPREAD.replace("example.com/rack", "kubernetes.io/hostname") % "DoNotSchedule"), in_zones("a", "b", "-b")), id="hosts without GPUs that count"),
    pytest.param("nodes", "warn", lambda o: o.append(node("gpu-b", resources={"nvidia.com/gpu": "0"})), id="a node that offers nothing"),
    pytest.param("nodes", "broken", lambda o: of(o, "Node")["status"]["conditions"][0].update(status="False"), id="no node that is well"),
    pytest.param("taints", "warn", lambda o: o.extend([node("gpu-b"), placed(pod("guest", 0), "gpu-b")]), id="a guest on GPU nodes"),
    pytest.param("sameNames", "warn", lambda o: o.append(node("gpu-b", 2, "Tesla-T4", replicas=4)), id="shares beside whole GPUs"),
    pytest.param("sameNames", "warn", lambda o: o.append(node("gpu-b", 14, labels={"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"})), id="slices beside whole GPUs"),
    pytest.param("sameNames", "warn", lambda o: o.append(node("gpu-b", annotations={"hami.io/node-nvidia-register": "GPU-0,8,80000,100,A100,0,true:"})), id="shares of HAMi beside whole GPUs"),
    pytest.param("sameNames", "warn", lambda o: o.append(node("gpu-b", 16, labels={"cloud.google.com/gke-max-shared-clients-per-gpu": "8"})), id="GKE's shares beside whole GPUs"),
    pytest.param("twoStacks", "warn", lambda o: o.append(of_kind("ResourceSlice", dra.gpus_of("gpu-a"))), id="a device plugin and DRA"),
    pytest.param("nodes", "warn", lambda o: o.append(withdrawn("gpu-b", "16")), id="GPUs that are withdrawn, on a node without labels"),
    pytest.param("budgets", "warn", lambda o: o.extend([replica(1), replica(2)]), id="a service without a budget"),
    pytest.param("decisions", "warn", lambda o: of(o, "Pod", "trainer")["metadata"].pop("annotations"), id="a pod without a decision"),
    pytest.param("decisions", "warn", lambda o: o.append(placed(pod("claims", 0, resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}]), "gpu-a")), id="a pod with a claim and without a decision"),
]  # fmt: skip


@pytest.mark.parametrize(("check", "state", "spoil"), CASES)
def test_a_problem_is_reported_with_the_next_step(tmp_path: Path, check: str, state: str, spoil: Spoil) -> None:
    objects = healthy()
    spoil(objects)
    result = call("doctor", "--from", write(tmp_path, *objects, kinds=(*KINDS, *QUESTIONS)), "-o", "json")
    found = [each for each in json.loads(result.stdout)["items"] if each["state"] != "ok"]
    assert (check, state) in [(each["check"], each["state"]) for each in found]
    assert all(each["next"] for each in found if each["check"] == check and each["state"] != "unknown")
    assert result.exit_code == int(any(each["state"] == "broken" for each in found))


def test_gpus_by_a_name_that_the_policy_does_not_have_are_named(tmp_path: Path) -> None:
    """A device plugin may call each model by a name of its own."""
    renamed = node("gpu-b", resources={"nvidia.com/gpu": "0", "nvidia.com/a100": "8", "rdma/hca": "1k"})
    found = [each for each in checked(tmp_path, [*healthy(), renamed]) if each["check"] == "nodes"]
    text = "offersNoGpus: gpu-b; they offer nvidia.com/a100, which the policy does not name"
    assert (text, "warn") in [(each["text"], each["state"]) for each in found]


def test_the_zones_that_count_without_gpus_are_named(tmp_path: Path) -> None:
    objects = healthy()
    both(policy(ZONES % "DoNotSchedule"), in_zones("a", "b", "-c", "-d"))(objects)
    (found,) = [each for each in checked(tmp_path, objects) if each["check"] == "topologySpread"]
    assert found["text"] == (
        "profiles.default.injectors.topologySpread.constraints: DoNotSchedule over topology.kubernetes.io/zone also counts c, d, "
        "which have no node with GPUs: of a workload at most 1 pod (maxSkew) starts in each of a, b, and the rest waits"
    )


def _unasked(objects: Objects) -> None:
    """Removes the metrics of the replicas."""
    objects[:] = [each for each in objects if each["kind"] != "ReplicaMetrics"]


UNKNOWN = [
    pytest.param("certificate", lambda o: o.remove(of(o, "ServingCertificate")), "has no serving certificate", id="no Secret"),
    pytest.param("endpoints", lambda o: [o.remove(each) for each in o[:] if each["kind"] in ("EndpointSlice", "MutatingWebhookConfiguration")] and o.append({"kind": "EndpointSlice", "metadata": {"name": "another"}}), "whether it is called is not known", id="no endpoints, and no right to see who calls"),
    pytest.param("failOpen", lambda o: o.remove(of(o, "ApiServerMetrics")), "has no metrics of the API server", id="no metrics of the API server"),
    pytest.param("apiServer", lambda o: o.remove(of(o, "ApiServerVersion")), "has no version of the API server", id="no version"),
    pytest.param("replicas", _unasked, "has no metrics of the replicas", id="no metrics of replicas"),
    pytest.param("replicas", lambda o: of(o, "ReplicaMetrics", "two").update(status={"error": "504: no answer"}), "two gave no metrics through the API server: 504: no answer", id="a replica that does not answer"),
    pytest.param("networkPolicy", lambda o: o.remove(of(o, "NetworkPolicy")), "has no networkpolicies", id="a kind that was not read"),
    pytest.param("policyLoaded", _unasked, "has no metrics of the replicas", id="the policy of nobody"),
]  # fmt: skip


@pytest.mark.parametrize(("check", "leave_out", "text"), UNKNOWN)
def test_an_unknown_result_has_the_reason(tmp_path: Path, check: str, leave_out: Spoil, text: str) -> None:
    objects = healthy()
    leave_out(objects)
    found = {each["check"]: each for each in checked(tmp_path, objects, [*ENGINE, *{o["kind"] for o in objects}])}
    assert found[check]["state"] == "unknown"
    assert text in found[check]["text"]
