"""`gpu-admission snapshot`: writes the cluster to a file that the other commands can read."""

from pathlib import Path
from typing import Annotated

import typer

from webhook.cli import options
from webhook.cli.cluster.anonymous import anonymous
from webhook.cli.cluster.answers import QUESTIONS
from webhook.cli.cluster.load import write_snapshot
from webhook.cli.reading import measure_gpus, policy_of, snapshot_of
from webhook.cli.terminal import say
from webhook.errors import PolicyError
from webhook.kube.kinds import KINDS
from webhook.text import listed, plural


def snapshot(
    to: Annotated[
        Path, typer.Argument(metavar="FILE|-", help="The file to write, which only you can read; - writes to stdout.")
    ],
    no_names: Annotated[
        bool, typer.Option("--anonymous", help="Hash all names, leave out data, environment and commands.")
    ] = False,
    metrics: options.Metrics = None,
    file: options.From = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
) -> None:
    """Write what the other commands read of a cluster to a file. They take it with --from FILE.

    Example: `gpu-admission snapshot --anonymous cluster.json`, to show somebody else why a pod waits.
    """
    contents = snapshot_of(file, kubeconfig, context, (*KINDS, *QUESTIONS), None)
    try:
        measure_gpus(contents, policy_of(None, contents), metrics)
    except PolicyError as error:
        say(f"warning: GPU metrics are not asked: the policy does not parse: {listed(error.problems)}", "yellow")
    write_snapshot(anonymous(contents) if no_names else contents, to)
    counts = f"{plural(len(contents.of('Node')), 'node')}, {plural(len(contents.of('Pod')), 'pod')}"
    say(f"{to}: {counts}, {plural(sum(map(len, contents.objects.values())), 'object')} in all")
