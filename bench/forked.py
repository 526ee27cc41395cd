"""Measures in a process of its own, so that no measurement changes the next one. Linux only."""

import os
import resource
import sys
from collections.abc import Callable, Sequence
from typing import Any

import orjson


def in_child(name: str, patience: int, measure: Callable[[], Sequence[Any]]) -> Any:
    """What `measure` returns in a child process; None if it failed, or took more than `patience` CPU seconds or all memory."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_CPU, (patience, patience))
        try:
            os.write(write, orjson.dumps([*measure()]))
        except BaseException as error:
            print(name, repr(error)[:300], file=sys.stderr)
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read, "rb") as pipe:
        text = pipe.read()
    return orjson.loads(text) if text else None
