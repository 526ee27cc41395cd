"""Handles HTTP requests: a review reaches its handler as one whole body of bounded size, any other request gets a 4xx or 503.

There are two servers: HTTPS for the webhook, and plain HTTP for probes and metrics. Both use the low-level server of aiohttp,
without application, router and middlewares, because each has only a few paths.
"""

import asyncio
import io
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from http import HTTPStatus
from time import monotonic, thread_time
from typing import Final

import orjson
from aiohttp import hdrs, web
from prometheus_client import CONTENT_TYPE_LATEST

from webhook.kube import bounds
from webhook.server.load import MAX_BYTES, MAX_UNREAD, Bounded, Held, Turns
from webhook.telemetry.logs import LineLimit, Logger, cause
from webhook.telemetry.metrics import Metrics
from webhook.text import listed, quoted

JSON, TEXT = "application/json", "text/plain; charset=utf-8"
Answer = tuple[int, bytes]
"""HTTP status and body."""
BodyHandler = Callable[[bytes], Answer]
"""The handler of a path: it answers the body of a request. It does not await, and raises Early if it had better wait."""


class Early(Exception):
    """A review that came before the watch has shown what it is about. `known`: whether the watch has by now. `answer`: the
    answer by what is known then. `tenant`: whose review it is."""

    def __init__(self, tenant: str, known: Callable[[], bool], answer: Callable[[], Answer]) -> None:
        super().__init__("what it is about is not known yet")
        self.tenant, self.known, self.answer = tenant, known, answer


MAX_BODY_BYTES: Final = 8 << 20
"""Maximum size of a body. The API server accepts requests of up to 3 MiB (MaxRequestBodyBytes), and the review of an UPDATE has
the object twice, which is 6 MiB. The rest is for other fields and for JSON in place of protobuf (controller-runtime: 7 MiB)."""
# A body without Content-Length is refused before any of it is parsed: chunks of one byte would take a whole core. All API servers
# send it (v0.34.2 to v0.37.1): plugin/webhook/{mutating,validating}/dispatcher.go of k8s.io/apiserver gives the review to
# client.Post().Body as an object; rest/request.go of k8s.io/client-go encodes it and calls http.NewRequestWithContext with a
# *bytes.Reader, whose length net/http takes.
LATE_SECONDS: Final = 0.8
"""CPU time of this thread after which the turn of a body comes too late. The API server asks again in a second, within the same
3 s (with_retry.go of k8s.io/client-go). It is not wall time: on a busy machine there is not too much to do here."""
BODY_SECONDS: Final = 5.0
"""Maximum time for a body to arrive after its headers. The API server waits 3 s (mutate) or 5 s (validate) for the whole call."""
LARGE_SECONDS: Final = 10.0
"""Minimum time between two bodies above `bounds.MAX_REVIEW_BYTES` on one path. Their object is not read, but to parse one can
take the only thread a third of a second. So a stranger who sends them without end takes at most a thirtieth of its time."""
SMALL: Final = 16 << 10
"""Bytes of a body that are expected to take as long as one more small review. Of ordinary pods it is more than they take; 61 KiB
of a policy can take 90 (`bench.hostile`), which counts once it is known."""
EARLY_SECONDS: Final = 1.0
"""Maximum time that a review waits for what is on its way: a watch that begins anew on a busy machine is late by some tenths."""
MAX_EARLY: Final = 16
"""Maximum number of reviews of one tenant that wait so: others are decided at once. The Job controller has five workers, each of
which waits for its pod, and what a tenant writes can be about what never comes. A large review does not wait: what is parsed of
it takes twelve times its bytes and more, and all connections may have one."""
MAX_FAILURE_LINES: Final = 10
"""Maximum number of log lines per second about failed handlers."""
MAX_RENDERINGS: Final = 10
"""Maximum number of times per second that /metrics is rendered. More frequent requests get the last text again."""
_NAMESPACE: Final = re.compile(rb'"namespace": ?"([a-z0-9-]{1,63})"')
_BEFORE_OBJECT: Final = 2 << 10
"""Bytes of a review in which its namespace is (AdmissionRequest of k8s.io/api/admission/v1 has it before userInfo and object). A
quote in a name that comes before it is escaped."""
_INTERNAL_ERROR = b"internal error: the log of gpu-admission has the cause, under the uid of this review"


def response(
    status: int, body: bytes, content_type: str = JSON, *, close: bool = False, allow: str = hdrs.METH_POST
) -> web.Response:
    """`close`: close the connection afterwards. `allow`: the method that a 405 names."""
    headers = {hdrs.CONTENT_TYPE: content_type, hdrs.CONTENT_LENGTH: str(len(body)), hdrs.SERVER: "gpu-admission"}
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers[hdrs.RETRY_AFTER] = "1"
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        headers[hdrs.ALLOW] = allow
    pieces = io.BytesIO(body) if len(body) > MAX_UNREAD else body  # TLS would take all of it at once
    made = web.Response(status=status, body=pieces, headers=headers)
    if close:
        made.force_close()
    return made


