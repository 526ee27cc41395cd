"""A small asynchronous client of the Kubernetes API that speaks plain dicts."""

import asyncio
import base64
import json
import re
import ssl
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import aiohttp

from tests.controlplane.kinds import path
from tests.controlplane.process import BUSY

T = TypeVar("T")
Json = dict[str, Any]
Items = list[Json]


class Object(Json):
    """An answer of the API server: a plain dict, with the warnings that came with it."""

    warnings: tuple[str, ...] = ()


class ApiError(Exception):
    """The API server said no. `status`: of HTTP; `message`: of the Status object; `body`: that object."""

    def __init__(self, method: str, path: str, status: int, body: Json, warnings: tuple[str, ...] = ()) -> None:
        self.status = status
        self.body = body
        self.message = str(body.get("message", ""))
        self.reason = str(body.get("reason", ""))
        self.warnings = warnings
        super().__init__(f"{method} {path}: {status} {self.reason}: {self.message}")


class Api:
    """As `async with Api(server, token, ca) as api`, or Api.of(kubeconfig).

    Writes are strict about unknown fields, as kubectl's are; fieldValidation="Ignore" says otherwise.
    """

    def __init__(self, server: str, token: str, ca: bytes) -> None:
        self.server = server
        self._token = token
        self._tls = ssl.create_default_context(cadata=ca.decode())

    @classmethod
    def of(cls, kubeconfig: Path) -> Self:
        """From a kubeconfig that holds the certificate and a token, as ControlPlane writes them."""
        content = json.loads(kubeconfig.read_text())
        cluster = content["clusters"][0]["cluster"]
        ca = base64.b64decode(cluster["certificate-authority-data"])
        return cls(cluster["server"], content["users"][0]["user"]["token"], ca)

    async def __aenter__(self) -> Self:
        # Both ends of a connection as in feeds.api.
        self._connector = aiohttp.TCPConnector(
            ssl=self._tls, limit=64, enable_cleanup_closed=sys.version_info < (3, 12, 8)
        )
        self._session = aiohttp.ClientSession(
            self.server,
            connector=self._connector,
            headers={"Authorization": f"Bearer {self._token}"},
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=120),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._connector.close(abort_ssl=True)
        await self._session.close()
        await asyncio.sleep(0)

    async def request(
        self, method: str, path: str, body: object = None, content_type: str = "application/json", **query: str
    ) -> Object:
        """Any request. `query`: parameters of the URL, such as dryRun="All". Raises ApiError for 400 and above."""
        if method != "GET":  # those are not repeated when a connection that was kept turns out to be closed:
            await asyncio.sleep(0.001)  # let the loop see first which are, after a restart of the server
        data = None if body is None else json.dumps(body).encode()
        async with self._session.request(
            method,
            path,
            data=data,
            params=query,
            headers={"Content-Type": content_type},
            timeout=aiohttp.ClientTimeout(total=120),
        ) as answer:
            text = await answer.text()
            warnings = tuple(_warning(header) for header in answer.headers.getall("Warning", []))
            content = json.loads(text) if answer.content_type == "application/json" else {"message": text}
            if answer.status >= 400:
                raise ApiError(method, path, answer.status, content, warnings)
        found = Object(content)
        found.warnings = warnings
        return found

    async def get(self, kind: str, name: str, namespace: str | None = None, subresource: str = "") -> Object:
        return await self.request("GET", path(kind, namespace, name, subresource))

    async def list(self, kind: str, namespace: str | None = None, **query: str) -> Items:
        """The items; of all namespaces if none is given. labelSelector="app=a", fieldSelector=…"""
        return list((await self.request("GET", path(kind, namespace), **query))["items"])

    async def create(
        self, body: Json, namespace: str | None = None, *, name: str = "", subresource: str = "", **query: str
    ) -> Object:
        """Creates an object; `name` and `subresource` for one such as pods/eviction (the kind is then Pod)."""
        namespace = namespace or body["metadata"].get("namespace")
        where = path("Pod" if subresource else body["kind"], namespace, name, subresource)
        return await self.request("POST", where, body, **({"fieldValidation": "Strict"} | query))

    async def replace(self, body: Json, *, subresource: str = "", **query: str) -> Object:
        metadata = body["metadata"]
        where = path(body["kind"], metadata.get("namespace"), metadata["name"], subresource)
        return await self.request("PUT", where, body, **({"fieldValidation": "Strict"} | query))

    async def patch(
        self,
        kind: str,
        name: str,
        change: Json | Items,
        namespace: str | None = None,
        *,
        subresource: str = "",
        strategy: str = "",
        **query: str,
    ) -> Object:
        """A merge patch (a dict) or a JSON Patch (a list); strategy="strategic-merge" or "apply" says otherwise."""
        strategy = strategy or ("json" if isinstance(change, list) else "merge")
        content_type = "application/apply-patch+yaml" if strategy == "apply" else f"application/{strategy}-patch+json"
        query = {"fieldValidation": "Strict"} | query
        return await self.request("PATCH", path(kind, namespace, name, subresource), change, content_type, **query)

    async def delete(
        self, kind: str, name: str, namespace: str | None = None, *, grace: int | None = None, missing_ok: bool = False
    ) -> None:
        """Asks for its end; `grace` in seconds (0: without waiting for a kubelet)."""
        query = {} if grace is None else {"gracePeriodSeconds": str(grace)}
        try:
            await self.request("DELETE", path(kind, namespace, name), **query)
        except ApiError as error:
            if error.status != 404 or not missing_ok:
                raise

    @asynccontextmanager
    async def having(self, *objects: Json, namespace: str | None = None) -> AsyncIterator[None]:
        """With these objects."""
        for each in objects:
            await self.create(each, namespace)
        try:
            yield
        finally:
            for each in objects:
                await self.delete(each["kind"], each["metadata"]["name"], namespace, grace=0 if namespace else None)

    async def delete_all(self, kind: str, namespace: str, **query: str) -> None:
        await self.request("DELETE", path(kind, namespace), **query)

    async def watch(self, kind: str, namespace: str | None = None, **query: str) -> AsyncIterator[tuple[str, Json]]:
        """(type, object) as they come; resourceVersion="…" starts there, else with what there is."""
        async with self._session.get(path(kind, namespace), params={"watch": "true"} | query) as answer:
            if answer.status >= 400:
                raise ApiError("WATCH", path(kind, namespace), answer.status, await answer.json())
            buffer = b""
            async for chunk in answer.content.iter_any():
                *lines, buffer = (buffer + chunk).split(b"\n")
                for line in lines:
                    event = json.loads(line)
                    yield event["type"], event["object"]

    async def pods(self, namespace: str, **labels: str) -> Items:
        """The pods of a namespace with these labels, by name."""
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        found = await self.list("Pod", namespace, **({"labelSelector": selector} if selector else {}))
        return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))

    async def running(self, namespace: str, count: int, within: float = 120, **labels: str) -> Items:
        """Waits until `count` pods with these labels run, and returns them; says why pods do not when it takes long."""

        async def enough() -> Items:
            found = await self.pods(namespace, **labels)
            run = [pod for pod in found if pod["status"].get("phase") == "Running"]
            why = [each.get("message") for pod in found for each in pod["status"].get("conditions", ())]
            assert len(run) == count, f"{len(run)} run of {len(found)}; {next(filter(None, why), '')}"
            return run

        return await wait_until(enough, within, f"{count} running pods in {namespace}", pause(count))

    async def tried(self, namespace: str, count: int, bound: int = 0, **labels: str) -> Items:
        """Waits until there are `count` pods, `bound` or more are bound, and the scheduler placed none of the others.

        A pod whose claim is not made yet has a condition too, and is tried again: that is not the end.
        """

        async def all_of_them() -> Items:
            found = await self.pods(namespace, **labels)
            waiting = [str(pod["status"].get("conditions")) for pod in found if not pod["spec"].get("nodeName")]
            assert len(found) == count, f"{len(found)} pods"
            assert len(waiting) <= count - bound, f"{len(waiting)} are not bound: {waiting[0]}"
            assert all("nodes are available" in text or "SchedulerError" in text for text in waiting), waiting
            return found

        said = f"{count} pods of {namespace} tried, and {bound} bound"
        return await wait_until(all_of_them, 120, said, pause(count))

    async def bound(self, namespace: str, name: str) -> Json:
        """Waits until the scheduler has bound a pod, and returns it."""

        async def there() -> Json | None:
            found = await self.get("Pod", name, namespace)
            return found if found["spec"].get("nodeName") else None

        found = await wait_until(there, 120, f"pod {name} bound")
        assert found is not None
        return found

    async def namespace(self, name: str, labels: Mapping[str, str] | None = None) -> str:
        """Creates a namespace and waits for its default ServiceAccount: before that no pod can be created in it."""
        await self.create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": dict(labels or {})}}
        )
        await wait_until(lambda: self.get("ServiceAccount", "default", name), 120, f"default ServiceAccount of {name}")
        return name


