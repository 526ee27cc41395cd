"""Builds the documentation as a site, `build/site`, from the Markdown files as they stand in the repository.

The files link to each other across folders (`../SECURITY.md`, `../manifests/policy.yaml`), as they must on a code host. So the
pages of `nav` in mkdocs.yml, and the files that they name, are laid out as in the repository, and mkdocs builds from there. The
README is the home. The site works without a network, and opened as files: Mermaid, which draws the drawings, is a part of it (npm
fetches it once). Links that lead nowhere, and pages that load anything from another host, end it with status 1.
"""

import hashlib
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES, SITE = ROOT / "build" / "pages", ROOT / "build" / "site"
MERMAID = ("mermaid@11.12.0", "dist/mermaid.min.js", "07e37dfa97b337ccc85365d57eddf99b9706f09db3b59b260d0333b23b343c4b")
SHIM = ("iframe-worker@1.0.4", "shim/index.js", "e8e412dbcfea9b7e31b5ffa288d7b6035915e714c542f4176a0cdbe262fc9609")
"""npm packages, the file of each that is used, and its SHA-256. With the second the search works in pages opened as files."""
LOADED = re.compile(
    r"<(?:script|img|iframe|source|link(?![^>]*\brel=\"?(?:canonical|prev|next))\b)"
    r"[^>]*?\b(?:src|srcset|href)=\"?(?:https?:)?(//[^\s\">]+)"
    r"|(?:@import|url\()\s*[\"']?(?:https?:)?(//[^\"')]+)"
)
"""What a browser loads from another host when it shows a page or a style sheet."""


def main() -> int:
    shutil.rmtree(PAGES, ignore_errors=True)
    named = re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    for page in [ROOT / ("README.md" if name == "index.md" else name) for name in named]:
        copied(page, PAGES / "index.md" if page == ROOT / "README.md" else None)
        for link in re.findall(r"\]\(([^)#:]+)", page.read_text()):
            if (target := (page.parent / link).resolve()).is_file() and target != ROOT / "README.md":
                copied(target)
    policy = PAGES / "docs" / "policy.md"
    shipped = f"```yaml\n{(ROOT / 'manifests' / 'policy.yaml').read_text()}```"
    policy.write_text(policy.read_text().replace("<!-- the site has policy.yaml here -->", shipped))
    for page in PAGES.glob("*/*.md"):  # the home has another name there
        page.write_text(page.read_text().replace("](../README.md", "](../index.md"))
    status = subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict"], cwd=ROOT, check=False).returncode
    if status:
        return status
    bundle()
    pages = [*SITE.rglob("*.html"), *SITE.rglob("*.css")]
    if found := [f"{page.relative_to(ROOT)} loads {host}" for page in pages for host in elsewhere(page)]:
        sys.exit("\n".join(["the site must load nothing from another host:", *found]))
    return 0


def copied(file: Path, to: Path | None = None) -> None:
    to = to or PAGES / file.relative_to(ROOT)
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, to)


def bundle() -> None:
    """Puts both files of npm beside the theme's script, which otherwise loads them from unpkg.com."""
    scripts = SITE / "assets" / "javascripts"
    [script] = scripts.glob("bundle.*.min.js")
    text, count = re.subn(
        r'"https://unpkg\.com/mermaid@[^"]+"',
        "new URL('mermaid.min.js',document.querySelector('script[src*=\"javascripts/bundle\"]').src).href",
        script.read_text(),
    )
    if count != 1:
        sys.exit(f"{script.name} of mkdocs-material names Mermaid {count} times, not once: adjust docs/build.py")
    script.write_text(text)
    shutil.copy(of_npm(*MERMAID), scripts / "mermaid.min.js")
    shutil.copy(of_npm(*SHIM), scripts / "iframe-worker.js")
    for page in SITE.rglob("*.html"):
        near = "../" * (len(page.relative_to(SITE).parts) - 1) + "assets/javascripts/iframe-worker.js"
        page.write_text(page.read_text().replace("https://unpkg.com/iframe-worker/shim", near))


def of_npm(package: str, name: str, wanted: str) -> Path:
    """A file of an npm package, fetched once."""
    file = ROOT / "build" / "docs" / f"{package}.js"
    if not file.exists():
        if not shutil.which("npm"):
            sys.exit(f"npm is not installed; it fetches {package} once. Try: apt-get install npm")
        packed = ["npm", "pack", "--silent", "--pack-destination", str(file.parent), package]
        archive = file.parent / subprocess.run(packed, check=True, capture_output=True, text=True).stdout.strip()
        with tarfile.open(archive) as opened:
            content = opened.extractfile(f"package/{name}")
            file.write_bytes(content.read() if content else b"")
        archive.unlink()
    if (digest := hashlib.sha256(file.read_bytes()).hexdigest()) != wanted:
        file.unlink()
        sys.exit(f"{package}: {name} has the SHA-256 {digest}, wanted {wanted}")
    return file


def elsewhere(page: Path) -> list[str]:
    """What this page or style sheet of the site loads from other hosts."""
    return [one or other for one, other in LOADED.findall(page.read_text())]


if __name__ == "__main__":
    sys.exit(main())
