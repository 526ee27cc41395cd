"""`gpu-admission version`: which version this is, which one the cluster runs, and that of Kubernetes."""

from typing import Annotated, Any

import typer

from webhook.cli import options
from webhook.cli.checks.replicas import samples_of
from webhook.cli.cluster.load import has_cluster
from webhook.cli.reading import no_cluster, snapshot_of
from webhook.cli.terminal import document, out
from webhook.policy.written_for import PROGRAM
from webhook.text import bare, listed

_READ = ("Pod", "ReplicaMetrics", "ApiServerVersion")


def version(
    client: Annotated[bool, typer.Option("--client", help="Only of this command: no cluster is asked.")] = False,
    output: options.Output = "table",
    file: options.From = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
) -> None:
    """Show the versions of this command, of the replicas in the cluster, and of Kubernetes.

    Example: `gpu-admission version --client` asks no cluster.
    """
    reaches = not client and bool(file or kubeconfig or context or has_cluster())
    snapshot = (
        snapshot_of(file, kubeconfig, context, _READ, needed=()) if reaches else no_cluster("there is no cluster")
    )
    replicas = sorted({labels.get("version", "") for _, labels, _ in samples_of(snapshot, "build_info")})
    kubernetes = [str(each["status"].get("gitVersion")) for each in snapshot.of("ApiServerVersion")]
    found: dict[str, Any] = {
        "client": PROGRAM,
        "webhook": replicas,
        "kubernetes": kubernetes[0] if kubernetes else None,
    }
    if document(found, output, "Version"):
        return
    out(f"Client: {PROGRAM}")
    if client:
        return
    for title, question, known in (
        ("Webhook", "ReplicaMetrics", replicas),
        ("Kubernetes", "ApiServerVersion", kubernetes),
    ):
        why = snapshot.missing.get(question) or f"no pod of the webhook in namespace {snapshot.release.namespace}"
        out(f"{title}: {listed(map(bare, known)) or f'not known: {why}'}")
