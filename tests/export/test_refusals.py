"""What the exported policies check of pods that change, and in namespaces that have not opted in; test_random.py has new ones."""

import pytest

from tests.controlplane.api import Api, ApiError, wait_until
from tests.controlplane.objects import pod
from tests.export.pods import VISIBLE, env
from tests.export.world import INSIDE, OPERATOR, OUTSIDE, Json, other, refusal

pytestmark = pytest.mark.controlplane


async def test_an_added_container_is_checked_and_the_old_ones_are_not(server: Api) -> None:
    body = pod("later", serviceAccountName="exporter", container=env(VISIBLE))  # an exempt pod
    await server.create(body, INSIDE)
    change = {"spec": {"ephemeralContainers": [other("debugger", **env(VISIBLE))]}}
    arguments = {"subresource": "ephemeralcontainers", "strategy": "strategic-merge", "dryRun": "All"}
    await server.patch("Pod", "later", change, INSIDE, **arguments)  # still exempt
    await server.delete("Pod", "later", INSIDE, grace=0)
    await server.create(pod("later-too"), INSIDE)
    with pytest.raises(ApiError, match=r"container debugger: wanted .* \[deviceEnv\]"):
        await server.patch("Pod", "later-too", change, INSIDE, **arguments)
    harmless = {"spec": {"ephemeralContainers": [other("debugger")]}}
    await server.patch("Pod", "later-too", harmless, INSIDE, **arguments)
    await server.delete("Pod", "later-too", INSIDE, grace=0)


async def test_the_bans_hold_in_namespaces_that_did_not_opt_in(server: Api) -> None:
    thief, large = pod("p", 0, container=env(VISIBLE)), pod("p", 16)
    assert "[deviceEnv]" in await refusal(server, thief, OUTSIDE)
    assert await refusal(server, large, OUTSIDE) == ""
    assert await refusal(server, thief, OPERATOR) == ""


async def test_the_api_server_finds_no_type_mistake_in_any_expression(server: Api) -> None:
    """The API server accepts a policy with unknown fields in its expressions, and reports them only in its status."""

    async def checked() -> list[Json]:
        found = await server.list("ValidatingAdmissionPolicy")
        found = [each for each in found if each["metadata"]["name"].startswith("gpu-admission")]
        assert found
        assert all("typeChecking" in each.get("status", {}) for each in found), "the API server has not checked it yet"
        return found

    for each in await wait_until(checked, 120, "type checking of the policies"):
        assert each["status"]["typeChecking"].get("expressionWarnings", []) == [], each["metadata"]["name"]
