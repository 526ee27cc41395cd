"""Tables of cases: one test for each row, named by what the row shows."""

from collections.abc import Mapping
from typing import Any

import pytest


def table(names: str | tuple[str, ...], rows: Mapping[str, Any]) -> pytest.MarkDecorator:
    """A test with these parameters for each row. With one name the row is its value."""
    return pytest.mark.parametrize(names, list(rows.values()), ids=list(rows))
