"""The body of a review as a form: the text that all pods of a template share, and the blanks that each fills in otherwise.

The blanks are the uid of the review, the times in managed fields, and the letters at the end of the volume with the token. Of a
pod that has been through our mutating hook also its name, its uid, its time, our record on it, and the nodes that we named.
Bodies that fill in the same form say the same: nobody needs to parse the second one.

Where a blank is found by the text around it, it is one only by its looks. Whoever keeps a form asks `sample` first: the
same body with every blank filled in otherwise, to be read as any other.
"""

from __future__ import annotations

import re
from itertools import pairwise
from struct import Struct
from typing import Final

import orjson

from webhook.pod import DECISION

LARGEST: Final = 16 << 10
"""Bytes. Larger bodies are like nobody's."""
TOKEN: Final = b"kube-api-access-"
"""Begins the name of the volume that the ServiceAccount admission plugin adds (serviceaccount/admission.go)."""
LETTERS: Final = 5
_NAME_LENGTH: Final = len(TOKEN) + LETTERS
_UID: Final = b'"request":{"uid":"'
_ENVELOPE: Final = 256
_LONGEST_UID: Final = 128
_GENERATED: Final = b'"generateName":"'
"""Who has no such name has one of its own, and no likes."""
_NAME: Final = b'"metadata":{"name":"'
_OWN: Final = b'","uid":"'
_HEAD: Final = 2048
_LONGEST_NAME: Final = 253
_COMMON: Final = (
    rb'"time":"(?P<time>[^"\\]+)","fieldsType":|"(?P<token>' + TOKEN + rb"[0-9A-Za-z]{%d})" % LETTERS + rb'"'
)
"""A manager of fields has a time and a type, in this order. Keys of maps come sorted: in labels they stand the other way."""
_STORED: Final = (
    rb'|"name":"(?P<name>[^"\\]+)","namespace":"[^"\\]*","operation":"'
    rb'|"uid":"(?P<own>[^"\\]+)",(?:"generation":1,)?"creationTimestamp":"(?P<made>[^"\\]+)"'
    rb'|"key":"metadata\.name","operator":"In","values":\["(?P<node>[^"\\]+)"\]'
    rb'|"' + re.escape(DECISION.encode()) + rb'":"(?P<record>(?:[^"\\]|\\.)*)"'
)
_BLANKS: Final = {False: re.compile(_COMMON), True: re.compile(_COMMON + _STORED)}
_END: Final = 8
_LISTED: Final = rb"\"nodes\":[[\"%b\","
"""How the list of nodes begins in a record (`explain.record`), as a JSON string."""
_PUNCTUATION: Final = b"-.:"
"""What stands in blanks besides letters and digits."""


class Marked:
    """A body that may fill in a form."""

    __slots__ = ("head", "name", "uid")

    def __init__(self, uid: tuple[int, int], name: tuple[int, int] | None, head: bytes) -> None:
        self.uid = uid
        """Where it begins and ends."""
        self.name = name
        """The same of the name of a pod that has one."""
        self.head = head
        """What follows: pods of what name, and where. Not of what kind: many a form may begin so."""


def marked(body: bytes, *, stored: bool = False) -> Marked | None:
    """None for what is large, what has a name of its own, and where the uid is not where the API server puts it.

    `stored`: the pod has been through the mutating hooks, and has its name.
    """
    start = body.find(_UID, 0, _ENVELOPE) + len(_UID)
    end = body.find(b'"', start, start + _LONGEST_UID + 1)
    if len(body) > LARGEST or start < len(_UID) or end <= start:
        return None
    if not stored:
        at = body.find(_GENERATED, end, end + _HEAD)
        return None if at < 0 else Marked((start, end), None, body[end : at + 64])
    at = body.find(_NAME, end, end + _HEAD) + len(_NAME)
    after = body.find(b'"', at, at + _LONGEST_NAME + 1)
    until = body.find(_OWN, after, after + 2 * _LONGEST_NAME)
    if at < len(_NAME) or until < 0 or not body.startswith(_GENERATED, after + 2):
        return None
    return Marked((start, end), (at, after), body[after:until])


