"""Commands that a person may run, as lists of arguments: quoted once, when they are shown, and never read out of a text."""

import shlex

Command = tuple[str, ...]


def kubectl(*arguments: str, namespace: str = "") -> Command:
    """A command of kubectl; () if an argument cannot be shown as it is: tenants write names in files."""
    command = ("kubectl", *arguments, *(("-n", namespace) if namespace else ()))
    return command if "".join(command).isprintable() else ()


def with_command(words: str, command: Command) -> str:
    """The words, and the command as a shell takes it."""
    return ": ".join(filter(None, (words, shlex.join(command))))
