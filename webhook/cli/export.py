"""`gpu-admission export`: prints the part of a policy that the API server can evaluate alone, as CEL admission policies."""

from typing import Annotated

import typer

from webhook.cli.cluster.release import Release
from webhook.cli.offline import policy_named
from webhook.cli.terminal import out
from webhook.export import export_yaml


def export(
    policy: Annotated[str, typer.Argument(metavar="FILE|default", help="A policy, or `default`.")] = "default",
    everywhere: Annotated[
        bool, typer.Option("--everywhere", help="Also ban the taking of GPUs in namespaces that have not opted in.")
    ] = False,
    exclude: Annotated[
        list[str] | None, typer.Option(help="A namespace that --everywhere leaves out; may be repeated.")
    ] = None,
    namespace: Annotated[
        str, typer.Option("-n", "--namespace", help="Where the webhook is installed: that namespace is left out.")
    ] = Release().namespace,
) -> None:
    """Print the static part of a policy as admission policies of the API server, for `kubectl apply -f -`.

    Example: `gpu-admission export policy.yaml | kubectl apply -f -`.
    The API server enforces them also while the webhook is away. Left out is what needs the state of the cluster, such as the
    choice of a node; a comment at the top lists it. The MutatingAdmissionPolicies need Kubernetes 1.36 or newer.
    """
    out(export_yaml(policy_named(policy), everywhere=everywhere, exclude=exclude or (), namespace=namespace), end="")
