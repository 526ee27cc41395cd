"""Options on the command line of a container: `--tp 8` and `--tp=8`, also inside a script, as of `sh -c`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

_REFERENCE = re.compile(r"\$(?:\((\w+)\)|\{(\w+)\}|(\w+))")
"""To a variable: of Kubernetes `$(N)`, of a shell `${N}` and `$N`."""
_BEFORE, _AFTER = "'\"(", "'\");&|"
"""What a shell may have beside a word."""


class Option(NamedTuple):
    """One option. `number` is None where its value is not known, or is no whole number above 0."""

    written: str
    number: int | None


def arguments(spec: Mapping[str, Any]) -> list[str]:
    """`command` and `args` of a container, in their order."""
    return [argument for part in ("command", "args") for argument in spec.get(part) or ()]


def variables(spec: Mapping[str, Any]) -> dict[str, str]:
    """The environment of a container as it is written there: "" for a value from elsewhere."""
    return {entry.get("name", ""): str(entry.get("value") or "") for entry in spec.get("env") or ()}


def options(spec: Mapping[str, Any], meanings: Mapping[str, str]) -> dict[str, Option]:
    """The options of a container that have a meaning, by their meaning. `meanings`: by option, without dashes before it.

    One that is given twice has no number: two programs run in the container.
    """
    texts, by_meaning = arguments(spec), dict[str, Option]()
    env = variables(spec) if any(["$" in text for text in texts]) else {}
    words = [word for text in texts for word in _words(text)]
    for word, following in pairwise([*words, ""]):
        option, equals, value = word.lstrip(_BEFORE).partition("=")
        if not option.startswith("-"):
            continue
        meaning = meanings.get(option.lstrip("-").replace("_", "-"))
        if meaning is not None:
            value = value if equals else following
            if "$" in value:
                value = _REFERENCE.sub(lambda m: env.get(m[1] or m[2] or m[3], "?"), value)
            value = value.lstrip(_BEFORE).rstrip(_AFTER)
            count = None if meaning in by_meaning else number(value)
            by_meaning[meaning] = Option(f"{option[:64]}{equals or ' '}{value[:16]}", count)
    return by_meaning


def _words(script: str) -> list[str]:
    """Of one argument, which may be a script: without comments, and with the lines joined that end in a backslash."""
    if " #" in script:
        script = "\n".join([line.partition(" #")[0] for line in script.splitlines()])
    return script.replace("\\\n", " ").split()


def number(text: str) -> int | None:
    """A whole number above 0 of at most five digits."""
    return int(text) or None if text.isascii() and text.isdigit() and len(text) < 6 else None
