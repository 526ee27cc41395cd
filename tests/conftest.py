"""Fixtures that all tests have."""

from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.controlplane.fixtures", "tests.installed"]

# No test fails because the machine is busy: what hypothesis finds must be about values, not about time.
settings.register_profile("unhurried", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")
