"""How much work a test makes: examples of a property, calls of functions."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hypothesis import settings


def times(factor: float) -> settings:
    """So many times as many as other properties, which are tried on 8 by `make test-unit` and on 100 by `make test`."""
    return settings(max_examples=max(1, round(factor * settings().max_examples)))


class Calls:
    count = 0


@contextmanager
def counted() -> Iterator[Calls]:
    """The calls of functions within, those written in C too."""
    calls = Calls()

    def called(_: Any, event: str, __: Any) -> None:
        calls.count += event in ("call", "c_call")

    sys.setprofile(called)
    try:
        yield calls
    finally:
        sys.setprofile(None)
