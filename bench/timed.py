"""Measures within a server what its parts take: `bench.parts` has it run `install` first.

A file gets, for each part, how often it was done and its CPU seconds, without those of parts within it.
"""

import gc
import mmap
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import thread_time
from typing import Any

PARTS = (
    "mutate",
    "validate",
    "events of pods, JSON",
    "events of pods",
    "events of others, JSON",
    "events of others",
    "garbage collector",
)
_PAIR = struct.Struct("<qd")
SIZE = _PAIR.size * len(PARTS)
"""Bytes of the file."""
Numbers = dict[str, tuple[int, float]]
"""For each part how often it was done, and its CPU seconds."""


def read(file: Path) -> Numbers:
    return dict(zip(PARTS, _PAIR.iter_unpack(file.read_bytes()), strict=True))


class _Clock:
    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory
        self._within = 0.0

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        before, self._within, started = self._within, 0.0, thread_time()
        try:
            yield
        finally:
            taken = thread_time() - started
            self.add(name, taken - self._within)
            self._within = before + taken

    def add(self, name: str, seconds: float) -> None:
        at = PARTS.index(name) * _PAIR.size
        count, total = _PAIR.unpack_from(self._memory, at)
        _PAIR.pack_into(self._memory, at, count + 1, total + seconds)


def install(path: str) -> None:
    """Measure from now on, into the file `path` of SIZE bytes."""
    from webhook.feeds import watch  # noqa: PLC0415  the version that is measured
    from webhook.server.handlers import Handlers  # noqa: PLC0415

    with Path(path).open("r+b") as file:
        clock = _Clock(mmap.mmap(file.fileno(), SIZE))

    def timed(name: Callable[[Any], str], do: Callable[..., Any]) -> Callable[..., Any]:
        def measured(self: Any, *given: Any) -> Any:
            with clock.part(name(self)):
                return do(self, *given)

        return measured

    loads = watch.orjson.loads

    class Json:
        @staticmethod
        def loads(line: bytes) -> Any:
            started = thread_time()
            event = loads(line)
            whose = "pods" if event["object"].get("kind") == "Pod" else "others"
            clock.add(f"events of {whose}, JSON", thread_time() - started)
            return event

    running: list[Any] = []

    def collected(phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            running.append(clock.part("garbage collector"))
            running[0].__enter__()
        elif running:
            running.pop().__exit__(None, None, None)

    gc.callbacks.append(collected)
    Handlers.mutate = timed(lambda _: "mutate", Handlers.mutate)  # type: ignore[method-assign]
    Handlers.validate = timed(lambda _: "validate", Handlers.validate)  # type: ignore[method-assign]
    watch.orjson = Json  # type: ignore[assignment]
    whose = timed(lambda feed: f"events of {'pods' if feed._name == 'pods' else 'others'}", watch.Feed._event)
    watch.Feed._event = whose  # type: ignore[method-assign]
