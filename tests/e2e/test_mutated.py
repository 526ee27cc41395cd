"""Pods as other webhooks leave them: a namespace that opts into these and into ours creates them, and no other namespace does."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from tests.controlplane.api import Api, refusal, wait_until
from tests.controlplane.nodes import Json
from tests.controlplane.objects import made
from tests.e2e.conftest import Sides

pytestmark = pytest.mark.controlplane

PODS: dict[str, Json] = {
    file.stem: yaml.safe_load(file.read_text()) for file in sorted((Path(__file__).parent / "mutated").glob("*.yaml"))
}
LABELS = {"nvsentinel.nvidia.com/preflight": "enabled", "kai-resource-isolator.io/webhook": "on"}
VOID = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}
HIDDEN = {"preflight": ["setup"], "preflight-claim": ["dcgm-diag", "main"], "isolated": ["proxy"]}
"""The containers of each pod that get no GPU by a variable."""


@pytest.fixture
async def both(api: Api, sides: Sides) -> AsyncIterator[str]:
    """The namespace that has opted in, while it has the labels of the other webhooks too."""
    await api.patch("Namespace", sides.ours, {"metadata": {"labels": LABELS}})
    yield sides.ours
    await api.patch("Namespace", sides.ours, {"metadata": {"labels": dict.fromkeys(LABELS)}})


@pytest.mark.parametrize("name", PODS)
async def test_what_another_webhook_left_is_stored(name: str, both: str, api: Api) -> None:
    async def known() -> bool:
        """Of the labels of the namespace we hear a moment later."""
        return not await refusal(api.create(PODS[name], both, dryRun="All"))

    async with api.having(made("RuntimeClass", "nvidia", handler="nvidia")):
        await wait_until(known, 120, "the labels of the namespace")
        answer = await api.create(PODS[name], both, dryRun="All")
    assert not answer.warnings
    spec = answer["spec"]
    every = [*spec.get("initContainers", ()), *spec["containers"]]
    assert [each["name"] for each in every if VOID in each.get("env", ())] == HIDDEN[name]
    if "resourceClaims" not in spec:  # no driver is there for these
        assert {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"} in spec["tolerations"]


@pytest.mark.parametrize("name", PODS)
async def test_a_namespace_without_the_label_of_the_other_webhook_does_not_get_its_folders(
    name: str, api: Api, sides: Sides
) -> None:
    async with api.having(made("RuntimeClass", "nvidia", handler="nvidia")):

        async def refused() -> bool:
            return "[hostDevices]" in await refusal(api.create(PODS[name], sides.ours, dryRun="All"))

        await wait_until(refused, 120, "the namespace without labels")
