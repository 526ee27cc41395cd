"""How to decide for pods like one that was patched: the same, but for the nodes, or for why there are none.

Patch and record are kept in pieces: what holds for all pods of the template, and what is said of one node, which nine of ten
times was said of it before. Those of the patch are in base64 already: each is filled up with spaces, which JSON allows between
any two words, so that they may be put together in any order.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Sequence
from functools import lru_cache

import orjson

from webhook import explain
from webhook.cluster.snapshot import Snapshot
from webhook.decision import Decision
from webhook.facts import Placement, Ranked
from webhook.form import TOKEN
from webhook.gpus import Gpus
from webhook.injectors.node_affinity import naming
from webhook.placement import Ask, Rank
from webhook.placement.settings import PlacementSettings

_Piece = tuple[bytes, bytes]
"""What a patch says of a node, in base64, and what the record does, as a part of a JSON string."""
_MOST = 128
"""Nodes with their numbers, kept for each place in the order."""


class Plan:
    """`slots`: one for each ranked node, best first."""

    def __init__(
        self,
        first: Decision,
        slots: tuple[_Slot, ...],
        ask: Ask,
        settings: PlacementSettings,
        gpus: Gpus,
        *,
        opening: bytes,
        middle: bytes,
        quoted: bytes,
        closing: bytes,
    ) -> None:
        self.first = first
        self.slots = slots
        self.reason = "" if first.placement is None else first.placement.reason
        """Why there are none; units see no more than that, the numbers are for the record."""
        self.ask = ask
        self.settings = settings
        self.gpus = gpus
        self.opening = opening
        """The patch up to the first node, in base64; nothing where there are none."""
        self.middle = middle
        """The patch from the last node to what differs in the record, in base64."""
        self.quoted = quoted
        """The record up to what differs, as the beginning of a JSON string."""
        self.closing = closing
        """What follows the record in the patch."""

    @classmethod
    def of(cls, first: Decision, settings: PlacementSettings, gpus: Gpus) -> Plan | None:
        """None where the nodes stand in the patch or in the record otherwise than we know."""
        placement, patch = first.placement, first.patch
        if first.ask is None or placement is None or patch is None or TOKEN in patch:
            return None
        weights = placement.weights[: len(placement.nodes)]
        slots = tuple([_slot(number, weight) for number, weight in enumerate(weights)])
        pieces = [slot.piece(ranked) for slot, ranked in zip(slots, placement.nodes, strict=True)]
        written = [slot.term(ranked.node) for slot, ranked in zip(slots, placement.nodes, strict=True)]
        before, terms, after = patch.partition(b"".join(written)) if written else (b"", b"", patch)
        between, recorded, closing = after.partition(first.quoted)
        ending = _ending(placement, [numbers for _, numbers in pieces])
        if bool(pieces) != bool(terms) or not recorded or not recorded.endswith(ending):
            return None
        quoted = recorded[: -len(ending)]
        opening, middle = _filled_up(before), _filled_up(between, quoted)
        return cls(
            first, slots, first.ask, settings, gpus, opening=opening, middle=middle, quoted=quoted, closing=closing
        )

    def again(self, snapshot: Snapshot, rank: Rank, *, dry_run: bool) -> Decision | None:
        """For the next pod; None where it is not sent to as many nodes: then other units may decide otherwise, too."""
        return self.completed(rank(self.ask, snapshot, self.settings, self.gpus), dry_run=dry_run)

    def completed(self, placement: Placement, *, dry_run: bool) -> Decision | None:
        slots, nodes = self.slots, placement.nodes
        if len(nodes) != len(slots) or placement.reason != self.reason:
            return None
        patch, numbers = [self.opening], []
        for slot, ranked in zip(slots, nodes, strict=True):
            term, number = slot.known.get(ranked) or slot.piece(ranked)
            patch.append(term)
            numbers.append(number)
        ending = _ending(placement, numbers)
        if len(self.quoted) + len(ending) > explain.LARGEST_RECORD:
            return None
        patch += (self.middle, b2a_base64(ending + self.closing, newline=False))
        quoted = self.quoted + ending
        return self.first.like(
            b"".join(patch),
            quoted,
            placement,
            reserve=not dry_run,
        )


def _filled_up(text: bytes, then: bytes = b"") -> bytes:
    """Both in base64, with as many spaces between them as leave nothing over."""
    spaces = b" " * (-(len(text) + len(then)) % 3)
    return b2a_base64(text + spaces + then, newline=False)


def _ending(placement: Placement, numbers: Sequence[bytes]) -> bytes:
    """The end of the record, as that of a JSON string."""
    if not numbers:
        return explain.quoted_reason(placement.reason, placement.rejected)
    return explain.quoted_nodes(numbers, placement.total)


class _Slot:
    """A place in the order of nodes, with what was said of nodes that stood there: it goes into every answer ten times."""

    __slots__ = ("_comma", "_names", "_weight", "known")

    def __init__(self, comma: bytes, weight: int) -> None:
        self._comma, self._weight = comma, weight
        self._names: dict[str, _Piece] = {}
        """What is said of a node whatever its numbers: the term, and its name in the record."""
        self.known: dict[Ranked, _Piece] = {}

    def piece(self, ranked: Ranked) -> _Piece:
        node, names = ranked.node, self._names
        if len(self.known) >= _MOST:
            self.known.clear()
            names.clear()
        term, name = names.get(node) or names.setdefault(node, self._named(node))
        self.known[ranked] = found = term, explain.quoted_numbers(name, ranked)
        return found

    def term(self, node: str) -> bytes:
        """What the patch says of it, as it is written."""
        return self._comma + orjson.dumps(naming(node, self._weight))

    def _named(self, node: str) -> _Piece:
        return _filled_up(self.term(node)), explain.quoted_name(node)


@lru_cache(maxsize=128)
def _slot(number: int, weight: int) -> _Slot:
    return _Slot(b"," if number else b"", weight)
