"""A changed caBundle is repaired at once."""

import asyncio
from datetime import datetime
from typing import Any

import pytest

from tests.feeds.fake_api import client_of, fake_api
from webhook.feeds import certificates
from webhook.feeds.certificates import FilePair
from webhook.feeds.tasks import Tasks
from webhook.telemetry import logs
from webhook.telemetry.metrics import Metrics
from webhook.tls.rotate import CONFIGURATION_KINDS, CONFIGURATIONS, Keeper
from webhook.tls.serve import LiveContext

SECRETS = "/api/v1/namespaces/gpu-admission/secrets"


@pytest.mark.parametrize(
    "watching",
    [pytest.param(True, id="by a watch"), pytest.param(False, id="by the next round, without permission to watch")],
)
async def test_an_emptied_bundle_is_repaired(watching: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificates, "ROUND_SECONDS", 3600.0 if watching else 0.05)
    async with fake_api() as fake, client_of(fake) as api:
        metrics, log = Metrics(), logs.configure()
        fake.put(SECRETS, "gpu-admission-tls")
        paths = [f"{CONFIGURATIONS}/{kind}" for kind in CONFIGURATION_KINDS]

        def empty_bundles() -> None:
            for path in paths:
                fake.put(path, "gpu-admission", webhooks=[{"name": "a", "clientConfig": {}}])

        def bundles() -> list[Any]:
            return [
                fake.objects[path]["gpu-admission"]["webhooks"][0]["clientConfig"].get("caBundle") for path in paths
            ]

        empty_bundles()
        if not watching:
            fake.refuse = {(verb, path): (403, "forbidden") for verb in ("list", "watch") for path in paths}
        keeper = Keeper(
            api,
            LiveContext(),
            ["localhost"],
            namespace="gpu-admission",
            secret="gpu-admission-tls",
            configuration="gpu-admission",
        )

        def repaired() -> bool:
            watched = not watching or all(fake.asked("watch", path) for path in paths)
            return watched and bundles() == [fake.objects[SECRETS]["gpu-admission-tls"]["data"]["ca.crt"]] * 2

        async with Tasks(metrics, log) as tasks, asyncio.timeout(120):
            certificates.start(tasks, api, keeper, metrics, log)
            for _ in range(3):
                while not (all(bundles()) and repaired()):  # noqa: ASYNC110  many things change it
                    await asyncio.sleep(0.01)
                empty_bundles()
        errors = [line for line in metrics.text().splitlines() if line.startswith(b"gpu_admission_feed_errors_total{")]
        assert all(line.endswith(b" 0.0") for line in errors)


@pytest.mark.parametrize("ticks", range(4))
async def test_it_ends_when_it_is_cancelled_just_as_it_is_woken(ticks: int) -> None:
    class Idle(FilePair):
        def __init__(self) -> None: ...

        async def round(self, now: datetime) -> list[str]:
            return []

    woken = asyncio.Event()
    task = asyncio.create_task(certificates.keep(Idle(), Metrics(), logs.configure(), woken))
    for _ in range(5):
        await asyncio.sleep(0)
    woken.set()
    for _ in range(ticks):
        await asyncio.sleep(0)
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=120)
    task.cancel()
    assert done


async def test_while_a_configuration_is_edited_all_the_time_rounds_are_a_second_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The clock stands still. So each pause is a second longer than the one before, but for those of the burst."""
    woken, pauses = asyncio.Event(), list[float]()
    loop, sleep = asyncio.get_running_loop(), asyncio.sleep

    class Edited(FilePair):
        def __init__(self) -> None: ...

        async def round(self, now: datetime) -> list[str]:
            woken.set()
            return []

    async def paused(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    monkeypatch.setattr(loop, "time", lambda: 1000.0)
    monkeypatch.setattr(certificates.asyncio, "sleep", paused)
    task = asyncio.create_task(certificates.keep(Edited(), Metrics(), logs.configure(), woken))
    while len(pauses) < 9:
        await sleep(0)
    task.cancel()
    assert pauses == [0.0] * certificates.BURST + [certificates.BURST_SECONDS * number for number in range(1, 5)]
