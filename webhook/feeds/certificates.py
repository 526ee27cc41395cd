"""Keeps the served pair right: from files that somebody else renews, or from the Secret that we keep ourselves."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from webhook.errors import ApiError, BadInput, CertificateError
from webhook.logs import Logger
from webhook.metrics import Metrics
from webhook.tls.issue import Pair
from webhook.tls.rotate import ROUND_SECONDS, Keeper
from webhook.tls.serve import LiveContext

FILE_SECONDS: Final = 10.0
"""Between two looks at the files of a certificate."""


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


async def keep(source: FilePair | Keeper, metrics: Metrics, log: Logger) -> None:
    """Round after round, for ever. An error is logged once, not once a round."""
    seconds = ROUND_SECONDS if isinstance(source, Keeper) else FILE_SECONDS
    last = ""
    while True:
        try:
            if done := await source.round(datetime.now(UTC)):
                log.info("certificate", done=done)
            last = ""
        except (ApiError, BadInput, CertificateError) as error:
            metrics.certificate_errors.add()
            if str(error) != last:
                last = str(error)
                log.error("certificate", why=last)
        await asyncio.sleep(seconds)


def read(path: Path, option: str) -> bytes:
    """A file that was named on the command line. Raises BadInput."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInput(f"{option} {path}: cannot be read: {error.strerror}. Give a file that can") from None
