"""`gpu-admission validate`: checks pods against the rules of a policy."""

from __future__ import annotations

from typing import Annotated

import typer

from webhook.cli import offline, options
from webhook.cli.decisions import Output, decide_file


def validate(
    file: options.File,
    cluster: options.Cluster = None,
    policy: options.Policy = None,
    output: Annotated[Output | None, typer.Option("-o", "--output", help="What to print. Default: nothing.")] = None,
) -> None:
    """Check pods against the rules. Findings go to stderr, one line each; exit status 1 if a pod is refused."""
    decide_file(file, cluster, policy, output, offline.decide_validate)
