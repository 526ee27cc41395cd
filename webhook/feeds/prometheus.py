"""GPU metrics from the Prometheus HTTP API, by instant queries (prometheus.io/docs/prometheus/latest/querying/api).

An answer about 100,000 GPUs has 40 MB. It is parsed while it arrives, some hundred series at a time, so that it is
never held as a whole and no review waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp
import orjson

from webhook.cluster.gpu_metrics import GpuMetricsSettings
from webhook.cluster.utilisation import Reading, Utilisation
from webhook.feeds.gpu_source import READINGS, SourceFailed, Wiring, get, node_of, put
from webhook.feeds.gpu_targets import Pods, exporters
from webhook.kube.gpus import Gpus
from webhook.text import quoted

_CHUNK = 1 << 15
_MOST_BUFFER = 16 << 20
"""One series, or a whole answer that is not written as Prometheus does."""
_MOST_BYTES = 1 << 30
_HEAD = b'"resultType":"vector","result":['
_BETWEEN = b'},{"metric":'
"""Cannot stand inside a JSON string, where a quote has a backslash before it."""


class Vector:
    """The elements of an instant vector while its bytes arrive. Any JSON is read right; the usual form in pieces."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._head: bytes | None = None
        """What came before the first element, once it is known."""

    def feed(self, chunk: bytes) -> list[Any]:
        """The elements that are complete by now. Raises SourceFailed where they are no JSON, or without an end."""
        self._buffer += chunk
        if self._head is None:
            at = self._buffer.find(_HEAD, 0, 4096)
            if at >= 0:
                self._head = bytes(self._buffer[: at + len(_HEAD)])
                del self._buffer[: at + len(_HEAD)]
        cut = self._buffer.rfind(_BETWEEN) if self._head is not None else -1
        if cut < 0:
            if len(self._buffer) > _MOST_BUFFER:
                raise SourceFailed(f"an answer with more than {_MOST_BUFFER} bytes for one series; wanted Prometheus")
            return []
        found = _json(b"[" + self._buffer[: cut + 1] + b"]")
        del self._buffer[: cut + 2]
        return _elements(found)

    def close(self) -> list[Any]:
        """The last elements. Raises SourceFailed where the answer is cut short, or is no instant vector."""
        document = _json((self._head or b"") + self._buffer)
        data = document.get("data") if isinstance(document, dict) else None
        if not isinstance(data, dict) or document.get("status") != "success":
            raise SourceFailed("an answer without status success and data; wanted the Prometheus HTTP API")
        if data.get("resultType") != "vector":
            raise SourceFailed(
                f"a query answered with a {quoted(data.get('resultType'))}; wanted an instant vector. "
                "Change gpuMetrics.queries"
            )
        return _elements(data.get("result"))


def _json(text: bytes | bytearray) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise SourceFailed(f"an answer that is no JSON: {error}") from None


def _elements(found: Any) -> list[Any]:
    if not isinstance(found, list):
        raise SourceFailed(f"a result that is a {type(found).__name__}; wanted a list of series")
    return found


def series(element: Any) -> tuple[Mapping[str, Any], float] | None:
    """Labels and value of one element; None for what is no sample (a histogram, a wrong type)."""
    if not isinstance(element, dict):
        return None
    labels, value = element.get("metric"), element.get("value")
    if not isinstance(labels, dict) or not isinstance(value, list) or len(value) != 2:
        return None
    text = value[1]
    if not isinstance(text, str) or len(text) > 32 or "_" in text:
        return None
    try:
        return labels, float(text)
    except ValueError:
        return None


class PrometheusSource:
    """`exporters` gives the nodes by address and name of their exporter; `token` a bearer token, read at each poll."""

    def __init__(
        self,
        settings: GpuMetricsSettings,
        http: aiohttp.ClientSession,
        exporters: Callable[[], Mapping[str, str]] = dict,
        token: Callable[[], str] | None = None,
    ) -> None:
        self._settings = settings
        self._http = http
        self._exporters = exporters
        self._token = token
        self._url = settings.url.rstrip("/") + "/api/v1/query"
        self._queries = [(READINGS[key], query) for key, query in settings.queries if query]

    async def poll(self, into: Utilisation) -> None:
        """One query after the other; if one fails, the poll does: half a round would say that GPUs are idle."""
        headers = {"Authorization": f"Bearer {self._token()}"} if self._token else {}
        exporters = self._exporters()
        for reading, query in self._queries:
            await self._ask(reading, query, headers, exporters, into)

    async def _ask(
        self, reading: Reading, query: str, headers: Mapping[str, str], exporters: Mapping[str, str], into: Utilisation
    ) -> None:
        seconds = self._settings.timeout
        params = {"query": query, "timeout": f"{seconds:g}s"}
        vector, size = Vector(), 0
        async with get(self._http, self._url, seconds, params=params, headers=headers) as response:
            async for chunk in response.content.iter_chunked(_CHUNK):
                size += len(chunk)
                if size > _MOST_BYTES:
                    raise SourceFailed(f"{self._url} answered more than {_MOST_BYTES} bytes to {quoted(query)}")
                self._take(vector.feed(chunk), reading, exporters, into)
                await asyncio.sleep(0)
        self._take(vector.close(), reading, exporters, into)

    def _take(self, elements: list[Any], reading: Reading, exporters: Mapping[str, str], into: Utilisation) -> None:
        settings = self._settings
        for element in elements:
            found = series(element)
            if found is None:
                into.ignored["no sample"] += 1
            elif (node := node_of(found[0], settings, exporters)) is None:
                into.ignored["no node label"] += 1
            else:
                put(into, node, found[0], reading, found[1], xids=settings.sick.xids)


def pods(settings: GpuMetricsSettings, gpus: Gpus) -> Pods:
    """Exporters, to know the nodes of series by their addresses: it does not wait for them."""
    return exporters(settings)._replace(awaited=False)


def source(wiring: Wiring) -> PrometheusSource:
    return PrometheusSource(wiring.settings, wiring.http, wiring.targets.nodes, wiring.token)
