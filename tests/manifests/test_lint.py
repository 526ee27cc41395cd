"""What the manifests must and must not say, without a cluster. What they do is in the tests beside this one."""

import pytest
import yaml

from tests import deciding
from tests.manifests.files import MANIFESTS, ORDER, Json, documents, installed_files, only, shipped
from webhook.feeds.file import fill
from webhook.feeds.policy import KEY
from webhook.kube.pod import PROFILE_LABEL
from webhook.kube.workload_kinds import WORKLOAD_KINDS
from webhook.policy.model import Policy, PolicyFile
from webhook.server.settings import ServeSettings
from webhook.state.state import ClusterState
from webhook.tls.issue import service_names
from webhook.whatif import offline

DEFAULTS = ServeSettings()
HOOKS = [
    pytest.param(hook, id=hook["name"])
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    for hook in only(kind)["webhooks"]
]
ROLES = [
    pytest.param(role, id=f"{role['kind']}-{role['metadata']['name']}")
    for role in shipped("Role") + shipped("ClusterRole")
]
CONTAINER = only("Deployment")["spec"]["template"]["spec"]["containers"][0]

# --- Access -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ROLES)
def test_no_right_is_a_wildcard(role: Json) -> None:
    for rule in role["rules"]:
        assert not [
            v for part in ("apiGroups", "resources", "verbs", "resourceNames") for v in rule.get(part, ()) if "*" in v
        ]


WATCHED = (
    *("nodes", "pods", "namespaces", "priorityclasses", "runtimeclasses", "resourceslices"),
    *(
        "horizontalpodautoscalers",
        "jobs",
        "persistentvolumeclaims",
        "persistentvolumes",
        "configmaps",
        "resourcequotas",
        "limitranges",
        "nodepools",
    ),
    *("devicetaintrules", "deviceclasses", "resourceclaims", "resourceclaimtemplates"),
)
CONFIGURED = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
ALLOWED = {
    **{name: {"list", "watch"} for name in WATCHED},
    **{name: {"get", "list", "watch", "update"} for name in CONFIGURED},
    "profiles": {"assign"},
    "classes": {"assign"},
    "secrets": {"get", "update"},
    "events": {"create"},
}
BY_NAME = {"configmaps", "secrets", *CONFIGURED}


@pytest.mark.parametrize("role", ROLES)
def test_rights_are_on_the_list_and_what_can_be_named_is_named(role: Json) -> None:
    for rule in role["rules"]:
        for resource in rule["resources"]:
            assert set(rule["verbs"]) <= ALLOWED[resource]
            assert bool(rule.get("resourceNames")) == (resource in BY_NAME)


def test_devices_are_only_read() -> None:
    """By the webhook, and by those who may see how many GPUs are free."""
    reader = documents(MANIFESTS / "components" / "reader" / "access.yaml")
    rules = [rule for role in (*shipped("ClusterRole"), *shipped("Role"), *reader) for rule in role.get("rules", ())]
    verbs = [verb for rule in rules if "resource.k8s.io" in rule["apiGroups"] for verb in rule["verbs"]]
    assert set(verbs) == {"get", "list", "watch"}


def test_secrets_are_only_reached_in_our_own_namespace() -> None:
    assert not [rule for role in shipped("ClusterRole") for rule in role["rules"] if "secrets" in rule["resources"]]


# --- Webhooks ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hook", HOOKS)
def test_ca_bundle_is_never_rendered(hook: Json) -> None:
    """Applying again would take it away from a running installation."""
    assert set(hook["clientConfig"]) == {"service"}


