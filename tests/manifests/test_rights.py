"""What our service account may not do in a real cluster. That it may what it needs is seen where the webhook runs."""

import pytest

from tests.controlplane.api import Api, ApiError
from tests.controlplane.plane import ControlPlane
from tests.manifests.files import ACCOUNT, HOOKS

pytestmark = pytest.mark.controlplane

OWN, OTHER = "gpu-admission", "default"
DENIED = [
    # verb, group, resource, namespace ("" is everywhere), name
    ("get", "", "secrets", OTHER, "gpu-admission-tls"),
    ("create", "", "events", OTHER, ""),
    ("update", "", "pods", OTHER, "a"),
    ("assign", "gpu-admission.io", "profiles", "", "default"),
    ("assign", "gpu-admission.io", "classes", "", "inference"),
]
"""What no rule gives (test_lint.py), but a binding might."""


@pytest.mark.parametrize("question", DENIED, ids=lambda question: f"{question[0]} {question[2]}")
async def test_our_account_may_not(applied: ControlPlane, api: Api, question: tuple[str, str, str, str, str]) -> None:
    verb, group, resource, namespace, name = question
    attributes = {"verb": verb, "group": group, "resource": resource, "namespace": namespace, "name": name}
    groups = ["system:serviceaccounts", "system:serviceaccounts:gpu-admission", "system:authenticated"]
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": ACCOUNT, "groups": groups, "resourceAttributes": attributes},
    }
    answer = await api.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    assert not answer["status"]["allowed"]


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
