"""The program `gpu-admission`: all commands in one typer application. Each command is a module of this package and an entry in
COMMANDS.

Exit status 0: success; 1: a pod was refused or a check failed; 2: the command could not be carried out.
"""

import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from webhook.cli.connection import OPTIONS
from webhook.cli.terminal import COULD_NOT, guarded, say
from webhook.text import bare

COMMANDS: Final[Mapping[str, str]] = {
    "why": "why:why",
    "top": "top:top",
    "try": "trying:try_",
    "drain": "drain:drain",
    "policy": "policy",
    "doctor": "doctor:doctor",
    "snapshot": "snapshot:snapshot",
    "ui": "ui.command:ui",
    "version": "version:version",
    "serve": "serve:serve",
    "certs": "serve:certs",
}
"""The module and the function of each command, in the order of the help; "policy": it has commands of its own."""
POLICY: Final[Mapping[str, str]] = {
    name: f"policy.{name}:{name}" for name in ("lint", "test", "diff", "explain", "export")
}
_ABOUT_POLICY: Final = "Check, test, compare, explain or export a policy."
_TRACEBACK: Final = "GPU_ADMISSION_TRACEBACK"
"""The environment variable that turns tracebacks on."""
_LOOK: Final[Mapping[str, Any]] = {
    "pretty_exceptions_enable": False,
    "rich_markup_mode": "markdown",
    "context_settings": {"help_option_names": ["-h", "--help"]},
}


class _Commands(Mapping[str, TyperCommand | TyperGroup]):
    """The commands by name. A module is imported when its command is looked up: all of them together take a second."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = places

    def __getitem__(self, name: str) -> TyperCommand | TyperGroup:
        module, _, function = self._places[name].partition(":")
        if not function:
            look = {key: value for key, value in _LOOK.items() if key != "pretty_exceptions_enable"}
            return _Group(name=name, places=POLICY, help=_ABOUT_POLICY, no_args_is_help=True, **look)
        alone = typer.Typer(add_completion=False, **_LOOK)
        alone.command(name)(guarded(getattr(import_module(f"webhook.cli.{module}"), function)))
        command = get_command(alone)
        assert isinstance(command, TyperCommand)
        if any(each.name == "kubeconfig" for each in command.params):
            command.params += OPTIONS
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class _Group(TyperGroup):
    def __init__(self, *, places: Mapping[str, str] = COMMANDS, **given: Any) -> None:
        super().__init__(**given)
        self.commands = _Commands(places)  # type: ignore[assignment]

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        return list(self.commands)


app = typer.Typer(
    cls=_Group,
    name="gpu-admission",
    epilog="Begin with `gpu-admission why`: what waits, and what would let it run. "
    "Exit status: 0 success; 1 a pod, case, check or policy failed; 2 the command could not run. docs/cli.md has more.",
    no_args_is_help=True,
    **_LOOK,
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"gpu-admission {version('gpu-admission')}")
        raise typer.Exit


@app.callback()
def program(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Say why GPU pods wait, who has the GPUs, and what the GPU admission webhook decided or would decide."""


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
