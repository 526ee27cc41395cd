"""What all sources of GPU metrics share: which GPU and node a series is about, and bounded HTTP answers.

Everything in an answer was written by somebody else. Sizes are bounded before they are read, names are only compared,
and what does not fit is counted in `Utilisation.ignored`.
"""

from __future__ import annotations

import re
import ssl
from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib import import_module
from typing import Any, NamedTuple, Protocol

import aiohttp

from webhook.cluster.gpu_metrics import SOURCES, GpuMetricsSettings
from webhook.cluster.utilisation import Reading
from webhook.errors import GpuAdmissionError
from webhook.feeds.api import message
from webhook.feeds.exporters import Exporters

READINGS = {
    "utilisation": Reading.UTILISATION,
    "engine": Reading.ENGINE,
    "memory_used": Reading.MEMORY_USED,
    "memory_free": Reading.MEMORY_FREE,
    "temperature": Reading.TEMPERATURE,
    "xid": Reading.SICK,
}
"""By the field of `gpuMetrics.queries`."""
_GPU = ("UUID", "uuid", "gpu_uuid", "gpu", "gpu_id", "device")
"""Labels that tell the GPUs of a node apart; the first that a series has. DCGM labels MIG instances by the UUID of
their GPU and GPU_I_ID."""
_INSTANCE = "GPU_I_ID"
_MAX_LABEL = 128
_MAX_NODE = 300
_NODE = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)
MAX_CONNECTIONS = 32
_CONNECT_SECONDS = 3.0
"""A node that is gone does not even refuse: hundreds of them must not use up the time of the others."""


class SourceFailed(GpuAdmissionError):
    """A source gave no usable answer. The message says what was seen, where, and what to do."""


class Round(Protocol):
    """Takes the numbers of one poll; see `Utilisation`."""

    ignored: Counter[str]

    def add(self, node: str, gpu: str, reading: Reading, value: float, instance: str = "") -> None: ...


class Source(Protocol):
    async def poll(self, into: Round) -> None:
        """Add every number that there is now. Raises SourceFailed, TimeoutError, OSError or aiohttp.ClientError."""


class Wiring(NamedTuple):
    """What a source is made of; it takes what it needs."""

    settings: GpuMetricsSettings
    http: aiohttp.ClientSession
    exporters: Exporters
    token: Callable[[], str] | None
    """The bearer token for Prometheus, read anew; None where there is none."""
    through: str = ""
    """The base of an API server through which pods are asked; "" asks them at their own addresses."""


def source_of(wiring: Wiring) -> Source | None:
    """The source that the settings name, from its module: `fixed_load` for fixedLoad. None for `off`."""
    name = wiring.settings.source
    if name not in SOURCES:
        return None
    module = re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", name)
    source: Source = import_module(f"webhook.feeds.{module}").source(wiring)
    return source


def put(
    into: Round, node: str, labels: Mapping[str, Any], reading: Reading, value: float, *, xids: tuple[int, ...]
) -> None:
    """Add one number of a series with these labels. `xids`: what makes a GPU sick."""
    gpu = next((labels[key] for key in _GPU if labels.get(key)), None)
    instance = labels.get(_INSTANCE, "")
    if not isinstance(gpu, str) or not isinstance(instance, str) or max(len(gpu), len(instance)) > _MAX_LABEL:
        into.ignored["no GPU label"] += 1
        return
    if reading is Reading.SICK and 0 <= value < 10_000:
        value = float(value in xids)
    into.add(node, gpu, reading, value, instance)


def node_of(labels: Mapping[str, Any], settings: GpuMetricsSettings, exporters: Mapping[str, str]) -> str | None:
    """The node that a series is about, or None. `exporters`: nodes by the address and by the name of their exporter.

    Before release 3.1.3 `Hostname` was the name of the exporter's pod (dcgm-exporter pull request 129), and `instance`
    is its address with a port.
    """
    value = next((labels[key] for key in settings.node_labels if labels.get(key)), None)
    if not isinstance(value, str) or len(value) > _MAX_NODE:
        return None
    host, name = _host(value)
    return exporters.get(host) or name


@lru_cache(maxsize=8192)
def _host(value: str) -> tuple[str, str | None]:
    """ "10.0.0.7" of "10.0.0.7:9400", "fd00::7" of "[fd00::7]:9400"; and the same where it can be the name of a node."""
    host = value[1:].partition("]")[0] if value.startswith("[") else value.partition(":")[0]
    return host, host if _NODE.fullmatch(host) else None


def http_session(
    ca_file: str | None = None, tls: ssl.SSLContext | None = None, authorization: str | None = None
) -> aiohttp.ClientSession:
    """A session for `get`: no cookies, no proxy of the environment, no decompression. Raises OSError for a bad CA."""
    context = tls or (ssl.create_default_context(cafile=ca_file) if ca_file else True)
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=MAX_CONNECTIONS, ssl=context),
        headers={"Authorization": authorization} if authorization else {},
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,  # a small body that unpacks to gigabytes is not bounded by reading it in pieces
        trust_env=False,
    )


async def get(
    http: aiohttp.ClientSession,
    url: str,
    seconds: float,
    size: int,
    *,
    params: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """The body of an answer. Redirects are not followed: they could lead anywhere.

    Raises SourceFailed for a status other than 200, a compressed body or one of more than `size` bytes, TimeoutError after
    so many seconds for all of it.
    """
    request_headers = {"Accept-Encoding": "identity", **(headers or {})}
    timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=_CONNECT_SECONDS)
    body = bytearray()
    async with http.get(
        url, params=params, headers=request_headers, timeout=timeout, allow_redirects=False
    ) as response:
        if response.status != 200:
            raise SourceFailed(f"{url} answered {response.status} {await message(response)}; wanted 200")
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise SourceFailed(f"{url} answered compressed though asked not to; look for a proxy in between")
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > size:
                raise SourceFailed(f"{url} answered more than {size} bytes; is it what it should be?")
    return bytes(body)
