"""Certificates, configurations and the policy are changed or deleted while pods are created: no creation fails."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from tests.controlplane import clusters
from tests.controlplane.api import Api, ApiError, wait_until
from tests.controlplane.plane import ControlPlane
from tests.e2e.bare import bare
from tests.e2e.creating import creating
from tests.e2e.scene import POLICY, ROUND, SECRET, STANDS, TICK, TRUSTED, NotTrusted, Scene, sooner
from tests.installed import NAMESPACE, Installed, opt_in
from tests.manifests.files import HOOKS, MANIFESTS
from webhook.tls.issue import make_ca, make_leaf

pytestmark = pytest.mark.controlplane

CLIENTS = 4
"""That create pods meanwhile."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(
    beside: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[ControlPlane, Installed, Path]]:
    """A control plane without other webhooks; the clock of the replicas."""
    clock = tmp_path_factory.mktemp("replicas") / "clock"
    async with bare(beside) as api:
        with Installed(beside, replicas=2, before=sooner(clock)) as webhook:
            await clusters.apply(api, clusters.cluster("two-node"))
            await api.namespace("ours")
            await opt_in(api, "ours")
            yield beside, webhook, clock


@pytest.fixture
async def scene(running: tuple[ControlPlane, Installed, Path]) -> AsyncIterator[Scene]:
    plane, webhook, clock = running
    async with Api.of(plane.kubeconfig) as api:
        found = Scene(plane, webhook, api, clock)
        async with found.ticking():
            yield found


# --- the certificate ----------------------------------------------------------------------------------------------------


async def expired(scene: Scene) -> None:
    then = datetime.now(UTC) - timedelta(days=700)
    ca = make_ca(then)
    leaf = make_leaf(ca, ["localhost"], then)
    await scene.write(ca_crt=ca.certificate, ca_key=ca.key, tls_crt=leaf.certificate, tls_key=leaf.key)


async def garbage(scene: Scene) -> None:
    await scene.write(ca_crt=b"junk", ca_key=b"junk", tls_crt=b"junk", tls_key=b"junk")


async def deleted_and_applied_again(scene: Scene) -> None:
    await kubectl(scene, "-n", NAMESPACE, "delete", "secret", SECRET)
    await asyncio.sleep(2 * ROUND)
    await kubectl(scene, "apply", "-f", str(MANIFESTS / "30-certificate.yaml"))


async def emptied_while_a_replica_starts_anew(scene: Scene) -> None:
    """The replica that starts does not know the certificate that the other one serves."""
    await asyncio.to_thread(scene.webhook.members[1].stop, patience=120)  # in order: a crash may fail what is under way
    await kubectl(scene, "-n", NAMESPACE, "delete", "secret", SECRET)
    scene.webhook.members[1].start()
    await kubectl(scene, "apply", "-f", str(MANIFESTS / "30-certificate.yaml"))


async def kubectl(scene: Scene, *arguments: str) -> None:
    await asyncio.to_thread(scene.plane.kubectl, *arguments)


REPLACED = [expired, garbage, deleted_and_applied_again, emptied_while_a_replica_starts_anew]


@pytest.mark.parametrize("what", REPLACED, ids=lambda what: what.__name__)
async def test_a_ca_that_is_replaced_fails_no_creation(what: Callable[[Scene], Awaitable[None]], scene: Scene) -> None:
    """Old connections stay open; every 50 ms each replica is called anew by who trusts what API servers trusted just now."""
    await wait_until(scene.rested, 120, "rest")
    await scene.later(TRUSTED)  # what was made for the test before is not new any more
    before = await scene.authority()
    trusted: dict[str, float] = {}
    """Each bundle, and when it was read last."""

    async def rested() -> bool:
        now = scene.now()
        trusted.update(dict.fromkeys(await scene.bundles(), now))
        if what is not emptied_while_a_replica_starts_anew:
            for bundle, read in trusted.items():
                try:
                    await scene.handshakes(bundle)
                except NotTrusted as error:
                    # What was read before that may have been replaced since: the machine is too busy to look as often.
                    if scene.now() - read < STANDS - TICK:
                        pytest.fail(str(error))
        assert await scene.authority() != before
        return await scene.rested()

    async with creating(scene.api, "ours", CLIENTS) as created:
        await what(scene)
        await wait_until(rested, 120, "a new CA that is served and trusted", every=0.05)
    assert created.refused == [], f"of {created.count}"


# --- the bundle ---------------------------------------------------------------------------------------------------------


