"""Shared parts of the sources of GPU metrics: the GPU of a series, pods asked some at a time, and bounded HTTP answers.

Nothing in an answer is trusted. Sizes are bounded before anything is read, names are only compared, and samples that cannot be
used are counted in `Utilisation.ignored`.
"""

import asyncio
import random
import re
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any, NamedTuple, Protocol

import aiohttp

from webhook.errors import GpuAdmissionError
from webhook.feeds.api import Api, message
from webhook.feeds.exporters import Exporter, Exporters
from webhook.nodes.gpu_metrics import PODS, SOURCES, GpuMetricsSettings
from webhook.nodes.utilisation import Reading
from webhook.text import plural
from webhook.vendors.catalogue import series_labels

_GPU = series_labels("uuid", "number")
"""Labels that identify a GPU of a node. The first one in a series counts."""
(_INSTANCE,) = series_labels("instance")
_MAX_LABEL = 128
_NAME = re.compile(r"[a-z0-9.-]{1,253}", re.ASCII)
"""A name of a namespace or a pod, or something as short."""
MAX_CONNECTIONS = 32
AT_ONCE = 16
"""Maximum number of pods that are asked at the same time."""
_CONNECT_SECONDS = 3.0
"""Maximum time to connect. A lost node does not even refuse a connection, and hundreds of them must not use up the time."""


class SourceFailed(GpuAdmissionError):
    """A source gave no usable answer. The message says what was seen, where, and what to do."""


class Round(Protocol):
    """Receives the samples of one poll; see `Utilisation`."""

    ignored: Counter[str]

    def add(self, node: str, gpu: str, reading: Reading, value: float, instance: str = "", pod: str = "") -> None: ...


class Source(Protocol):
    async def poll(self, into: Round) -> Mapping[str, str]:
        """Add all current samples. Returns why, for each node that is known to have none.

        Raises SourceFailed, TimeoutError, OSError or aiohttp.ClientError.
        """


class Wiring(NamedTuple):
    """The objects that a source may use."""

    settings: GpuMetricsSettings
    http: aiohttp.ClientSession
    exporters: Exporters
    token: Callable[[], str] | None
    """Reads the bearer token for Prometheus; None without a token."""
    through: str = ""
    """The URL of an API server, to reach pods through its proxy. Empty: pods are reached at their own addresses."""
    api: Api | None = None
    """The API server that runs commands in pods."""


def source_of(wiring: Wiring) -> Source | None:
    """The source that the settings name; None for `off`. If it has no command, its module has the name in snake_case:
    `fixed_load` for fixedLoad."""
    name = wiring.settings.source
    if name not in SOURCES:
        return None
    module = "command" if wiring.settings.command else re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", name)
    source: Source = import_module(f"webhook.feeds.{module}").source(wiring)
    return source


def add_sample(
    into: Round, node: str, labels: Mapping[str, Any], reading: Reading, value: float, *, xids: tuple[int, ...]
) -> None:
    """Add one sample of a series with these labels. `xids`: the Xid errors of a GPU that counts as sick."""
    gpu = next((labels[key] for key in _GPU if labels.get(key)), None)
    instance = labels.get(_INSTANCE, "")
    if not isinstance(gpu, str) or not isinstance(instance, str) or max(len(gpu), len(instance)) > _MAX_LABEL:
        into.ignored["no GPU label"] += 1
        return
    if reading is Reading.XID and 0 <= value < 10_000:
        value = float(value in xids)
    into.add(node, gpu, reading, value, instance, _pod_of(labels))


def _pod_of(labels: Mapping[str, Any]) -> str:
    """The namespace/name of the pod that has the GPU; "" if no labels name one.

    The exporter says it by `namespace` and `pod`. A Prometheus that keeps labels of the same name for the pod that it scrapes
    calls them `exported_namespace` and `exported_pod`; where no pod has the GPU, the exporter's own pod is named then.
    """
    names = [labels.get(f"exported_{key}") or labels.get(key) for key in ("namespace", "pod")]
    if not all([isinstance(name, str) and _NAME.fullmatch(name) for name in names]):
        return ""
    return "/".join(names)  # type: ignore[arg-type]  # both are strings


async def ask_each(wiring: Wiring, ask: Callable[[Exporter], Awaitable[None]]) -> dict[str, str]:
    """Ask every pod that the watch has found, some at a time. Returns the nodes without an answer, and why.

    Raises SourceFailed if there is no pod or none answers. If some do, that is no error: each node becomes stale on its own.
    """
    settings, exporters = wiring.settings, wiring.exporters
    await exporters.listed.wait()
    waiting = list(exporters)
    if not waiting:
        at = settings.asked
        raise SourceFailed(
            f"no running pod with labels {dict(at.selector)} in namespace {at.namespace}; wanted {PODS[settings.source].name}. "
            "Set gpuMetrics.pods"
        )
    random.shuffle(waiting)  # so that pods that do not answer delay others in each poll
    slots, seconds = asyncio.Semaphore(AT_ONCE), settings.stale_after / 3
    errors = {each.node: f"no answer within the {seconds:g} s that all of them have" for each in waiting}

    async def one(exporter: Exporter) -> None:
        async with slots:
            try:
                await ask(exporter)
                errors.pop(exporter.node, None)
            except (GpuAdmissionError, TimeoutError, aiohttp.ClientError, OSError) as error:
                errors[exporter.node] = f"{type(error).__name__}: {error}"[:300]

    with suppress(TimeoutError):
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
            for exporter in waiting:
                group.create_task(one(exporter))
    if len(errors) == len({each.node for each in waiting}):
        node, why = next(iter(errors.items()))
        raise SourceFailed(f"no answer from any of {plural(len(errors), 'node')}; the first, {node}: {why}")
    return errors


def http_session(
    ca_file: str | None = None, tls: ssl.SSLContext | None = None, authorization: str | None = None
) -> aiohttp.ClientSession:
    """A session for `get`: without cookies, proxies from the environment, and decompression. Raises OSError for a bad CA."""
    context = tls or (ssl.create_default_context(cafile=ca_file) if ca_file else True)
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=MAX_CONNECTIONS, ssl=context),
        headers={"Authorization": authorization} if authorization else {},
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,  # a small compressed body could become gigabytes
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
    """The body of an answer. Redirects are not followed, because they could lead anywhere.

    Raises SourceFailed for a status other than 200, a compressed body, or a body of more than `size` bytes. Raises TimeoutError
    if the whole answer takes more than `seconds`.
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