def cost(size: int) -> float:
    """The expected work for a body of `size` bytes, as a multiple of that for a small review."""
    return 1 + size / SMALL


class _Refused(Exception):
    """`shed`: there is too much to do, and the client should ask again in a second; the reason, `bodies`, `large` or `late`."""

    def __init__(self, status: int, message: str = "too much to do: ask again in a second", *, shed: str = "") -> None:
        super().__init__(message)
        self.status, self.shed = status, shed


class Edge:
    """The HTTP side of the webhook: it checks each request, passes the body to the handler of its path, and sends the answer."""

    def __init__(self, routes: Mapping[str, BodyHandler], metrics: Metrics, log: Logger, turns: Turns) -> None:
        self._routes = dict(routes)
        self._metrics = metrics
        self._log = log
        for reason in ("bodies", "large", "late"):
            metrics.shed.labels(reason)  # 0 from now on: Prometheus sees a rate only after a first value
        self._failures = LineLimit(log, "failed handlers", MAX_FAILURE_LINES)
        self.turns = turns
        self.held = Bounded(MAX_BYTES)
        """The bytes of bodies that come in parts. Of others each connection has one, of `MAX_UNREAD` at most."""
        self._large_at: dict[str, float] = {}
        """Time of the last large body, by path."""
        self._early = Counter[str]()
        """How many reviews of each tenant wait for what is on its way."""
        self.draining = False

    async def handle(self, request: web.BaseRequest) -> web.Response:
        body = b""
        try:
            handler = self._handler(request)
            size = self._size(request)
            line = f"{request.remote} {request.rel_url.raw_path}{' large' if size > bounds.SMALL_REVIEW else ''}"
            if request.content.is_eof():  # all of it is there, and the parser bounds it
                body = request.content.read_nowait()
                done = await self._turn(request, line, body)
            else:
                body, done = await self._body(request, line, size)
            status, answer = await self._answered(partial(handler, body), request, line, body, done)
        except _Refused as refused:
            close = True
            if refused.shed:
                self._metrics.shed.labels(refused.shed).inc()
                # A whole request: keep the connection, because a new handshake would cost more than the review.
                close = not request.content.is_eof() or self.draining
            return self._error(refused.status, f"{refused}\n".encode(), close=close)
        except Exception as error:  # a bug: the API server gets a 500 and applies its failure policy
            if self._failures.allowed():
                path = request.rel_url.raw_path
                self._log.error("handler failed", path=path, uid=_uid(body), **cause(error))
            status, answer = 500, _INTERNAL_ERROR
        if status == HTTPStatus.OK:
            return response(200, answer, JSON, close=self.draining)
        bad = status in (400, 503)  # no API server sends a bad review, or asks again on this connection
        return self._error(status, answer, close=self.draining or bad)

    def _error(self, status: int, text: bytes, *, close: bool) -> web.Response:
        self._metrics.refused.labels(str(status)).inc()
        return response(status, text, TEXT, close=close)

    def _handler(self, request: web.BaseRequest) -> BodyHandler:
        """The handler of the path. Raises _Refused if path, method or headers are not those of a review."""
        path, headers = request.rel_url.raw_path, request.headers
        handler = self._routes.get(path)
        if handler is None:
            raise _Refused(404, f"saw path {quoted(path)}, wanted {listed(self._routes)}")
        if request.method != hdrs.METH_POST:
            raise _Refused(405, f"saw method {quoted(request.method)}, wanted POST")
        # aiohttp would decompress the body: 200 kB may become 200 MB. The API server never compresses a review.
        if hdrs.CONTENT_ENCODING in headers:
            encoding = quoted(headers[hdrs.CONTENT_ENCODING])
            raise _Refused(415, f"saw Content-Encoding {encoding}, wanted none: send the body as it is")
        # aiohttp would parse it, by Python's parser of mail: a second for 8 KB, before it is anybody's turn.
        content_type = headers.get(hdrs.CONTENT_TYPE, "")
        if content_type.partition(";")[0].strip().lower() != JSON:
            raise _Refused(415, f"saw Content-Type {quoted(content_type)}, wanted {JSON}")
        return handler

    def _size(self, request: web.BaseRequest) -> int:
        """The size of the body. Raises _Refused if it must not be read."""
        size = request.content_length
        if size is None or hdrs.TRANSFER_ENCODING in request.headers:
            raise _Refused(411, "saw a body without its length, wanted Content-Length, as every API server sends it")
        if size > MAX_BODY_BYTES:
            raise _Refused(413, f"saw a body of {size} bytes, wanted at most {MAX_BODY_BYTES}")
        if size > bounds.MAX_REVIEW_BYTES:
            self._check_large(request.rel_url.raw_path)
        return size

    async def _body(self, request: web.BaseRequest, line: str, size: int) -> tuple[bytes, Callable[[], None]]:
        """A body that is not all there yet, when it is its turn; and the result of `_turn`."""
        body, loop = bytearray(), asyncio.get_running_loop()
        limit = asyncio.timeout(BODY_SECONDS)
        held = Held(request.remote or "", lambda: limit.reschedule(loop.time()))
        if hdrs.EXPECT in request.headers and request.transport is not None:
            request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        try:
            async with limit:
                while chunk := await request.content.readany():
                    body += chunk
                    self.held.add(held, len(chunk))
                limit.reschedule(None)
                whole = bytes(body)
                return whole, await self._turn(request, line, whole)
        except TimeoutError:
            if body and not held.size:  # cut: too many bytes are held
                raise _Refused(503, shed="bodies") from None
            raise _Refused(408, f"saw {len(body)} bytes of body in {BODY_SECONDS:g} s, wanted all {size}") from None
        except (web.RequestPayloadError, ConnectionError) as error:
            raise _Refused(400, f"the body broke off after {len(body)} bytes ({type(error).__name__})") from None
        finally:
            self.held.remove(held)

    async def _turn(self, request: web.BaseRequest, line: str, body: bytes) -> Callable[[], None]:
        """Wait for a turn in this line. Returns what is to be called when its work is done. Raises _Refused if it is too late."""
        arrived, expected, namespace = thread_time(), cost(len(body)), _namespace(body)
        await self.turns.wait(line, expected, namespace)
        if (now := thread_time()) - arrived > LATE_SECONDS:
            raise _Refused(503, shed="late")
        if request.transport is None:
            raise _Refused(400, "nobody waits for the answer any more")
        return lambda: self.turns.spent(line, thread_time() - now, expected, namespace)

    async def _answered(
        self, answer: Callable[[], Answer], request: web.BaseRequest, line: str, body: bytes, done: Callable[[], None]
    ) -> Answer:
        """The answer, or what it is after a little while if it comes too early. `done`: see `_turn`."""
        try:
            return answer()
        except Early as early:  # not kept: it holds this frame, and so the whole review
            tenant, known, later = early.tenant, early.known, early.answer
        finally:
            done()
        if len(body) <= bounds.SMALL_REVIEW and self._early[tenant] < MAX_EARLY:
            self._early[tenant] += 1
            try:
                await _until(known, EARLY_SECONDS)
            finally:
                self._early[tenant] -= 1
                self._early += Counter()  # keeps those that wait
        return await self._answered(later, request, line, body, await self._turn(request, line, body))

    def _check_large(self, path: str) -> None:
        """Raises _Refused if another large body came on this path less than LARGE_SECONDS ago."""
        now = monotonic()
        if now < self._large_at.get(path, -LARGE_SECONDS) + LARGE_SECONDS:
            raise _Refused(503, shed="large")
        self._large_at[path] = now


