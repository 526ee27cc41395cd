"""Fixtures that all tests have."""

import os
import signal

from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.controlplane.fixtures", "tests.installed"]

# A shell starts what it has in the background with SIGINT ignored, and the programs that tests start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No test fails because the machine is busy: what hypothesis finds must be about values, not about time.
# In CI the examples are the same each time: a change is judged by itself, not by the luck of the draw. Elsewhere they differ,
# so that bugs are still found.
settings.register_profile(
    "unhurried",
    settings(),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=os.environ.get("CI", "").lower() in ("true", "1"),
)
settings.register_profile("quick", settings.get_profile("unhurried"), max_examples=8)  # `make test-unit`
settings.load_profile("unhurried")

# What tests start in Go, the programs of control planes above all, collects its garbage half as often: memory for CPU time.
os.environ.setdefault("GOGC", "200")
