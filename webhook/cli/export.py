"""`gpu-admission export`: the static part of a policy as CEL."""

from __future__ import annotations

from typing import Annotated

import typer

from webhook.cli.terminal import out, policy_named
from webhook.export import export_yaml


def export(
    policy: Annotated[str, typer.Argument(metavar="FILE|default", help="A policy, or `default`.")] = "default",
    everywhere: Annotated[
        bool, typer.Option(help="Also ban the taking of GPUs in namespaces that have not opted in.")
    ] = False,
    exclude: Annotated[
        list[str] | None, typer.Option(help="A namespace that --everywhere leaves out; may be repeated.")
    ] = None,
) -> None:
    """Print the static part of a policy as admission policies of the API server, for `kubectl apply -f -`.

    A backstop while the webhook is away. What needs the state of the cluster (the node, entitlements by what exists) is
    not in it: a comment at the top says what. Needs Kubernetes 1.36 or newer for the changing half.
    """
    out(export_yaml(policy_named(policy), everywhere=everywhere, exclude=exclude or ()), end="")
