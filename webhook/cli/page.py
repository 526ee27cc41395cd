"""Builds the HTML pages that commands write. A page is one file that loads nothing, and all text in it is escaped."""

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Final

_MAX_DRAWN: Final = 16
"""Maximum number of GPUs drawn as one square each. If there are more, each class is one square with a number."""
_CONTENT_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE: Final = """
body{font:14px/1.4 system-ui,sans-serif;margin:2em;color:#222}table{border-collapse:collapse}
td,th{padding:2px 10px;text-align:left;vertical-align:middle}th{border-bottom:1px solid #999}
i{display:inline-block;width:9px;height:12px;margin-right:1px;border-radius:1px}
.old{background:#9aa5b1}.new{background:#2b7de9}.free{background:#e4e9ee}.whole td{background:#eefaf0}
.bad{color:#b3261e}.good{color:#1b7a36}code{white-space:pre-wrap}
"""


class Html(str):
    """Text that is already HTML and is not escaped again."""

    __slots__ = ()


def page(title: str, heading: str, *parts: str) -> str:
    """The whole page. `parts`: HTML."""
    head = (
        f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{_CONTENT_POLICY}">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style>"
    )
    return f'<!doctype html><html lang="en"><head>{head}</head><body><h1>{escape(heading)}</h1>{"".join(parts)}</body></html>\n'


def table(titles: Iterable[str], rows: Iterable[Html]) -> Html:
    heads = "".join(f"<th>{escape(title)}</th>" for title in titles)
    return Html(f"<table><tr>{heads}</tr>{''.join(rows)}</table>")


def row(cells: Sequence[object], word: str = "") -> Html:
    """A row of a table. `word`: its CSS class."""
    return Html(f"<tr{_class(word)}>{''.join(map(cell, cells))}</tr>")


def cell(content: object, word: str = "") -> Html:
    """A cell with this content. Content that is a cell already is returned as it is. `word`: the CSS class."""
    if isinstance(content, Html) and content.startswith("<td"):
        return content
    return Html(f"<td{_class(word)}>{html(content)}</td>")


def html(content: object) -> Html:
    return content if isinstance(content, Html) else Html(escape(str(content)))


def squares(counts: Mapping[str, float]) -> Html:
    """One square for each GPU. `counts`: number of GPUs by CSS class: `old`, `new`, `free`. A GPU of which a part is
    taken is drawn as taken."""
    drawn, ends = sum(counts.values()) <= _MAX_DRAWN, [0.0]
    for count in counts.values():
        ends.append(ends[-1] + max(0, count))
    whole = [math.ceil(round(end, 3)) for end in ends]
    each = [(f'<i class="{word}"></i>', whole[at + 1] - whole[at]) for at, word in enumerate(counts)]
    return Html("".join(square * count if drawn else f"{square}{count} " for square, count in each))


def _class(word: str) -> str:
    return f' class="{word}"' if word else ""
