"""Fixtures for the tests of feeds."""

import pytest

from webhook.feeds import tasks
from webhook.feeds.tasks import Backoff


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the pauses short."""
    monkeypatch.setattr(Backoff.__init__, "__defaults__", (0.01,))
    monkeypatch.setattr(tasks, "MAX_PAUSE", 0.05)
