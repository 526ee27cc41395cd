"""Arguments and options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
Policy = Annotated[
    str | None, typer.Option(help="A policy file, or `default` for the shipped one.", metavar="FILE|default")
]
