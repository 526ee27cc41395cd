"""Where tables go."""

from __future__ import annotations

import sys

from rich.console import Console

_WIDE = 110


def stdout() -> Console:
    """As wide as the terminal is; in a file wide enough for every table, whose figures must not be cut."""
    return Console() if sys.stdout.isatty() else Console(width=_WIDE)
