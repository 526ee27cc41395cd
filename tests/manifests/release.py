"""What a release is made of, into dist/: `make dist IMAGE=ghcr.io/owner/gpu-admission DIGEST=sha256:… TAG=v0.1.0`.

The chart and install.yaml name the image by its digest. install.yaml is what Helm 4 and Helm 3 both render from the chart.
"""

import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

from tests.controlplane.helm import HELM, find_helm
from tests.manifests.files import objects_of
from tests.manifests.repository import address
from tests.manifests.values import CHART

ROOT = CHART.parent.parent


def notes(version: str) -> str:
    """The entry of CHANGELOG.md. Raises ValueError if there is none."""
    text = (ROOT / "CHANGELOG.md").read_text()
    found = re.search(rf"^## \[{re.escape(version)}\].*?\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if not found:
        raise ValueError(f"CHANGELOG.md: saw no entry of {version}, wanted `## [{version}] - DATE`: write one")
    return found[1].strip() + "\n"


def installing(version: str, image: str, digest: str) -> str:
    """How what is published is installed and verified: the workflow `release.yaml` pushes and signs it under these names."""
    chart = f"{image.rpartition('/')[0]}/charts/gpu-admission"
    workflow = f"{address()}/.github/workflows/release.yaml@refs/tags/v{version}"
    signer = f"--certificate-identity {workflow} --certificate-oidc-issuer https://token.actions.githubusercontent.com"
    files = f"{address()}/releases/download/v{version}"
    return f"""
### Install

    helm install gpu oci://{chart} --version {version} -n gpu-admission --create-namespace
    # or
    kubectl apply -f {files}/install.yaml

The command, `gpu-admission` and `kubectl gpu`:

    pipx install {files}/gpu_admission-{version}-py3-none-any.whl    # or: uv tool install …

### Verify

The workflow of this repository has signed the image, the chart and the list of checksums, without a key (cosign):

    cosign verify {image}@{digest} {signer}
    cosign verify {chart}:{version} {signer}
    cosign verify-blob checksums.txt --bundle checksums.txt.sigstore.json {signer}
    sha256sum --check --ignore-missing checksums.txt
"""


def pinned(folder: Path, image: str, digest: str) -> Path:
    """A copy of the chart that names the image by its digest, with what Artifact Hub shows."""
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        raise ValueError(
            f"DIGEST: saw {digest!r}, wanted sha256: and 64 hexadecimal digits: the digest of the image that was pushed"
        )
    copy = Path(shutil.copytree(CHART, folder / "gpu-admission"))
    values = (copy / "values.yaml").read_text()
    for name, value in (("repository", image), ("digest", digest)):
        values, count = re.subn(rf"^(  {name}: ).*$", rf"\g<1>{value}", values, count=1, flags=re.MULTILINE)
        if count != 1:
            raise ValueError(f"values.yaml: saw no line `  {name}: …` to put the image in")
    (copy / "values.yaml").write_text(values)
    described = yaml.safe_load((copy / "Chart.yaml").read_text())
    entries = re.findall(r"^- (.+(?:\n  .+)*)", notes(described["version"]).partition("\n### Upgrade")[0], re.MULTILINE)
    described["annotations"] |= {
        "artifacthub.io/images": yaml.safe_dump([{"name": "gpu-admission", "image": f"{image}@{digest}"}]),
        "artifacthub.io/changes": yaml.safe_dump([" ".join(entry.split()) for entry in entries]),
    }
    (copy / "Chart.yaml").write_text(yaml.safe_dump(described, sort_keys=False))
    return copy


def build(dist: Path, image: str, digest: str, tag: str) -> None:
    version = str(yaml.safe_load((CHART / "Chart.yaml").read_text())["version"])
    if tag != f"v{version}":
        raise ValueError(f"TAG: saw {tag!r}, wanted v{version}, the version of the chart: change one of them")
    shutil.rmtree(dist, ignore_errors=True)
    dist.mkdir()
    chart = pinned(dist, image, digest)
    run(find_helm(), "package", str(chart), "--destination", str(dist))
    where = [
        "template",
        "gpu-admission",
        str(chart),
        "--namespace=gpu-admission",
        "--set=namespace.create=true",
        "--skip-tests",
    ]
    four, three = (run(find_helm(major), *where) for major in HELM)
    if sorted(objects_of(four), key=str) != sorted(objects_of(three), key=str):
        raise ValueError("Helm 4 and Helm 3 render different objects from the chart: see `helm template` of both")
    shutil.rmtree(chart)
    (dist / "install.yaml").write_text(four)
    wheel(dist)
    (ROOT / "notes.md").write_text(notes(version) + installing(version, image, digest))


def wheel(dist: Path) -> None:
    shutil.rmtree(ROOT / "build" / "lib", ignore_errors=True)
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    run(*command, "--wheel-dir", str(dist), str(ROOT))


def checksums(dist: Path) -> None:
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(dist.iterdir())]
    (dist / "checksums.txt").write_text("".join(lines))


def run(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT).stdout


if __name__ == "__main__":
    if sys.argv[1:] == ["checksums"]:
        checksums(ROOT / "dist")
    else:
        build(ROOT / "dist", *sys.argv[1:])
