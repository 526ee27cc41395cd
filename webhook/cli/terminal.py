"""Output, exit statuses, and writing of files, shared by all commands.

Answers go to stdout and messages to stderr, so that only documents go through a pipe.
"""

import difflib
import gc
import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Final, ParamSpec, TextIO

import orjson
import typer
from rich.cells import cell_len
from rich.console import Console
from rich.style import Style
from rich.text import Text

from webhook.cli.jsonpath import jsonpath
from webhook.cli.options import JSONPATH
from webhook.errors import BadInput, GpuAdmissionError, PolicyError
from webhook.kube.yaml import to_yaml
from webhook.text import printable, printable_lines

_EVERY: Final = 5.0
"""Seconds between two refreshes with --watch."""
REFUSED, COULD_NOT = 1, 2
"""Exit statuses; 0 is fine."""
Arguments = ParamSpec("Arguments")
_FILES: Final = ("file", "files", "policy", "before")
"""Parameters of commands that name files to read, `-` for stdin."""

PROGRAM: Final = "kubectl gpu" if Path(sys.argv[0]).name.startswith("kubectl-gpu") else "gpu-admission"
"""How this program was called, for hints."""
COMMAND: Final = Style(color="green", meta={"command": True})
"""Of the part of a line that is a command."""


def out(text: str, end: str = "\n") -> None:
    """Print on stdout, unchanged."""
    print(text, end=end)


def say(text: str, style: str | None = None) -> None:
    """Print on stderr; on a terminal a long line goes on below. An unprintable character becomes a space: tenants write parts of
    this text."""
    console = Console(stderr=True, highlight=False, emoji=False)
    _print([[Text(line, style or "")] for line in printable_lines(text).split("\n")], console, sys.stderr)


