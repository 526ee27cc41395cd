"""`gpu-admission serve` runs the webhook server; `certs` writes a CA and a serving certificate for development."""

from pathlib import Path
from typing import Annotated

import typer

from webhook.cli import options
from webhook.cli.terminal import out
from webhook.server.settings import ServeSettings


def serve(
    cluster: options.From = None,
    kubeconfig: Annotated[Path | None, typer.Option(help="To run outside of a cluster.", metavar="FILE")] = None,
    policy: options.Policy = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.", show_default="all")] = None,
    port: Annotated[
        int | None,
        typer.Option(help="HTTPS port of the webhook; 0 takes a free one.", min=0, max=65535, show_default="8443"),
    ] = None,
    ops_port: Annotated[
        int | None,
        typer.Option(
            help="HTTP port of /healthz, /readyz, /metrics; 0 takes a free one.", min=0, max=65535, show_default="8080"
        ),
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="Serving certificate, PEM.", metavar="FILE")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its key, PEM.", metavar="FILE")] = None,
    client_ca: Annotated[
        Path | None,
        typer.Option(help="Serve only clients with a certificate of these authorities, PEM.", metavar="FILE"),
    ] = None,
) -> None:
    """Serve the webhook.

    In a cluster it needs no option. With --kubeconfig it runs outside of one. With --from FILE there is no API server
    at all: the file is the cluster, and a namespace that it does not list counts as opted in.
    Example: `gpu-admission serve --from cluster.yaml --tls-cert certs/tls.pem --tls-key certs/tls-key.pem`.
    When ready it prints one JSON line on stdout: `{"port": 8443, "opsPort": 8080}`. Logs go to stderr.
    """
    settings = {name: value for name, value in locals().items() if value is not None}
    from webhook.server.app import serve_forever  # noqa: PLC0415  slow to import, and few commands need it

    serve_forever(ServeSettings(**settings))


def certs(
    folder: Annotated[Path, typer.Argument(help="Where ca.pem, tls.pem and tls-key.pem are written.")] = Path("certs"),
    host: Annotated[list[str] | None, typer.Option(help="A DNS name or address; may be repeated.")] = None,
) -> None:
    """Write a CA and a serving certificate for development.

    Example: `gpu-admission certs certs --host webhook.example`. The certificate is valid for 30 days.
    """
    from webhook.tls.issue import write_certificates  # noqa: PLC0415  slow to import, and few commands need it

    for path in write_certificates(folder, host or ["localhost", "127.0.0.1"]):
        out(str(path))
