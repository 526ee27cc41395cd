"""What releases a version: the workflows, and what `make dist` makes."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.programs import KUBERNETES
from tests.controlplane.toolchain import at_least
from tests.manifests import release
from tests.manifests.repository import address
from tests.manifests.values import CHART

WORKFLOWS = release.ROOT / ".github" / "workflows"
DIGEST = "sha256:" + "0a" * 32


def test_ci_tests_with_the_kubernetes_that_the_tests_know() -> None:
    (test,) = yaml.safe_load_all((WORKFLOWS / "test.yaml").read_text())
    assert test["jobs"]["test"]["strategy"]["matrix"]["kubernetes"] == list(KUBERNETES)
    (given,) = {
        step["with"]["go-version"] for step in test["jobs"]["test"]["steps"] if "setup-go" in step.get("uses", "")
    }
    assert at_least(given, "1.26")


def test_a_release_is_tested_before_anything_is_published() -> None:
    (found,) = yaml.safe_load_all((WORKFLOWS / "release.yaml").read_text())
    jobs = found["jobs"]
    assert (jobs["image"]["needs"], jobs["assets"]["needs"]) == ("test", "image")
    assert found["permissions"] == {"contents": "read"}


@pytest.mark.parametrize("path", sorted(WORKFLOWS.iterdir()), ids=lambda path: path.name)
def test_no_step_pastes_text_of_others_into_a_script_or_hides_a_failure(path: Path) -> None:
    (found,) = yaml.safe_load_all(path.read_text())
    for job in found["jobs"].values():
        for step in job.get("steps", ()):
            assert not re.search(r"\$\{\{|\|\| *true", step.get("run", "")), step
            assert "continue-on-error" not in step


@pytest.mark.parametrize("path", sorted(WORKFLOWS.iterdir()), ids=lambda path: path.name)
def test_an_action_is_a_commit_and_the_version_beside_it_is_for_people(path: Path) -> None:
    found = re.findall(r"uses: (?!\./)(.+)$", path.read_text(), re.MULTILINE)
    assert found
    assert [each for each in found if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", each)] == []


def test_names_in_a_registry_are_in_small_letters_whoever_owns_the_repository() -> None:
    text = (WORKFLOWS / "release.yaml").read_text()
    assert {*re.findall(r"ghcr\.io/(\S+?)[/\"]", text)} == {"${GITHUB_REPOSITORY,,}", "${GITHUB_REPOSITORY_OWNER,,}"}


@pytest.mark.parametrize("job", ["image", "assets"])
def test_who_pushes_and_signs_is_logged_in_where_cosign_looks(job: str) -> None:
    """cosign reads Docker's credentials, as helm and oras do. It does not read those of `helm registry login`."""
    steps = jobs()[job]["steps"]
    login = [step.get("uses", "").startswith("docker/login-action@") for step in steps].index(True)
    assert login < next(number for number, step in enumerate(steps) if "cosign sign " in step.get("run", ""))


@pytest.mark.parametrize("path", sorted(WORKFLOWS.iterdir()), ids=lambda path: path.name)
def test_no_step_finds_the_token_of_the_checkout(path: Path) -> None:
    (found,) = yaml.safe_load_all(path.read_text())
    steps = [step for job in found["jobs"].values() for step in job.get("steps", ())]
    checkouts = [step for step in steps if step.get("uses", "").startswith("actions/checkout@")]
    assert [step for step in checkouts if step.get("with", {}).get("persist-credentials") is not False] == []


def test_an_action_has_one_version() -> None:
    text = "".join(path.read_text() for path in WORKFLOWS.iterdir())
    found = set(re.findall(r"uses: ((?!\./)[^@]+)@(\w+)", text))
    assert len(found) == len({action for action, _ in found})


def jobs() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((WORKFLOWS / "release.yaml").read_text())["jobs"]
    return found


def image_steps() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = jobs()["image"]["steps"]
    return found


def test_the_image_has_the_tag_that_the_manifests_name() -> None:
    """They name 0.1.0, and a release is tagged v0.1.0."""
    (build,) = [step["with"] for step in image_steps() if step.get("id") == "build"]
    assert build["tags"] == "${{ env.IMAGE }}:${{ env.VERSION }}"
    assert [step for step in image_steps() if 'VERSION=${GITHUB_REF_NAME#v}" >> "$GITHUB_ENV"' in step.get("run", "")]


