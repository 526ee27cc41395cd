"""`gpu-admission ui`: serves the page on this machine, or writes it to a file."""

import asyncio
import gc
import secrets
import webbrowser
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from webhook.cli import options
from webhook.cli.doctor import READ
from webhook.cli.reading import say_by, snapshot_of
from webhook.cli.terminal import PROGRAM, counted, out, say, write
from webhook.cli.ui.live import Cluster, Live
from webhook.cli.ui.page import page
from webhook.cli.ui.picture import MAX_AUDITED
from webhook.errors import BadInput
from webhook.text import plural
from webhook.whatif.answers import KINDS


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
    """Show the GPUs of each node in a browser: who has them, why pods wait, and the last decisions.

    Example: `gpu-admission ui --open`. Nothing is installed in the cluster, and nothing is changed. The page follows the cluster.
    It is served on 127.0.0.1 only, to those who have its address; for a page on another machine use `ssh -L
    PORT:127.0.0.1:PORT`. `--html FILE` writes it as one file that loads nothing.
    """
    # A page that is served reads the rest when it is asked.
    kinds = KINDS if html is None else (*dict.fromkeys((*KINDS, *READ)),)
    snapshot = snapshot_of(file, kubeconfig, context, kinds, namespace, needed=("Pod",))
    snapshot.namespace = namespace or snapshot.namespace
    cluster = Cluster(policy, metrics, kubeconfig, context, namespace)
    source = file.name if file else snapshot.access.base if snapshot.access else ""
    with counted("looking at the pods that wait") as progress:
        picture = cluster.picture(snapshot, progress)
    if html is not None:
        with counted("answering what the page will be asked"):
            more = picture.for_file()
        write(html, page({**Live(picture, source).shown, **more}))
        left = (
            f"; left out, as the file would be too large: what helps {more['leftOut']} of them"
            if more["leftOut"]
            else ""
        )
        waiting = len(picture.document["waiting"])
        say(f"{html}: {plural(len(picture.document['nodes']), 'node')}, {waiting} waiting{left}")
        if picture.undecided > MAX_AUDITED:
            more_pods = plural(picture.undecided, "pod")
            say(
                f"left out: what opting in would change, as {more_pods} have no decision; {PROGRAM} policy diff -A says it",
                "dim",
            )
        return say_by(policy, snapshot, always=False)
    gc.enable()
    # after a reading that failed Python's TaskGroup leaves its task counted as cancelled, and Ctrl-C is then a CancelledError
    with suppress(KeyboardInterrupt, asyncio.CancelledError):
        asyncio.run(_serve(Live(picture, source, None if file else cluster), port, browser))
    return None


async def _serve(live: Live, port: int, browser: bool) -> None:
    """Serve until Ctrl-C. Raises BadInput if the port is taken."""
    from aiohttp import web  # noqa: PLC0415  slow to import, and few commands need it

    from webhook.cli.ui.server import ADDRESS, app  # noqa: PLC0415

    token, once = secrets.token_urlsafe(24), secrets.token_urlsafe(24) if browser else ""
    runner = web.AppRunner(app(live, token, once), access_log=None, shutdown_timeout=0.1)
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
        await live.run()
    finally:
        await runner.cleanup()
