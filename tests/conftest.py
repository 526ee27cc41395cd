"""Fixtures that all tests have."""

pytest_plugins = ["tests.controlplane.fixtures", "tests.installed"]
