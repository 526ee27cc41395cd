"""Regular expressions of `matches` in expressions that select devices.

A pattern of a tenant is not run by a library: an automaton is made of it, whose size and work are known before. It reads
literal characters, `.`, classes such as `[^a-z0-9_]`, `\\d`, `\\w`, `\\s` and their opposites, groups `( )` and `(?: )`,
alternatives, the repetitions `*`, `+` and `?`, and anchors at the ends of the pattern or of one of its outermost alternatives.
All else (counts, flags, words, classes of Unicode, and what is no pattern) is not read.

What is read means what it means in Go (regexp/syntax): a match anywhere in the text, and `.` is not a line feed. A text is
walked once, with the set of places in the pattern that it may have reached (Glushkov's automaton).
"""

import string
from collections.abc import Iterator
from typing import Final, NamedTuple

from webhook.errors import NotRead

MAX_PLACES: Final = 64
"""Maximum number of characters and classes in a pattern."""
_MAX_DEPTH: Final = 8
_DIGITS: Final = frozenset(string.digits)
_CLASSES: Final = {
    "d": _DIGITS,
    "w": _DIGITS | frozenset(string.ascii_letters) | {"_"},
    "s": frozenset("\t\n\f\r "),
}
_SPECIAL: Final = frozenset("\\.+*?()|[]{}^$")


class _Set(NamedTuple):
    """Characters, or all but these."""

    characters: frozenset[str] = frozenset()
    ranges: tuple[tuple[str, str], ...] = ()
    negated: bool = False

    def has(self, character: str) -> bool:
        found = character in self.characters
        if not found and self.ranges:
            found = any([low <= character <= high for low, high in self.ranges])
        return found is not self.negated


class _Part(NamedTuple):
    """A part of a pattern; places are bits."""

    empty: bool
    """Whether it matches the empty text."""
    first: int
    last: int


_NOTHING: Final = _Part(True, 0, 0)


class _Alternative(NamedTuple):
    part: _Part
    from_start: bool
    to_end: bool


class Pattern:
    """A pattern. Raises NotRead."""

    def __init__(self, text: str) -> None:
        self._text, self._at, self._depth = text, 0, 0
        self._characters: dict[str, int] = {}
        """The places where one character stands,"""
        self._sets: dict[_Set, int] = {}
        """and those of each class."""
        self._follow: list[int] = []
        """The places that may come after each place."""
        self._alternatives = [self._outermost()]
        while self._take("|"):
            self._alternatives.append(self._outermost())
        if self._at < len(text):
            raise NotRead

    @property
    def size(self) -> int:
        """An upper bound on the steps for each character of a text."""
        return 4 + len(self._alternatives) + len(self._follow) // 2

    def found_in(self, text: str) -> bool:
        """Whether the pattern matches somewhere in a text."""
        states = [0] * len(self._alternatives)
        if any([part.empty and not (text and start and end) for part, start, end in self._alternatives]):
            return True
        for index, character in enumerate(text):
            here = self._characters.get(character, 0)
            for each, places in self._sets.items():
                here |= places if each.has(character) else 0
            for number, (part, from_start, to_end) in enumerate(self._alternatives):
                reached = 0 if from_start and index else part.first
                for place in _places(states[number]):
                    reached |= self._follow[place]
                states[number] = reached & here
                if states[number] & part.last and (not to_end or index == len(text) - 1):
                    return True
        return False

    # --- reading ------------------------------------------------------------------------------------------------------

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, expected: str) -> bool:
        found = self._text.startswith(expected, self._at)
        self._at += len(expected) * found
        return found

    def _next(self) -> str:
        if self._at == len(self._text):
            raise NotRead
        self._at += 1
        return self._text[self._at - 1]

    def _outermost(self) -> _Alternative:
        from_start = self._take("^")
        part = self._sequence()
        return _Alternative(part, from_start, self._take("$"))

    def _sequence(self) -> _Part:
        found = _NOTHING
        while self._peek() not in ("", "|", ")", "$"):
            found = self._joined(found, self._repeated())
        return found

    def _joined(self, one: _Part, other: _Part) -> _Part:
        self._may_follow(one.last, other.first)
        first = one.first | (other.first if one.empty else 0)
        return _Part(one.empty and other.empty, first, other.last | (one.last if other.empty else 0))

    def _may_follow(self, last: int, first: int) -> None:
        for place in _places(last):
            self._follow[place] |= first

    def _repeated(self) -> _Part:
        found, sign = self._one(), self._peek()
        if sign not in ("*", "+", "?"):
            return found
        self._at += 1
        if self._peek() in ("*", "+", "?"):
            raise NotRead
        if sign != "?":
            self._may_follow(found.last, found.first)
        return found if sign == "+" else found._replace(empty=True)

    def _one(self) -> _Part:
        if self._take("("):
            return self._group()
        if self._take("["):
            return self._place(self._class())
        character = self._next()
        if character == "\\":
            return self._place(self._escaped())
        if character == ".":
            return self._place(_Set(frozenset("\n"), negated=True))
        if character in _SPECIAL:
            raise NotRead
        return self._place(_Set(frozenset(character)))

    def _group(self) -> _Part:
        self._depth += 1
        if (self._take("?") and not self._take(":")) or self._depth > _MAX_DEPTH:
            raise NotRead
        found = self._sequence()
        while self._take("|"):
            other = self._sequence()
            found = _Part(found.empty or other.empty, found.first | other.first, found.last | other.last)
        if not self._take(")"):
            raise NotRead
        self._depth -= 1
        return found

    def _place(self, characters: _Set) -> _Part:
        if len(self._follow) == MAX_PLACES:
            raise NotRead
        bit = 1 << len(self._follow)
        self._follow.append(0)
        if len(characters.characters) == 1 and not (characters.ranges or characters.negated):
            (character,) = characters.characters
            self._characters[character] = self._characters.get(character, 0) | bit
        else:
            self._sets[characters] = self._sets.get(characters, 0) | bit
        return _Part(False, bit, bit)

    def _escaped(self) -> _Set:
        character = self._next()
        if character in _CLASSES:
            return _Set(_CLASSES[character])
        if character.lower() in _CLASSES:
            return _Set(_CLASSES[character.lower()], negated=True)
        if character not in string.punctuation:
            raise NotRead
        return _Set(frozenset(character))

    def _class(self) -> _Set:
        negated, characters, ranges = self._take("^"), set[str](), []
        while not self._take("]"):
            one = self._member()
            if not self._take("-"):
                characters |= one
            elif len(one) > 1 or len(other := self._member()) > 1 or min(one) > min(other):
                raise NotRead
            else:
                ranges.append((min(one), min(other)))
        if not (characters or ranges):
            raise NotRead
        return _Set(frozenset(characters), tuple(ranges), negated)

    def _member(self) -> frozenset[str]:
        """One character of a class, or those of `\\d`, `\\w` and `\\s`."""
        character = self._next()
        if character == "\\":
            found = self._escaped()
            if found.negated:
                raise NotRead
            return found.characters
        if character in "[]-^":
            raise NotRead
        return frozenset(character)


def _places(bits: int) -> Iterator[int]:
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low
