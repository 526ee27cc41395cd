"""What a user reads where a GPU pod is refused: the words of the API server's answer, and its warnings."""

import re
from typing import Any

import pytest

from tests.controlplane.api import Api, refusal, wait_until
from tests.controlplane.fixtures import MakeNodes
from tests.controlplane.nodes import node
from tests.controlplane.objects import Json, pod
from tests.e2e.conftest import Sides
from tests.installed import SHIPPED, Installed, opt_in
from webhook.export.matching import conditions_yaml
from webhook.policy.model import Policy

pytestmark = pytest.mark.controlplane


async def words(api: Api, obj: Json, namespace: str) -> str:
    """Why it is refused; empty where it is not."""
    return await refusal(api.create(obj, namespace, dryRun="All"))


GPU = "nvidia.com/gpu"
FED = {"cpu": "8", "memory": "32Gi"}


def trainer(gpus: str = "1", name: str = "trainer", **spec: Any) -> Json:
    """A good pod of class training. `container` in `spec`: fields of its container."""
    resources = {"resources": {"limits": {GPU: gpus}, "requests": FED}}
    container = resources | spec.pop("container", {})
    labels = {"workload-type": "training"}
    return pod(name, 0, labels=labels, container=container, **{"restartPolicy": "Never"} | spec)


def env(**variables: str) -> Json:
    return {"container": {"env": [{"name": name, "value": value} for name, value in variables.items()]}}


# --- Some mistakes ------------------------------------------------------------------------------------------------------

LIMIT = "spec.containers[0].resources.limits[nvidia.com/gpu]"
HALF = (f'{LIMIT}: saw "500m"', "gpuQuantity")
MISTAKES = [
    pytest.param(trainer("0.5"), [HALF], id="half a GPU"),
    pytest.param(
        trainer("0.5", hostPID=True, nodeName="sides-a"),
        [HALF, ("spec.hostPID: saw true", "hostNamespaces"), ('spec.nodeName: saw "sides-a"', "nodeName")],
        id="everything at once, what cannot run before what takes too much",
    ),
]
"""And of each line of the refusal the beginning, and the rule. The whole text of each is in tests/rules."""


@pytest.mark.parametrize(("obj", "told"), MISTAKES)
async def test_the_refusal_that_a_user_reads(obj: Json, told: list[tuple[str, str]], api: Api, sides: Sides) -> None:
    message = await words(api, obj, sides.ours)
    message = re.sub(r"\(policy [0-9a-f]{12}\)", "(policy)", message)
    head = 'admission webhook "mutate.gpu-admission.io" denied the request: pod "trainer": '
    if len(told) == 1:
        assert message.endswith(" (policy)")
        lines = [message.removeprefix(head).removesuffix(" (policy)")]
    else:
        first, *lines = message.splitlines()
        assert first == f"{head}{len(told)} problems (policy):"
    assert len(lines) == len(told)
    for line, (begins, rule) in zip(lines, told, strict=True):
        assert line.removeprefix("- ").startswith(begins)
        assert line.endswith(f" [{rule}]")


async def test_the_warnings_that_a_user_gets(api: Api, sides: Sides) -> None:
    hungry = {"resources": {"limits": {GPU: "2"}, "requests": {"cpu": "1"}}}
    starts_again = trainer(restartPolicy="Always", container=hungry)
    warnings = (await api.create(starts_again, sides.ours, dryRun="All")).warnings
    assert [each.partition(":")[0] for each in warnings] == ["cpuPerGpu", "sharedMemory", "restartPolicy"]
    assert (await api.create(trainer(), sides.ours, dryRun="All")).warnings == ()


async def test_an_image_for_a_newer_cuda_than_the_drivers_of_the_nodes_know(
    api: Api, team: str, nodes: MakeNodes
) -> None:
    """The nodes that the pod selects; others may know it."""
    known = [("old", "12", "550.54.15"), ("new", "13", "580.95.05")]
    of = "nvidia.com/cuda."
    await nodes(
        [
            node(pool, labels={"pool": pool, f"{of}runtime-version.major": cuda, f"{of}runtime-version.minor": "0",
                               f"{of}driver-version.full": driver})
            for pool, cuda, driver in known
        ]
    )  # fmt: skip
    image = {"image": "pytorch/pytorch:2.9.1-cuda13.0-cudnn9-runtime"}

    async def told(pool: str) -> list[str]:
        made = trainer(container=image, nodeSelector={"pool": pool})
        return [each for each in (await api.create(made, team, dryRun="All")).warnings if each.startswith("cudaDriver")]

    (warning,) = await told("old")
    assert "CUDA 13" in warning
    assert await told("new") == []


