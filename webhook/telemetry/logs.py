"""The log: JSON lines on stderr, one for each decision and one for each other event. No objects and no bodies.

Text of a tenant (the name of a pod or namespace) is always inside a JSON string, so it can neither end a line nor forge one.
"""

import logging
import sys
import traceback
from collections.abc import Callable, Mapping, MutableMapping
from datetime import UTC, datetime
from time import monotonic
from typing import Any, BinaryIO, Final

import orjson
import structlog

from webhook.admission.decision import Decision
from webhook.kube.review import Request

Logger = structlog.typing.FilteringBoundLogger


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


_MAX_NAME: Final = 500
"""Maximum length of a name. No object has a longer one, but a forged review may."""
_OPTIONS = orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS
_MAX_MESSAGE = 500
"""Maximum length of a message from another library. It may contain text of a stranger."""


def configure(stream: BinaryIO | None = None) -> Logger:
    """Set up logging. Returns the logger of the program. From now on, other libraries log the same JSON lines."""
    out = stream or sys.stderr.buffer
    structlog.configure(
        processors=[_render],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.BytesLoggerFactory(out),
        cache_logger_on_first_use=False,
    )
    logger: Logger = structlog.get_logger().bind()
    root = logging.getLogger()
    root.handlers = [_LibraryLogs(logger)]
    root.setLevel(logging.WARNING)
    return logger


def _render(_: Any, level: str, event: MutableMapping[str, Any]) -> bytes:
    """The only structlog processor."""
    fields = {"time": datetime.now(UTC), "level": level, "event": event.pop("event"), **event}
    return orjson.dumps(fields, default=str, option=_OPTIONS)


class _LibraryLogs(logging.Handler):
    """Writes the records of the standard library's logging, such as those of aiohttp and asyncio."""

    def __init__(self, logger: Logger) -> None:
        super().__init__()
        self._logger = logger

    def emit(self, record: logging.LogRecord) -> None:
        fields = cause(record.exc_info[1]) if record.exc_info and record.exc_info[1] else {}
        self._logger.log(record.levelno, record.getMessage()[:_MAX_MESSAGE], source=record.name, **fields)


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