def guarded(command: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """The command with its errors printed on stderr and turned into the exit status COULD_NOT.

    If the reader of stdout closes the pipe, the exit status is that of SIGPIPE (141).
    """

    @wraps(command)
    def run(*args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        try:
            _check_stdin(kwargs)
            command(*args, **kwargs)
            sys.stdout.flush()
        except BrokenPipeError:  # as with `… | head`
            # Python flushes stdout once more at exit, which must not fail again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(128 + signal.SIGPIPE) from None
        except PolicyError as error:
            for problem in error.problems:
                say(problem)
        except (GpuAdmissionError, OSError) as error:  # OSError: as a full disk behind stdout
            say(f"error: {error}", "red")
        else:
            return
        raise typer.Exit(COULD_NOT)

    return run


def _check_stdin(given: Mapping[str, object]) -> None:
    """Raises BadInput if several of the files that a command is given are stdin."""
    values = [given.get(name) for name in _FILES]
    files = [str(file) for value in values for file in (value if isinstance(value, list) else [value])]
    if (number := files.count("-")) > 1:
        raise BadInput(f"saw - for {number} files, wanted it for one: stdin is read once. Give the other as a file")


def write(path: Path, text: str | bytes) -> None:
    """Write a file that only its owner can read: what is written tells much about a cluster. Raises BadInput."""
    try:
        path.touch(mode=0o600)
        if path.is_file():
            path.chmod(0o600)  # of a file that was there, before anything new is in it
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    except OSError as error:
        raise BadInput(f"{path}: cannot be written: {error.strerror}") from None


DIFF_COLOURS: Final = {"+": "green", "-": "red"}
"""The colour of a line of a diff, by its first character."""
_GAP: Final = "   "
"""Spaces between two columns."""
_BAR_COLOURS: Final = ((0.5, "green"), (0.85, "yellow"), (2.0, "red"))
"""A bar has the first colour whose limit is above its share."""
_AGES: Final = (("d", 86400), ("h", 3600), ("m", 60))
_BAR: Final = 8
"""Width of a full bar, in characters."""
_NARROWEST: Final = 12
"""To so many characters at least a column is cut."""
Cell = str | Text


API: Final = "gpu-admission.io/v1"
"""The apiVersion of all documents."""


def document(answer: list[Any] | dict[str, Any], output: str, kind: str) -> bool:
    """Print a list or an object of this kind, or the names in it, if `output` says so. Returns False, and prints nothing, for a
    table. Raises BadInput if it has no names."""
    if output == "name":
        for each in answer if isinstance(answer, list) else [answer]:
            out(printable(_name_of(each, kind)))
        return True
    head = {"apiVersion": API, "kind": f"{kind}List" if isinstance(answer, list) else kind}
    answer = {**head, **({"items": answer} if isinstance(answer, list) else answer)}
    if output == "json":
        out(escaped(orjson.dumps(answer, option=orjson.OPT_INDENT_2).decode()))
    elif output == "yaml":
        out(to_yaml(orjson.loads(orjson.dumps(answer))), end="")
    elif output.startswith(JSONPATH):
        out(jsonpath(output.removeprefix(JSONPATH), orjson.loads(orjson.dumps(answer))), end="")
    else:
        return False
    return True


def _name_of(entry: Mapping[str, Any], kind: str) -> str:
    """`kind/name` of what an entry is about, as kubectl takes it."""
    if of := next((entry[key] for key in ("workload", "model") if key in entry and "name" not in entry), None):
        return "/".join(str(of).split("/")[-2:])
    for key, word in (("name", {"Why": "pod", "Top": "node"}.get(kind)), ("node", "node"), ("namespace", "namespace")):
        if word and key in entry:
            return str(entry[key]) if "/" in entry[key] else f"{word}/{entry[key]}"
    raise BadInput("-o name: this answer is not about objects with names")


def escaped(text: str) -> str:
    """JSON with each character escaped that a terminal would not show, such as one that turns the direction of writing."""
    return "".join([c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text])


headers: Final = {"shown": True}
"""Whether tables have their titles: a process runs one command."""


def table(
    titles: Sequence[str], rows: Iterable[Sequence[Any]], *, last_below: bool = False, drop: Sequence[str] = ()
) -> None:
    """Print a table as kubectl does: numbers aligned right, colours only on a terminal.

    On a terminal that is too narrow the columns `drop` are left out, in this order, until the rest fits. If that is not enough,
    the widest column of text is cut with an ellipsis. `last_below`: the last column is never cut, but goes below each row first.

    rich's Table is not used: it takes two milliseconds a row, and clusters have thousands of rows.
    """
    cells: list[list[Cell]] = [
        [Text(title, "bold") for title in titles],
        *[[_cell(each) for each in row] for row in rows],
    ]
    columns = [[str(row[at]) for row in cells] for at in range(len(titles))]
    widths = [max(map(_width, column)) for column in columns]
    right = [len(column) > 1 and all(map(_is_number, column[1:])) for column in columns]
    shown = list(range(len(titles)))
    console, below = _stdout(), False
    if console.is_terminal:
        if below := last_below and _total(widths, shown) > console.width:
            shown.pop()
        for at in [titles.index(title) for title in drop if title in titles]:
            if _total(widths, shown) > console.width:
                shown.remove(at)
    texts = [at for at in shown if not right[at]]
    if console.is_terminal and texts:
        widest = max(texts, key=lambda at: widths[at])
        limit = max(_NARROWEST, widths[widest] - max(0, _total(widths, shown) - console.width))
        if limit < widths[widest]:
            widths[widest] = limit
            for row in cells:
                row[widest] = _cut(row[widest], limit)
    rows_shown = cells if headers["shown"] else cells[1:]
    for row in rows_shown if below else ():
        _print([_line([(row[at], widths[at], right[at]) for at in shown])])
        show(*([Text.assemble("    ", row[-1])] if row is not cells[0] else []))
    if not below:
        _print([_line([(row[at], widths[at], right[at]) for at in shown]) for row in rows_shown])


def _total(widths: Sequence[int], shown: Sequence[int]) -> int:
    return sum(widths[at] + len(_GAP) for at in shown) - len(_GAP)


def _cut(cell: Cell, limit: int) -> Text:
    text = cell.copy() if isinstance(cell, Text) else Text(cell)
    text.truncate(limit, overflow="ellipsis")
    return text


def totals(counts: Mapping[str, int], words: Iterable[str]) -> str:
    """`3 refused, 1 warned`: the words in their order, each with its count; words with the count 0 are left out."""
    return ", ".join([f"{counts[word]} {word}" for word in words if counts[word]])


def _line(columns: Iterable[tuple[Cell, int, bool]]) -> list[Cell]:
    """The parts of a line, of each cell with the width of its column and whether that is one of numbers."""
    parts: list[Cell] = []
    for cell, width, number in columns:
        pad = " " * (width - _width(str(cell)))
        parts += (pad, cell, _GAP) if number else (cell, pad, _GAP)
    return parts


def _width(text: str) -> int:
    """The width in columns of a terminal."""
    return len(text) if text.isascii() else cell_len(text)


def _is_number(text: str) -> bool:
    return not text or text.replace("-", "").replace(".", "").isdigit()


def show(*lines: Text) -> None:
    """Print lines on stdout; on a terminal a long one goes on below, indented. Each stays one line, and an unprintable character
    becomes a space: tenants write parts of this text."""
    for each in lines:
        each.plain = printable(each.plain)
    _print([[each] for each in lines])


def _wrapped(line: Text, width: int) -> Iterator[Text]:
    """The line as lines of so many columns, between words: those after the first are indented by two more."""
    indent = len(line.plain) - len(line.plain.lstrip())
    if _width(line.plain) <= width or width < 2 * indent:
        yield line
        return
    command = [each.start for each in line.spans if isinstance(each.style, Style) and each.style.meta.get("command")]
    text, *commands = line[indent:].divide([at - indent for at in command])
    breaks, used = list[int](), 0
    for word in re.finditer(r"\S+\s*", text.plain):
        if used and used + _width(word[0].rstrip()) > width - indent - 2:
            breaks.append(word.start())
            used = 0
        used += _width(word[0])
    for at, part in enumerate([*text.divide(breaks), *commands]):
        part.rstrip()
        yield Text.assemble(" " * (indent + 2 * bool(at)), part)


def _stdout() -> Console:
    return Console(highlight=False, emoji=False)


def _print(lines: Iterable[Sequence[Cell]], console: Console | None = None, file: TextIO | None = None) -> None:
    """Print lines, each given as a sequence of parts, on stdout or on the other one."""
    console = console or _stdout()
    if not console.is_terminal:
        text = "".join([f"{''.join(map(str, parts)).rstrip()}\n" for parts in lines])
        (file or sys.stdout).write(text)
        return
    for parts in lines:
        line = Text.assemble(*parts)
        line.rstrip()
        for part in _wrapped(line, console.width) if len(parts) == 1 else [line]:
            # rich keeps bold and dim under NO_COLOR.
            console.print(Text(part.plain) if console.no_color else part, soft_wrap=True)


def repeated(refresh: Callable[[], None], *, watch: bool, from_file: bool) -> None:
    """Refresh once, or with `watch` until Ctrl-C: a failure, such as an API server that does not answer, is then printed and
    does not end it. Raises BadInput for a file, which does not change."""
    if watch and from_file:
        raise BadInput("saw -w with --from, wanted one of them: a file does not change")
    refresh()
    try:
        while watch:
            gc.collect()  # frees the snapshot of the last refresh: `snapshot_of` turns automatic collection off
            time.sleep(_EVERY)
            try:
                refresh()
            except BadInput as error:
                say(f"error: {error}", "red")
    except KeyboardInterrupt:
        return


@contextmanager
def counted(doing: str) -> Iterator[Callable[[int, int], None]]:
    """Shows on a terminal what is being done, and once it is called how much of it: `looking at the pods: 120 of 500`."""
    with Console(stderr=True).status(doing) as shown:
        yield lambda done, of: shown.update(f"{doing}: {done} of {of}")


def clear() -> None:
    """Clear the terminal. Does nothing if stdout is not a terminal."""
    Console().clear()


def diff(before: Any, after: Any, around: int = 1) -> Iterator[str]:
    """The lines of a diff of two objects as YAML, with `around` unchanged lines around each change and ⋮ for omitted lines."""
    lines = difflib.unified_diff(to_yaml(before).splitlines(), to_yaml(after).splitlines(), lineterm="", n=around)
    for line in list(lines)[2:]:
        yield "⋮" if line.startswith("@@") else line


def age(since: float, now: float) -> str:
    """`45s`, `12m`, `3h` or `2d`, as kubectl shows an age; "" if one of the two times is not known (0)."""
    if not since or not now:
        return ""
    unit, size = next(((unit, size) for unit, size in _AGES if now - since >= 2 * size), ("s", 1))
    return f"{max(0, int((now - since) // size))}{unit}"


def bar(part: float, whole: float) -> Text:
    """A bar for the share of `part` in `whole`: `██████░░`."""
    share = min(1.0, max(0.0, part / whole)) if whole else 0.0
    filled = round(share * _BAR)
    return Text(
        "█" * filled + "░" * (_BAR - filled), style=next(colour for limit, colour in _BAR_COLOURS if share < limit)
    )


def _cell(value: Any) -> Cell:
    return value if isinstance(value, Text) else "" if value is None else printable(str(value))
