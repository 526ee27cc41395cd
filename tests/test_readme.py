"""What the README and docs/injectors.md show is what happens."""

import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from tests import deciding, reference
from webhook.cli.main import app
from webhook.feeds.file import fill
from webhook.whatif import offline

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
CLUSTER = Path(str(files("webhook.defaults").joinpath("cluster.yaml")))
INJECTORS = (ROOT / "docs" / "injectors.md").read_text()
MD_FOLDERS = [ROOT / name for name in ("docs", "manifests", "manifests/chart", "certs", "bench")]
BLOCKS = re.findall(r"^\*\*(.+?)\*\*.*?```diff\n(.+?)```", README + INJECTORS, re.DOTALL | re.MULTILINE)


def side(block: str, sign: str) -> dict[str, Any]:
    """The pod before (`-`) or after (`+`) a diff, which shows what matters of it."""
    shown = yaml.safe_load("\n".join(line[1:] for line in block.splitlines() if line[:1] in (" ", sign)))
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "ml"}, **shown}


def missing(wanted: Any, seen: Any, path: str = "") -> list[str]:
    """What `wanted` has and `seen` has not; lists must begin alike."""
    if isinstance(wanted, dict) and isinstance(seen, dict):
        return [m for key, value in wanted.items() for m in missing(value, seen.get(key), f"{path}.{key}")]
    if isinstance(wanted, list) and isinstance(seen, list):
        padded = [*seen, *[None] * len(wanted)]
        return [m for index, value in enumerate(wanted) for m in missing(value, padded[index], f"{path}[{index}]")]
    return [] if wanted == seen else [f"{path}: the README says {wanted!r}, the program does {seen!r}"]


@pytest.mark.parametrize(("title", "block"), BLOCKS, ids=[title for title, _ in BLOCKS])
def test_a_pod_becomes_what_is_shown(title: str, block: str) -> None:
    fill(state := offline.new_state(), CLUSTER, 0.0)
    (document,) = offline.documents(yaml.safe_dump(side(block, "-")), "README.md")
    assert isinstance(document, offline.Document)
    result = deciding.run(document, deciding.decide_mutate, offline.load_policy(), state)
    assert missing(side(block, "+"), result.pod) == []


def changes(before: Any, after: Any, path: str = "") -> set[str]:
    """The fields that are new or have another value, without the numbers of list entries."""
    if isinstance(before, dict) and isinstance(after, dict):
        names = [name for name in after if name not in before or before[name] != after[name]]
        return {change for name in names for change in changes(before.get(name), after[name], f"{path}.{name}")}
    if isinstance(before, list) and isinstance(after, list):
        padded = [*before, *[None] * len(after)]
        return {change for one, two in zip(padded, after, strict=False) for change in changes(one, two, f"{path}[]")}
    if isinstance(after, dict):
        return {change for name, value in after.items() for change in changes(None, value, f"{path}.{name}")}
    if isinstance(after, list):
        return {change for value in after for change in changes(None, value, f"{path}[]")}
    return set() if before == after else {path}


SHOWN = {change for _, block in BLOCKS for change in changes(side(block, "-"), side(block, "+"))}


@pytest.mark.parametrize(("title", "block"), BLOCKS, ids=[title for title, _ in BLOCKS])
def test_what_is_shown_is_all_that_happens(title: str, block: str) -> None:
    before = side(block, "-")
    (document,) = offline.documents(yaml.safe_dump(before), "README.md")
    assert isinstance(document, offline.Document)
    fill(state := offline.new_state(), CLUSTER, 0.0)
    after = deciding.run(document, deciding.decide_mutate, offline.load_policy(), state).pod
    assert {change for change in changes(before, after) if ".annotations." not in change} <= SHOWN


def test_every_injector_has_its_before_and_after() -> None:
    enabled = [name for name, _ in offline.load_policy().units["default"].injectors]
    assert INJECTORS.count("```diff") >= len(enabled)


PAGES = "\n".join(page.read_text() for folder in (ROOT, *MD_FOLDERS) for page in sorted(folder.glob("*.md")))


@pytest.mark.parametrize("target", sorted(set(re.findall(r"(?:^|`)make ([a-z-]+)", PAGES, re.MULTILINE))))
def test_every_make_target_that_a_page_names_exists(target: str) -> None:
    assert re.search(rf"^{target}:.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)


COMMANDS = reference.commands()
CLI = (ROOT / "docs" / "cli.md").read_text()
NAMED = re.compile(
    r"(?<!-n )(?<!deployment/)\b(?:gpu-admission|kubectl gpu) ((?:policy )?[a-z]+\b(?!/|:|-|\.[a-z])[^#|`\n]*)"
)
LINES = NAMED.findall(README + re.findall(r"```console\n(.+?)```", CLI, re.DOTALL)[0])
HELP = {name: command.help or "" for name, command in COMMANDS.items()}
IN_DOCS = [
    line
    for line in PAGES.splitlines()
    if line.startswith(("gpu-admission ", "$ gpu-admission ", "    $ gpu-admission "))
]
IN_CODE = re.findall(r"`((?:gpu-admission|kubectl gpu) [^`\n]+)`", "\n".join([PAGES, *HELP.values()]))


@pytest.mark.parametrize("line", sorted({*LINES, *NAMED.findall("\n".join(["", *IN_DOCS, *IN_CODE]))}))
def test_every_command_that_a_page_names_exists_with_its_options(line: str) -> None:
    name, *words = line.split()
    if name == "policy":
        name = f"policy {words.pop(0)}"
    known = {option for parameter in COMMANDS[name].params for option in parameter.opts}
    assert [word for word in words if word.startswith("-") and word != "-" and word not in known] == []


GONE = "explain|pending|nodes|audit|balance|simulate|mutate|validate|test|replay|lint|units|export"
SHIPPED = [
    path
    for folder in ("webhook", "manifests", "docs", "certs", "bench", "tests")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in (".py", ".md", ".yaml", ".yml", ".js", ".html", ".sh", ".txt", ".json")
    and path.name != "test_readme.py"
]


def test_no_file_names_a_command_that_is_gone() -> None:
    gone = re.compile(rf"\bgpu-admission ({GONE})\b(?![/-])|`(?:simulate|balance|replay)`")
    files = [*SHIPPED, *[ROOT / name for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md", "Makefile")]]
    found = [(path.name, match[0]) for path in files for match in gone.finditer(path.read_text(errors="replace"))]
    assert found == []


def test_every_command_is_shown_but_those_that_serve() -> None:
    assert {name for name in COMMANDS if not any(line.startswith(name) for line in LINES)} <= {"certs", "serve"}


def test_the_help_of_every_command_has_an_example() -> None:
    assert [name for name, text in HELP.items() if f"gpu-admission {name}" not in text] == []


CONSOLE = set(re.findall(r"^\$ (gpu-admission [^\n]+)\n(.+?)(?=^\$ |^```)", PAGES, re.DOTALL | re.MULTILINE))


@pytest.mark.parametrize(("command", "printed"), sorted(CONSOLE), ids=[command for command, _ in sorted(CONSOLE)])
def test_a_command_prints_what_a_page_shows(command: str, printed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    result = CliRunner().invoke(app, command.split()[1:])
    hashed = re.compile(r"\bpolicy [0-9a-f]{12}\b")  # changes with every setting
    said, printed = hashed.sub("policy", result.output), hashed.sub("policy", printed)
    hints = result.stderr if result.stdout else ""
    assert said.replace(hints, "").split() == printed.split()
