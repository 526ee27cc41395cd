"""The layout: every module has a test of its name or one that names it, and is one idea. A long one says why it is long."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def is_empty(module: Path) -> bool:
    """Whether it only says what its package is, or only starts the program."""
    return module.stem in ("__init__", "__main__") and len(module.read_text().splitlines()) < 10


MODULES = sorted(path for path in (ROOT / "webhook").rglob("*.py") if not is_empty(path))
TESTS = sorted((ROOT / "tests").rglob("test_*.py"))


def name_of(path: Path) -> str:
    """As docstrings of tests call it: `placement.feasible`."""
    return ".".join(path.relative_to(ROOT / "webhook").with_suffix("").parts).removesuffix(".__init__")


def covered() -> set[str]:
    """The modules that tests name at the end of their docstrings, after «Covers»."""
    texts = ["\n" + (ast.get_docstring(ast.parse(path.read_text())) or "") for path in TESTS]
    return {name for text in texts for name in re.findall(r"[a-z_]+(?:\.[a-z_]+)*", text.partition("\nCovers ")[2])}


COVERED = covered()


def has_a_test(module: Path) -> bool:
    if module.parent.name == "vendors":  # data, all of which tests/vendors goes through
        return True
    folder = ROOT / "tests" / module.relative_to(ROOT / "webhook").parent
    return (folder / f"test_{module.stem}.py").exists() or name_of(module) in COVERED


def test_every_module_has_a_test_of_its_name_or_is_named_by_the_one_that_covers_it() -> None:
    assert [name_of(module) for module in MODULES if not has_a_test(module)] == []


def test_what_tests_say_they_cover_exists() -> None:
    assert sorted(COVERED - {name_of(module) for module in MODULES}) == []


def test_a_module_that_is_not_read_in_one_go_says_why() -> None:
    """In its docstring, by a sentence that begins a line with «Long because»."""
    long = [module for module in MODULES if len(module.read_text().splitlines()) > 500]
    docs = {name_of(module): ast.get_docstring(ast.parse(module.read_text())) or "" for module in long}
    assert [
        name for name, doc in docs.items() if not re.search(r"^Long because .*\.", doc, re.MULTILINE | re.DOTALL)
    ] == []


def test_there_are_few_rooms() -> None:
    entries = {path.name for path in (ROOT / "webhook").iterdir()} - {
        "__init__.py",
        "__main__.py",
        "__pycache__",
        "py.typed",
    }
    assert len(entries) <= 21, sorted(entries)
