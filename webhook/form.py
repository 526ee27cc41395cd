"""The body of a review as a form: the text that all pods of a template share, and the blanks that each fills in otherwise.

The blanks are the uid of the review, the times in managed fields, and the letters at the end of the volume with the token.
Bodies that fill in the same form say the same: nobody needs to parse the second one.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

LARGEST: Final = 16 << 10
"""Bytes. Larger bodies are like nobody's."""
TOKEN: Final = b"kube-api-access-"
"""Begins the name of the volume that the ServiceAccount admission plugin adds (serviceaccount/admission.go)."""
LETTERS: Final = 5
_NAME_LENGTH: Final = len(TOKEN) + LETTERS
_UID: Final = b'"request":{"uid":"'
_ENVELOPE: Final = 256
_LONGEST_UID: Final = 128
_NAME: Final = b'"generateName":"'
"""Who has no such name has one of its own, and no likes."""
_HEAD: Final = 2048
_MANAGED: Final = b'"time":"'
_TIME: Final = b"0000-00-00T00:00:00Z"
_DIGITS: Final = bytes.maketrans(b"123456789", b"0" * 9)
_AFTER_TIME: Final = b'","fieldsType":'
"""A manager of fields has a time and a type, in this order. Keys of maps come sorted: in labels they stand the other way."""


class Marked(NamedTuple):
    """A body that may fill in a form."""

    uid: str
    start: int
    """Where the uid begins."""
    head: bytes
    """What follows it: who asks, in which namespace, for pods of what name. Not of what kind: many a form may begin so."""


def marked(body: bytes) -> Marked | None:
    """None for what is large, what has a name of its own, and where the uid is not where the API server puts it."""
    start = body.find(_UID, 0, _ENVELOPE) + len(_UID)
    end = body.find(b'"', start, start + _LONGEST_UID + 1)
    name = body.find(_NAME, end, end + _HEAD)
    if len(body) > LARGEST or start < len(_UID) or end < 0 or name < 0:
        return None
    uid = body[start:end]
    if not uid.replace(b"-", b"").isalnum():
        return None
    return Marked(uid.decode(), start, body[end : name + 64])


class Form(NamedTuple):
    """The fixed texts of a body, and the blanks between them."""

    layout: Struct
    """Takes a body apart: fixed text, blank, and so on to the last fixed text. Comparing them one by one takes twice as long."""
    fixed: tuple[bytes, ...]
    times: tuple[int, ...]
    """Which of the blanks are times."""
    tokens: tuple[int, ...]
    """Which name the token's volume. None of the fixed texts does so: no other body can have its letters by chance."""

    @classmethod
    def of(cls, body: bytes, mark: Marked) -> Form:
        times = []
        at = mark.start
        while (at := body.find(_MANAGED, at)) >= 0:
            at += len(_MANAGED)
            if body[at : at + len(_TIME)].translate(_DIGITS) == _TIME and body.startswith(_AFTER_TIME, at + len(_TIME)):
                times.append(at)
        tokens = _tokens(body)
        blanks = {
            mark.start: len(mark.uid),
            **dict.fromkeys(times, len(_TIME)),
            **dict.fromkeys(tokens, _NAME_LENGTH),
        }
        starts = sorted(blanks)
        fixed, end = [], 0
        for start in starts:
            fixed.append(body[end:start])
            end = start + blanks[start]
        fixed.append(body[end:])
        lengths = [n for text, start in zip(fixed, starts, strict=False) for n in (len(text), blanks[start])]
        layout = Struct("".join([f"{n}s" for n in (*lengths, len(fixed[-1]))]))
        return cls(layout, tuple(fixed), tuple(map(starts.index, times)), tuple(map(starts.index, tokens)))

    def fits(self, body: bytes) -> bool:
        """Whether the body is this form, filled in."""
        layout, fixed, times, tokens = self
        if len(body) != layout.size:
            return False
        parts = layout.unpack(body)
        if parts[::2] != fixed:
            return False
        blanks = parts[1::2]
        for number in times:
            if blanks[number].translate(_DIGITS) != _TIME:
                return False
        if not tokens:
            return True
        name: bytes = blanks[tokens[0]]
        for number in tokens:
            if blanks[number] != name:
                return False
        return name.startswith(TOKEN) and name[len(TOKEN) :].isalnum()


def _tokens(body: bytes) -> tuple[int, ...]:
    """Where the token's volume is named; () where that is not clear."""
    at, found = -1, []
    while (at := body.find(TOKEN, at + 1)) >= 0:
        found.append(at)
    names = {body[at - 1 : at + _NAME_LENGTH + 1] for at in found}
    if len(names) != 1 or not (name := names.pop()).startswith(b'"') or not name.endswith(b'"'):
        return ()
    return tuple(found) if name[1 + len(TOKEN) : -1].isalnum() else ()
