"""Reads options from the command line of a container: `--tp 8` and `--tp=8`, also inside a script for `sh -c`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

_REFERENCE = re.compile(r"\$(?:\((\w+)\)|\{(\w+)\}|(\w+))")
"""A reference to a variable: `$(N)` in Kubernetes, `${N}` and `$N` in a shell."""
_BEFORE, _AFTER = "'\"(", "'\");&|"
"""Characters of a shell script that may stand directly before and after a word."""


class Option(NamedTuple):
    """One option of a command line. `number` is None if the value is unknown or is not a whole number above 0."""

    written: str
    """The option with its value, shortened: `--tp 8`."""
    number: int | None


def arguments(spec: Mapping[str, Any]) -> list[str]:
    """The entries of `command` and then of `args` of a container."""
    return [argument for part in ("command", "args") for argument in spec.get(part) or ()]


def variables(spec: Mapping[str, Any]) -> dict[str, str]:
    """The environment variables of a container, with "" for a value that comes from a reference (`valueFrom`)."""
    return {entry.get("name", ""): str(entry.get("value") or "") for entry in spec.get("env") or ()}


def options(spec: Mapping[str, Any], meanings: Mapping[str, str]) -> dict[str, Option]:
    """The options of a container, by meaning. `meanings` maps an option name, without leading dashes, to its meaning.

    If a meaning occurs twice, its number is None: two programs run in the container.
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
    """The words of one argument. It may be a script: comments are removed, lines that end in a backslash are joined."""
    if " #" in script:
        script = "\n".join([line.partition(" #")[0] for line in script.splitlines()])
    return script.replace("\\\n", " ").split()


def number(text: str) -> int | None:
    """The number that `text` stands for, if it is a whole number above 0 with at most five digits."""
    return int(text) or None if text.isascii() and text.isdigit() and len(text) < 6 else None
