"""Starts and stops everything that `gpu-admission serve` needs.

The cluster state comes from an API server, reached from inside the cluster or by a kubeconfig, or from a file (`--from`).
"""

import asyncio
import gc
import os
import signal
import sys
import time
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import orjson

from webhook.errors import PolicyError
from webhook.feeds import certificates, cluster
from webhook.feeds.access import from_kubeconfig, in_cluster
from webhook.feeds.api import CONNECT_SECONDS, Api
from webhook.feeds.certificates import FilePair, keep, read
from webhook.feeds.file import fill
from webhook.feeds.gpu_metrics import GpuMetrics
from webhook.feeds.policy import ConfigMapSink, shipped_policy
from webhook.feeds.tasks import Tasks, every
from webhook.feeds.watch import Feed
from webhook.nodes.gpu_metrics import GpuMetricsSettings
from webhook.nodes.utilisation import Utilisation
from webhook.server.process import Process
from webhook.server.settings import ServeSettings
from webhook.tls.issue import make_ca, make_leaf, service_names
from webhook.tls.rotate import Keeper


def serve_forever(settings: ServeSettings) -> None:
    """Serve until SIGTERM or SIGINT. Raises what `run` does."""
    settings = settings.with_environment(os.environ)
    loop_factory = None
    with suppress(ImportError):
        import uvloop  # noqa: PLC0415  optional: with it a request takes less CPU

        loop_factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(run(settings))


async def run(settings: ServeSettings) -> None:
    """Serve until SIGTERM (after a drain) or SIGINT (at once).

    Raises BadInput, PolicyError or CertificateError if the settings, or the files that they name, cannot be used.
    """
    process = Process(settings)
    end: asyncio.Future[float] = asyncio.get_running_loop().create_future()  # its result: seconds to drain
    for number, drain in ((signal.SIGTERM, 0.0 if settings.cluster else settings.drain_seconds), (signal.SIGINT, 0.0)):
        asyncio.get_running_loop().add_signal_handler(number, _end, end, drain)
    async with AsyncExitStack() as stack:
        access = in_cluster if settings.kubeconfig is None else partial(from_kubeconfig, settings.kubeconfig)
        api = None if settings.cluster else await stack.enter_async_context(Api(access, CONNECT_SECONDS))
        tasks = await stack.enter_async_context(Tasks(process.metrics, process.log))
        _start_policy(process, tasks, api)
        _start_cluster(process, tasks, api)
        _start_gpu_metrics(process, tasks, api)
        await _start_tls(process, tasks, api)
        ports = await process.listen()
        tasks.start("expiry", lambda: every(1.0, lambda: process.state.expire(time.monotonic())))
        while process.missing() and not end.done():  # noqa: ASYNC110  many events change it, and only during the start
            await asyncio.sleep(0.05)
        if not end.done():
            _freeze_heap()
            sys.stdout.buffer.write(orjson.dumps(ports) + b"\n")
            sys.stdout.flush()
        await process.stop(await end)


def _end(end: asyncio.Future[float], drain: float) -> None:
    if not end.done():
        end.set_result(drain)


def _start_policy(process: Process, tasks: Tasks, api: Api | None) -> None:
    """Raises PolicyError if the policy of --policy cannot be parsed, BadInput if it cannot be read."""
    settings, name = process.settings, process.settings.policy
    if name is None and api is not None:
        sink = ConfigMapSink(process.policies, settings.namespace, settings.config_map)
        path = f"/api/v1/namespaces/{settings.namespace}/configmaps"
        fields = f"metadata.name={settings.config_map}"
        watches = process.watches
        feed = Feed(api, "policy", path, sink, process.metrics, process.log, fields=fields, watches=watches)
        tasks.start("feed policy", feed.run)
        tasks.start("policy events", lambda: sink.report(api, process.log))
        return
    text = shipped_policy() if name in (None, "default") else read(Path(str(name)), "--policy")
    if not process.policies.load(text):
        raise PolicyError(str(process.policies.error).splitlines())


def _start_cluster(process: Process, tasks: Tasks, api: Api | None) -> None:
    """Raises BadInput if the file of --from cannot be used."""
    if process.settings.cluster is not None:
        fill(process.state, process.settings.cluster, time.monotonic())
    elif api is not None:
        events, on_bound = process.events, None
        if events is not None:
            tasks.start("events", lambda: events.run(api))
            on_bound = events.bound
        metrics, log, watches = process.metrics, process.log, process.watches
        cluster.start(tasks, api, process.state, metrics, log, time.monotonic, on_bound, watches)


def _start_gpu_metrics(process: Process, tasks: Tasks, api: Api | None) -> None:
    """Poll GPU metrics, unless there is no API server: it knows the exporters."""
    if api is None:
        return
    settings = process.settings
    gpus = Utilisation(GpuMetricsSettings())
    process.state.gpu_metrics = gpus.status
    follow = GpuMetrics(
        lambda: process.policies.current,
        gpus,
        process.state.nodes.use_seen,
        api,
        process.metrics,
        process.log,
        ca_file=settings.prometheus_ca,
        token_file=settings.prometheus_token,
    )
    tasks.start("GPU metrics", follow.run)


async def _start_tls(process: Process, tasks: Tasks, api: Api | None) -> None:
    """Raises BadInput or CertificateError if the pair of --tls-cert and --tls-key cannot be served."""
    settings, live, now = process.settings, process.live, datetime.now(UTC)
    if settings.tls_cert is not None and settings.tls_key is not None:
        source = FilePair(settings.tls_cert, settings.tls_key, live)
        await source.round(now)
        tasks.start("certificate", lambda: keep(source, process.metrics, process.log))
    elif api is not None:
        names = service_names(settings.service, settings.namespace)
        configuration = settings.webhook_configuration
        keeper = Keeper(
            api, live, names, namespace=settings.namespace, secret=settings.secret, configuration=configuration
        )
        certificates.start(tasks, api, keeper, process.metrics, process.log)
    else:
        live.swap(make_leaf(make_ca(now), ["localhost", "127.0.0.1", "::1"], now), now)


def _freeze_heap() -> None:
    """Exclude all present objects from garbage collection: they live as long as the process."""
    gc.collect()
    gc.freeze()
