"""The HTTP edge: what reaches a handler is one whole body of bounded size; what does not gets an honest 4xx or 503.

Two servers. The webhook's, HTTPS, does as little as it can between a request and its handler: aiohttp's low-level
server without application, router and middlewares, the body taken at once where it came with the headers (nearly
always), and an answer whose head is one format operation. The other one, plain HTTP, is for probes and metrics.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Final

import orjson
from aiohttp import hdrs, web
from prometheus_client import CONTENT_TYPE_LATEST

from webhook.logs import Logger, cause
from webhook.metrics import Metrics
from webhook.text import listed, quoted

Decide = Callable[[bytes], tuple[int, bytes]]
"""Body in, HTTP status and body out. Does not await: two reviews cannot choose the same GPU."""

LARGEST_BODY: Final = 8 << 20
"""Bytes. The API server accepts requests of up to 3 MiB (MaxRequestBodyBytes); a review of an UPDATE carries the object
twice, 6 MiB; the rest of the envelope and JSON's overhead over protobuf make it 8 (controller-runtime stops at 7)."""
BODY_SECONDS: Final = 5.0
"""For a body that did not come with its headers. The API server waits 3 s (mutate) or 5 s (validate) for all of it."""
MOST_WAITING: Final = 64
"""Bodies that are still coming: with LARGEST_BODY the most memory that they can take."""
LATE_SECONDS: Final = 0.5
"""The event loop is this far behind: new work is sent away, to be asked again in a second, rather than queued."""

_HEAD = b"HTTP/1.1 %d %b\r\nContent-Type: %b\r\nContent-Length: %d\r\n%b\r\n%b"
_REASONS = {status.value: status.phrase.encode() for status in HTTPStatus}
_JSON, _TEXT = b"application/json", b"text/plain; charset=utf-8"
_CLOSE = b"Connection: close\r\n"
_RETRY = b"Retry-After: 1\r\nConnection: close\r\n"
_MOST_UNSENT = 1 << 20
_INTERNAL_ERROR = b"internal error: the log of gpu-admission has the cause, under the uid of this review"


class Answer(web.StreamResponse):
    """A response whose head is made in one go. Not for HEAD, streaming, cookies or compression.

    aiohttp's own builds a multidict of headers first and serialises it again: a quarter of the whole request here.
    """

    def __init__(self, status: int, body: bytes, content: bytes = _JSON, extra: bytes = b"") -> None:
        # The base class would build what is not used; finish_response needs prepare, write_eof and keep_alive only.
        self._status = status
        self._answer = body
        self._content = content
        self._extra = extra
        self._keep = not extra

    @property
    def keep_alive(self) -> bool:
        return self._keep

    async def prepare(self, request: web.BaseRequest) -> None:
        transport = request.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client went away")
        if self._keep and not request.keep_alive:
            self._keep, self._extra = False, _CLOSE
        head = (self._status, _REASONS[self._status], self._content, len(self._answer), self._extra, self._answer)
        transport.write(_HEAD % head)
        if transport.get_write_buffer_size() > _MOST_UNSENT:  # a client that asks and asks, and never reads
            transport.abort()

    async def write_eof(self, data: bytes = b"") -> None:
        pass


class _Refused(Exception):
    def __init__(self, status: int, message: str, extra: bytes = _CLOSE) -> None:
        super().__init__(message)
        self.status = status
        self.extra = extra


