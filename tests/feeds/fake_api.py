"""A small HTTP server that lists and watches as the API server does, and fails on demand."""

import asyncio
import itertools
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
from aiohttp import web

from tests.feeds.exporters import served
from webhook.feeds.access import Access
from webhook.feeds.api import Api

Json = dict[str, Any]


class FakeApi:
    """Objects by path and name. Each change gets a version. `path`: the path of a list, `/api/v1/nodes`."""

    def __init__(self) -> None:
        self.url = ""
        self.objects: dict[str, dict[str, Json]] = defaultdict(dict)
        self.history: dict[str, list[tuple[int, str, Json]]] = defaultdict(list)
        self.oldest = 0
        """A watch from a version before this one gets 410."""
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.tokens: list[str | None] = []
        self.impersonated: list[list[tuple[str, str]]] = []
        self.refuse: dict[tuple[str, str], tuple[int, str]] = {}
        """The status and message of a refusal, by verb (`list`, `watch`, `get`, `put`, `post`, `patch`) and path."""
        self.texts: dict[str, str] = {}
        """Answers that are no objects, by path: metrics, a version. Their verb is `get`."""
        self.silent = False
        """Watches are accepted, but no event is sent."""
        self.watch_ends_at_once = False
        self._versions = itertools.count(1)
        self.version = 0
        self._changed = asyncio.Event()
        self._watches: set[web.StreamResponse] = set()

    # --- what happens in the cluster ------------------------------------------------------------------------------------

    def put(self, path: str, name: str, **rest: Any) -> Json:
        metadata = {"name": name, "uid": f"uid-{name}", **rest.pop("metadata", {})}
        kind = "MODIFIED" if name in self.objects[path] else "ADDED"
        return self._record(path, kind, {"metadata": metadata, **rest})

    def delete(self, path: str, name: str) -> None:
        self._record(path, "DELETED", self.objects[path][name])

    def _record(self, path: str, kind: str, obj: Json) -> Json:
        self.version = next(self._versions)
        obj = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.version)}}
        if kind == "DELETED":
            del self.objects[path][obj["metadata"]["name"]]
        else:
            self.objects[path][obj["metadata"]["name"]] = obj
        self.history[path].append((self.version, kind, obj))
        self._wake()
        return obj

    def bookmark(self, path: str) -> None:
        self.version = next(self._versions)
        self.history[path].append((self.version, "BOOKMARK", {"metadata": {"resourceVersion": str(self.version)}}))
        self._wake()

    def error_event(self, path: str, code: int) -> None:
        self.history[path].append((self.version, "ERROR", {"kind": "Status", "code": code, "message": "too old"}))
        self._wake()

    def forget(self) -> None:
        """Etcd was compacted. A client that has not seen all events must list again."""
        self.oldest = self.version

    def cut(self) -> None:
        """Reset every open watch."""
        for response in list(self._watches):
            transport = response._req.transport  # type: ignore[union-attr]
            if transport is not None:
                transport.abort()

    def asked(self, verb: str, path: str) -> list[dict[str, str]]:
        return [query for v, p, query in self.requests if (v, p) == (verb, path)]

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    # --- the server -----------------------------------------------------------------------------------------------------

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        path, query = request.path, dict(request.query)
        verb = "watch" if "watch" in query else self._verb(request)
        self.requests.append((verb, path, query))
        self.tokens.append(request.headers.get("Authorization"))
        self.impersonated.append([each for each in request.headers.items() if each[0].startswith("Impersonate-")])
        if path in self.texts:
            verb = "get"
        if (verb, path) in self.refuse:
            return status(*self.refuse[verb, path])
        if path in self.texts:
            return web.Response(text=self.texts[path])
        if verb == "list":
            return self._list(path, query)
        if verb == "watch":
            return await self._watch(request, path, int(query["resourceVersion"] or 0), query)
        parent, _, name = path.rpartition("/")
        if verb == "get":
            obj = self.objects[parent].get(name)
            return web.json_response(obj) if obj else status(404, f"{name} not found")
        body = orjson.loads(await request.read())
        if verb == "put":
            if body["metadata"]["resourceVersion"] != self.objects[parent][name]["metadata"]["resourceVersion"]:
                return status(409, "the object has been modified")
            return web.json_response(self._record(parent, "MODIFIED", body))
        if verb == "patch":
            return self._patch(parent, name, body)
        if body["metadata"]["name"] in self.objects[path]:
            return status(409, "already exists")
        return web.json_response(self._record(path, "ADDED", body), status=201)

    def _patch(self, parent: str, name: str, changes: Json) -> web.Response:
        """A merge patch, one level deep."""
        if (obj := self.objects[parent].get(name)) is None:
            return status(404, f"{name} not found")
        version = changes.pop("metadata", {}).get("resourceVersion")
        if version not in (None, obj["metadata"]["resourceVersion"]):
            return status(409, "the object has been modified")
        return web.json_response(self._record(parent, "MODIFIED", obj | changes))

    def _verb(self, request: web.BaseRequest) -> str:
        if request.method != "GET":
            return request.method.lower()
        return "list" if "limit" in request.query else "get"

    def _list(self, path: str, query: dict[str, str]) -> web.Response:
        objects = [obj for obj in self.objects[path].values() if selected(obj, query)]
        start, limit = int(query.get("continue", 0)), int(query["limit"])
        metadata: Json = {"resourceVersion": str(self.version)}
        if start + limit < len(objects):
            metadata["continue"] = str(start + limit)
        return web.json_response({"kind": "List", "metadata": metadata, "items": objects[start : start + limit]})

    async def _watch(
        self, request: web.BaseRequest, path: str, since: int, query: dict[str, str]
    ) -> web.StreamResponse:
        if since < self.oldest:
            return status(410, "too old resource version")
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        if self.watch_ends_at_once:
            return response
        self._watches.add(response)
        try:
            sent = next((i for i, (v, *_) in enumerate(self.history[path]) if v > since), len(self.history[path]))
            while True:
                changed = self._changed
                for _, kind, obj in self.history[path][sent:]:
                    if kind == "ERROR" or (not self.silent and (kind == "BOOKMARK" or selected(obj, query))):
                        await response.write(orjson.dumps({"type": kind, "object": obj}) + b"\n")
                sent = len(self.history[path])
                await changed.wait()
        finally:
            self._watches.discard(response)


def selected(obj: Json, query: dict[str, str]) -> bool:
    _, _, name = query.get("fieldSelector", "").partition("metadata.name=")
    return not name or obj["metadata"]["name"] == name


def status(code: int, message: str) -> web.Response:
    return web.json_response({"kind": "Status", "code": code, "message": message}, status=code)


@asynccontextmanager
async def fake_api() -> AsyncIterator[FakeApi]:
    fake = FakeApi()
    async with served(fake.handle) as port:
        fake.url = f"http://127.0.0.1:{port}"
        yield fake


@asynccontextmanager
async def client_of(fake: FakeApi, token: str | None = None) -> AsyncIterator[Api]:
    async def access() -> Access:
        return Access(fake.url, None, token and f"Bearer {token}", None, 60.0)

    async with Api(access) as api:
        yield api
