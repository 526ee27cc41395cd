"""A token bucket: limits how often something happens, and allows a burst."""

from __future__ import annotations


class TokenBucket:
    """Allows `burst` events at once, and then one in `seconds`. `now`: seconds of any clock that only grows."""

    __slots__ = ("_at", "_burst", "_left", "_seconds")

    def __init__(self, burst: int, seconds: float, now: float) -> None:
        self._burst, self._seconds, self._left, self._at = burst, seconds, float(burst), now

    def left(self, now: float) -> float:
        """The number of tokens, which may have a fraction."""
        self._left, self._at = min(self._burst, self._left + (now - self._at) / self._seconds), now
        return self._left

    def take(self) -> None:
        """Take one token."""
        self._left -= 1

    def reserve(self, now: float) -> float:
        """Take one token, even if there is none yet. Returns the seconds until there is one."""
        left = self.left(now) - 1
        self.take()
        return max(0.0, -left * self._seconds)

    def is_full(self, now: float) -> bool:
        return self.left(now) >= self._burst