class Edge:
    """From a request to a handler and back."""

    def __init__(self, routes: Mapping[str, Decide], metrics: Metrics, log: Logger) -> None:
        self._routes = dict(routes)
        self._metrics = metrics
        self._log = log
        self._waiting = 0
        self.late = False
        self.draining = False

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        headers = request.headers
        decide = self._routes.get(request.rel_url.raw_path)
        try:
            if (
                decide is None
                or self.late
                or request.method != hdrs.METH_POST
                or headers.get(hdrs.CONTENT_TYPE) != "application/json"
                or hdrs.CONTENT_ENCODING in headers
            ):
                decide = self._judge(request)
            content = request.content
            body = content.read_nowait() if content.is_eof() else await self._body(request)
        except _Refused as refused:
            self._metrics.refused.add(str(refused.status))
            return Answer(refused.status, f"{refused}\n".encode(), _TEXT, refused.extra)
        try:
            status, answer = decide(body)
        except Exception as error:  # whatever it is: the API server gets a 500, and its failure policy decides
            self._log.error("handler failed", path=request.rel_url.raw_path, uid=_uid(body), **cause(error))
            status, answer = 500, _INTERNAL_ERROR
        extra = _CLOSE if self.draining else b""
        if status == HTTPStatus.OK:
            return Answer(200, answer, _JSON, extra)
        self._metrics.refused.add(str(status))
        return Answer(status, answer, _TEXT, _RETRY if status == HTTPStatus.SERVICE_UNAVAILABLE else extra)

    def _judge(self, request: web.BaseRequest) -> Decide:
        """The handler after all, or why there is none: what was seen, and what is wanted."""
        path, headers = request.rel_url.raw_path, request.headers
        decide = self._routes.get(path)
        if decide is None:
            raise _Refused(404, f"saw path {quoted(path)}, wanted {listed(self._routes)}")
        if request.method != hdrs.METH_POST:
            raise _Refused(405, f"saw method {quoted(request.method)}, wanted POST", b"Allow: POST\r\n" + _CLOSE)
        # aiohttp would inflate it: 200 kB become 200 MB. The API server never compresses what it sends to a webhook.
        if hdrs.CONTENT_ENCODING in headers:
            encoding = quoted(headers[hdrs.CONTENT_ENCODING])
            raise _Refused(415, f"saw Content-Encoding {encoding}, wanted none: send the body as it is")
        if request.content_type != "application/json":
            seen = quoted(headers.get(hdrs.CONTENT_TYPE, ""))
            raise _Refused(415, f"saw Content-Type {seen}, wanted application/json")
        if self.late:
            self._metrics.shed.add("late")
            raise _Refused(503, "too much to do: ask again in a second", _RETRY)
        return decide

    async def _body(self, request: web.BaseRequest) -> bytes:
        """The body of a request that did not come in one piece."""
        if (request.content_length or 0) > LARGEST_BODY:
            raise _Refused(413, f"saw a body of {request.content_length} bytes, wanted at most {LARGEST_BODY}")
        if self._waiting >= MOST_WAITING:
            self._metrics.shed.add("bodies")
            raise _Refused(503, f"{MOST_WAITING} bodies are being waited for: ask again in a second", _RETRY)
        if hdrs.EXPECT in request.headers and request.transport is not None:
            request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._waiting += 1
        body = bytearray()
        try:
            async with asyncio.timeout(BODY_SECONDS):
                while chunk := await request.content.readany():
                    body += chunk
                    if len(body) > LARGEST_BODY:
                        raise _Refused(413, f"saw more than {LARGEST_BODY} bytes of body, wanted at most that")
        except TimeoutError:
            seen = f"saw {len(body)} bytes of body in {BODY_SECONDS:g} s"
            raise _Refused(408, f"{seen}, wanted all {request.content_length or ''}".rstrip()) from None
        except (web.RequestPayloadError, ConnectionError) as error:
            raise _Refused(400, f"the body broke off after {len(body)} bytes ({type(error).__name__})") from None
        finally:
            self._waiting -= 1
        return bytes(body)

    async def watch_lateness(self) -> None:
        """Sleep, and see how much later than asked for the loop came back."""
        loop = asyncio.get_running_loop()
        while True:
            asked = loop.time() + 0.1
            await asyncio.sleep(0.1)
            self.late = loop.time() - asked > LATE_SECONDS


def ops(
    metrics: Metrics, missing: Callable[[], list[str]], remark: Callable[[], str] = str
) -> Callable[[web.BaseRequest], Awaitable[Answer]]:
    """The handler of probes and metrics. `missing`: what is not there yet that a ready server has. `remark`: what else to
    say of one that is ready."""

    async def handle(request: web.BaseRequest) -> Answer:
        path = request.rel_url.raw_path
        if request.method != hdrs.METH_GET:
            return Answer(405, f"saw method {quoted(request.method)}, wanted GET\n".encode(), _TEXT, _CLOSE)
        if path == "/healthz":  # alive is whoever answers: a restart would not bring the API server back
            return Answer(200, b"ok\n", _TEXT)
        if path == "/readyz":
            waiting_for = missing()
            text = "".join(f"not ready: {what}\n" for what in waiting_for) or f"ok\n{remark()}".rstrip() + "\n"
            return Answer(503 if waiting_for else 200, text.encode(), _TEXT)
        if path == "/metrics":
            return Answer(200, metrics.text(), CONTENT_TYPE_LATEST.encode())
        return Answer(404, f"saw path {quoted(path)}, wanted /healthz, /readyz or /metrics\n".encode(), _TEXT, _CLOSE)

    return handle


def _uid(body: bytes) -> str:
    """The uid of the review, by which the line in the log is found."""
    try:
        return str(orjson.loads(body)["request"]["uid"])[:64]
    except (ValueError, LookupError, TypeError):
        return ""
