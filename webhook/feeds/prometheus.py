"""Reads GPU metrics from Prometheus by instant queries (prometheus.io/docs/prometheus/latest/querying/api).

An answer for 100,000 GPUs has 40 MB. It is parsed in parts of some hundred series. Parsed at once it would take half a gigabyte
of memory, and reviews would wait.
"""

import asyncio
import re
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from webhook.feeds.gpu_source import Round, SourceFailed, Wiring, add_sample, get
from webhook.nodes.gpu_metrics import GpuMetricsSettings
from webhook.nodes.utilisation import Reading
from webhook.text import quoted

MAX_BYTES = 64 << 20
"""Maximum size of the answer to one query."""
_NODE = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)
_PART = 1 << 16
"""Bytes parsed in one turn of the event loop."""
_HEAD = b'"resultType":"vector","result":['
_BETWEEN = b'},{"metric":'
"""The text between two series. It cannot occur inside a JSON string, where each quote follows a backslash."""


def vector(body: bytes, part: int = _PART) -> Iterator[list[Any]]:
    """The elements of an instant vector, in parts, or in one part if the answer is not formatted as Prometheus does it.

    Raises SourceFailed if the answer is incomplete or no instant vector. Then no part may be used.
    """
    head = body.find(_HEAD, 0, 4096)
    head = start = head + len(_HEAD) if head >= 0 else len(body)
    while (end := body.find(_BETWEEN, start + part)) >= 0:
        yield _elements(_json(b"[" + body[start : end + 1] + b"]"))
        start = end + 2
    document = _json(body[:head] + body[start:])
    data = document.get("data") if isinstance(document, dict) else None
    if not isinstance(data, dict) or document.get("status") != "success":
        raise SourceFailed("an answer without status success and data; wanted the Prometheus HTTP API")
    if (kind := data.get("resultType")) != "vector":
        raise SourceFailed(
            f"a query answered with a {quoted(kind)}; wanted an instant vector. Change gpuMetrics.queries"
        )
    yield _elements(data.get("result"))


def _json(text: bytes) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise SourceFailed(f"an answer that is no JSON: {error}") from None


def _elements(result: Any) -> list[Any]:
    if not isinstance(result, list):
        raise SourceFailed(f"a result that is a {type(result).__name__}; wanted a list of series")
    return result


def series(element: Any) -> tuple[Mapping[str, Any], float] | None:
    """The labels and the value of one element; None if it is no sample (a histogram, or a wrong type)."""
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


def node_of(labels: Mapping[str, Any], settings: GpuMetricsSettings, exporters: Mapping[str, str]) -> str | None:
    """The node of a series, or None. `exporters`: nodes by the address and by the pod name of their exporter.

    The label `instance` is the address of the exporter with a port. Before dcgm-exporter 3.1.3 `Hostname` was the name of its pod
    (dcgm-exporter pull request 129).
    """
    value = next((labels[key] for key in settings.node_labels if labels.get(key)), None)
    if not isinstance(value, str):
        return None
    host = value[1:].partition("]")[0] if value.startswith("[") else value.partition(":")[0]  # [fd00::7]:9400
    return exporters.get(host) or (host if _NODE.fullmatch(host) else None)


class PrometheusSource:
    """Makes one query after another. If one fails, the poll fails: with a part of the answers, GPUs would look idle."""

    def __init__(self, wiring: Wiring) -> None:
        self._settings, self._http, self._exporters, self._token, *_ = wiring
        self._url = self._settings.url.rstrip("/") + "/api/v1/query"

    async def poll(self, into: Round) -> Mapping[str, str]:
        settings, exporters = self._settings, self._exporters.nodes()
        headers = {"Authorization": f"Bearer {self._token()}"} if self._token else {}
        for key, query in settings.queries:
            if not query:
                continue
            params = {"query": query, "timeout": f"{settings.timeout:g}s"}
            body = await get(self._http, self._url, settings.timeout, MAX_BYTES, params=params, headers=headers)
            for elements in vector(body):
                self._put(elements, Reading[key.upper()], exporters, into)
                await asyncio.sleep(0)
        return {}

    def _put(self, elements: list[Any], reading: Reading, exporters: Mapping[str, str], into: Round) -> None:
        for element in elements:
            sample = series(element)
            if sample is None:
                into.ignored["no sample"] += 1
            elif (node := node_of(sample[0], self._settings, exporters)) is None:
                into.ignored["no node label"] += 1
            else:
                add_sample(into, node, sample[0], reading, sample[1], xids=self._settings.sick.xids)


source = PrometheusSource
