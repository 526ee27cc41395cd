"""`gpu-admission certs`: writes a CA and a serving certificate for development."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from webhook.cli.terminal import out


def certs(
    folder: Annotated[Path, typer.Argument(help="Where ca.pem, tls.pem and tls-key.pem are written.")] = Path("certs"),
    host: Annotated[list[str] | None, typer.Option(help="A DNS name or address; may be repeated.")] = None,
) -> None:
    """Write a CA and a serving certificate for development."""
    from webhook.tls.issue import write_certificates  # noqa: PLC0415  slow to import, and few commands need it

    for path in write_certificates(folder, host or ["localhost", "127.0.0.1"]):
        out(str(path))
