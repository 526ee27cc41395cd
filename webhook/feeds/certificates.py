"""Keeps the served pair right: from files that somebody else renews, or from the Secret that we keep ourselves.

The webhook configurations are watched as well: a `caBundle` that somebody blanks is mended at once, and not at the next round.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from webhook.errors import ApiError, BadInput, CertificateError
from webhook.feeds.api import Api, Object
from webhook.feeds.tasks import Tasks
from webhook.feeds.watch import Feed, Sink
from webhook.telemetry.logs import Logger
from webhook.telemetry.metrics import Metrics
from webhook.tls.issue import Pair
from webhook.tls.rotate import CONFIGURATION_KINDS, CONFIGURATIONS, ROUND_SECONDS, Keeper
from webhook.tls.serve import LiveContext

FILE_SECONDS: Final = 10.0
"""Between two looks at the files of a certificate."""
BURST: Final = 5
BURST_SECONDS: Final = 1.0
"""After a burst of rounds ahead of their time, there is one in so many seconds."""


class FilePair:
    """A certificate and its key in two files.

    Their content is compared, not their time: mounted Secrets change by links, and send no reliable file events.
    """

    def __init__(self, certificate: Path, key: Path, live: LiveContext) -> None:
        self._certificate, self._key, self._live = certificate, key, live

    async def round(self, now: datetime) -> list[str]:
        """What was done. Raises BadInput or CertificateError: the pair that was served stays."""
        pair = Pair(read(self._certificate, "--tls-cert"), read(self._key, "--tls-key"))
        return [f"a pair that ends {self._live.ends} is served"] if self._live.swap(pair, now) else []


class Pace:
    """How soon there may be a round ahead of its time: at once for the first few, then one in BURST_SECONDS. Somebody who
    edits all the time, or another writer of caBundle, costs the API server no more than that."""

    def __init__(self, now: float) -> None:
        self._left, self._at = float(BURST), now

    def wait(self, now: float) -> float:
        """Take one; the seconds until it may begin."""
        self._left = min(float(BURST), self._left + (now - self._at) / BURST_SECONDS) - 1
        self._at = now
        return max(0.0, -self._left * BURST_SECONDS)


class ConfigurationSink(Sink):
    """Wakes the keeper when a webhook configuration is not as it should be."""

    def __init__(self, keeper: Keeper, woken: asyncio.Event) -> None:
        self._keeper, self._woken = keeper, woken

    def seen(self, obj: Object) -> None:
        if not self._keeper.has_bundle(obj):
            self._woken.set()


def start(tasks: Tasks, api: Api, keeper: Keeper, metrics: Metrics, log: Logger) -> None:
    """Keep the Secret and both configurations for as long as `tasks` run."""
    woken = asyncio.Event()
    for kind in CONFIGURATION_KINDS if keeper.configuration else ():
        fields = f"metadata.name={keeper.configuration}"
        sink = ConfigurationSink(keeper, woken)
        path = f"{CONFIGURATIONS}/{kind}"
        # Without the right to watch (older access rules) the rounds still find what is wrong.
        feed = Feed(api, kind, path, sink, metrics, log, fields=fields, optional=True)
        tasks.start(f"feed {kind}", feed.run)
    tasks.start("certificate", lambda: keep(keeper, metrics, log, woken))


async def keep(source: FilePair | Keeper, metrics: Metrics, log: Logger, woken: asyncio.Event | None = None) -> None:
    """A round every few seconds, for ever, and at once when `woken`. An error is logged once, not in each round."""
    woken = woken or asyncio.Event()
    seconds = ROUND_SECONDS if isinstance(source, Keeper) else FILE_SECONDS
    clock = asyncio.get_running_loop().time
    pace = Pace(clock())
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
            await asyncio.wait_for(woken.wait(), seconds)
            await asyncio.sleep(pace.wait(clock()))


def read(path: Path, option: str) -> bytes:
    """A file that was named on the command line. Raises BadInput."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInput(f"{option} {path}: cannot be read: {error.strerror}. Give a file that can") from None
