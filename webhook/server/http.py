"""HTTP: a handler gets one whole body of bounded size; every other request gets a 4xx or 503 that says why.

Two servers: the webhook's, HTTPS, and one for probes and metrics, plain HTTP. Both are aiohttp's low-level server, without
application, router and middlewares: two paths each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from time import monotonic
from typing import Final

import orjson
from aiohttp import hdrs, web
from prometheus_client import CONTENT_TYPE_LATEST

from webhook.kube import bounds
from webhook.server.http_response import JSON, TEXT, Answer
from webhook.server.load import Busy, Bytes, Queue, Slow, cost
from webhook.telemetry.logs import LineLimit, Logger, cause
from webhook.telemetry.metrics import Metrics
from webhook.text import listed, quoted

Decide = Callable[[bytes], tuple[int, bytes]]
"""Body in, HTTP status and body out. Does not await: two reviews cannot choose the same GPU."""

MAX_BODY_BYTES: Final = 8 << 20
"""Bytes. The API server accepts requests of up to 3 MiB (MaxRequestBodyBytes); a review of an UPDATE carries the object
twice, 6 MiB; the rest of the envelope and JSON's overhead over protobuf make it 8 (controller-runtime stops at 7)."""
BODY_SECONDS: Final = 5.0
"""For a body that did not come with its headers. The API server waits 3 s (mutate) or 5 s (validate) for all of it."""
LARGE_SECONDS: Final = 10.0
"""Between two bodies above `bounds.MAX_REVIEW_BYTES` on one path. Their object is not looked at, and to parse one takes the only
thread a third of a second at worst: a stranger who sends them without end gets no more than a thirtieth of its time."""
MAX_FAILURE_LINES: Final = 10
"""Log lines in a second about handlers that failed: others would say the same."""
MAX_TEXTS: Final = 10
"""Times in a second that /metrics is made anew; who asks more often gets the last text again."""
_INTERNAL_ERROR = b"internal error: the log of gpu-admission has the cause, under the uid of this review"