async def refusal(of: Awaitable[Any]) -> str:
    """Why the API server refuses it; "" where it does not."""
    try:
        await of
    except ApiError as error:
        return error.message
    return ""


async def wait_until(attempt: Callable[[], Awaitable[T]], within: float, what: str, every: float = 0.1) -> T:
    """Calls `attempt` until it gives something true, and returns that. An AssertionError or a 404 means: not yet.

    `within`: seconds of an idle machine. Raises AssertionError that says what was awaited and what was seen last.
    """
    deadline = (asked := time.monotonic()) + BUSY * within
    while True:
        try:
            if result := await attempt():
                return result
            seen = repr(result)
        except AssertionError as error:
            seen = str(error)
        except ApiError as error:
            if error.status != 404:
                raise
            seen = str(error)
        if (now := time.monotonic()) > deadline:
            raise AssertionError(f"{what}: not within {BUSY * within:g} s; last seen: {seen[:1000]}")
        await asyncio.sleep(max(every, now - asked))  # at least as long as it took to ask
        asked = time.monotonic()


def pause(objects: int) -> float:
    """Seconds until so many objects are looked at again, which takes the longer, the more there are."""
    return 0.1 + objects / 250


def _warning(header: str) -> str:
    """The text of a Warning header: 299 - "text" (RFC 7234, 5.5)."""
    quoted = re.search(r'"((?:[^"\\]|\\.)*)"', header)
    return re.sub(r"\\(.)", r"\1", quoted[1]) if quoted else header
