"""Warnings, changes and refusals when a workload is applied, before its controller creates the pods; and how many they are.

Over 500 lines, since both hooks decide about one template, by the same state.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

import jsonpatch
import orjson
import pytest

from tests.admission.templates import (
    ALONE,
    HALF,
    NO_LIMIT,
    THIEF,
    UNEQUAL,
    asked,
    deployment,
    mutated,
    policy,
    validated,
)
from tests.builders import GPU, TWO_NODES, ClusterFacts, container
from tests.controlplane.nodes import GPU_TAINT, Json, node
from tests.controlplane.objects import job, pod
from tests.devices.dra import gpus_of
from tests.served import NOW, Server, after
from tests.state.objects import state
from webhook.admission import workloads
from webhook.admission.decision import Decision
from webhook.admission.response import warnings_of
from webhook.errors import BadPod
from webhook.framework.cluster_view import Autoscaler
from webhook.kube import bounds
from webhook.kube.pod import DECISION, INJECTION
from webhook.kube.review import Request
from webhook.placement.placer import Placer
from webhook.policy.model import Policy
from webhook.state.state import ClusterState

WITHOUT_LABEL = ClusterFacts(namespaces={"team-a": {}})


# --- What must not change ---------------------------------------------------------------------------------------------

SILENT = [
    pytest.param(asked(deployment(HALF)), policy("off"), TWO_NODES, id="mode off"),
    pytest.param(asked(deployment(HALF))._replace(operation="DELETE"), policy("deny"), TWO_NODES, id="a deletion"),
    pytest.param(asked(deployment(HALF), subresource="status"), policy("deny"), TWO_NODES, id="its status"),
    pytest.param(asked(deployment(HALF, replicas=9), deployment(HALF)), policy("deny"), TWO_NODES, id="scaling"),
    pytest.param(
        asked({**deployment(HALF), "status": {"replicas": 1}}, deployment(HALF)),
        policy("deny"),
        TWO_NODES,
        id="other fields",
    ),
    pytest.param(asked(deployment())._replace(object=None), policy("deny"), TWO_NODES, id="nothing to read"),
    pytest.param(
        asked({**deployment(HALF), "kind": "Service"}), policy("deny"), TWO_NODES, id="a kind without templates"
    ),
]


@pytest.mark.parametrize(("request_", "under", "cluster"), SILENT)
def test_there_is_no_warning_and_no_change_for(request_: Request, under: Policy, cluster: ClusterFacts) -> None:
    assert mutated(request_, under, cluster).result == "ignored"
    decision = validated(request_, under, cluster)
    assert (decision.result, warnings_of(decision)) == ("ignored", [])


def test_a_namespace_that_the_watch_knows_without_the_label_has_opted_in_since() -> None:
    decision = validated(asked(deployment(HALF)), policy("deny"), WITHOUT_LABEL)
    assert (decision.result, decision.profile) == ("denied", "default")


@pytest.mark.parametrize("mode", ["warn", "deny"])
def test_only_mode_fix_adds_a_missing_limit_and_other_modes_refuse_it(mode: str) -> None:
    decision = mutated(asked(deployment(NO_LIMIT, **THIEF)), policy(mode))
    assert (decision.result, decision.patch) == ("denied", None)
    assert [unit for unit, action, _ in decision.findings if action == "deny"] == ["gpuQuantity", "privileged"]


def test_no_limit_is_added_if_the_injector_is_off() -> None:
    off = policy("fix", injectors={"gpuResources": {"enabled": False}})
    assert mutated(asked(deployment(NO_LIMIT)), off).result == "denied"


def test_a_profile_in_shadow_changes_and_refuses_nothing_and_records_its_findings() -> None:
    dry_run = policy("deny", dry_run=True)
    assert mutated(asked(deployment(NO_LIMIT)), policy("fix", dry_run=True)).result == "ignored"
    assert mutated(asked(deployment(HALF)), dry_run).result == "ignored"
    decision = validated(asked(deployment(**THIEF)), dry_run)
    assert decision.result == "dryRun"
    assert "privileged" in decision.message


# --- What is changed --------------------------------------------------------------------------------------------------


def test_a_request_without_a_limit_gets_one_and_nothing_else_changes() -> None:
    before = deployment(NO_LIMIT)
    before["spec"]["template"]["spec"]["containers"].append(container("b"))
    before["spec"]["template"]["spec"]["initContainers"] = [
        {"name": "c", "image": "i", "resources": deepcopy(NO_LIMIT)}
    ]
    decision = mutated(asked(deepcopy(before)), policy("fix"))
    assert decision.patch is not None
    assert [each["path"] for each in orjson.loads(decision.patch)] == [
        "/spec/template/spec/initContainers/0/resources/limits",
        "/spec/template/spec/containers/0/resources/limits",
    ]
    after = jsonpatch.apply_patch(before, orjson.loads(decision.patch))["spec"]["template"]["spec"]
    assert after["containers"][0]["resources"] == {"limits": {GPU: "1"}, "requests": {GPU: "1"}}


def test_a_limit_is_added_in_a_template_inside_a_template() -> None:
    cron = {"kind": "CronJob", "metadata": {"name": "app"}}
    template = deployment(NO_LIMIT)["spec"]["template"]
    template["spec"]["restartPolicy"] = "Never"
    cron["spec"] = {"schedule": "@daily", "jobTemplate": {"spec": {"template": template}}}
    decision = mutated(asked(cron, group="batch"), policy("fix"))
    assert decision.patch is not None
    (operation,) = orjson.loads(decision.patch)
    assert operation["path"] == "/spec/jobTemplate/spec/template/spec/containers/0/resources/limits"


def grouped(own: Json | None = None, spec: Json | None = None, **of_pods: Any) -> Json:
    """A Job that makes a PodGroup of its pods. `own`: its labels; `spec`: more of its fields, or other ones."""
    made = job("app", **of_pods)
    made["metadata"]["labels"] = own or {}
    made["spec"] |= {"scheduling": {"schedulingPolicy": {"gang": {}}}, **(spec or {})}
    return made


QUEUED, INFERENCE = {"kueue.x-k8s.io/queue-name": "team"}, {"workload-type": "inference"}


def of_jobs(**fields: Any) -> Policy:
    return policy(injectors={"priorityClass": fields})


@pytest.mark.parametrize(
    ("made", "under", "given"),
    [
        pytest.param(grouped(), policy(), "gpu-training", id="by a guess"),
        pytest.param(grouped(QUEUED), policy(), None, id="not by a guess where Kueue orders by it"),
        pytest.param(grouped(labels=INFERENCE), policy(), "gpu-inference", id="by a label of the pods"),
        pytest.param(grouped(QUEUED, labels=INFERENCE), policy(), "gpu-inference", id="by a label in a queue of Kueue"),
        pytest.param(grouped(priorityClassName="mine"), policy(), None, id="not where its author chose one"),
        pytest.param(grouped(schedulingGroup={"podGroupName": "g"}), policy(), None, id="not with a group of its own"),
        pytest.param(
            grouped(spec={"managedBy": "a.io/b"}), policy(), None, id="not where another controller makes pods"
        ),
        pytest.param(job("app"), policy(), None, id="not where nothing says that it makes a group"),
        pytest.param(job("app"), of_jobs(everyJob=True), "gpu-training", id="where every Job makes one"),
        pytest.param(grouped(gpus=0), policy(), None, id="not without GPUs"),
        pytest.param(grouped(), of_jobs(enabled=False), None, id="not if the injector is off"),
        pytest.param(grouped(), policy("off"), None, id="not if templates are left alone"),
    ],
)
def test_a_job_that_makes_a_group_has_the_class_in_its_template(made: Json, under: Policy, given: str | None) -> None:
    decision = mutated(asked(made, group="batch"), under)
    where = {"op": "add", "path": "/spec/template/spec/priorityClassName", "value": given}
    assert (orjson.loads(decision.patch) if decision.patch else []) == ([where] if given else [])
    assert [given in text for text in decision.warnings] == ([True] if given else [])


@pytest.mark.parametrize(
    ("old", "cluster"),
    [
        pytest.param(grouped(spec={"suspend": True}), TWO_NODES, id="after its creation"),
        pytest.param(None, replace(TWO_NODES, fresh=False), id="while the watch is late"),
        pytest.param(None, replace(TWO_NODES, priority_classes={}), id="of a class that the cluster has not"),
    ],
)
def test_a_job_that_makes_a_group_gets_no_class(old: Json | None, cluster: ClusterFacts) -> None:
    made = grouped(priorityClassName="", restartPolicy="OnFailure") if old else grouped()
    assert mutated(asked(made, old, group="batch"), policy(), cluster).patch is None


def test_no_limit_is_added_where_a_resource_holds_no_whole_template() -> None:
    served = {
        "kind": "InferenceService",
        "metadata": {"name": "app"},
        "spec": {"predictor": {"model": {"resources": NO_LIMIT}}},
    }
    assert mutated(asked(served, group="serving.kserve.io"), policy("fix")).result == "ignored"


# --- What is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["warn", "fix", "deny"])
def test_a_template_that_the_api_server_would_refuse_is_refused_with_the_findings_of_all_rules(mode: str) -> None:
    decision = mutated(asked(deployment(HALF, nodeName="gpu-a1", **THIEF)), policy(mode))
    assert decision.result == "denied"
    head, *lines = decision.message.splitlines()
    assert head.startswith('Deployment "app": 3 problems (policy ')
    assert [line.rpartition(" ")[2] for line in lines] == ["[gpuQuantity]", "[privileged]", "[nodeName]"]
    assert lines[0].startswith("- spec.template.spec.containers[0].resources.limits[nvidia.com/gpu]: saw ")


def test_a_conflict_of_request_and_limit_is_reported_once() -> None:
    decision = mutated(asked(deployment(UNEQUAL)), policy("fix"))
    assert [unit for unit, action, _ in decision.findings if action == "deny"] == ["gpuQuantity"]


def test_a_bad_quantity_in_a_custom_resource_is_refused_in_mode_deny_only() -> None:
    template = deployment(HALF)["spec"]["template"]
    ray = {"kind": "RayCluster", "metadata": {"name": "app"}, "spec": {"workerGroupSpecs": [{"template": template}]}}
    request = asked(ray, group="ray.io")
    assert mutated(request, policy()).result == "ignored"
    assert validated(request, policy()).result == "allowed"
    denied = validated(request, policy("deny"))
    assert "spec.workerGroupSpecs[0].template.spec.containers[0].resources" in denied.message


@pytest.mark.parametrize("ask", [mutated, validated])
def test_a_template_without_the_form_of_a_pod_is_a_bad_review(ask: Callable[[Request, Policy], Decision]) -> None:
    with pytest.raises(BadPod, match=r"containers\[0\]\.env: wanted"):
        ask(asked(deployment(env="all")), policy())


def test_what_exceeds_a_bound_is_not_looked_at_and_mode_deny_refuses_it() -> None:
    many = deployment(NO_LIMIT)
    many["spec"]["template"]["spec"]["containers"] += ["no container"] * bounds.LIMITS["containers"]
    for beyond in (asked(many), asked(deployment(NO_LIMIT), size=bounds.MAX_REVIEW_BYTES + 1)):
        assert mutated(beyond, policy("fix")).result == "ignored"
        denied = validated(beyond, policy("deny"))
        assert (denied.result, [unit for unit, *_ in denied.findings]) == ("denied", ["podSize"])


def test_as_many_templates_as_the_bound_are_looked_at() -> None:
    each = {"template": deployment(HALF)["spec"]["template"]}
    for more, found in ((0, "gpuQuantity"), (1, "podSize")):
        spec = {"workerGroupSpecs": [each] * (bounds.LIMITS["templates"] + more)}
        ray = {"kind": "RayCluster", "metadata": {"name": "app"}, "spec": spec}
        decision = validated(asked(ray, group="ray.io"), policy())
        assert decision.findings[0].unit == found


def test_only_mode_deny_refuses_a_template_that_the_api_server_would_accept() -> None:
    thief = asked(deployment(**THIEF))
    for mode in ("warn", "fix"):
        assert mutated(thief, policy(mode)).result == "ignored"
        assert validated(thief, policy(mode)).result == "allowed"
    denied = validated(thief, policy("deny"))
    assert denied.result == "denied"
    assert denied.message.startswith(
        'Deployment "app": spec.template.spec.containers[0].securityContext.privileged: saw'
    )


# --- Warnings ---------------------------------------------------------------------------------------------------------


def test_a_later_refusal_of_the_pods_is_a_warning() -> None:
    warning, _ = warnings_of(validated(asked(deployment(**THIEF)), policy()))
    assert warning.startswith('privileged: its pods will be refused: true in container "main"')


def test_the_field_in_a_warning_is_that_of_the_pod() -> None:
    obj = deployment()
    obj["spec"]["template"]["metadata"]["annotations"] = {"cdi.k8s.io/a": "nvidia.com/gpu=all"}
    assert warnings_of(validated(asked(obj), policy()))[0].startswith(
        'deviceAnnotations: its pods will be refused: annotations[cdi.k8s.io/a] "nvidia.com/gpu=all". Remove it'
    )


def test_what_the_pods_will_get_is_no_warning() -> None:
    labelled = deployment(labels={"workload-type": "inference"})
    (warning,) = warnings_of(validated(asked(labelled), policy()))
    assert warning.startswith("cpuPerGpu: no CPU and no memory for 1 GPU"), "what nobody adds"


def test_the_rule_about_missing_spread_sees_what_pods_with_claims_will_get() -> None:
    claiming = deployment({"claims": [{"name": "gpu"}]}, replicas=4)
    claiming["spec"]["template"]["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    of = replace(TWO_NODES, devices=(gpus_of("a"),))
    warnings = warnings_of(validated(asked(claiming), policy(), of))
    assert not any(text.startswith("spreadMissing") for text in warnings)


def test_a_daemon_set_must_tolerate_the_taints_itself() -> None:
    """Its controller makes pods only for nodes whose taints the template tolerates."""
    of = state([node("a", taints=[GPU_TAINT]), node("b", taints=["sku=gpu:NoSchedule"])])
    made = deployment()
    daemons = made | {"kind": "DaemonSet"}
    late = (
        "a DaemonSet makes pods only for nodes whose taints its template tolerates: add tolerations of "
        "nvidia.com/gpu=present:NoSchedule, sku=gpu:NoSchedule to the template"
    )
    assert late in told(daemons, of)
    assert late not in told(made, of)
    assert not any(text.startswith("a DaemonSet") for text in told(daemons, state([node("a")])))


def test_labels_of_a_template_count_as_those_of_its_pods_do() -> None:
    labelled = deployment(labels={"workload-type": "inferense", INJECTION: "off"})
    warnings = warnings_of(validated(asked(labelled, deployment()), policy()))
    assert 'label workload-type="inferense" gives no class; nearest: inference' in warnings
    assert any(text.startswith(f"{INJECTION} is a label here") for text in warnings)


def test_a_rule_about_new_pods_checks_a_changed_template_too() -> None:
    warnings = warnings_of(validated(asked(deployment(nodeName="gpu-a1"), deployment()), policy()))
    assert warnings[0].startswith("nodeName: its pods will be refused: ")


def test_the_author_of_a_template_is_not_the_user_who_creates_its_pods() -> None:
    def exempting(**who: Any) -> Policy:
        return policy("deny", exempt=[{"namespaces": ["team-a"], **who}])

    thief = asked(deployment(serviceAccountName="exporter", **THIEF), groups=("admins",))
    for who in ({"users": ["jane"]}, {"groups": ["admins"]}):
        assert validated(thief, exempting(**who)).result == "denied", "a controller creates the pods"
    maker = "system:serviceaccount:kube-system:replicaset-controller"
    for who in ({"users": [maker]}, {"serviceAccounts": ["exporter"]}, {}):
        assert validated(thief, exempting(**who)).result == "allowed"
        assert mutated(asked(deployment(HALF, serviceAccountName="exporter")), exempting(**who)).result == "ignored"


def test_an_autoscaler_does_not_scale_a_kind_of_another_group() -> None:
    """Of a Deployment it is in tests/e2e/test_autoscalers.py."""
    custom = {"group": "example.com", "kind": "Deployment", "path": "spec.template", "ownerKind": "ReplicaSet"}
    no_spread = {"topologySpread": {"enabled": False}}
    scaled = replace(TWO_NODES, autoscalers={("team-a", "Deployment", "app"): Autoscaler("app", 40)})
    for group, warned in (("apps", True), ("example.com", False)):
        under = policy(injectors=no_spread, templates={"custom": [custom]})
        warnings = warnings_of(validated(asked(deployment(replicas=1), group=group), under, scaled))
        assert any(text.startswith("spreadMissing: up to 40 replicas by") for text in warnings) is warned


# --- What the API server adds to the pods ------------------------------------------------------------------------------

POOL = {"key": "pool", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}
RUNTIME = {
    "metadata": {"name": "nvidia"},
    "handler": "nvidia",
    "scheduling": {"nodeSelector": {"runtime": "nvidia"}, "tolerations": [POOL]},
}


def pool(*limit_ranges: Json) -> ClusterState:
    """One node of four GPUs, for pods of the RuntimeClass."""
    of = state([node("a", 4, labels={"runtime": "nvidia"}, taints=[POOL], cpu="16")])
    of.replace("runtimeclasses", [RUNTIME], 0)
    of.replace("limitranges", limit_ranges, 0)
    return of


def limit_range(**entry: Json) -> Json:
    spec = {"limits": [{"type": "Container", **entry}]}
    return {"metadata": {"name": "small", "namespace": "team-a"}, "spec": spec}


def told(obj: Json, of: ClusterState, mode: str = "warn") -> list[str]:
    request_ = asked(obj)
    decision = workloads.validate(request_, policy(mode), of.view(0), Placer(of))
    assert decision.result == "allowed"
    return warnings_of(decision)


def of_class(name: str, **fields: Any) -> Json:
    made = deployment(**fields)
    made["spec"]["template"]["spec"]["runtimeClassName"] = name
    return made


def test_pods_are_judged_with_what_their_runtime_class_brings() -> None:
    assert any(text.startswith("gpuFits: ") for text in told(deployment(), pool())), "no pod tolerates the taint"
    assert not any(text.startswith("gpuFits: ") for text in told(of_class("nvidia"), pool()))


def test_pods_are_judged_with_the_defaults_of_a_limit_range() -> None:
    large = pool(limit_range(default={"cpu": "64"}, defaultRequest={"cpu": "64"}))
    (text,) = (text for text in told(of_class("nvidia"), large) if text.startswith("gpuFits: "))
    assert "64" in text
    with_gpus = pool(limit_range(default={GPU: "9"}))
    assert any(
        text.startswith("gpuFits: ") for text in told(of_class("nvidia", resources={"limits": {"cpu": "1"}}), with_gpus)
    )


@pytest.mark.parametrize("mode", ["warn", "deny"])
def test_what_the_api_server_will_refuse_is_a_warning_and_no_refusal(mode: str) -> None:
    """It refuses the pods itself, and we may know its objects a moment later than it."""
    beside = of_class("nvidia")
    beside["spec"]["template"]["spec"]["nodeSelector"] = {"runtime": "gvisor"}
    (text,) = (text for text in told(beside, pool(), mode) if text.startswith("apiServer: "))
    assert text.startswith('apiServer: its pods will be refused: nodeSelector[runtime] "gvisor". Remove the line')
    (text,) = (text for text in told(of_class("kata"), pool(), mode) if text.startswith("apiServer: "))
    assert 'runtimeClassName "kata"' in text
    (text,) = (
        text
        for text in told(of_class("nvidia"), pool(limit_range(min={GPU: "2"})), mode)
        if text.startswith("apiServer: ")
    )
    assert "its pods will be refused: " in text


# --- What two replicas know of a gang ----------------------------------------------------------------------------------

OF_GANGS = [
    pytest.param("batch", "Job", lambda pods: {"parallelism": 4, "completions": 4, **pods}, "b1", id="watched by both"),
    pytest.param(
        "kubeflow.org",
        "MPIJob",
        lambda pods: {"mpiReplicaSpecs": {"Worker": {"replicas": 4, **pods}}},
        "a1",
        id="MPIJob",
    ),
    pytest.param(
        "kubeflow.org", "TFJob", lambda pods: {"tfReplicaSpecs": {"Worker": {"replicas": 4, **pods}}}, "a1", id="TFJob"
    ),
    pytest.param(
        "ray.io",
        "RayCluster",
        lambda pods: {"workerGroupSpecs": [{"groupName": "w", "replicas": 4, **pods}]},
        "a1",
        id="RayCluster",
    ),
]


@pytest.mark.parametrize(("group", "kind", "spec", "first"), OF_GANGS)
def test_both_replicas_know_the_size_of_a_gang_or_none(
    group: str, kind: str, spec: Callable[[Json], Json], first: str
) -> None:
    """One of them reviews the workload; both see it if it is watched. Zone a has room for two of four pods, zone b for all."""
    nodes = [node(name, zone=name[0]) for name in ("a1", "a2", "b1", "b2", "b3", "b4")]
    replicas = [Server(state(nodes, now=NOW)) for _ in range(2)]
    member = pod("train", 8, owned_by=kind)
    of = {"group": group, "version": "v1"}
    workload = {"kind": kind, "metadata": {"name": "train", "uid": "u-1", "namespace": "default"}}
    workload["spec"] = spec({"template": {"metadata": {}, "spec": member["spec"]}})
    for hook in (replicas[0].mutate, replicas[0].validate):
        assert hook(workload, kind=of | {"kind": kind}, resource=of | {"resource": f"{kind.lower()}s"})["allowed"]
    if kind == "Job":
        for each in replicas:
            each.state.seen("jobs", workload, NOW)
    chosen = [after(each.mutate(member), member)["metadata"]["annotations"][DECISION] for each in replicas]
    assert [orjson.loads(each)["nodes"][0][0] for each in chosen] == [first, first]


# --- Templates that their controller completes from another object -----------------------------------------------------

TAINTED = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


def of_kind(kind: str, group: str, spec: Json) -> Request:
    return asked({"kind": kind, "metadata": {"name": "app"}, "spec": spec}, group=group)


def training_runtime(**fields: Any) -> Request:
    """Its TrainJob says how many GPUs each pod gets."""
    node = {"containers": [{"name": "node", "image": "i", **fields}], "tolerations": [TAINTED]}
    replicated = [{"name": "node", "template": {"spec": {"template": {"spec": node}}}}]
    return of_kind("TrainingRuntime", "trainer.kubeflow.org", {"template": {"spec": {"replicatedJobs": replicated}}})


def completed(resources: Json, **fields: Any) -> list[Request]:
    """Objects that name the resources of pods, and leave the rest to another object; Volcano's Job has its scheduler, its
    PriorityClass and its volumes beside its templates."""
    main = {"resources": resources, **fields}
    trainer = {"numNodes": 2, "resourcesPerNode": resources, **fields}
    served = {"containers": [{"name": "main", **main}]}
    return [
        of_kind("TrainJob", "trainer.kubeflow.org", {"runtimeRef": {"name": "torch"}, "trainer": trainer}),
        of_kind("InferenceService", "serving.kserve.io", {"predictor": {"minReplicas": 3, "model": main}}),
        of_kind("InferenceService", "ome.io", {"engine": {"minReplicas": 3, "runner": main}}),
        of_kind("LLMInferenceService", "serving.kserve.io", {"replicas": 3, "template": served}),
        of_kind("Job", "batch.volcano.sh", {"schedulerName": "volcano", "tasks": [{"template": {"spec": served}}]}),
    ]


@pytest.mark.parametrize("request_", completed(ALONE), ids=lambda made: f"{made.kind} of {made.group}")
@pytest.mark.parametrize("mode", ["warn", "deny"])
def test_of_a_template_that_is_completed_from_another_object_it_is_not_said_what_it_lacks(
    request_: Request, mode: str
) -> None:
    decision = validated(request_, policy(mode))
    assert (decision.result, warnings_of(decision)) == ("allowed", [])


@pytest.mark.parametrize("mode", ["warn", "deny"])
def test_a_runtime_without_gpus_may_tolerate_the_taint_of_their_nodes(mode: str) -> None:
    for fields in ({}, {"args": ["torchrun", "--nproc-per-node=8"]}, {"resources": {"requests": {"cpu": "1"}}}):
        decision = validated(training_runtime(**fields), policy(mode))
        assert (decision.result, warnings_of(decision)) == ("allowed", [])


MERGED = [
    of_kind(
        "InferenceService",
        "serving.kserve.io",
        {"predictor": {"triton": {"storageUri": "s3://m"}, "tolerations": [TAINTED]}},
    ),
    of_kind("InferenceService", "ome.io", {"engine": {"minReplicas": 2, "tolerations": [TAINTED]}}),
    of_kind("InferenceService", "ome.io", {"decoder": {"worker": {"size": 2, "tolerations": [TAINTED]}}}),
    of_kind(
        "InferenceService",
        "ome.io",
        {"engine": {"minReplicas": 2, "containers": [{"name": "side"}], "tolerations": [TAINTED]}},
    ),
]


@pytest.mark.parametrize("request_", MERGED, ids=lambda made: f"{made.kind} of {made.group}")
def test_the_container_with_gpus_may_come_from_the_runtime(request_: Request) -> None:
    """KServe and OME merge the spec with that of a ServingRuntime: it is not said that its toleration has no use."""
    decision = validated(request_, policy())
    assert (decision.result, warnings_of(decision)) == ("allowed", [])


@pytest.mark.parametrize("request_", completed(HALF, **THIEF), ids=lambda made: f"{made.kind} of {made.group}")
def test_what_such_a_template_states_is_judged(request_: Request) -> None:
    warnings = warnings_of(validated(request_, policy()))
    assert [text.partition(":")[0] for text in warnings] == ["gpuQuantity", "privileged"]
    assert validated(request_, policy("deny")).result == "denied"
