"""Writes the address of the repository wherever it stands: `make manifests REPOSITORY=https://…`.

`Repository` in pyproject.toml is the one setting. The chart's `home` and the `runbook_url` of each alert follow from it.
"""

import re
import sys
import tomllib
from pathlib import Path

from tests.manifests.files import MANIFESTS

PROJECT = MANIFESTS.parent / "pyproject.toml"
_SETTING = r'(?m)^(Repository = ").*(?=")'
_RUNBOOK = "docs/operations.md"
_WRITTEN = {
    "chart/Chart.yaml": (r"(?m)^(home: ).*", "{}"),
    "components/monitoring/rules.yaml": (r"(runbook_url: )[^#]*(?=#)", f"{{}}/blob/main/{_RUNBOOK}"),
}
"""Below manifests/: what is replaced, and by what."""


def address() -> str:
    found: str = tomllib.loads(PROJECT.read_text())["project"]["urls"]["Repository"]
    return found


def runbook(alert: str) -> str:
    """The section of docs/operations.md about an alert."""
    return f"{address()}/blob/main/{_RUNBOOK}#{alert.lower()}"


def files() -> dict[Path, str]:
    """Each file with the address in it, as it should be."""
    found = {}
    for name, (pattern, text) in _WRITTEN.items():
        path = MANIFESTS / name
        found[path], count = re.subn(pattern, rf"\g<1>{text.format(address())}", path.read_text())
        if not count:
            raise ValueError(f"manifests/{name}: saw no line like {pattern} to put the address of the repository in")
    return found


def name(repository: str) -> None:
    """Sets the address. Raises ValueError."""
    if not re.fullmatch(r"https://[\w.-]+(/[\w.-]+)+", repository):
        raise ValueError(f"REPOSITORY: saw {repository!r}, wanted the page of the repository: https://HOST/OWNER/NAME")
    PROJECT.write_text(re.sub(_SETTING, rf"\g<1>{repository}", PROJECT.read_text()))


def main() -> None:
    if sys.argv[1:] not in ([], [""]):
        name(sys.argv[1])
    for path, text in files().items():
        path.write_text(text)


if __name__ == "__main__":
    main()
