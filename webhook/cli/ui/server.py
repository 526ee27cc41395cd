"""Serves the page on this machine only: to those who know the token, and to read.

A page of another site cannot read anything here: it does not know the token, which stands in the fragment of the address and is
sent as a header; a name of its own that leads here is refused by `Host`; and no answer allows another origin.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import Any, Final

import orjson
from aiohttp import hdrs, web

from webhook.cli.ui.live import Live
from webhook.cli.ui.page import content_policy, page
from webhook.errors import GpuAdmissionError
from webhook.text import bare

ADDRESS: Final = "127.0.0.1"
_HOSTS: Final = frozenset((ADDRESS, "localhost"))
HOLD_SECONDS: Final = 20.0
"""A question for a newer state is answered after this long even if there is none."""
_HEADERS: Final = {
    "Content-Security-Policy": content_policy(connect_src="'self'", frame_ancestors="'none'"),
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def app(live: Live, token: str, once: str = "") -> web.Application:
    """The server as an application. It answers GET only. Who comes with `once` first is sent on to the address with the token:
    others on this machine see the arguments of a browser."""

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            answer = await _guarded(request, handler, token)
        except web.HTTPException as error:  # as of a path that does not exist
            answer = _refused(error.status, error.reason)
        except Exception as error:  # a bug: in words that the page can show
            answer = _refused(500, f"this could not be answered: {type(error).__name__}: {bare(str(error))}")
        answer.headers.update(_HEADERS)
        return answer

    async def root(request: web.Request) -> web.Response:
        nonlocal once
        if once and secrets.compare_digest(request.query.get("once", "").encode(), once.encode()):
            once = ""
            return web.Response(status=302, headers={hdrs.LOCATION: f"/#token={token}"})
        return web.Response(text=page(), content_type="text/html")

    async def state(request: web.Request) -> web.Response:
        """The state, once it is newer than `after`; 204 if it is not in HOLD_SECONDS."""
        after = request.query.get("after", "")
        known = int(after) if after.isdecimal() and len(after) < 16 else -1
        try:
            async with asyncio.timeout(HOLD_SECONDS):
                await live.changed(known)
        except TimeoutError:
            return web.Response(status=204)
        return web.Response(body=orjson.dumps(live.shown), content_type="application/json")

    async def about(request: web.Request) -> web.Response:
        return await _said(live.about(request.query.get("namespace", ""), request.query.get("name", "")))

    async def answer(request: web.Request) -> web.Response:
        return await _said(live.answer(request.query.get("question", ""), dict(request.query)))

    served = web.Application(middlewares=[guard])
    for path, handler in (("/", root), ("/state", state), ("/pod", about), ("/answer", answer)):
        served.router.add_get(path, handler)
    return served


async def _said(asked: Awaitable[dict[str, Any]]) -> web.Response:
    """An answer as JSON, or why there is none."""
    try:
        return web.Response(body=orjson.dumps(await asked), content_type="application/json")
    except GpuAdmissionError as error:
        return _refused(404, str(error))


async def _guarded(request: web.Request, handler: Handler, token: str) -> web.StreamResponse:
    if _name(request.host) not in _HOSTS:
        return _refused(421, f"this page is at http://{ADDRESS} only, and not at another name")
    if request.path != "/":  # the page itself says nothing of the cluster
        given = request.headers.get(hdrs.AUTHORIZATION, "").removeprefix("Bearer ")
        if not secrets.compare_digest(given.encode(), token.encode()):
            return _refused(401, "the token is missing or wrong: open the address that gpu-admission ui printed")
    return await handler(request)


def _name(host: str) -> str:
    """The name in a Host header, which may have a port: that of a forwarded connection is another one than ours."""
    return host.rpartition(":")[0] or host


def _refused(status: int, why: str) -> web.Response:
    return web.Response(status=status, body=orjson.dumps({"error": why}), content_type="application/json")
