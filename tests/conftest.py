"""What all tests have."""

import asyncio
import functools
import inspect
import os
import signal
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.controlplane.fixtures", "tests.installed"]

# A shell starts what it has in the background with SIGINT ignored, and the programs that tests start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No test fails because the machine is busy: what hypothesis finds must be about values, not about time.
# In CI the examples are the same each time: a change is judged by itself, not by the luck of the draw, and more of the same ones
# would cost time in each run. Elsewhere they differ, so that bugs are still found.
CI = os.environ.get("CI", "").lower() in ("true", "1")
settings.register_profile(
    "unhurried",
    settings(),
    max_examples=40 if CI else 100,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=CI,
)
settings.register_profile("quick", settings.get_profile("unhurried"), max_examples=8)  # `make test-unit`
settings.load_profile("unhurried")

# What tests start in Go, the programs of control planes above all, collects its garbage half as often: memory for CPU time.
os.environ.setdefault("GOGC", "200")


def pytest_itemcollected(item: pytest.Item) -> None:
    """A test that waits for what never comes fails, and does not hang. No test takes nearly so long, on a busy machine either."""
    if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(test := item.obj):

        @functools.wraps(test)
        async def bounded(*args: Any, **kwargs: Any) -> None:
            async with asyncio.timeout(1800):
                await test(*args, **kwargs)

        item.obj = bounded
