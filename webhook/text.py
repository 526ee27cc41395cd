"""Text for messages. Everything that a tenant wrote passes through `quoted` before it reaches a message."""

import difflib
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from webhook.errors import BadInput

MAX_QUOTE = 80
"""Maximum number of characters quoted from one value."""
_MAX_NEAR_LENGTH = 64
"""Maximum length of a name that `nearest` compares. Nobody mistypes longer ones."""
_MAX_COMPARED = 10_000
"""Maximum number of pairs of characters that one call of `nearest` compares."""


def quoted(value: object) -> str:
    """`value` in double quotes: one line of printable characters, cut after MAX_QUOTE of them.

    A map or a list gives only "a map" or "a list": its text could be megabytes.
    """
    if not isinstance(value, str):
        return json_type(value) if value is None or isinstance(value, (dict, list)) else f'"{_plain(value)}"'
    safe = value[:MAX_QUOTE]
    if not safe.isprintable() or '"' in safe or "\\" in safe:
        safe = "".join([c if c.isprintable() and c not in '"\\' else _escaped(c) for c in safe])
    return f'"{safe}…"' if len(value) > MAX_QUOTE else f'"{safe}"'


def printable(text: str) -> str:
    """`text` on one line. A space replaces each character that cannot be printed."""
    return text if text.isprintable() else "".join([c if c.isprintable() else " " for c in text])


def printable_lines(text: str) -> str:
    """`text` with each of its lines made `printable`."""
    return text if text.isprintable() else "\n".join(map(printable, text.split("\n")))


def _escaped(character: str) -> str:
    return '\\"' if character == '"' else character.encode("unicode_escape").decode()


def _plain(value: object) -> str:
    """A number or truth value as YAML and JSON write it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() > 256:
        return f"{value.bit_length()}-bit number"  # str() takes quadratic time, and refuses very long numbers
    return str(value)[:MAX_QUOTE]


def json_type(value: object) -> str:
    """The JSON type of a value in words: "a map", "a number", "nothing"."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return "a number"
    return _KINDS.get(type(value), type(value).__name__)


_KINDS: dict[type, str] = {str: "a string", list: "a list", dict: "a map"}


def bare(value: object) -> str:
    """`quoted` without the quotes, for a name inside a field path: `limits[nvidia.com/gpu]`."""
    return quoted(value)[1:-1] if isinstance(value, str) else quoted(value)


def dotted(path: Iterable[str | int]) -> str:
    """A path in an object as messages write it: `spec.containers[0]`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{bare(part)}" for part in path).lstrip(".")


def plural(count: int, noun: str) -> str:
    """`plural(1, "node")` is "1 node", `plural(2, "node")` is "2 nodes"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def listed(values: Iterable[str], limit: int = 5, show: Callable[[str], str] = str, where: str = "") -> str:
    """ "a, b and 3 more (where)": the first `limit` values as `show` writes them, then the number of the others, and where to
    read these."""
    values = values if isinstance(values, (list, tuple)) else list(values)
    if len(values) <= limit:
        return ", ".join(map(show, values))
    return f"{', '.join(map(show, values[:limit]))} and {len(values) - limit} more{f' ({where})' if where else ''}"


def number_of(text: object) -> int | None:
    """The number that a label, an annotation or an argument says in at most six digits; None if it says none."""
    return int(text) if isinstance(text, str) and text.isascii() and text.isdigit() and len(text) <= 6 else None


def nearest(word: str, known: Sequence[str]) -> str | None:
    """The known word that is most similar to `word`, or None if none is similar."""
    if len(word) > _MAX_NEAR_LENGTH:
        return None
    candidates, left = [], _MAX_COMPARED
    for name in known:
        left -= max(1, len(word)) * max(1, len(name))
        if left < 0:
            break
        if len(name) <= _MAX_NEAR_LENGTH:
            candidates.append(name)
    return next(iter(difflib.get_close_matches(word, candidates, n=1, cutoff=0.6)), None)


def one_edit_apart(word: str, known: str) -> bool:
    """Whether the words differ by one typing error: a character added, missing or replaced, or two swapped."""
    if len(word) == len(known):
        differ = [(a, b) for a, b in zip(word, known, strict=True) if a != b]
        return len(differ) == 1 or (len(differ) == 2 and differ[0] == differ[1][::-1])
    longer, shorter = (word, known) if len(word) > len(known) else (known, word)
    return len(longer) == len(shorter) + 1 and any(longer[:i] + longer[i + 1 :] == shorter for i in range(len(longer)))


def suggestion(word: str, known: Sequence[str], said: str = "; did you mean {}?", otherwise: str = "") -> str:
    """`said` with the known word that is most similar to `word` in place of `{}`; `otherwise` if none is similar."""
    near = nearest(word, known)
    return said.replace("{}", bare(near)) if near else otherwise


class Patterns:
    """Name patterns of a policy, prepared for many lookups. Each one works as in `matches`."""

    __slots__ = ("_exact", "_prefixes")

    def __init__(self, patterns: Iterable[str]) -> None:
        patterns = tuple(patterns)
        self._exact = frozenset([pattern for pattern in patterns if not pattern.endswith("*")])
        self._prefixes = tuple([pattern[:-1] for pattern in patterns if pattern.endswith("*")])

    def match(self, text: str) -> bool:
        """Whether any of the patterns matches."""
        return text in self._exact or text.startswith(self._prefixes)

    def among(self, texts: Iterable[str]) -> set[str]:
        """The texts that any of the patterns matches."""
        exact, prefixes = self._exact, self._prefixes
        return {text for text in texts if text in exact or text.startswith(prefixes)}


def matches_any(patterns: tuple[str, ...], text: str) -> bool:
    return _compiled(patterns).match(text)


_compiled = lru_cache(maxsize=512)(Patterns)


def matches(pattern: str, text: str) -> bool:
    """Whether `text` equals `pattern`, or starts with it where it ends in `*`. Deliberately no regular expressions."""
    return text.startswith(pattern[:-1]) if pattern.endswith("*") else text == pattern


def amount_words(resource: str, amount: int) -> str:
    """ "400 CPUs", "64Gi memory", "4 rdma/hca". `amount`: thousandths of a CPU, bytes, or a count."""
    noun = {"cpu": "CPU" if amount == 1000 else "CPUs", "ephemeral-storage": "ephemeral storage"}.get(
        resource, bare(resource)
    )
    return f"{amount_number(resource, amount)} {noun}"


def amount_number(resource: str, amount: int) -> str:
    """The number of `amount_words` alone, as a manifest may have it: "0.5", "64Gi", "4". It is never more than the amount."""
    if resource == "cpu":
        return f"{amount / 1000:.10g}"
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        for unit, size in (("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)):
            if (amount >= size and amount * 10 % size == 0) or amount >= 16 * size:
                return f"{amount * 10 // size / 10:.10g}{unit}"
    return str(amount)


def no_such(kind: str, name: str, known: Sequence[str], where: str = "") -> BadInput:
    """The error for a name that does not exist. It suggests the nearest of the known names."""
    return BadInput(f"no {kind} {quoted(name)}{where}{suggestion(name, known)}")
