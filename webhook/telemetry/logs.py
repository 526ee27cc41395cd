"""JSON lines on stderr: one for each decision (`decision_log`), one for what else happens. Never an object, never a body.

Keys and constants are ours; what a tenant wrote (the name of a pod or namespace) stands in a JSON string, so it can
neither end a line nor forge another.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable, Mapping, MutableMapping
from datetime import UTC, datetime
from time import monotonic
from typing import Any, BinaryIO

import orjson
import structlog

Logger = structlog.typing.FilteringBoundLogger


class LineLimit:
    """So many lines a second are written. How many were left out is a line of its own, in the next second that has any."""

    def __init__(self, log: Logger, subject: str, limit: int, clock: Callable[[], float] = monotonic) -> None:
        self._log = log
        self._subject = subject
        self._limit = limit
        self._clock = clock
        self._second = 0
        self._passed = 0
        self._left_out = 0

    def allowed(self) -> bool:
        """Whether the line that is to be written may be."""
        second = int(self._clock())
        if second != self._second:
            left_out = self._left_out
            self._second, self._passed, self._left_out = second, 0, 0
            if left_out:
                self._log.warning("lines left out", what=self._subject, count=left_out)
        if self._passed < self._limit:
            self._passed += 1
            return True
        self._left_out += 1
        return False


_OPTIONS = orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS
_MAX_MESSAGE = 500
"""Characters of a message that another library wrote: it may be a stranger's."""


def configure(stream: BinaryIO | None = None, level: int = logging.INFO) -> Logger:
    """The program's logger. Other libraries' log records come out as the same JSON lines from then on."""
    out = stream or sys.stderr.buffer
    structlog.configure(
        processors=[_render],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.BytesLoggerFactory(out),
        cache_logger_on_first_use=False,
    )
    logger: Logger = structlog.get_logger().bind()
    root = logging.getLogger()
    root.handlers = [_LibraryLogs(logger)]
    root.setLevel(max(level, logging.WARNING))
    return logger


def _render(_: Any, level: str, event: MutableMapping[str, Any]) -> bytes:
    """The one processor."""
    fields = {"time": datetime.now(UTC), "level": level, "event": event.pop("event"), **event}
    return orjson.dumps(fields, default=str, option=_OPTIONS)


class _LibraryLogs(logging.Handler):
    """Records of the standard library's logging: aiohttp, asyncio."""

    def __init__(self, logger: Logger) -> None:
        super().__init__()
        self._logger = logger

    def emit(self, record: logging.LogRecord) -> None:
        fields = cause(record.exc_info[1]) if record.exc_info and record.exc_info[1] else {}
        self._logger.log(record.levelno, record.getMessage()[:_MAX_MESSAGE], source=record.name, **fields)


def cause(error: BaseException) -> Mapping[str, Any]:
    """An exception as fields: its type and where it was raised. Not its text, which may quote a pod or a secret."""
    frames = traceback.extract_tb(error.__traceback__)[-8:]
    return {
        "error": type(error).__name__,
        "trace": [f"{frame.filename.rpartition('webhook/')[2]}:{frame.lineno} {frame.name}" for frame in frames],
    }
