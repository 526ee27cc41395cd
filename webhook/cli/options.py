"""Arguments and options that several commands share."""

from pathlib import Path
from typing import Annotated, Final

import typer

from webhook.text import quoted

CLUSTER: Final = "Options about the cluster"
"""Their panel in `--help`: those of the command itself come first."""
Files = Annotated[
    list[str] | None,
    typer.Option(
        "-f",
        "--filename",
        metavar="FILE|DIR|URL|-",
        help="Manifests, YAML or JSON; - reads stdin. May be repeated.",
    ),
]
Policy = Annotated[
    str | None,
    typer.Option(
        help="A policy file, or `default` for the shipped one. Default: that of the cluster, if any.",
        metavar="FILE|default",
    ),
]
Kubeconfig = Annotated[
    Path | None,
    typer.Option(
        help="A kubeconfig. Default: KUBECONFIG, else ~/.kube/config.",
        metavar="FILE",
        show_default=False,
        rich_help_panel=CLUSTER,
    ),
]
Context = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="A context of the kubeconfig. Default: the current one.", rich_help_panel=CLUSTER
    ),
]
Namespace = Annotated[
    str | None,
    typer.Option(
        "-n", "--namespace", metavar="NAME", help="A namespace. Default: that of the context; with --from all."
    ),
]
AllNamespaces = Annotated[bool, typer.Option("-A", "--all-namespaces", help="All namespaces, whatever -n says.")]
Selector = Annotated[
    str | None, typer.Option("-l", "--selector", metavar="LABELS", help="Only with these labels: `a=b,c!=d,e`.")
]
Watch = Annotated[bool, typer.Option("-w", "--watch", help="Refresh every 5 seconds, until Ctrl-C.")]
From = Annotated[
    Path | None,
    typer.Option(
        "--from",
        help="A file instead of an API server: a snapshot, or what `kubectl get … -A -o json` wrote.",
        metavar="FILE|-",
        rich_help_panel=CLUSTER,
    ),
]
Metrics = Annotated[
    str | None,
    typer.Option(
        help="The URL of a Prometheus with GPU metrics, or `off`. Default: the source that the policy names, read through the "
        "API server.",
        metavar="URL|off",
    ),
]


JSONPATH: Final = "jsonpath="
_FORMATS: Final = ("table", "wide", "json", "yaml", "name")


def _format(text: str) -> str:
    if text not in _FORMATS and not text.startswith(JSONPATH):
        raise typer.BadParameter(f"saw {quoted(text)}, wanted one of {', '.join(_FORMATS)}, {JSONPATH}TEMPLATE")
    return text


Output = Annotated[
    str,
    typer.Option(
        "-o",
        "--output",
        parser=_format,
        metavar="FORMAT",
        autocompletion=lambda: [*_FORMATS, JSONPATH],
        help=f"{', '.join(_FORMATS)} or {JSONPATH}TEMPLATE. Scripts may rely on json and yaml. A template is as kubectl takes "
        "it, with `{range}` and `{end}`; its filters compare two values.",
    ),
]
"""How an answer is printed: a table for people, a document for programs, or the names alone, for other commands."""
