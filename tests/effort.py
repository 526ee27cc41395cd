"""How much work a test makes: examples of a property, calls of functions; and work in a process with another order of sets."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, run
from typing import Any

from hypothesis import settings


def times(factor: float) -> settings:
    """So many times as many as other properties, which are tried on 8 by `make test-unit` and on 100 by `make test`."""
    return settings(max_examples=max(1, round(factor * settings().max_examples)))


class Calls:
    count = 0


@contextmanager
def counted() -> Iterator[Calls]:
    """The calls of functions within, those written in C too."""
    calls = Calls()

    def called(_: Any, event: str, __: Any) -> None:
        calls.count += event in ("call", "c_call")

    sys.setprofile(called)
    try:
        yield calls
    finally:
        sys.setprofile(None)


def elsewhere(module: str, function: str, *given: str) -> str:
    """What the function returns in a process where sets have another order."""
    code = f"import sys; from {module} import {function}; sys.stdout.write({function}(*sys.argv[1:]))"
    seed = {"PYTHONHASHSEED": "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"}
    command, root = [sys.executable, "-c", code, *given], Path(__file__).parents[1]
    return run(command, cwd=root, env={**os.environ, **seed}, stdout=PIPE, text=True, check=True).stdout
