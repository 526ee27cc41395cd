"""Output and figures that several benchmarks share."""

import platform
import sys
from pathlib import Path

from rich.console import Console

_FILE_WIDTH = 110
"""Columns of a table in a file or a pipe: enough for every table, so that no figure is cut."""
TENTHS = 10


def stdout() -> Console:
    """The console for tables. Progress goes to stderr. Says which interpreter the figures are of."""
    console = Console() if sys.stdout.isatty() else Console(width=_FILE_WIDTH)
    console.print(f"CPython {platform.python_version()} of {platform.python_build()[1]}, {platform.python_compiler()}")
    return console


def save(folder: Path | None, name: str, text: str) -> None:
    """Write a result into the folder of the option --out. Does nothing without the option."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def percentile(values: list[float], share: float) -> float:
    """`share`: 0.99 for the 99th percentile."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))]
