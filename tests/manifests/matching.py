"""Writes the match conditions of the webhooks for pods into the manifests: `python -m tests.manifests.matching`."""

import re
from collections.abc import Iterator
from pathlib import Path

from tests.manifests.files import MANIFESTS
from webhook.export.matching import conditions_for
from webhook.whatif.offline import load_policy

FILES = ("80-mutating.yaml", "90-validating.yaml")
_NAME = re.compile(r"( *)- name: (\S+)$")
_BEGINS = "        expression: |-"


def files() -> dict[Path, str]:
    """Each file with the conditions in it, as it should be."""
    paths = [MANIFESTS / name for name in FILES]
    return {path: "\n".join([*_written(path.read_text().splitlines()), ""]) for path in paths}


def _written(lines: list[str]) -> Iterator[str]:
    wanted = {
        (hook, each["name"]): each["expression"]
        for hook, conditions in conditions_for(load_policy()).items()
        for each in conditions
    }
    hook, expression, inside = "", None, False
    for line in lines:
        if named := _NAME.match(line):
            inside = False
            if len(named[1]) == 2:
                hook = named[2]
            expression = wanted.get((hook, named[2]))
        inside = inside and line.startswith(" " * 10)
        if not inside:
            yield line
        if line == _BEGINS and expression is not None:
            yield from (f"          {part}" for part in expression.splitlines())
            inside = True


def main() -> None:
    for path, text in files().items():
        path.write_text(text)


if __name__ == "__main__":
    main()
