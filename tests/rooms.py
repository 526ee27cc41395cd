"""Draws the rooms of `webhook/` and the way of a review through them, for CONTRIBUTING.md: `python -m tests.rooms`."""

import ast
import io
import re
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from types import FrameType

from bench import recorded, samples

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "CONTRIBUTING.md"
_PART = re.compile(r"(?<=<!-- begin rooms -->\n).*(?=<!-- end rooms -->)", re.DOTALL)
_MANY = {"kube", "framework", "vendors", "text", "errors"}
"""Rooms that most others use: to draw them says nothing."""


def _imports() -> dict[str, set[str]]:
    """The rooms that the modules of each room import."""
    found: dict[str, set[str]] = {}
    for path in sorted((ROOT / "webhook").glob("*/**/*.py")):
        room = path.relative_to(ROOT / "webhook").parts[0]
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("webhook."):
                found.setdefault(room, set()).add(str(node.module).split(".")[1])
    return {room: others - {room} - _MANY for room, others in found.items() if room not in _MANY}


def _arrows() -> Iterator[tuple[str, str]]:
    """The imports that do not follow from others."""
    direct = _imports()

    def reached(room: str) -> set[str]:
        return direct.get(room, set()).union(*(reached(other) for other in direct.get(room, ())))

    for room, others in direct.items():
        longer = set().union(*(reached(other) for other in others))
        yield from ((room, other) for other in sorted(others - longer))


def _way() -> Iterator[tuple[str, list[str]]]:
    """The modules that the review of a replica's pod enters, in the order in which it does so first, room by room."""
    hooks = samples.handlers_of(samples.state_of(samples.cluster(100, 8)), io.BytesIO())
    first, second = list(recorded.burst("replicaset", 2, 1))
    hooks.mutate(first)
    entered: dict[str, None] = {}

    def called(frame: FrameType, event: str, _: object) -> None:
        _, ours, module = frame.f_code.co_filename.partition(f"{ROOT.name}/webhook/")
        if event == "call" and ours and "/" in module and module.split("/")[0] not in _MANY:
            entered.setdefault(module)

    sys.setprofile(called)
    hooks.mutate(second)
    sys.setprofile(None)
    for room, modules in groupby(entered, lambda module: module.split("/")[0]):
        yield room, [Path(module).stem for module in modules]


def drawn() -> str:
    """Both, in Markdown."""
    lines = ["```mermaid", "flowchart TD", *(f"  {one} --> {other}" for one, other in _arrows()), "```", ""]
    lines += ["A review of a replica's pod enters these modules, in the order in which it does so first:", ""]
    lines += [f"{number}. `{room}/`: {', '.join(modules)}" for number, (room, modules) in enumerate(_way(), 1)]
    return "\n".join(lines) + "\n"


def page(written: str) -> str:
    """The text of CONTRIBUTING.md with the drawing as it is now."""
    return _PART.sub(lambda _: drawn(), written)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
