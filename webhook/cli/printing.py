"""Tables for people and documents for programs, the same for all commands that answer with either."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import orjson
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from webhook.cli.options import Format
from webhook.cli.terminal import out
from webhook.kube.yaml import to_yaml

_UNBOUNDED = 4000
"""Columns, where no terminal says how many there are: a pipe gets every cell whole."""
COLOURS = ((0.5, "green"), (0.85, "yellow"), (2.0, "red"))
_BAR = 8


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
    """As kubectl prints one; numbers to the right. Colours only on a terminal."""
    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 3, 0, 0))
    listed = [[_cell(each) for each in row] for row in rows]
    for at, title in enumerate(titles):
        numbers = listed and all(
            cell.plain.replace("-", "").replace(".", "").isdigit() or not cell.plain for cell in [r[at] for r in listed]
        )
        made.add_column(title, no_wrap=True, justify="right" if numbers else "left")
    for row in listed:
        made.add_row(*row)
    show(made)


def show(what: RenderableType) -> None:
    """On stdout, no line longer than it must be."""
    console = Console(highlight=False, emoji=False)
    if not console.is_terminal:
        console = Console(highlight=False, emoji=False, width=_UNBOUNDED)
    with console.capture() as captured:
        console.print(what, soft_wrap=True)
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def clear() -> None:
    """The screen of a terminal, for what is printed next in place of what stood there; on a pipe nothing."""
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
    return Text("█" * filled + "░" * (_BAR - filled), style=next(colour for most, colour in COLOURS if share < most))


def _cell(value: Any) -> Text:
    return value if isinstance(value, Text) else Text("" if value is None else str(value))
