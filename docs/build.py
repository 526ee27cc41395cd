"""Builds the documentation as a site, `build/site`, from the Markdown files as they stand in the repository.

The files link to each other across folders (`../SECURITY.md`, `../manifests/policy.yaml`), as they must on a code host. So all
Markdown files, and the files that they name, are laid out as in the repository, and mkdocs builds from there. Links that lead
nowhere end it with status 1.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INDEX = ROOT / "docs" / "index.md"
PAGES = ROOT / "build" / "pages"


def main() -> int:
    shutil.rmtree(PAGES, ignore_errors=True)
    ignored = {".venv", "build", "node_modules"}
    pages = [page for page in ROOT.rglob("*.md") if not ignored & set(page.relative_to(ROOT).parts)]
    for page in pages:
        if page not in (ROOT / "README.md", INDEX):
            copied(page)
        for link in re.findall(r"\]\(([^)#:]+)", page.read_text()):
            if (target := (page.parent / link).resolve()).is_file():
                copied(target)
    (PAGES / "index.md").write_text(re.sub(r"\]\((?!\.\.|http)", "](docs/", INDEX.read_text()).replace("](../", "]("))
    return subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict"], cwd=ROOT, check=False).returncode


def copied(file: Path) -> None:
    to = PAGES / file.relative_to(ROOT)
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, to)


if __name__ == "__main__":
    sys.exit(main())
