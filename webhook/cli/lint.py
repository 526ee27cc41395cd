"""`gpu-admission lint`: checks a policy and prints its errors."""

from typing import Annotated

import typer

from webhook.cli.offline import policy_named
from webhook.cli.terminal import REFUSED, out, say
from webhook.errors import PolicyError
from webhook.text import plural


def lint(
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="A policy, or the ConfigMap that holds it.")],
) -> None:
    """Check a policy: unknown keys, wrong values, settings that contradict each other, with line numbers.

    Example: `gpu-admission lint policy.yaml`. Exit status 1 if there is a mistake.
    """
    try:
        loaded = policy_named(file)
    except PolicyError as error:
        for problem in error.problems:
            say(problem)
        raise typer.Exit(REFUSED) from None
    out(f"{file}: good: {plural(len(loaded.file.profiles), 'profile')}, hash {loaded.hash}")
