"""`gpu-admission mutate`: pods as the webhook would change them."""

from __future__ import annotations

from typing import Annotated

import typer

from webhook.cli import offline, options
from webhook.cli.decisions import Output, decide_file


def mutate(
    file: options.File,
    cluster: options.Cluster = None,
    policy: options.Policy = None,
    output: Annotated[Output, typer.Option("-o", "--output", help="What to print.")] = Output.yaml,
) -> None:
    """Print pods as the webhook would change them.

    Examples: `gpu-admission mutate pod.yaml`, `kubectl create deployment … | gpu-admission mutate - -o patch`.
    Reasons go to stderr. With --cluster a node is chosen; without it everything else is done.
    """
    decide_file(file, cluster, policy, output, offline.decide_mutate)
