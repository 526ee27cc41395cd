"""Draws the rooms of `webhook/`, for CONTRIBUTING.md: `python -m tests.rooms`."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

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


def drawn() -> str:
    """It, in Markdown."""
    return (
        "\n".join(["```mermaid", "flowchart TD", *(f"  {one} --> {other}" for one, other in _arrows()), "```"]) + "\n"
    )


def page(written: str) -> str:
    """The text of CONTRIBUTING.md with the drawing as it is now."""
    return _PART.sub(lambda _: drawn(), written)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