async def _until(known: Callable[[], bool], seconds: float) -> None:
    """Wait until it is known, at most so long. It is asked ever more rarely: many may wait for what never comes."""
    waited = 0.0
    while waited < seconds and not known():
        pause = min(max(0.005, waited), seconds - waited)
        await asyncio.sleep(pause)
        waited += pause


def ops(
    metrics: Metrics, missing: Callable[[], list[str]], remark: Callable[[], str] = str
) -> Callable[[web.BaseRequest], Awaitable[web.Response]]:
    """The handler of probes and metrics.

    `missing`: the reasons why the server is not ready, if any. `remark`: text that /readyz adds to "ok".
    """

    second, renderings, text = 0, 0, b""

    def exposition() -> bytes:
        nonlocal second, renderings, text
        if (now := int(monotonic())) != second:
            second, renderings = now, 0
        if renderings < MAX_RENDERINGS:
            renderings += 1
            text = metrics.text()
        return text

    async def handle(request: web.BaseRequest) -> web.Response:
        path = request.rel_url.raw_path
        if request.method != hdrs.METH_GET:
            text = f"saw method {quoted(request.method)}, wanted GET\n"
            return response(405, text.encode(), TEXT, close=True, allow=hdrs.METH_GET)
        if path == "/healthz":  # any answer means alive: a restart would not repair a lost API server
            return response(200, b"ok\n", TEXT)
        if path == "/readyz":
            reasons = missing()
            text = "".join(f"not ready: {reason}\n" for reason in reasons) or f"ok\n{remark()}".rstrip() + "\n"
            return response(503 if reasons else 200, text.encode(), TEXT)
        if path == "/metrics":
            return response(200, exposition(), CONTENT_TYPE_LATEST)
        text = f"saw path {quoted(path)}, wanted /healthz, /readyz or /metrics\n"
        return response(404, text.encode(), TEXT, close=True)

    return handle


def _namespace(body: bytes) -> str:
    """The namespace of a review, as an API server writes it: before all that a user wrote. "" if there is none."""
    found = _NAMESPACE.search(body, 0, _BEFORE_OBJECT)
    return found[1].decode() if found else ""


def _uid(body: bytes) -> str:
    """The uid of the review, which the answer and the log line share; empty if it has none."""
    try:
        return str(orjson.loads(body)["request"]["uid"])[:64]
    except (ValueError, LookupError, TypeError):
        return ""
