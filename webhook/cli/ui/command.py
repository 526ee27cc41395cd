"""`gpu-admission ui`: serves the page on this machine, or writes it to a file."""

import asyncio
import gc
import logging
import secrets
import time
import webbrowser
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final

import structlog
import typer

from webhook.cli import options
from webhook.cli.cluster.load import way_to_api
from webhook.cli.doctor import READ
from webhook.cli.reading import policy_of, poll_gpus, snapshot_of, use_metrics
from webhook.cli.terminal import out, say, write
from webhook.cli.ui.live import Fixed, Live
from webhook.cli.ui.page import page
from webhook.cli.ui.picture import Picture
from webhook.errors import BadInput
from webhook.policy.model import Policy
from webhook.text import plural
from webhook.whatif.answers import KINDS
from webhook.whatif.cluster.measured import Measured
from webhook.whatif.cluster.snapshot import Snapshot

_MEASURED_FOR: Final = 30.0
"""Seconds for which GPU metrics are used before they are asked for again."""


def ui(
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the page to a file as the cluster is now, and end.")
    ] = None,
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1; 0 takes a free one.", min=0, max=65535)] = 0,
    browser: Annotated[bool, typer.Option("--open", help="Open the page in the browser of this machine.")] = False,
    namespace: options.Namespace = None,
    policy: options.Policy = None,
    metrics: options.Metrics = None,
    file: options.From = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
) -> None:
    """Show a page: the GPUs of each node and who has them, why pods wait, and the last decisions.

    The page follows the cluster. It is served on 127.0.0.1 only, to those who have its address, and changes nothing. On another
    machine: `ssh -L PORT:127.0.0.1:PORT`. With `--html FILE` it is one file that loads nothing and can be sent to somebody.
    Nothing is installed in the cluster. Example: `gpu-admission ui --open`.
    """
    kinds = (
        KINDS if html is None else tuple(dict.fromkeys((*KINDS, *READ)))
    )  # a page that is served reads the rest when asked
    snapshot = snapshot_of(file, kubeconfig, context, kinds, namespace, needed=("Pod",))
    snapshot.namespace = namespace or snapshot.namespace
    making = Making(policy, metrics, live=file is None and html is None)
    source = file.name if file else snapshot.access.base if snapshot.access else ""
    if html is not None:
        fixed = Fixed(picture := making(snapshot), source)
        write(html, page({**fixed.shown, **(more := picture.for_file())}))
        return say(
            f"{html}: {plural(len(picture.document['nodes']), 'node')}, {len(picture.document['waiting'])} waiting"
            + (
                f"; left out, as the file would be too large: what helps {more['leftOut']} of them"
                if more["leftOut"]
                else ""
            )
        )
    gc.freeze()  # what was read at the start stays
    gc.enable()
    try:
        if file is not None:
            asyncio.run(_serve(Fixed(making(snapshot), source), port, browser))
        else:
            asyncio.run(_follow(snapshot, making, source, port, browser, kubeconfig, context))
    except KeyboardInterrupt:
        return None
    finally:
        making.close()
    return None


class Making:
    """Makes pictures with the policy and the GPU metrics of the command's options.

    `live`: metrics are asked for now and then by a thread of their own, so that no picture waits for a source that is slow.
    """

    def __init__(self, policy: str | None, metrics: str | None, *, live: bool) -> None:
        self._policy, self._metrics = policy, metrics
        self._thread = ThreadPoolExecutor(1, "metrics") if live and metrics != "off" else None
        self._asking: Future[Measured | None] | None = None
        self._measured: Measured | None = None
        self._asked = float("-inf")

    def __call__(self, snapshot: Snapshot) -> Picture:
        policy = policy_of(self._policy, snapshot)
        if self._thread is None:
            poll_gpus(snapshot, policy, self._metrics)
        else:
            snapshot.measured = self._latest(snapshot, policy, self._thread)
        use_metrics(snapshot, policy)
        return Picture(snapshot, policy, self._policy)

    def _latest(self, snapshot: Snapshot, policy: Policy, thread: ThreadPoolExecutor) -> Measured | None:
        """The numbers that the source gave last. It is asked again when they are old."""
        if (asked := self._asking) is not None and asked.done():
            self._asking, self._measured = None, asked.result()
        if self._asking is None and time.monotonic() - self._asked > _MEASURED_FOR:
            self._asked = time.monotonic()
            self._asking = thread.submit(self._poll, replace(snapshot), policy)
        return self._measured

    def _poll(self, snapshot: Snapshot, policy: Policy) -> Measured | None:
        poll_gpus(snapshot, policy, self._metrics)
        return snapshot.measured

    def close(self) -> None:
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)


async def _follow(
    snapshot: Snapshot,
    making: Callable[[Snapshot], Picture],
    source: str,
    port: int,
    browser: bool,
    kubeconfig: Path | None,
    context: str | None,
) -> None:
    from webhook.feeds.api import Api  # noqa: PLC0415  slow to import, and few commands need it
    from webhook.telemetry.logs import configure  # noqa: PLC0415
    from webhook.telemetry.metrics import Metrics  # noqa: PLC0415

    configure()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))  # the page says what fails
    live = Live(snapshot, making, source)
    async with Api(way_to_api(kubeconfig, context)[1]) as api:
        following = asyncio.create_task(live.run(api, Metrics(), structlog.get_logger()))
        try:
            await _serve(live, port, browser)
        finally:
            following.cancel()


async def _serve(source: Any, port: int, browser: bool) -> None:
    """Serve until Ctrl-C. Raises BadInput if the port is taken."""
    from aiohttp import web  # noqa: PLC0415  slow to import, and few commands need it

    from webhook.cli.ui.server import ADDRESS, app  # noqa: PLC0415

    token, once = secrets.token_urlsafe(24), secrets.token_urlsafe(24) if browser else ""
    runner = web.AppRunner(app(source, token, once), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, ADDRESS, port)
        try:
            await site.start()
        except OSError as error:
            raise BadInput(f"--port {port}: {error.strerror}. Give another one, or 0 for a free one") from None
        address = f"http://{ADDRESS}:{runner.addresses[0][1]}/"
        out(f"{address}#token={token}")
        say("open it in a browser; Ctrl-C ends it", "dim")
        if browser:
            webbrowser.open(f"{address}?once={once}")
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()
