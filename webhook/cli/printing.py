"""Tables for people and documents for programs, the same for all commands that answer with either."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import orjson
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from webhook.cli.options import Format
from webhook.cli.terminal import out
from webhook.kube.yaml import to_yaml
from webhook.text import printable, printable_lines

_GAP = "   "
"""Between two columns."""
COLOURS = ((0.5, "green"), (0.85, "yellow"), (2.0, "red"))
_BAR = 8
Cell = str | Text


def document(answer: Any, output: Format) -> bool:
    """Print `answer` where a document is asked for; False where a table is."""
    if output is Format.json:
        out(orjson.dumps(answer, option=orjson.OPT_INDENT_2).decode())
    elif output is Format.yaml:
        out(to_yaml(orjson.loads(orjson.dumps(answer))), end="")
    else:
        return False
    return True


def table(titles: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """As kubectl prints one, whatever the width of the terminal; numbers to the right. Colours only on a terminal.

    Not by rich's Table, which needs two milliseconds a row, and clusters have thousands.
    """
    cells = [[_cell(each) for each in row] for row in rows]
    columns = [[title, *[str(row[at]) for row in cells]] for at, title in enumerate(titles)]
    widths = [max(map(_width, column)) for column in columns]
    right = [len(column) > 1 and all(map(_is_number, column[1:])) for column in columns]
    head: list[Cell] = [Text(title, "bold") for title in titles]
    _print([_line(row, widths, right) for row in (head, *cells)])


def _line(cells: Sequence[Cell], widths: Sequence[int], right: Sequence[bool]) -> list[Cell]:
    parts: list[Cell] = []
    for cell, width, number in zip(cells, widths, right, strict=True):
        pad = " " * (width - _width(str(cell)))
        parts += (pad, cell, _GAP) if number else (cell, pad, _GAP)
    return parts


def _width(text: str) -> int:
    """In columns of a terminal."""
    return len(text) if text.isascii() else cell_len(text)


def _is_number(text: str) -> bool:
    return not text or text.replace("-", "").replace(".", "").isdigit()


def show(*lines: Text) -> None:
    """On stdout, not wrapped. What cannot be printed becomes a space: tenants wrote much of it."""
    for each in lines:
        each.plain = printable_lines(each.plain)
    _print([[each] for each in lines])


def _print(lines: Iterable[Sequence[Cell]]) -> None:
    """A line is a sequence of parts."""
    console = Console(highlight=False, emoji=False)
    if not console.is_terminal:
        text = "\n".join(["".join(map(str, parts)) for parts in lines])
        sys.stdout.write("".join([f"{line.rstrip()}\n" for line in text.split("\n")]))
        return
    for parts in lines:
        line = Text.assemble(*parts)
        line.rstrip()
        console.print(line, soft_wrap=True)


def clear() -> None:
    """Clear the terminal, so that what is printed next replaces it. Does nothing on a pipe."""
    Console().clear()


def diff(before: Any, after: Any, around: int = 1) -> Iterator[str]:
    """Lines of a diff of two objects as YAML; ⋮ where lines are left out."""
    lines = difflib.unified_diff(to_yaml(before).splitlines(), to_yaml(after).splitlines(), lineterm="", n=around)
    for line in list(lines)[2:]:
        yield "⋮" if line.startswith("@@") else line


def bar(part: float, whole: float) -> Text:
    """How full something is: `██████░░`."""
    share = min(1.0, max(0.0, part / whole)) if whole else 0.0
    filled = round(share * _BAR)
    return Text("█" * filled + "░" * (_BAR - filled), style=next(colour for limit, colour in COLOURS if share < limit))


def _cell(value: Any) -> Cell:
    return value if isinstance(value, Text) else "" if value is None else printable(str(value))
