"""The exported policies accept, refuse and warn about the same pods as the webhook."""

import orjson
import pytest

from tests.controlplane.api import Api, ApiError, wait_until
from tests.controlplane.objects import pod
from tests.export.pods import REFUSED, TAKEN, VISIBLE, WARNED, env, limits
from tests.export.world import INSIDE, OPERATOR, OUTSIDE, POLICY, Json, other, refusal
from webhook.cli import offline
from webhook.policy.model import Policy

pytestmark = pytest.mark.controlplane


def judged(body: Json) -> tuple[set[str], set[str]]:
    """The rules by which the webhook's engine refuses a pod, and those by which it warns."""
    body = {**body, "metadata": {**body["metadata"], "namespace": INSIDE}}
    (document,) = offline.documents(orjson.dumps(body), "pod")
    assert isinstance(document, offline.Document)
    decision = offline.run(document, offline.decide_validate, Policy.load(POLICY), offline.load_state(None)).decision
    by_action: dict[str, set[str]] = {"deny": set(), "warn": set()}
    for unit, action, _ in decision.findings:
        by_action[action].add(unit)
    return by_action["deny"], by_action["warn"]


@pytest.mark.parametrize("body", TAKEN.values(), ids=TAKEN)
async def test_a_pod_that_the_webhook_accepts_is_accepted(server: Api, body: Json) -> None:
    if body["spec"].get("serviceAccountName") != "exporter":
        assert judged(body)[0] == set()
    assert await refusal(server, body, INSIDE) == ""


@pytest.mark.parametrize(("rule", "body"), REFUSED.values(), ids=REFUSED)
async def test_a_pod_that_the_webhook_refuses_is_refused(server: Api, rule: str, body: Json) -> None:
    assert rule in judged(body)[0]
    message = await refusal(server, body, INSIDE)
    assert f"[{rule}]" in message
    assert "ValidatingAdmissionPolicy" in message


@pytest.mark.parametrize(("rule", "body"), WARNED.values(), ids=WARNED)
async def test_a_pod_that_the_webhook_warns_about_gives_a_warning(server: Api, rule: str, body: Json) -> None:
    denied, warned = judged(body)
    assert (denied, rule in warned) == (set(), True)
    found = await server.create(body, INSIDE, dryRun="All")
    assert [text for text in found.warnings if f"[{rule}]" in text]


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
    thief, large, zero = (
        pod("p", 0, container=env(VISIBLE)),
        pod("p", 16),
        pod("p", container=limits(nvidia_com__gpu=0)),
    )
    assert "[deviceEnv]" in await refusal(server, thief, OUTSIDE)
    assert "[gpuZero]" in await refusal(server, zero, OUTSIDE)  # inside, it gets void devices instead
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
