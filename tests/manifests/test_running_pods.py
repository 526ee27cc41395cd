"""What may be added to a pod that exists while no replica answers: the shipped hooks call a server that is gone."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.builders import case
from tests.controlplane.api import Api, refusal, wait_until
from tests.controlplane.objects import pod
from tests.controlplane.plane import ControlPlane
from tests.manifests.files import AUTHORITY, HOOKS, Json, only
from webhook.kube.pod import PROFILE_LABEL
from webhook.policy.exemptions import OPERATORS
from webhook.rules.device_annotations import DeviceAnnotations

GUARD = "gpu-admission-running-pods"
LABEL = "gone.example/profile"
"""In place of the real label, so that a webhook that is installed meanwhile has no part in this."""
INSIDE = "running-pods"


def test_the_guard_is_for_the_namespaces_of_the_rule() -> None:
    for name in (GUARD, "gpu-admission-schedulers"):
        binding = only("ValidatingAdmissionPolicyBinding", name)["spec"]["matchResources"]["namespaceSelector"]
        opted_in, ours, others = binding["matchExpressions"]
        assert opted_in == {"key": PROFILE_LABEL, "operator": "Exists"}
        assert (ours["values"], others["values"]) == (["gpu-admission", "kube-system"], [*OPERATORS])


@pytest.fixture(scope="module")
def gone(applied: ControlPlane) -> Iterator[ControlPlane]:
    """Both webhook configurations with the address of nobody, and the guards as shipped. A namespace that has opted in to
    both, with a pod with a GPU and one without."""
    objects: list[Json] = []
    for kind in HOOKS:
        found = json.loads(json.dumps(only(kind)).replace(PROFILE_LABEL, LABEL))
        found["metadata"] = {"name": "gone"}
        for hook in found["webhooks"]:
            hook["clientConfig"] = {"url": "https://127.0.0.1:1/", "caBundle": AUTHORITY}
        objects.append(found)
    applied.kubectl("create", "namespace", INSIDE)
    for name, gpus in (("trainer", 1), ("web", 0)):
        applied.kubectl("create", "-n", INSIDE, "-f", "-", input=yaml.safe_dump(pod(name, gpus)))
    applied.kubectl("label", "namespace", INSIDE, f"{PROFILE_LABEL}=default", f"{LABEL}=default")
    with applied.having(*objects):
        yield applied
    applied.kubectl("delete", "--wait=false", "namespace", INSIDE)


@pytest.fixture
async def there(gone: ControlPlane, api: Api) -> Api:
    """Once the hooks and the guard are in force."""

    async def in_force() -> bool:
        refusal = await annotated(api, "web", {"cdi.k8s.io/gpu": "all"})
        return "failed calling webhook" in await created(api) and GUARD in refusal

    await wait_until(in_force, 120, "the hooks and the guard")
    return api


async def created(api: Api) -> str:
    """Why a new pod is refused."""
    return await refusal(api.create(pod("new"), INSIDE, dryRun="All"))


async def annotated(api: Api, name: str, annotations: Json, **query: Any) -> str:
    """Why these annotations are refused on a pod; "" where they are not. A dry run."""
    change = {"metadata": {"annotations": annotations}}
    return await refusal(api.patch("Pod", name, change, INSIDE, dryRun="All", **query))


@pytest.mark.controlplane
async def test_other_schedulers_write_their_annotations_while_no_replica_answers(there: Api) -> None:
    theirs = {"hami.io/vgpu-node": "a", "volcano.sh/gpu-assume-time": "1", "scheduling.x/y": "z"}
    await there.patch("Pod", "trainer", {"metadata": {"annotations": theirs}}, INSIDE)
    found = await there.get("Pod", "trainer", INSIDE)
    assert found["metadata"]["annotations"].items() >= theirs.items()
    toleration = [{"op": "add", "path": "/spec/tolerations/-", "value": {"key": "a", "operator": "Exists"}}]
    await there.patch("Pod", "trainer", toleration, INSIDE, dryRun="All")


@pytest.mark.controlplane
async def test_no_container_is_added_to_a_pod_with_a_gpu_nor_one_that_breaks_a_rule_to_another(there: Api) -> None:
    async def added(name: str, **more: Any) -> str:
        debugger = {"spec": {"ephemeralContainers": [{"name": "debugger", "image": "busybox", **more}]}}
        how: Any = {"subresource": "ephemeralcontainers", "strategy": "strategic-merge", "dryRun": "All"}
        return await refusal(there.patch("Pod", name, debugger, INSIDE, **how))

    assert await added("web") == ""
    thief = {"securityContext": {"privileged": True}}
    assert 'failed calling webhook "others.validate.gpu-admission.io"' in await added("web", **thief)
    assert 'failed calling webhook "validate.gpu-admission.io"' in await added("trainer")
    assert 'failed calling webhook "validate.gpu-admission.io"' in await created(there)


KEYS = (
    *("cdi.k8s.io/gpu", "CDI.k8s.io", "devices.nri.io/container.main", "devices.noderesource.dev/pod"),
    *("io.kubernetes.cri-o.Devices", "Devices.crio.io", "run.oci.hooks.stdout", "io.katacontainers.config"),
    *("devices.gke.io/container.main", "dev.gvisor.internal.nvproxy", "dev.gvisor.internal.other"),
    *("io.kubernetes.cri-o.shmsize", "io.kubernetes.cri-o.umask.x", "required-plugins.noderesource.dev/pod"),
    "nvidia.com/container.main.gpu-memory.limit",
    *("gpu-fraction", "hami.io/vgpu-devices-to-allocate", "xcdi.k8s.io/gpu", "cdi.k8s.io.x/gpu", "x.cdi.k8s.io/a"),
)


@pytest.mark.controlplane
@pytest.mark.parametrize(("name", "gpus"), [("trainer", 1), ("web", 0)])
async def test_the_guard_refuses_what_the_rule_refuses(there: Api, name: str, gpus: int) -> None:
    for key in KEYS:
        findings = case(pod(gpus=gpus, annotations={key: "all"})).findings(DeviceAnnotations())
        refused = any(not finding.only_warn for finding in findings)
        for subresource in ("", "status"):
            message = await annotated(there, name, {key: "all"}, subresource=subresource)
            seen = f"ValidatingAdmissionPolicy '{GUARD}'" in message and f"annotations {key}: " in message
            assert (key, seen) == (key, refused), message  # the webhook may be there too, and refuse for another reason


@pytest.mark.controlplane
async def test_what_a_pod_has_may_stay_and_may_be_removed_but_not_changed(there: Api) -> None:
    """A pod that got such an annotation before its namespace opted in."""
    key = "cdi.k8s.io/gpu"
    await there.patch("Namespace", INSIDE, {"metadata": {"labels": {PROFILE_LABEL: None, LABEL: None}}})
    try:

        async def added() -> bool:
            return not await annotated(there, "web", {key: "0"})

        await wait_until(added, 120, "the namespace to be outside")
        await there.patch("Pod", "web", {"metadata": {"annotations": {key: "0"}}}, INSIDE)
    finally:
        await there.patch("Namespace", INSIDE, {"metadata": {"labels": {PROFILE_LABEL: "default", LABEL: "default"}}})

    async def refused() -> bool:
        return GUARD in await annotated(there, "web", {key: "all"})

    await wait_until(refused, 120, "the namespace to be inside")
    assert await annotated(there, "web", {"another": "one"}) == ""
    assert await annotated(there, "web", {key: None}) == ""
    await there.patch("Pod", "web", {"metadata": {"annotations": {key: None}}}, INSIDE)
