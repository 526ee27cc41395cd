"""Every benchmark can be started: what it imports from the tests is there. Covers `make faults` and `make soak`."""

from importlib import import_module
from pathlib import Path

import pytest

import bench

NAMES = sorted(path.stem for path in Path(bench.__file__).parent.glob("*.py") if path.stem[0] != "_")


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_can_be_imported(name: str) -> None:
    import_module(f"bench.{name}")