@pytest.mark.parametrize(
    ("version", "heading", "status"),
    [
        pytest.param("1.2.3", "## [1.2.3] - 2031-01-31", 0, id="a release"),
        pytest.param("1.2.3", "## [1.2.3] - Unreleased", 1, id="without a date"),
        pytest.param("1.2.4", "## [1.2.4] - 2031-01-31", 1, id="the chart of another version"),
    ],
)
def test_an_image_is_pushed_only_of_a_version_that_is_ready(
    tmp_path: Path, version: str, heading: str, status: int
) -> None:
    names = [step.get("name", step.get("id")) for step in image_steps()]
    check = "The chart and a dated entry of CHANGELOG.md have the version of the tag"
    assert names.index(check) < names.index("build")
    (tmp_path / "manifests/chart").mkdir(parents=True)
    (tmp_path / "manifests/chart/Chart.yaml").write_text("name: x\nversion: 1.2.3\n")
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n{heading}\n")
    command = ["bash", "-e", "-c", image_steps()[names.index(check)]["run"]]
    answer = subprocess.run(command, cwd=tmp_path, env={**os.environ, "VERSION": version}, check=False)
    assert answer.returncode == status


def test_the_chart_of_a_release_names_the_image_by_its_digest(tmp_path: Path) -> None:
    copy = release.pinned(tmp_path, "registry.example/gpu-admission", DIGEST)
    values = yaml.safe_load((copy / "values.yaml").read_text())
    assert (values["image"]["repository"], values["image"]["digest"]) == ("registry.example/gpu-admission", DIGEST)
    shipped = yaml.safe_load((CHART / "values.yaml").read_text())
    assert {**values, "image": 0} == {**shipped, "image": 0}
    annotations = yaml.safe_load((copy / "Chart.yaml").read_text())["annotations"]
    (image,) = yaml.safe_load(annotations["artifacthub.io/images"])
    assert image["image"] == f"registry.example/gpu-admission@{DIGEST}"
    assert all(isinstance(entry, str) for entry in yaml.safe_load(annotations["artifacthub.io/changes"]))


def test_notes_of_a_release_say_how_to_install_and_verify_what_the_workflow_pushes() -> None:
    text = release.installing("1.2.3", "ghcr.io/o/gpu-admission", DIGEST)
    pushed = (WORKFLOWS / "release.yaml").read_text().replace("${GITHUB_REPOSITORY_OWNER,,}", "o")
    assert "ghcr.io/o/charts/gpu-admission@" in pushed
    assert "helm install gpu oci://ghcr.io/o/charts/gpu-admission --version 1.2.3 " in text
    identity = f"--certificate-identity {address()}/.github/workflows/release.yaml@refs/tags/v1.2.3 "
    for signed in (f"ghcr.io/o/gpu-admission@{DIGEST}", "ghcr.io/o/charts/gpu-admission:1.2.3"):
        assert f"cosign verify {signed} {identity}" in text
    bundle = "--bundle dist/checksums.txt.sigstore.json"
    assert bundle in pushed
    assert bundle.replace("dist/", "") in text


def test_what_is_no_digest_or_no_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="saw 'latest', wanted sha256:"):
        release.pinned(tmp_path, "registry.example/gpu-admission", "latest")
    with pytest.raises(ValueError, match=r"saw 'v9\.9\.9', wanted v"):
        release.build(tmp_path, "registry.example/gpu-admission", DIGEST, "v9.9.9")
    with pytest.raises(ValueError, match=r"saw no entry of 9\.9\.9"):
        release.notes("9.9.9")


def test_the_wheel_has_nothing_that_an_earlier_build_has_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """setuptools packs whatever is in build/lib, also a module that is no more."""
    monkeypatch.setattr(release, "ROOT", tmp_path)
    (tmp_path / "build/lib/webhook").mkdir(parents=True)
    (tmp_path / "build/site").mkdir()
    seen: list[list[str]] = []
    monkeypatch.setattr(release, "run", lambda *_: seen.append([path.name for path in (tmp_path / "build").iterdir()]))
    release.wheel(tmp_path / "dist")
    assert seen == [["site"]]


def test_the_command_runs_from_the_wheel_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `pipx install .` and `uv tool install .` have it: with its files, and without this repository."""
    sources = tmp_path / "sources"
    shutil.copytree(release.ROOT / "webhook", sources / "webhook", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(release.ROOT / name, sources)
    monkeypatch.setattr(release, "ROOT", sources)
    release.wheel(tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    where = tmp_path / "installed"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", str(where), str(wheel)]
    subprocess.run(pip, check=True, capture_output=True)

    def typed(*words: str) -> str:
        environment = {**os.environ, "PYTHONPATH": str(where)}
        done = subprocess.run(
            [sys.executable, *words], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode in (0, 1), done.stderr
        return done.stdout

    waiting, mistakes = [str(CHART.parent / "examples" / f"{name}.yaml") for name in ("waiting", "mistakes")]
    ours, kubectl = str(where / "bin" / "gpu-admission"), str(where / "bin" / "kubectl-gpu")
    assert typed("-c", "import webhook; print(webhook.__file__)").startswith(str(where))
    assert "GPUs fragmented" in typed(kubectl, "why", "-A", "--from", waiting)
    assert "[gpuQuantity]" in typed(ours, "try", "--offline", "-f", mistakes)
    typed(ours, "ui", "--from", waiting, "--html", "page.html")
    assert "</html>" in (tmp_path / "page.html").read_text()
