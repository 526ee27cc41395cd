"""`gpu-admission policy export`: the part of a policy that the API server can evaluate alone, as CEL."""

from typing import Annotated

import typer

from webhook.cli import options
from webhook.cli.reading import policy_alone
from webhook.cli.terminal import out, say
from webhook.export import export_yaml
from webhook.export.matching import conditions_yaml
from webhook.whatif.cluster.release import Release


def export(
    policy: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE|default", help="A policy, or `default`. Default: that of --from or --context, else `default`."
        ),
    ] = None,
    everywhere: Annotated[
        bool, typer.Option("--everywhere", help="Also ban the taking of GPUs in namespaces that have not opted in.")
    ] = False,
    exclude: Annotated[
        list[str] | None, typer.Option(help="A namespace that --everywhere leaves out; may be repeated.")
    ] = None,
    installed_in: Annotated[
        str, typer.Option("--installed-in", help="The namespace of the webhook, which is left out.")
    ] = Release().namespace,
    conditions: Annotated[
        bool, typer.Option("--conditions", help="Print a patch with the match conditions for this policy instead.")
    ] = False,
    file: options.From = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
) -> None:
    """Print the static part of a policy as admission policies, which the API server enforces also while no replica answers.

    Example: `gpu-admission policy export policy.yaml | kubectl apply -f -`.
    What needs the state of the cluster is left out, for example the choice of a node; a comment at the top lists it. The
    MutatingAdmissionPolicies need Kubernetes 1.36 or newer.

    --conditions prints instead a patch of ValidatingWebhookConfiguration gpu-admission, for `kubectl patch --patch-file` or the
    `patches` of a kustomization. A policy needs it if it refuses more than the shipped one in pods that ask for no device.
    """
    loaded, whose = policy_alone(policy, file, kubeconfig, context)
    say(f"of {whose}", "dim")
    if conditions:
        out(conditions_yaml(loaded), end="")
        return
    out(export_yaml(loaded, everywhere=everywhere, exclude=exclude or (), namespace=installed_in), end="")
