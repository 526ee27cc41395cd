"""The command line: the commands, their options and their help. Exit status 0: fine, 1: refused, 2: could not."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from webhook.cli import offline
from webhook.cli.terminal import REFUSED, Output, console, could_not, decide_file, policy_named
from webhook.cli.units import documented
from webhook.errors import BadInput, GpuAdmissionError, PolicyError
from webhook.export import export_yaml
from webhook.kube.yaml import to_yaml
from webhook.server.settings import ServeSettings
from webhook.text import nearest, plural, quoted

app = typer.Typer(
    name="gpu-admission",
    help="GPU admission for Kubernetes: completes GPU pods, chooses their node, refuses bad GPU specs, explains why.",
    epilog="Exit status: 0 fine, 1 a pod was refused (or a policy does not parse), 2 it could not be done.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


File = Annotated[
    str,
    typer.Argument(metavar="FILE|-", help="Pods, workloads or AdmissionReviews, YAML or JSON; - reads stdin."),
]
Cluster = Annotated[
    Path | None,
    typer.Option(
        help="The cluster as `kubectl get nodes,pods,namespaces,priorityclasses -A -o json` prints it; "
        "`,resourceslices,hpa,pdb` are useful extras.",
        metavar="FILE",
    ),
]
PolicyOption = Annotated[
    str | None, typer.Option(help="A policy file, or `default` for the shipped one.", metavar="FILE|default")
]


@app.command()
def mutate(
    file: File,
    cluster: Cluster = None,
    policy: PolicyOption = None,
    output: Annotated[Output, typer.Option("-o", "--output", help="What to print.")] = Output.yaml,
) -> None:
    """Print pods as the webhook would change them.

    Examples: `gpu-admission mutate pod.yaml`, `kubectl create deployment … | gpu-admission mutate - -o patch`.
    Reasons go to stderr. With --cluster a node is chosen; without it everything else is done.
    """
    decide_file(file, cluster, policy, output, offline.decide_mutate)


@app.command()
def validate(
    file: File,
    cluster: Cluster = None,
    policy: PolicyOption = None,
    output: Annotated[
        Output | None, typer.Option("-o", "--output", help="What to print; nothing, if not given.")
    ] = None,
) -> None:
    """Check pods against the rules. Findings go to stderr, one line each; exit status 1 if a pod is refused."""
    decide_file(file, cluster, policy, output, offline.decide_validate)


@app.command()
def lint(
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="A policy, or the ConfigMap that holds it.")],
) -> None:
    """Check a policy: unknown keys, wrong values, settings that contradict each other, with line numbers."""
    try:
        loaded = policy_named(file)
    except PolicyError as error:
        for problem in error.problems:
            console.print(f"{file}: {problem}", markup=False)
        raise typer.Exit(REFUSED) from None
    except GpuAdmissionError as error:
        raise could_not(error) from None
    profiles = plural(len(loaded.file.profiles), "profile")
    print(f"{file}: good: {profiles}, hash {loaded.hash}")


@app.command()
def units(
    name: Annotated[str | None, typer.Argument(help="An injector or a rule, as the policy calls it.")] = None,
    policy: PolicyOption = None,
) -> None:
    """List what a policy runs, in run order; with a NAME, say all that there is to know about it.

    Example: `gpu-admission units gpuFits`: what it means, which fields it reads, what it allows, its settings.
    """
    try:
        found = list(documented(policy_named(policy)))
    except GpuAdmissionError as error:
        raise could_not(error) from None
    if name is None:
        for unit in found:
            print(f"{unit.name:20} {unit.state:8} {unit.summary}")
        return
    meant = [unit for unit in found if unit.name == name]  # priorityClass is an injector and a rule
    for unit in meant:
        print(f"{unit.name} ({unit.kind}, {unit.state})\n\n{unit.text}\n\nSettings:\n{to_yaml(unit.settings)}")
    if meant:
        return
    near = nearest(name, [unit.name for unit in found])
    raise could_not(
        BadInput(f"saw {quoted(name)}, wanted an injector or a rule{f'; did you mean {near}?' if near else ''}")
    )


@app.command()
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
    try:
        loaded = policy_named(policy)
        print(export_yaml(loaded, everywhere=everywhere, exclude=exclude or ()), end="")
    except GpuAdmissionError as error:
        raise could_not(error) from None


@app.command()
def certs(
    folder: Annotated[Path, typer.Argument(help="Where ca.pem, tls.pem and tls-key.pem are written.")] = Path("certs"),
    host: Annotated[list[str] | None, typer.Option(help="A DNS name or address; may be repeated.")] = None,
) -> None:
    """Write a CA and a serving certificate for development."""
    from webhook.tls.files import write_certificates  # noqa: PLC0415  who only checks a pod waits for neither of these

    for path in write_certificates(folder, host or ["localhost", "127.0.0.1"]):
        print(path)


@app.command()
def serve(
    cluster: Cluster = None,
    kubeconfig: Annotated[Path | None, typer.Option(help="Outside of a cluster.", metavar="FILE")] = None,
    policy: PolicyOption = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "0.0.0.0",  # noqa: S104
    port: Annotated[int, typer.Option(help="HTTPS port of the webhook; 0 takes a free one.", min=0, max=65535)] = 8443,
    ops_port: Annotated[
        int, typer.Option(help="HTTP port of /healthz, /readyz, /metrics; 0 takes a free one.", min=0, max=65535)
    ] = 8080,
    tls_cert: Annotated[Path | None, typer.Option(help="Serving certificate, PEM.", metavar="FILE")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its key, PEM.", metavar="FILE")] = None,
    client_ca: Annotated[
        Path | None,
        typer.Option(help="Serve only clients with a certificate of these authorities, PEM.", metavar="FILE"),
    ] = None,
) -> None:
    """Serve the webhook.

    In a cluster it needs no option. With --kubeconfig it runs outside of one. With --cluster FILE there is no API server
    at all: the file is the cluster, and a namespace that it does not list counts as opted in.
    When ready it prints one JSON line on stdout: `{"port": 8443, "opsPort": 8080}`. Logs go to stderr.
    """
    from webhook.server.app import serve_forever  # noqa: PLC0415

    try:
        serve_forever(
            ServeSettings(
                cluster=cluster,
                kubeconfig=kubeconfig,
                policy=policy,
                host=host,
                port=port,
                ops_port=ops_port,
                tls_cert=tls_cert,
                tls_key=tls_key,
                client_ca=client_ca,
            )
        )
    except GpuAdmissionError as error:
        raise could_not(error) from None


def main() -> None:
    """Entry point of the command `gpu-admission`."""
    app()
