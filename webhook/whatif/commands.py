"""Commands that a person may run, as lists of arguments: quoted once, when they are shown, and never read out of a text."""

import shlex
from typing import Final

Command = tuple[str, ...]
_OPTIONS: Final = frozenset(
    ("-A", "-c", "-n", "-o", "-p", "--field-selector", "--from", "--previous", "--replicas", "--type")
)
"""Those that our own commands have."""


def kubectl(*arguments: str, namespace: str = "") -> Command:
    """A command of kubectl; () if a name in it cannot be shown as it is, or would be an option: tenants write Events."""
    command = ("kubectl", *arguments, *(("-n", namespace) if namespace else ()))
    options = [each.partition("=")[0] for each in command if each.startswith("-")]
    return command if "".join(command).isprintable() and _OPTIONS.issuperset(options) else ()


def with_command(words: str, command: Command) -> str:
    """The words, and the command as a shell takes it."""
    return ": ".join(filter(None, (words, shlex.join(command))))
