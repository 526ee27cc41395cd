"""The log: JSON lines on stderr, one for each decision and one for each other event. No objects and no bodies.

Text of a tenant (the name of a pod or namespace) is always inside a JSON string, so it can neither end a line nor forge one.
"""

import logging
import sys
import traceback
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from time import monotonic
from typing import Any, BinaryIO, Final

import orjson

from webhook.admission.decision import Decision
from webhook.kube.review import Request

_MAX_NAME: Final = 500
"""Maximum length of a name. No object has a longer one, but a forged review may."""
_OPTIONS: Final = orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS | orjson.OPT_APPEND_NEWLINE
_MAX_MESSAGE: Final = 500
"""Maximum length of a message from another library. It may contain text of a stranger."""


class Logger:
    """Writes each event with its fields as one line. `least`: events of a lower level are left out."""

    def __init__(self, stream: BinaryIO, least: int = logging.INFO) -> None:
        self._stream, self._least = stream, least

    def info(self, event: str, **fields: Any) -> None:
        self.write(logging.INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        self.write(logging.WARNING, event, fields)

    def error(self, event: str, **fields: Any) -> None:
        self.write(logging.ERROR, event, fields)

    def write(self, level: int, event: str, fields: Mapping[str, Any]) -> None:
        if level >= self._least:
            line = {"time": datetime.now(UTC), "level": logging.getLevelName(level).lower(), "event": event, **fields}
            self._stream.write(orjson.dumps(line, default=str, option=_OPTIONS))
            self._stream.flush()


class LineLimit:
    """Limits the lines per second about one subject. The number of lines left out is logged in the next second with a line."""

    def __init__(self, log: Logger, subject: str, limit: int, clock: Callable[[], float] = monotonic) -> None:
        self._log = log
        self._subject = subject
        self._limit = limit
        self._clock = clock
        self._second = 0
        self._passed = 0
        self._left_out = 0

    def allowed(self) -> bool:
        """Whether one more line may be written now. If so, it is counted."""
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


def configure(stream: BinaryIO | None = None, least: int = logging.INFO) -> Logger:
    """The logger of the program. From now on, other libraries log the same JSON lines."""
    logger = Logger(stream or sys.stderr.buffer, least)
    root = logging.getLogger()
    root.handlers = [_LibraryLogs(logger)]
    root.setLevel(logging.WARNING)
    return logger


class _LibraryLogs(logging.Handler):
    """Writes the records of the standard library's logging, such as those of aiohttp and asyncio."""

    def __init__(self, logger: Logger) -> None:
        super().__init__()
        self._logger = logger

    def emit(self, record: logging.LogRecord) -> None:
        fields = cause(record.exc_info[1]) if record.exc_info and record.exc_info[1] else {}
        self._logger.write(record.levelno, record.getMessage()[:_MAX_MESSAGE], {"source": record.name, **fields})


def cause(error: BaseException) -> Mapping[str, Any]:
    """An exception as log fields: its type and the place where it was raised. Its text is left out: it may quote a secret."""
    frames = traceback.extract_tb(error.__traceback__)[-8:]
    return {
        "error": type(error).__name__,
        "trace": [f"{frame.filename.rpartition('webhook/')[2]}:{frame.lineno} {frame.name}" for frame in frames],
    }


def fields(hook: str, request: Request, decision: Decision, seconds: float) -> dict[str, Any]:
    """The fields of the line, without the result.

    Findings are logged by rule, action and path. The record is logged only if the pod does not get it as an annotation.
    """
    line: dict[str, Any] = {
        "hook": hook,
        "uid": request.uid,
        "namespace": request.namespace[:_MAX_NAME],
        "pod": (request.name or f"{request.generated}*")[:_MAX_NAME],
        "us": round(seconds * 1e6),
    }
    if (placement := decision.placement) is not None:
        line |= {"node": placement.nodes[0].node} if placement.nodes else {"why": placement.reason}
    if request.dry_run:
        line["dryRun"] = True
    line |= {"profile": decision.profile, "policy": decision.policy}
    if decision.workload:
        line["class"] = decision.workload
    if decision.record and decision.patch is None:
        line["record"] = orjson.Fragment(decision.record)
    if decision.findings:
        line["findings"] = [[unit, action, finding.path] for unit, action, finding in decision.findings]
    return line
