"""What our service account may do in a real cluster, and what it may not."""

import pytest

from tests.controlplane.api import Api, ApiError
from tests.controlplane.plane import ControlPlane
from tests.manifests.files import ACCOUNT, HOOKS

pytestmark = pytest.mark.controlplane

OWN, OTHER = "gpu-admission", "default"
DENIED = [
    # verb, group, resource, namespace ("" is everywhere), name
    ("list", "", "secrets", "", ""),
    ("list", "", "secrets", OWN, ""),
    ("get", "", "secrets", OWN, "another"),
    ("get", "", "secrets", OTHER, "gpu-admission-tls"),
    ("create", "", "secrets", OWN, ""),
    ("delete", "", "secrets", OWN, "gpu-admission-tls"),
    ("list", "", "configmaps", OWN, ""),
    ("update", "", "configmaps", OWN, "gpu-admission-policy"),
    ("get", "", "configmaps", OTHER, "gpu-admission-policy"),
    ("create", "", "pods", OTHER, ""),
    ("update", "", "pods", OTHER, "a"),
    ("patch", "", "pods", OTHER, "a"),
    ("delete", "", "pods", OTHER, "a"),
    ("create", "", "pods/exec", OTHER, "a"),
    ("create", "", "pods/binding", OTHER, "a"),
    ("get", "", "pods/log", OTHER, "a"),
    ("update", "", "nodes", "", "a"),
    ("patch", "", "nodes/status", "", "a"),
    ("get", "", "nodes/proxy", "", "a"),
    ("update", "", "namespaces", "", OTHER),
    ("create", "", "events", OTHER, ""),
    ("create", "", "serviceaccounts/token", OWN, "gpu-admission"),
    ("impersonate", "", "users", "", "admin"),
    ("create", "scheduling.k8s.io", "priorityclasses", "", ""),
    ("update", "policy", "poddisruptionbudgets", OTHER, "a"),
    ("update", "autoscaling", "horizontalpodautoscalers", OTHER, "a"),
    ("update", "batch", "jobs", OTHER, "a"),
    ("create", "", "pods/eviction", OTHER, "a"),
    ("update", "resource.k8s.io", "resourceclaims/status", OTHER, "a"),
    ("create", "resource.k8s.io", "resourceclaims", OTHER, ""),
    ("create", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", "", ""),
    ("delete", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", "", "gpu-admission"),
    ("update", "admissionregistration.k8s.io", "validatingwebhookconfigurations", "", "another"),
    ("list", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", "", ""),
    ("watch", "admissionregistration.k8s.io", "validatingwebhookconfigurations", "", ""),
    ("watch", "admissionregistration.k8s.io", "validatingwebhookconfigurations", "", "another"),
    ("patch", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", "", "gpu-admission"),
    ("update", "admissionregistration.k8s.io", "validatingadmissionpolicies", "", "gpu-admission-own-configuration"),
    (
        "delete",
        "admissionregistration.k8s.io",
        "validatingadmissionpolicybindings",
        "",
        "gpu-admission-own-configuration",
    ),
    ("bind", "rbac.authorization.k8s.io", "clusterroles", "", "cluster-admin"),
    ("escalate", "rbac.authorization.k8s.io", "clusterroles", "", "gpu-admission"),
    ("assign", "gpu-admission.io", "profiles", "", "default"),
    ("get", "coordination.k8s.io", "leases", OWN, "gpu-admission"),
]
WATCHED = {
    "": ("nodes", "pods", "namespaces", "persistentvolumeclaims", "persistentvolumes"),
    "scheduling.k8s.io": ("priorityclasses",),
    "node.k8s.io": ("runtimeclasses",),
    "resource.k8s.io": (
        "resourceslices",
        "devicetaintrules",
        "deviceclasses",
        "resourceclaims",
        "resourceclaimtemplates",
    ),
    "policy": ("poddisruptionbudgets",),
    "autoscaling": ("horizontalpodautoscalers",),
    "batch": ("jobs",),
}
OF_HOOKS = ("admissionregistration.k8s.io", ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"))
NEEDED = [
    *[(verb, group, name, "", "") for group in WATCHED for name in WATCHED[group] for verb in ("list", "watch")],
    *[(verb, OF_HOOKS[0], name, "", OWN) for name in OF_HOOKS[1] for verb in ("list", "watch", "update")],
    *[(verb, "", "secrets", OWN, "gpu-admission-tls") for verb in ("get", "update")],
    ("watch", "", "configmaps", OWN, "gpu-admission-policy"),
    ("create", "", "events", OWN, ""),
]


def phrase(question: tuple[str, str, str, str, str]) -> str:
    verb, _, resource, namespace, name = question
    return f"{verb} {resource}" + (f" {name}" if name else "") + (f" in {namespace}" if namespace else "")


async def may(api: Api, question: tuple[str, str, str, str, str], user: str = ACCOUNT) -> bool:
    verb, group, whole, namespace, name = question
    resource, _, subresource = whole.partition("/")
    attributes = {"verb": verb, "group": group, "resource": resource, "subresource": subresource}
    attributes |= {"namespace": namespace, "name": name}
    groups = ["system:serviceaccounts", "system:serviceaccounts:gpu-admission", "system:authenticated"]
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "groups": groups, "resourceAttributes": attributes},
    }
    answer = await api.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])


@pytest.mark.parametrize("question", DENIED, ids=phrase)
async def test_our_account_may_not(applied: ControlPlane, api: Api, question: tuple[str, str, str, str, str]) -> None:
    assert not await may(api, question)


@pytest.mark.parametrize("question", NEEDED, ids=phrase)
async def test_our_account_may(applied: ControlPlane, api: Api, question: tuple[str, str, str, str, str]) -> None:
    assert await may(api, question)


async def test_our_account_reads_its_own_objects_by_name_and_no_others(applied: ControlPlane) -> None:
    async with Api.of(applied.kubeconfig_for("gpu-admission", "gpu-admission")) as us:
        secret = await us.get("Secret", "gpu-admission-tls", OWN)
        await us.replace(secret, dryRun="All")
        (policy,) = await us.list("ConfigMap", OWN, fieldSelector="metadata.name=gpu-admission-policy")
        assert policy["metadata"]["name"] == "gpu-admission-policy"
        for kind in ("Secret", "ConfigMap"):
            with pytest.raises(ApiError) as refused:
                await us.list(kind, OWN)
            assert refused.value.status == 403


@pytest.mark.parametrize("kind", HOOKS)
async def test_our_account_watches_its_two_configurations_and_no_others(hooks: ControlPlane, kind: str) -> None:
    async with Api.of(hooks.kubeconfig_for("gpu-admission", "gpu-admission")) as us:
        (found,) = await us.list(kind, fieldSelector="metadata.name=gpu-admission")
        assert found["metadata"]["name"] == "gpu-admission"
        with pytest.raises(ApiError) as refused:
            await us.list(kind)
        assert refused.value.status == 403
