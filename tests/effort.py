"""How many examples a property is tried on."""

from hypothesis import settings


def times(factor: float) -> settings:
    """So many times as many as other properties, which are tried on 8 by `make test-unit` and on 100 by `make test`."""
    return settings(max_examples=max(1, round(factor * settings().max_examples)))
