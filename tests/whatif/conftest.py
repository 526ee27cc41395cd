"""Fixtures of the tests of the commands."""

from tests.cli.conftest import file  # noqa: F401  a fixture
