"""Output, exit statuses, and reading of files, shared by all commands.

Answers go to stdout and messages to stderr, so that only documents go through a pipe.
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
    """Print on stdout, unchanged."""
    print(text, end=end)


def say(text: str, style: str | None = None) -> None:
    """Print on stderr. An unprintable character becomes a space: tenants write parts of this text."""
    console.print(printable_lines(text), markup=False, style=style)


def no_such(kind: str, name: str, known: Sequence[str], where: str = "") -> BadInput:
    """The error for a name that does not exist. It suggests the nearest of the known names."""
    near = nearest(name, known)
    return BadInput(f"no {kind} {quoted(name)}{where}{f'; did you mean {near}?' if near else ''}")


def guarded(command: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """The command with its errors printed on stderr and turned into the exit status COULD_NOT.

    If the reader of stdout closes the pipe, the exit status is that of SIGPIPE (141).
    """

    @wraps(command)
    def run(*args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        try:
            command(*args, **kwargs)
            sys.stdout.flush()
        except (
            BrokenPipeError
        ):  # as with `… | head`. Python flushes stdout once more at exit, which must not fail again
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
    """The policy of a file, or of stdin for `-`; the shipped one for `default` or None. Raises BadInput, or a PolicyError whose
    problems begin with the file's name."""
    try:
        return offline.load_policy(None if name in (None, "default") else read(str(name)))
    except PolicyError as error:
        raise PolicyError([f"{name}: {problem}" for problem in error.problems]) from None


def write(path: Path, text: str) -> None:
    """Write a file. Raises BadInput."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{path}: cannot be written: {error.strerror}") from None


def read(file: str) -> bytes:
    """The content of a file, or of stdin for `-`. Raises BadInput."""
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise BadInput(f"{file}: cannot be read: {error.strerror}. Give a file, or - for stdin") from None