async def blanked(scene: Scene) -> None:
    for kind in HOOKS:
        count = len((await scene.api.get(kind, "gpu-admission"))["webhooks"])
        change: list[dict[str, Any]] = [
            {"op": "remove", "path": f"/webhooks/{number}/clientConfig/caBundle"} for number in range(count)
        ]
        await scene.api.patch(kind, "gpu-admission", change)


async def replaced(scene: Scene) -> None:
    """`kubectl replace`, as GitOps tools do that do not merge."""
    hooks = [json.loads(scene.plane.kubectl("get", kind, "gpu-admission", "-o", "json").stdout) for kind in HOOKS]
    for found in hooks:
        found["metadata"] = {"name": "gpu-admission"}
        for hook in found["webhooks"]:
            hook["clientConfig"].pop("caBundle", None)
    text = yaml.safe_dump_all(hooks)
    await asyncio.to_thread(scene.plane.kubectl, "replace", "-f", "-", input=text)


@pytest.mark.parametrize("what", [blanked, replaced], ids=lambda what: what.__name__)
async def test_a_bundle_that_is_gone_comes_back_and_stays(
    what: Callable[[Scene], Awaitable[None]], scene: Scene
) -> None:
    await wait_until(scene.rested, 120, "rest")
    right = await scene.bundles()

    async def back() -> bool:
        return await scene.bundles() == right

    async with creating(scene.api, "ours", CLIENTS) as created:
        await what(scene)
        await wait_until(back, 120, "the bundle", every=0.05)
        seen = -1
        while seen < len(created.refused):  # the API server hears of it a moment later
            seen = len(created.refused)
            await created.more(10 * CLIENTS)
        await asyncio.sleep(3)
        assert await back()
    assert len(created.refused) == seen, created.refused[-1]


async def test_after_a_bundle_that_was_blanked_all_the_time_no_replica_writes_over_another(scene: Scene) -> None:
    await wait_until(scene.rested, 120, "rest")
    right = await scene.bundles()
    for _ in range(60):
        await blanked_quietly(scene)
        await asyncio.sleep(0.05)

    async def corrected() -> bool:
        return await scene.bundles() == right

    await wait_until(corrected, 120, "the bundle")
    written = ""

    async def still() -> bool:
        nonlocal written
        before, written = written, await _versions(scene)
        return before == written

    await wait_until(still, 120, "an end of the writing: do replicas write over each other?", every=3 * ROUND)


async def blanked_quietly(scene: Scene) -> None:
    with suppress(ApiError):  # there was none: the rest of the change is not made
        await blanked(scene)


async def _versions(scene: Scene) -> str:
    """Another one after each write of a webhook configuration."""
    return " ".join([(await scene.api.get(kind, "gpu-admission"))["metadata"]["resourceVersion"] for kind in HOOKS])


# --- the policy ---------------------------------------------------------------------------------------------------------


async def test_a_replica_that_starts_without_a_policy_serves_the_shipped_one_and_says_so(scene: Scene) -> None:
    good = await scene.api.get("ConfigMap", POLICY, NAMESPACE)
    webhook = scene.webhook
    async with creating(scene.api, "ours", CLIENTS) as created:
        await scene.api.delete("ConfigMap", POLICY, NAMESPACE)
        for number in (1, 0):  # one after the other, as a rolling update: at the end none remembers a good one
            await asyncio.to_thread(webhook.members[number].stop, patience=120)
            webhook.members[number].start()
            await asyncio.to_thread(webhook.await_ready, number)
        metrics = await asyncio.to_thread(webhook.metrics)
        text = await asyncio.to_thread(webhook.readiness)
    try:
        assert created.refused == [], f"of {created.count}"
        assert text.startswith("ok\nthe policy cannot be used, and the shipped one is in force until it can: ")
        assert "does not exist" in text
        assert (metrics["gpu_admission_policy_shipped"], metrics["gpu_admission_policy_valid"]) == (1.0, 0.0)

        async def told() -> bool:
            events = await scene.api.list("Event", NAMESPACE, fieldSelector=f"involvedObject.name={POLICY}")
            said = [each["message"] for each in events]
            return any("does not exist" in text and "the shipped one is in force" in text for text in said)

        await wait_until(told, 120, "an Event about the policy")
    finally:
        await scene.api.create({**good, "metadata": {"name": POLICY, "namespace": NAMESPACE}})

    async def corrected() -> bool:
        return all([webhook.metrics(number)["gpu_admission_policy_shipped"] == 0.0 for number in (0, 1)])

    await wait_until(corrected, 120, "the good policy")