# --- What was there before, and what is there to hurt -----------------------------------------------------------------


async def test_a_bad_pod_that_was_there_before_is_left_alone_and_only_what_is_added_to_it_is_judged(
    api: Api, namespace: str, sides: Sides
) -> None:
    bad = trainer(**env(NVIDIA_VISIBLE_DEVICES="all"), hostPID=True)
    await api.create(bad, namespace)

    async def add(name: str, **fields: Any) -> Json:
        change = {"spec": {"ephemeralContainers": [{"name": name, "image": "registry.example/debug:1", **fields}]}}
        how = {"subresource": "ephemeralcontainers", "strategy": "strategic-merge"}
        return await api.patch("Pod", "trainer", change, namespace, **how)

    await add("took", securityContext={"privileged": True})
    await opt_in(api, namespace)
    assert "[deviceEnv]" in await words(api, bad | {"metadata": {"name": "another"}}, namespace)
    await api.patch("Pod", "trainer", {"metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}}}, namespace)

    found = await add("look")
    assert [each["name"] for each in found["spec"]["ephemeralContainers"]] == ["look", "took"], (
        "a patch moves the others"
    )
    said = await refusal(add("take", securityContext={"privileged": True}))
    assert '.securityContext.privileged: saw true in container "take"' in said
    assert "[deviceEnv]" not in said


async def test_tolerations_of_gpu_nodes_that_are_patched_into_a_pod_without_a_gpu_are_judged_as_at_its_creation(
    api: Api, sides: Sides, installed: Installed
) -> None:
    """By the shipped policy, which only warns, nobody is asked. Where a profile denies it, and the match conditions are those of
    that policy, the change is refused, and the stored pod stays as it was."""
    await api.create(pod("web", 0), sides.ours)

    async def tolerate(key: str, **query: str) -> tuple[str, ...]:
        change = [{"op": "add", "path": "/spec/tolerations/-", "value": {"key": key, "operator": "Exists"}}]
        return (await api.patch("Pod", "web", change, sides.ours, **query)).warnings

    assert await tolerate("team") == ()
    assert await tolerate(GPU, dryRun="All") == ()
    denies = SHIPPED + "  kept: {rules: {cpuPodOnGpuNode: {action: deny}}}\n"

    def conditions_of(policy: str) -> None:
        patch = conditions_yaml(Policy.load(policy))
        installed.plane.kubectl("patch", "validatingwebhookconfiguration", "gpu-admission", "--patch", patch)

    async def refused() -> str:
        return await refusal(tolerate(GPU, dryRun="All"))

    with installed.policy(denies):
        conditions_of(denies)
        await opt_in(api, sides.ours, "kept")
        await wait_until(refused, 120, "the conditions of the policy")
        said = await refusal(tolerate(GPU))
        conditions_of(SHIPPED)
    assert f'saw a toleration of "{GPU}" in a pod that asks for no GPU' in said
    keys = [each.get("key") for each in (await api.get("Pod", "web", sides.ours))["spec"]["tolerations"]]
    assert "team" in keys
    assert GPU not in keys
    await opt_in(api, sides.ours)


# As much as we look at: of larger ones we answer one in ten seconds.
HUGE = [
    pytest.param(
        trainer(tolerations=[{"key": f"k{n}", "operator": "Exists"} for n in range(30_000)]), id="30,000 tolerations"
    )
]


@pytest.mark.filterwarnings("ignore:Sending a large body")
@pytest.mark.parametrize("obj", HUGE)
async def test_a_pod_of_megabytes_is_answered_by_us_in_time(obj: Json, api: Api, sides: Sides) -> None:
    """An answer that came too late would be a 500 of the validating webhook, or the words of the API server alone."""
    message = await words(api, obj, sides.ours)
    assert 'gpu-admission.io" denied the request: pod "trainer"' in message
    assert len(message) < 30_000
    assert await words(api, trainer(), sides.ours) == ""
