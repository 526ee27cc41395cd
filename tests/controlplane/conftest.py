"""Fixtures of the tests of the harness itself."""

from pathlib import Path

import pytest


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPU_ADMISSION_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"