@pytest.mark.parametrize("hook", HOOKS)
def test_no_hook_matches_by_labels_of_the_object(hook: Json) -> None:
    assert "objectSelector" not in hook


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_never_sees_pods_of_the_system_or_our_own(hook: Json) -> None:
    expressions = hook["namespaceSelector"]["matchExpressions"]
    if hook["name"] == "policy.gpu-admission.io":
        assert [rule["resources"] for rule in hook["rules"]] == [["configmaps"]]
        assert expressions == [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": [DEFAULTS.namespace]}]
        return
    # That a namespace has not opted in may be what is wrong with its labels.
    if hook["name"] != "namespaces.gpu-admission.io":
        assert {"key": PROFILE_LABEL, "operator": "Exists"} in expressions
    excluded = {
        "key": "kubernetes.io/metadata.name",
        "operator": "NotIn",
        "values": [DEFAULTS.namespace, "kube-system"],
    }
    assert excluded in expressions


@pytest.mark.parametrize("hook", HOOKS)
def test_no_hook_matches_by_wildcard_or_on_status(hook: Json) -> None:
    for rule in hook["rules"]:
        assert not [r for r in rule["resources"] if "*" in r or r.endswith(("/status", "/binding", "/resize"))]
        assert rule["operations"] in (["CREATE"], ["UPDATE"], ["CREATE", "UPDATE"])


FAILURE = [
    ("mutate.gpu-admission.io", "Ignore", 3, "NoneOnDryRun"),
    ("templates.mutate.gpu-admission.io", "Ignore", 3, "None"),
    ("validate.gpu-admission.io", "Fail", 5, "NoneOnDryRun"),
    ("others.validate.gpu-admission.io", "Fail", 5, "NoneOnDryRun"),
    ("updates.validate.gpu-admission.io", "Ignore", 3, "None"),
    ("templates.validate.gpu-admission.io", "Ignore", 3, "None"),
    ("policy.gpu-admission.io", "Ignore", 5, "None"),
    ("namespaces.gpu-admission.io", "Ignore", 3, "None"),
]


@pytest.mark.parametrize(("name", "policy", "seconds", "effects"), FAILURE, ids=[row[0] for row in FAILURE])
def test_a_hook_fails_as_documented(name: str, policy: str, seconds: int, effects: str) -> None:
    """Effects: what `Events` and `Handlers` leave for a request that is no dry run."""
    (hook,) = (each.values[0] for each in HOOKS if each.id == name)
    assert isinstance(hook, dict)
    assert (hook["failurePolicy"], hook["timeoutSeconds"], hook["sideEffects"]) == (policy, seconds, effects)


def test_the_hook_of_templates_is_asked_about_every_kind_with_a_template() -> None:
    (hook,) = (each.values[0] for each in HOOKS if each.id == "templates.validate.gpu-admission.io")
    assert isinstance(hook, dict)
    asked = {(g, resource) for rule in hook["rules"] for g in rule["apiGroups"] for resource in rule["resources"]}
    wanted = {(row.group, f"{row.kind.lower()}s") for row in WORKLOAD_KINDS if row.paths}
    assert wanted <= asked
    assert {resource for _, resource in asked - wanted if resource not in {name for _, name in wanted}} == {
        "resourceclaims",
        "resourceclaimtemplates",
    }


# --- Names agree with the program -------------------------------------------------------------------------------------


def test_names_are_those_that_the_program_looks_for() -> None:
    (kustomization,) = documents(MANIFESTS / "kustomization.yaml")
    (generator,) = kustomization["configMapGenerator"]
    assert (generator["name"], generator["namespace"]) == (DEFAULTS.config_map, DEFAULTS.namespace)
    assert generator["files"] == [KEY]
    assert only("Secret")["metadata"]["name"] == DEFAULTS.secret
    assert only("Service")["metadata"]["name"] == DEFAULTS.service
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        assert only(kind)["metadata"]["name"] == DEFAULTS.webhook_configuration


def test_replicas_know_each_other_by_the_pods_of_the_shipped_deployment() -> None:
    server = only("Deployment")
    template = server["spec"]["template"]
    assert server["spec"]["replicas"] == 2
    pods: list[Json] = [
        {
            "metadata": {**template["metadata"], "name": name, "namespace": server["metadata"]["namespace"]},
            "spec": template["spec"],
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }
        for name in ("one", "two")
    ]
    of = ClusterState(sibling="one", namespace=DEFAULTS.namespace)
    for pod in pods:
        of.pod_seen(pod, 0)
    assert of.siblings.names == ("one", "two")
    (named,) = [variable for variable in CONTAINER["env"] if variable["name"] == "GPU_ADMISSION_REPLICA"]
    assert named["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"


def test_every_object_is_in_our_namespace_or_in_none() -> None:
    for path in installed_files():
        for found in documents(path):
            assert found["metadata"].get("namespace", DEFAULTS.namespace) == DEFAULTS.namespace


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_calls_our_service_by_a_name_that_the_certificate_has(hook: Json) -> None:
    service = hook["clientConfig"]["service"]
    assert f"{service['name']}.{service['namespace']}.svc" in service_names(DEFAULTS.service, DEFAULTS.namespace)
    assert service["path"] in ("/mutate", "/validate")
    assert service["port"] == only("Service")["spec"]["ports"][0]["port"]


@pytest.mark.parametrize("kind", ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"])
def test_aks_leaves_the_selectors_of_the_hooks_alone(kind: str) -> None:
    """Else its Admissions Enforcer owns `namespaceSelector`, and the next upgrade by Helm 4 ends with a conflict."""
    assert only(kind)["metadata"]["annotations"] == {"admissions.enforcer/disabled": "true"}


def test_ports_are_those_that_the_program_listens_on() -> None:
    assert {p["name"]: p["containerPort"] for p in CONTAINER["ports"]} == {
        "https": DEFAULTS.port,
        "ops": DEFAULTS.ops_port,
    }
    assert only("Service")["spec"]["ports"][0]["targetPort"] == "https"
    assert {CONTAINER[probe]["httpGet"]["port"] for probe in ("readinessProbe", "livenessProbe")} == {"ops"}


def test_every_environment_variable_is_a_setting() -> None:
    found = ServeSettings().with_environment({entry["name"]: entry.get("value", "x") for entry in CONTAINER["env"]})
    assert (found.port, found.ops_port) == (DEFAULTS.port, DEFAULTS.ops_port)
    known = {f"GPU_ADMISSION_{name.upper()}" for name in ServeSettings.model_fields}
    assert {entry["name"] for entry in CONTAINER["env"]} <= known


def test_the_grace_period_is_longer_than_the_drain() -> None:
    assert (
        only("Deployment")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] >= DEFAULTS.drain_seconds + 15
    )


def test_priority_classes_of_the_policy_are_installed_and_ordered() -> None:
    classes = {found["metadata"]["name"]: found for found in shipped("PriorityClass")}
    wanted = Policy.of(PolicyFile()).file.profiles["default"].injectors.priority_class.classes
    assert set(classes) == set(wanted.values())
    tiers = ("inference-critical", "inference", "service", "training", "development")
    values = [classes[wanted[workload]]["value"] for workload in tiers]
    assert values == sorted(values, reverse=True)
    preempting = [name for name, found in classes.items() if found["preemptionPolicy"] != "Never"]
    assert preempting == [wanted["inference-critical"], wanted["inference"]]
    assert not [name for name, found in classes.items() if found.get("globalDefault")]


# --- The files --------------------------------------------------------------------------------------------------------


def test_files_are_numbered_in_the_order_in_which_kinds_are_applied() -> None:
    names = [path.name for path in installed_files()]
    assert names == sorted(names)
    first = [min(ORDER.index(found["kind"]) for found in documents(path)) for path in installed_files()]
    assert first == sorted(first)


def test_no_file_is_forgotten() -> None:
    assert set(installed_files()) == set(MANIFESTS.glob("[0-9]*.yaml"))


def test_no_secret_material_is_shipped() -> None:
    assert "data" not in only("Secret")
    assert "stringData" not in only("Secret")


# --- The policy -------------------------------------------------------------------------------------------------------

POLICY = (MANIFESTS / "policy.yaml").read_text()


def test_the_shipped_policy_is_the_default_one() -> None:
    assert Policy.load(POLICY).hash == Policy.of(PolicyFile()).hash


def test_the_package_carries_the_shipped_policy() -> None:
    carried = MANIFESTS.parent / "webhook" / "defaults" / "policy.yaml"
    assert carried.resolve() == MANIFESTS / "policy.yaml"


# --- The examples -----------------------------------------------------------------------------------------------------

TEMPLATES = [
    pytest.param(found["kind"], found["spec"]["template"], id=f"{found['kind']} {found['metadata']['name']}")
    for path in sorted((MANIFESTS / "examples").glob("[0-9]*.yaml"))
    for found in documents(path)
    if "template" in found.get("spec", {})
]


@pytest.mark.parametrize(("kind", "template"), TEMPLATES)
def test_nothing_is_to_be_said_against_the_pods_of_the_examples(kind: str, template: Json) -> None:
    owner = {"apiVersion": "v1", "kind": {"Deployment": "ReplicaSet"}.get(kind, kind), "name": "o", "controller": True}
    metadata = {**template["metadata"], "name": "p", "namespace": "ml-team", "ownerReferences": [owner]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
    fill(state := offline.new_state(), MANIFESTS.parent / "webhook" / "defaults" / "cluster.yaml", 0.0)
    for decide in (deciding.decide_mutate, deciding.decide_validate):
        (document,) = offline.documents(yaml.safe_dump(pod), "example")
        assert isinstance(document, offline.Document)
        result = deciding.run(document, decide, Policy.load(POLICY), state)
        assert [*result.decision.findings, *filter(None, result.decision.warnings)] == []
        pod = result.pod
