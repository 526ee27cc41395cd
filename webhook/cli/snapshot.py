"""`gpu-admission snapshot`: the cluster as a file, for the other commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from webhook.cli import options
from webhook.cli.cluster.anonymous import anonymous
from webhook.cli.cluster.answers import QUESTIONS
from webhook.cli.cluster.files import write_snapshot
from webhook.cli.cluster.kinds import KINDS
from webhook.cli.reading import snapshot_of
from webhook.cli.terminal import out
from webhook.text import plural


def snapshot(
    file: Annotated[Path, typer.Argument(help="Is written, readable for you alone.")],
    no_names: Annotated[
        bool, typer.Option("--anonymous", help="Hash all names, leave out data, environment and commands.")
    ] = False,
    cluster: options.Snapshot = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
) -> None:
    """Write what the other commands read of a cluster to a file; they take it with --cluster FILE.

    Example: `gpu-admission snapshot --anonymous cluster.json`, to show somebody else why a pod waits.
    """
    found = snapshot_of(cluster, kubeconfig, context, (*KINDS, *QUESTIONS))
    write_snapshot(anonymous(found) if no_names else found, file)
    counts = f"{plural(len(found.of('Node')), 'node')}, {plural(len(found.of('Pod')), 'pod')}"
    out(f"{file}: {counts}, {plural(sum(map(len, found.objects.values())), 'object')} in all")
