"""Words for messages. Everything a tenant wrote passes through `quoted` before it reaches a message."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

LONGEST_QUOTE = 80


def quoted(value: object) -> str:
    """`value` in double quotes: one line, nothing unprintable, at most LONGEST_QUOTE characters of it."""
    text = value if isinstance(value, str) else repr(value)
    cut = text[:LONGEST_QUOTE]
    safe = "".join(c if c.isprintable() and c not in '"\\' else c.encode("unicode_escape").decode() for c in cut)
    return f'"{safe}…"' if len(text) > LONGEST_QUOTE else f'"{safe}"'


def bare(value: object) -> str:
    """As `quoted`, without the quotes: for a name inside a field path, `limits[nvidia.com/gpu]`."""
    return quoted(value)[1:-1]


def plural(count: int, noun: str, many: str | None = None) -> str:
    """`plural(1, "node")` is "1 node", `plural(2, "node")` is "2 nodes"."""
    return f"{count} {noun}" if count == 1 else f"{count} {many or noun + 's'}"


def listed(values: Iterable[str], limit: int = 5) -> str:
    """ "a, b and 3 more": at most `limit` values by name, the rest by number."""
    values = list(values)
    if len(values) <= limit:
        return ", ".join(values)
    return f"{', '.join(values[:limit])} and {len(values) - limit} more"


def nearest(word: str, known: Sequence[str]) -> str | None:
    """The known word most like `word`, or None if none is alike. Both sides are bounded: it is quadratic."""
    found = difflib.get_close_matches(word[:LONGEST_QUOTE], known[:1000], n=1, cutoff=0.6)
    return found[0] if found else None


def matches(pattern: str, text: str) -> bool:
    """Exact, or a prefix where `pattern` ends in `*`. Deliberately no regular expression."""
    return text.startswith(pattern[:-1]) if pattern.endswith("*") else text == pattern
