"""Keeps the served certificate up to date: from files that somebody else renews, or from the webhook's own Secret.

The webhook configurations are watched too, so a changed `caBundle` is repaired at once and not at the next check.
"""

import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from webhook.errors import ApiError, BadInput, CertificateError
from webhook.feeds.api import Api, Object
from webhook.feeds.tasks import Tasks, TokenBucket
from webhook.feeds.watch import Feed, Sink
from webhook.telemetry.logs import Logger
from webhook.telemetry.metrics import Metrics
from webhook.tls.issue import Pair
from webhook.tls.rotate import CONFIGURATION_KINDS, CONFIGURATIONS, ROUND_SECONDS, Keeper
from webhook.tls.serve import LiveContext

FILE_SECONDS: Final = 10.0
"""Time between two checks of the files of a certificate."""
BURST, BURST_SECONDS = 5, 1.0
"""Number of early rounds that may start at once; after that, one in BURST_SECONDS. This limits the load on the API server if
somebody edits a configuration all the time, or another program writes caBundle."""


class FilePair:
    """A certificate and its key in two files.

    Their content is compared, not their time: mounted Secrets change by links and send no reliable file events.
    """

    def __init__(self, certificate: Path, key: Path, live: LiveContext) -> None:
        self._certificate, self._key, self._live = certificate, key, live

    async def round(self, now: datetime) -> list[str]:
        """Serve the pair if it has changed. Returns what was done. Raises BadInput or CertificateError: the old pair stays."""
        pair = Pair(read(self._certificate, "--tls-cert"), read(self._key, "--tls-key"))
        return [f"a pair that ends {self._live.ends} is served"] if self._live.swap(pair, now) else []


class ConfigurationSink(Sink):
    """Starts a round when the caBundle of a webhook configuration is wrong."""

    def __init__(self, keeper: Keeper, woken: asyncio.Event) -> None:
        self._keeper, self._woken = keeper, woken

    def seen(self, obj: Object, *, listed: bool = False) -> None:
        if not self._keeper.has_bundle(obj):
            self._woken.set()


def start(tasks: Tasks, api: Api, keeper: Keeper, metrics: Metrics, log: Logger) -> None:
    """Keep the Secret and both webhook configurations up to date while `tasks` run."""
    woken = asyncio.Event()
    for kind in CONFIGURATION_KINDS:
        fields = f"metadata.name={keeper.configuration}"
        sink = ConfigurationSink(keeper, woken)
        path = f"{CONFIGURATIONS}/{kind}"
        # Without the permission to watch (older RBAC rules), the rounds still repair a wrong caBundle.
        feed = Feed(api, kind, path, sink, metrics, log, fields=fields, optional=True)
        tasks.start(f"feed {kind}", feed.run)
    tasks.start("certificate", lambda: keep(keeper, metrics, log, woken))


async def keep(source: FilePair | Keeper, metrics: Metrics, log: Logger, woken: asyncio.Event | None = None) -> None:
    """Do a round every few seconds, and at once when `woken` is set. Never returns. An error that repeats is logged once."""
    woken = woken or asyncio.Event()
    seconds = ROUND_SECONDS if isinstance(source, Keeper) else FILE_SECONDS
    clock = asyncio.get_running_loop().time
    early_rounds = TokenBucket(BURST, BURST_SECONDS, clock())
    last = ""
    while True:
        woken.clear()
        try:
            if done := await source.round(datetime.now(UTC)):
                log.info("certificate", done=done)
            last = ""
        except (ApiError, BadInput, CertificateError) as error:
            metrics.certificate_errors.inc()
            if str(error) != last:
                last = str(error)
                log.error("certificate", why=last)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):  # wait_for of Python 3.11 loses a cancellation beside the event
                await woken.wait()
            await asyncio.sleep(early_rounds.reserve(clock()))


def read(path: Path, option: str) -> bytes:
    """The content of a file from the command line. `option` names it in errors. Raises BadInput."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInput(f"{option} {path}: cannot be read: {error.strerror}. Give a file that can") from None