class Form:
    """The fixed texts of a body, and the blanks between them."""

    def __init__(self, body: bytes, mark: Marked) -> None:
        found = [("uid", mark.uid)] + ([("name", mark.name)] if mark.name else [])
        for match in _BLANKS[mark.name is not None].finditer(body, mark.uid[1]):
            found += [(kind, match.span(kind)) for kind, text in match.groupdict().items() if text is not None]
        if len({body[start:end] for kind, (start, end) in found if kind == "token"}) > 1:  # one of them is no volume's
            found = [blank for blank in found if blank[0] != "token"]
        found.sort(key=lambda blank: blank[1])
        edges = [0, *[edge for _, span in found for edge in span], len(body)]
        texts = tuple([body[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True)])
        kinds = [kind for kind, _ in found]
        records = _which("record", kinds)
        # The record has quotes within: it ends where the next text begins. To look for all of that would take much longer.
        ends = tuple([texts[number + 1][:_END] if number in records else b'"' for number in range(len(kinds))])
        self.fixed = texts
        self.layout = Struct("".join([f"{end - start}s" for start, end in pairwise(edges)]))
        """Takes a body apart whose blanks are as long as those of the first. To look for each of them takes twice as long."""
        self.ends = ends
        """What each blank ends at, where they are longer or shorter."""
        self.uid = kinds.index("uid")
        """Which of the blanks that is, and so on."""
        self.names = _which("name", kinds)
        """Of the pod: all the same."""
        self.record = records[0] if records else None
        self.nodes = _which("node", kinds)
        self.tokens = _which("token", kinds)
        """All the same, too."""

    def sample(self) -> bytes:
        """The form filled in with what no body would have."""
        token, tokens = TOKEN + b"0" * LETTERS, self.tokens
        *texts, last = self.fixed
        filled = [text + (token if number in tokens else b"0") for number, text in enumerate(texts)]
        return b"".join([*filled, last])

    def filled(self, body: bytes) -> list[bytes] | None:
        """The blanks of the body; None where it is not this form."""
        blanks = self._blanks(body)
        if blanks is None:
            return None
        plain, tokens = blanks, self.tokens
        if self.record is not None:
            plain = [*blanks[: self.record], *blanks[self.record + 1 :]]
            try:
                self.record_in(blanks)
            except orjson.JSONDecodeError:  # it ends elsewhere
                return None
        if not b"".join(plain).translate(None, _PUNCTUATION).isalnum():
            return None
        for same in (tokens, self.names):
            for number in same:
                if blanks[number] != blanks[same[0]]:
                    return None
        if not tokens:
            return blanks
        name = blanks[tokens[0]]
        is_token = name.startswith(TOKEN) and len(name) == _NAME_LENGTH and name[len(TOKEN) :].isalnum()
        return blanks if is_token else None

    def where(self, body: bytes, node: str | None) -> int:
        """Which of the blanks of this body, which is of this form, is that node; -1 where it is none, or several."""
        blanks = self._blanks(body) or []
        found = [number for number in self.nodes if blanks[number] == (node or "").encode()]
        return found[0] if len(found) == 1 else -1

    def recorded(self, blanks: list[bytes], first: int) -> str | None:
        """The node in blank `first`, where our record lists it first; None where that is not certain."""
        if first < 0 or self.record is None or (_LISTED % blanks[first]) not in blanks[self.record]:
            return None
        return blanks[first].decode()

    def record_in(self, blanks: list[bytes]) -> str:
        """Our annotation, as blanks of this form have it; "" where there is none."""
        return "" if self.record is None else str(orjson.loads(b'"%b"' % blanks[self.record]))

    def _blanks(self, body: bytes) -> list[bytes] | None:
        """What stands between the fixed texts, where that is what they are."""
        if len(body) == self.layout.size:
            parts = self.layout.unpack(body)
            if parts[::2] == self.fixed:
                return list(parts[1::2])
        at, blanks = 0, []
        for text, end in zip(self.fixed, self.ends, strict=False):  # the last text has no blank after it
            if not body.startswith(text, at):
                return None
            at += len(text)
            until = body.find(end, at)
            if until < 0:
                return None
            blanks.append(body[at:until])
            at = until
        return blanks if body[at:] == self.fixed[-1] else None


def _which(kind: str, kinds: list[str]) -> tuple[int, ...]:
    return tuple([number for number, each in enumerate(kinds) if each == kind])
