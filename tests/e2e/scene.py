"""Two replicas that issue their own certificates."""

import asyncio
import ssl
import time
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.controlplane.api import Api
from tests.controlplane.plane import ControlPlane
from tests.e2e.heard import Heard
from tests.installed import NAMESPACE, Installed
from tests.manifests.files import HOOKS

SECRET = "gpu-admission-tls"
POLICY = "gpu-admission-policy"
TICK, STANDS, TRUSTED, ROUND = 0.5, 2.0, 4.0, 0.5
"""Seconds, all but ROUND by the clock of `Scene.ticking`. A replica waits for ten seconds, an hour and five seconds otherwise."""
PAUSE = 0.2
"""Between two ticks and two looks, by the clock of this machine."""


def sooner(clock: Path | None = None) -> str:
    """What replicas run first, to wait less. Their rounds read the time from this file; without one, from their own clock."""
    code = "from datetime import datetime, timedelta; "
    code += "from webhook.feeds import certificates; from webhook.tls import material, rotate; "
    if clock:
        clock.write_text(str(time.time()))
        code += (
            f"now = lambda zone: datetime.fromtimestamp(float(open({str(clock)!r}).read()), zone); "
            "certificates.datetime = type('Clock', (), {'now': staticmethod(now)}); "
        )
    return (
        f"{code}rotate.PROPAGATION = timedelta(seconds={STANDS}); certificates.ROUND_SECONDS = {ROUND}; "
        "import os; os.environ['GPU_ADMISSION_DRAIN_SECONDS'] = '1'; "
        f"rotate.OVERLAP = material.OVERLAP = timedelta(seconds={TRUSTED})"
    )


class NotTrusted(AssertionError):
    """A client that trusts what API servers trust does not trust a replica."""


@dataclass
class Scene:
    plane: ControlPlane
    webhook: Installed
    api: Api
    clock: Path = Path()
    """What `ticking` writes, and the replicas read."""

    async def bundles(self) -> set[str]:
        """The caBundle of every webhook of both configurations."""
        found = [await self.api.get(kind, "gpu-admission") for kind in HOOKS]
        return {hook["clientConfig"].get("caBundle", "") for each in found for hook in each["webhooks"]}

    async def authority(self) -> str:
        """The bundle in the Secret."""
        return str((await self.api.get("Secret", SECRET, NAMESPACE)).get("data", {}).get("ca.crt", ""))

    async def rested(self) -> bool:
        """Nothing is trusted but the CA of the Secret, and every replica serves a leaf of it."""
        current = await self.authority()
        assert b64decode(current).count(b"BEGIN") == 1, "the older one is trusted still"
        assert await self.bundles() == {current}
        await self.handshakes(current)
        return True

    async def write(self, **data: bytes) -> None:
        text = {key.replace("_", "."): b64encode(value).decode() for key, value in data.items()}
        await self.api.patch("Secret", SECRET, {"data": text}, NAMESPACE)

    async def handshakes(self, bundle: str) -> None:
        """A client that trusts `bundle` calls each replica."""
        trust = ssl.create_default_context(cadata=b64decode(bundle).decode())
        for port in self.webhook.ports:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust, server_hostname="localhost")
            except ssl.SSLError as error:
                trusted = b64decode(bundle).count(b"BEGIN")
                raise NotTrusted(f"replica {port} is not trusted by who knows {trusted} authorities: {error}") from None
            except OSError:
                for member in self.webhook.members:
                    member.check()  # one that has ended never will
                raise AssertionError(f"replica {port} does not serve yet") from None
            writer.close()
            await writer.wait_closed()

    @asynccontextmanager
    async def ticking(self) -> AsyncIterator[None]:
        """The clock of the replicas goes on when the API server has heard of all that was written before the last tick. So
        however busy the machine is, it knows a CA before the replicas believe that it does."""
        async with Heard(self.api) as heard:
            task = asyncio.create_task(self._tick(heard))
            try:
                yield
            finally:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    async def _tick(self, heard: Heard) -> None:
        while True:
            await heard.all()
            written = self.clock.with_suffix(".new")
            written.write_text(str(self.now() + TICK))
            written.replace(self.clock)
            await asyncio.sleep(PAUSE)

    def now(self) -> float:
        return float(self.clock.read_text())

    async def later(self, seconds: float) -> None:
        """So much later, by the clock of the replicas."""
        end = self.now() + seconds
        while self.now() < end:  # noqa: ASYNC110  it has no event
            await asyncio.sleep(PAUSE)
