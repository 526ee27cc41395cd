"""Polls the source of GPU metrics once, from the machine on which the command runs.

The address in the policy is an address inside the cluster. From outside, a Service is reached through the API server, with the
right to get services/proxy, and a DCGM exporter with the right to get pods/proxy. nvidia-smi is always run by the API server.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Container
from contextlib import nullcontext
from typing import Final, NamedTuple
from urllib.parse import SplitResult, urlsplit

import aiohttp
from pydantic import ValidationError

from webhook.cli.cluster.load import without_tls_object
from webhook.errors import BadInput, GpuAdmissionError
from webhook.feeds.access import Access, always
from webhook.feeds.api import Api
from webhook.feeds.exporters import Exporters
from webhook.feeds.gpu_source import SourceFailed, Wiring, http_session, source_of
from webhook.nodes.gpu_metrics import PODS, GpuMetricsSettings
from webhook.nodes.utilisation import Reading, Sample
from webhook.text import quoted
from webhook.whatif.cluster.measured import Measured
from webhook.whatif.cluster.release import NAME
from webhook.whatif.cluster.snapshot import Snapshot

_SERVICE: Final = re.compile(r"([a-z][a-z0-9-]*)(?:\.([a-z0-9-]+)(?:\.svc(?:\..+)?)?)?", re.ASCII)
_PORTS: Final = {"http": 80, "https": 443}


class Recorder:
    """Collects the samples of these nodes. A Prometheus may have samples of other clusters too."""

    def __init__(self, nodes: Container[str]) -> None:
        self.samples: list[Sample] = []
        self.ignored: Counter[str] = Counter()
        self._nodes = nodes

    def add(self, node: str, gpu: str, reading: Reading, value: float, instance: str = "", pod: str = "") -> None:
        if node in self._nodes:
            self.samples.append(Sample(node, gpu, reading, value, instance, pod))
        else:
            self.ignored["of another node"] += 1


class Way(NamedTuple):
    """One way to reach a source: through the API server, or directly if `access` is None."""

    settings: GpuMetricsSettings
    access: Access | None = None
    right: str = ""
    """The right that the API server wants for it, as RBAC names it."""

    def __str__(self) -> str:
        return "through the API server" if self.access else self.settings.url or "the exporters"


def with_url(url: str, settings: GpuMetricsSettings) -> GpuMetricsSettings:
    """The settings for a Prometheus at another address. Raises BadInput."""
    try:
        return GpuMetricsSettings.model_validate({**settings.model_dump(), "source": "prometheus", "url": url})
    except ValidationError:
        wanted = "the base of a Prometheus, as http://localhost:9090, without user and query; or `off`"
        raise BadInput(f"--metrics: saw {quoted(url)}, wanted {wanted}") from None


def way_to(settings: GpuMetricsSettings, access: Access | None, in_pod: bool, ours: str = NAME) -> Way:
    """The way to reach the source. `ours`: the namespace of the webhook."""
    if settings.command:
        return Way(settings, access, f"pods/exec, and to create it, in namespace {settings.asked.namespace}")
    if in_pod or access is None:
        return Way(settings)
    if settings.source in PODS:
        return Way(settings, access, f"pods/proxy in namespace {settings.asked.namespace}")
    if service := _service(urlsplit(settings.url), ours):
        namespace, path = service
        url = f"{access.base}/api/v1/namespaces/{namespace}/services/{path}"
        proxied = settings.model_copy(update={"url": url})
        return Way(proxied, access, f"services/proxy in namespace {namespace}")
    return Way(settings)


def _service(url: SplitResult, ours: str) -> tuple[str, str] | None:
    """The namespace of the Service that a URL names, and its proxy path in the API server; None for any other host.

    A name without a namespace is a Service in our namespace: so the webhook resolves it.
    """
    match = _SERVICE.fullmatch(url.hostname or "")
    if not match or match[1] == "localhost":
        return None
    name = f"{url.scheme}:{match[1]}:{url.port or _PORTS[url.scheme]}"
    return match[2] or ours, f"{name}/proxy{url.path.rstrip('/')}"


async def measure(
    snapshot: Snapshot, settings: GpuMetricsSettings, *, in_pod: bool, within: float | None = None
) -> Measured:
    """The GPU metrics of the nodes of the snapshot. `within`: seconds. Raises SourceFailed."""
    exporters, way = Exporters(settings.asked), way_to(settings, snapshot.access, in_pod, snapshot.release.namespace)
    for pod in snapshot.of("Pod"):
        if pod["metadata"].get("namespace") == settings.asked.namespace:
            exporters.seen(pod)
    exporters.listed.set()
    if settings.command and way.access is None:
        raise SourceFailed(f"{settings.source} needs an API server; give --kubeconfig FILE")
    try:
        async with asyncio.timeout(within or settings.stale_after):
            return await _poll(way, exporters, snapshot.nodes)
    except (GpuAdmissionError, TimeoutError, aiohttp.ClientError, OSError) as error:
        raise SourceFailed(f"{way}: {_why(error, way)}") from None


async def _poll(way: Way, exporters: Exporters, nodes: Container[str]) -> Measured:
    recorder, access = Recorder(nodes), way.access
    tls, authorization = (access.tls, access.authorization) if access else (None, None)
    async with http_session(tls=tls, authorization=authorization) as http:
        wiring = Wiring(way.settings, http, exporters, None, access.base if access else "")
        async with Api(always(access)) if access else nullcontext() as api:
            source = source_of(wiring._replace(api=api))
            assert source is not None
            await source.poll(recorder)
    if not recorder.samples:
        ignored = ", ".join(f"{why}: {count}" for why, count in sorted(recorder.ignored.items()))
        raise SourceFailed(f"no number of a node here{f' ({ignored})' if ignored else ''}")
    return Measured(way.settings.source, recorder.samples)


def _why(error: Exception, way: Way) -> str:
    if way.access and "answered 403" in str(error):
        return f"no right to get {way.right}"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return without_tls_object(str(error)) or type(error).__name__
