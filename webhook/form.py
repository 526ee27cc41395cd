"""The body of a review as a form: the text that all pods of a template share, and the blanks that each fills in otherwise.

The blanks are the uid of the review, the times in managed fields, and the letters at the end of the volume with the token.
Bodies that fill in the same form say the same: nobody needs to parse the second one.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

LARGEST: Final = 16 << 10
"""Bytes. Larger bodies are like nobody's."""
TOKEN: Final = b"kube-api-access-"
"""Begins the name of the volume that the ServiceAccount admission plugin adds (serviceaccount/admission.go)."""
LETTERS: Final = 5
_UID: Final = b'"request":{"uid":"'
_ENVELOPE: Final = 256
_LONGEST_UID: Final = 128
_NAME: Final = b'"generateName":"'
"""Who has no such name has one of its own, and no likes."""
_HEAD: Final = 2048
_MANAGED: Final = b'"time":"'
_TIME: Final = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_AFTER_TIME: Final = b'","fieldsType":'
"""A manager of fields has a time and a type, in this order. Keys of maps come sorted: in labels they stand the other way."""
_TIME_LENGTH: Final = 20


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
    """The fixed texts of a body and where they stand; the blanks are between them."""

    size: int
    fixed: tuple[tuple[int, bytes], ...]
    times: tuple[int, ...]
    tokens: tuple[int, ...]
    """Where the token's volume is named. None of the fixed texts does so: no other body can have its letters by chance."""

    @classmethod
    def of(cls, body: bytes, mark: Marked) -> Form:
        blanks = [(mark.start, len(mark.uid))]
        times = []
        at = mark.start
        while (at := body.find(_MANAGED, at)) >= 0:
            at += len(_MANAGED)
            if _TIME.match(body, at) and body.startswith(_AFTER_TIME, at + _TIME_LENGTH):
                times.append(at)
        tokens = _tokens(body)
        blanks += [(at, _TIME_LENGTH) for at in times] + [(at, len(TOKEN) + LETTERS) for at in tokens]
        fixed, end = [], 0
        for start, length in sorted(blanks):
            fixed.append((end, body[end:start]))
            end = start + length
        return cls(len(body), (*fixed, (end, body[end:])), tuple(times), tokens)

    def fits(self, body: bytes) -> bool:
        """Whether the body is this form, filled in."""
        if len(body) != self.size:
            return False
        for at, text in self.fixed:  # startswith does not copy
            if not body.startswith(text, at):
                return False
        return all([_TIME.match(body, at) for at in self.times]) and (not self.tokens or self._named(body))

    def _named(self, body: bytes) -> bool:
        first, *others = self.tokens
        name = body[first : first + len(TOKEN) + LETTERS]
        if not name.startswith(TOKEN) or not name[len(TOKEN) :].isalnum():
            return False
        return all([body.startswith(name, at) for at in others])


def _tokens(body: bytes) -> tuple[int, ...]:
    """Where the token's volume is named; () where that is not clear."""
    at, found = -1, []
    while (at := body.find(TOKEN, at + 1)) >= 0:
        found.append(at)
    names = {body[at - 1 : at + len(TOKEN) + LETTERS + 1] for at in found}
    if len(names) != 1 or not (name := names.pop()).startswith(b'"') or not name.endswith(b'"'):
        return ()
    return tuple(found) if name[1 + len(TOKEN) : -1].isalnum() else ()
