"""What all commands share: where they print, their exit statuses, and how a policy and a file are read.

Answers go to stdout, everything that is said about them to stderr, so that a pipe sees only documents.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import ParamSpec

import typer
from rich.console import Console

from webhook.cli import offline
from webhook.errors import BadInput, GpuAdmissionError, PolicyError
from webhook.policy.model import Policy
from webhook.text import nearest, printable_lines, quoted

REFUSED, COULD_NOT = 1, 2
"""Exit statuses; 0 is fine."""
Arguments = ParamSpec("Arguments")

console = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)


def out(text: str, end: str = "\n") -> None:
    """To stdout, as it is."""
    print(text, end=end)


def say(text: str, style: str | None = None) -> None:
    """To stderr. What cannot be printed becomes a space: tenants wrote some of it."""
    console.print(printable_lines(text), markup=False, style=style)


def no_such(kind: str, name: str, known: Sequence[str], where: str = "") -> BadInput:
    """The error about a name that nothing has; it names the nearest that something has."""
    near = nearest(name, known)
    return BadInput(f"no {kind} {quoted(name)}{where}{f'; did you mean {near}?' if near else ''}")


def guarded(command: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """The command; where it cannot be done it says why, and exits with COULD_NOT. One that is ended by the end
    of the pipe that it writes to exits as if by that signal, and not with REFUSED."""

    @wraps(command)
    def run(*args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        try:
            command(*args, **kwargs)
            sys.stdout.flush()
        except BrokenPipeError:  # `… | head` has read enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(128 + signal.SIGPIPE) from None
        except PolicyError as error:
            for problem in error.problems:
                say(problem)
        except GpuAdmissionError as error:
            say(f"error: {error}", "red")
        else:
            return
        raise typer.Exit(COULD_NOT)

    return run


def policy_named(name: str | None) -> Policy:
    """A policy file, `-` for stdin; the shipped one for `default` or None. Raises BadInput, and PolicyError, whose problems then
    begin with the name."""
    try:
        return offline.load_policy(None if name in (None, "default") else read(str(name)))
    except PolicyError as error:
        raise PolicyError([f"{name}: {problem}" for problem in error.problems]) from None


def write(path: Path, text: str) -> None:
    """Raises BadInput."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{path}: cannot be written: {error.strerror}") from None


def read(file: str) -> bytes:
    """A file, or stdin for `-`. Raises BadInput."""
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise BadInput(f"{file}: cannot be read: {error.strerror}. Give a file, or - for stdin") from None
