"""How much work a test makes: examples of a property, calls of functions."""

from collections.abc import Iterator
from contextlib import contextmanager
from cProfile import Profile

from hypothesis import settings


def times(factor: float) -> settings:
    """So many times as many as other properties, which are tried on 8 by `make test-unit` and on 100 by `make test`."""
    return settings(max_examples=max(1, round(factor * settings().max_examples)))


class Calls:
    def __init__(self, profile: Profile) -> None:
        self._profile = profile

    @property
    def count(self) -> int:
        """Those that have ended."""
        return sum(each.callcount for each in self._profile.getstats())


@contextmanager
def counted() -> Iterator[Calls]:
    """The calls of functions within, those written in C too."""
    profile = Profile(subcalls=False)
    profile.enable()
    try:
        yield Calls(profile)
    finally:
        profile.disable()
