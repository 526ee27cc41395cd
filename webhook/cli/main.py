"""The program `gpu-admission`: all commands in one typer application. Each command is a module of this package and an entry in
COMMANDS.

Exit status 0: success; 1: a pod was refused or a check failed; 2: the command could not be carried out.
"""

import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import typer

from webhook.cli.audit import audit
from webhook.cli.balance import balance
from webhook.cli.decisions import mutate, validate
from webhook.cli.doctor import doctor
from webhook.cli.explain import explain
from webhook.cli.export import export
from webhook.cli.lint import lint
from webhook.cli.nodes import nodes
from webhook.cli.pending import pending
from webhook.cli.replay import replay
from webhook.cli.serve import certs, serve
from webhook.cli.simulate import simulate
from webhook.cli.snapshot import snapshot
from webhook.cli.terminal import COULD_NOT, guarded, say
from webhook.cli.test import test
from webhook.cli.ui.command import ui
from webhook.cli.units import units
from webhook.text import bare

COMMANDS: Final[tuple[Callable[..., Any], ...]] = (
    *(explain, pending, nodes, ui, doctor, audit, balance, simulate, snapshot, mutate, validate, test, replay),
    *(lint, units, export, certs, serve),
)
_TRACEBACK: Final = "GPU_ADMISSION_TRACEBACK"
"""The environment variable that turns tracebacks on."""
app = typer.Typer(
    name="gpu-admission",
    help="GPU admission for Kubernetes: completes GPU pods, chooses their node, refuses bad GPU specs, explains why.",
    epilog="Exit status: 0 success; 1 a pod, case, check or policy failed; 2 the command could not run. docs/cli.md has more.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in COMMANDS:
    app.command()(guarded(command))


def main() -> None:
    """Entry point of `gpu-admission`. An unexpected exception is printed as a message, without its traceback."""
    try:
        app()
    except Exception as error:
        if os.environ.get(_TRACEBACK):
            raise
        *_, at = traceback.extract_tb(error.__traceback__)
        where = f"{Path(at.filename).name}:{at.lineno}"
        say(f"error: {type(error).__name__}: {bare(str(error))} ({where})", "red")
        say(f"It is a mistake of gpu-admission, or an object is not as kubectl prints it. {_TRACEBACK}=1 shows where.")
        sys.exit(COULD_NOT)
