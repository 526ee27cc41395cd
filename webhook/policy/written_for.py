"""The version of this program that a policy was written for. The shipped policy says it in its first line.

In an upgrade the shipped policy of the new version is applied while replicas of the old one still answer. They do not know its
new settings, and must not refuse it.
"""

import re
from importlib.metadata import version
from typing import Final

PROGRAM: Final = version("gpu-admission")
LINE: Final = f"# For gpu-admission {PROGRAM}."
_LINE: Final = re.compile(r"# For gpu-admission (\d{1,9}\.\d{1,9}\.\d{1,9})\.\n")


def version_of(text: str) -> str | None:
    """The version that a policy was written for; None if it does not say."""
    found = _LINE.match(text)
    return found[1] if found else None


def later_version(text: str) -> str | None:
    """The same, if it is later than this program's."""
    found = version_of(text)
    return found if found and _numbers(found) > _numbers(PROGRAM) else None


def _numbers(written: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", written)[:3]]
