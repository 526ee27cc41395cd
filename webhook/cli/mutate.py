"""`gpu-admission mutate`: prints pods as the mutating webhook would change them."""

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
    Messages go to stderr. A node is chosen only with --cluster; everything else works without it.
    """
    decide_file(file, cluster, policy, output, offline.decide_mutate)
