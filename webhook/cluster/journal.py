"""Which rows changed, in order, so that a cache computes only those again."""

from __future__ import annotations

_REMEMBERED = 32768


class Journal:
    """A bounded log of row numbers. A reader keeps the `position` up to which it has read."""

    __slots__ = ("_rows", "_start")

    def __init__(self) -> None:
        self._rows: list[int] = []
        self._start = 0

    @property
    def position(self) -> int:
        return self._start + len(self._rows)

    def add(self, row: int) -> None:
        rows = self._rows
        rows.append(row)
        if len(rows) >= 2 * _REMEMBERED:
            del rows[:_REMEMBERED]
            self._start += _REMEMBERED

    def since(self, position: int) -> list[int] | None:
        """The rows that changed after `position`, with repetitions; None where that is no longer remembered."""
        return None if position < self._start else self._rows[position - self._start :]
