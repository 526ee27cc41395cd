"""What is tested is what was asked for: the Python modules, or those that `make compiled` makes of them."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from setup import COMPILED

pytestmark = pytest.mark.compiled

WANTED = {".so"} if os.environ.get("GPU_ADMISSION_COMPILED") == "1" else {".py"}


@pytest.mark.parametrize("name", COMPILED)
def test_each_module_is_compiled_or_none_is(name: str) -> None:
    assert {Path(import_module(f"webhook.{name}").__file__ or "").suffix} == WANTED


def test_programs_that_tests_start_have_the_same() -> None:
    code = "import webhook.server.handlers; print(webhook.server.handlers.__file__)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {Path(ran.stdout.strip()).suffix} == WANTED