class _Refused(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Edge:
    """From a request to a handler and back."""

    def __init__(self, routes: Mapping[str, Decide], metrics: Metrics, log: Logger) -> None:
        self._routes = dict(routes)
        self._metrics = metrics
        self._log = log
        self._failures = LineLimit(log, "failed handlers", MAX_FAILURE_LINES)
        self.queue = Queue()
        self.bytes = Bytes()
        self._large_at: dict[str, float] = {}
        """When the last large body came, by path."""
        self.draining = False

    async def handle(self, request: web.BaseRequest) -> Answer:
        peer, body = request.remote or "", b""
        try:
            decide = self._handler(request)
            body = request.content.read_nowait() if request.content.is_eof() else await self._body(request, peer)
            status, answer = await self.queue.decide(peer, cost(len(body)), lambda: decide(body))
        except _Refused as refused:
            return self._error(refused.status, f"{refused}\n".encode(), close=True)
        except Busy as busy:
            self._metrics.shed.labels(busy.reason).inc()
            whole = request.content.is_eof()  # then it stays open: a new handshake would cost more than the review
            return self._error(503, f"{busy}\n".encode(), close=not whole or self.draining)
        except Exception as error:  # whatever it is: the API server gets a 500, and its failure policy decides
            if self._failures.allowed():
                path = request.rel_url.raw_path
                self._log.error("handler failed", path=path, uid=_uid(body), **cause(error))
            status, answer = 500, _INTERNAL_ERROR
        if status == HTTPStatus.OK:
            return Answer(200, answer, JSON, close=self.draining, unread=self.bytes)
        bad = status in (400, 503)  # no API server sends a bad review, or asks again on this connection
        return self._error(status, answer, close=self.draining or bad)

    def _error(self, status: int, text: bytes, *, close: bool) -> Answer:
        self._metrics.refused.labels(str(status)).inc()
        return Answer(status, text, TEXT, close=close)

    def _handler(self, request: web.BaseRequest) -> Decide:
        """Raises _Refused for what is no review: what was seen, and what is wanted."""
        path, headers = request.rel_url.raw_path, request.headers
        decide = self._routes.get(path)
        if decide is None:
            raise _Refused(404, f"saw path {quoted(path)}, wanted {listed(self._routes)}")
        if request.method != hdrs.METH_POST:
            raise _Refused(405, f"saw method {quoted(request.method)}, wanted POST")
        # aiohttp would inflate it: 200 kB become 200 MB. The API server never compresses what it sends to a webhook.
        if hdrs.CONTENT_ENCODING in headers:
            encoding = quoted(headers[hdrs.CONTENT_ENCODING])
            raise _Refused(415, f"saw Content-Encoding {encoding}, wanted none: send the body as it is")
        if request.content_type != "application/json":
            seen = quoted(headers.get(hdrs.CONTENT_TYPE, ""))
            raise _Refused(415, f"saw Content-Type {seen}, wanted application/json")
        return decide

    async def _body(self, request: web.BaseRequest, peer: str) -> bytes:
        """The body of a request that did not come in one piece. Raises Busy, unread, where it would not be decided."""
        size = request.content_length or 0
        if size > MAX_BODY_BYTES:
            raise _Refused(413, f"saw a body of {size} bytes, wanted at most {MAX_BODY_BYTES}")
        self.queue.check_room(peer, cost(size))
        large = size > bounds.MAX_REVIEW_BYTES
        if large:
            self._large(request)
        if hdrs.EXPECT in request.headers and request.transport is not None:
            request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body, time = bytearray(), asyncio.get_running_loop().time
        limit = asyncio.timeout(BODY_SECONDS)
        slow: Slow | None = None
        dropped = False

        def drop() -> None:
            nonlocal dropped
            dropped = True
            limit.reschedule(time())

        try:
            async with limit:
                slow = self.bytes.begin(peer, size, drop)
                while chunk := await request.content.readany():
                    body += chunk
                    self.bytes.arrived(slow, len(chunk))
                    if not large and len(body) > bounds.MAX_REVIEW_BYTES:
                        large = True
                        self._large(request)
                    if len(body) > MAX_BODY_BYTES:
                        raise _Refused(413, f"saw more than {MAX_BODY_BYTES} bytes of body, wanted at most that")
        except TimeoutError:
            if dropped:
                raise Busy("bodies") from None
            seen = f"saw {len(body)} bytes of body in {BODY_SECONDS:g} s"
            raise _Refused(408, f"{seen}, wanted all {size or ''}".rstrip()) from None
        except (web.RequestPayloadError, ConnectionError) as error:
            raise _Refused(400, f"the body broke off after {len(body)} bytes ({type(error).__name__})") from None
        finally:
            if slow is not None:
                self.bytes.end(slow)
        return bytes(body)

    def _large(self, request: web.BaseRequest) -> None:
        """Raises Busy less than LARGE_SECONDS after another large body."""
        path, now = request.rel_url.raw_path, monotonic()
        if now < self._large_at.get(path, -LARGE_SECONDS) + LARGE_SECONDS:
            raise Busy("large")
        self._large_at[path] = now


def ops(
    metrics: Metrics, missing: Callable[[], list[str]], remark: Callable[[], str] = str
) -> Callable[[web.BaseRequest], Awaitable[Answer]]:
    """The handler of probes and metrics. `missing`: what keeps the server from being ready. `remark`: what /readyz adds to ok."""

    second, renderings, text = 0, 0, b""

    def exposition() -> bytes:
        nonlocal second, renderings, text
        if (now := int(monotonic())) != second:
            second, renderings = now, 0
        if renderings < MAX_TEXTS:
            renderings += 1
            text = metrics.text()
        return text

    async def handle(request: web.BaseRequest) -> Answer:
        path = request.rel_url.raw_path
        if request.method != hdrs.METH_GET:
            text = f"saw method {quoted(request.method)}, wanted GET\n"
            return Answer(405, text.encode(), TEXT, close=True, allow=hdrs.METH_GET)
        if path == "/healthz":  # alive if it answers: a restart would not bring the API server back
            return Answer(200, b"ok\n", TEXT)
        if path == "/readyz":
            waiting_for = missing()
            text = "".join(f"not ready: {reason}\n" for reason in waiting_for) or f"ok\n{remark()}".rstrip() + "\n"
            return Answer(503 if waiting_for else 200, text.encode(), TEXT)
        if path == "/metrics":
            return Answer(200, exposition(), CONTENT_TYPE_LATEST)
        return Answer(
            404, f"saw path {quoted(path)}, wanted /healthz, /readyz or /metrics\n".encode(), TEXT, close=True
        )

    return handle


def _uid(body: bytes) -> str:
    """The uid of the review, by which the line in the log is found."""
    try:
        return str(orjson.loads(body)["request"]["uid"])[:64]
    except (ValueError, LookupError, TypeError):
        return ""
