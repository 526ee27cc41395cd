"""The image that the manifests run, and its probes."""

from pathlib import Path

from tests.manifests.files import MANIFESTS, only

CONTAINER = only("Deployment")["spec"]["template"]["spec"]["containers"][0]


DOCKERFILE = (MANIFESTS.parent / "Dockerfile").read_text()


def test_the_image_runs_as_a_user_with_a_number() -> None:
    user = DOCKERFILE.split("\nUSER ")[1].split("\n")[0]
    assert all(part.isdecimal() and part != "0" for part in user.split(":"))


def test_the_image_takes_packages_by_hash_and_names_no_index() -> None:
    assert "--require-hashes" in DOCKERFILE
    for text in (DOCKERFILE, (MANIFESTS.parent / "requirements.txt").read_text()):
        assert not [word for word in ("index-url", "find-links", "http://", "https://") if word in text]


def test_what_the_image_copies_is_in_the_build_context() -> None:
    context = {
        line[1:] for line in (MANIFESTS.parent / ".dockerignore").read_text().splitlines() if line.startswith("!")
    }
    copied = [
        line.split()[1:-1] for line in DOCKERFILE.splitlines() if line.startswith("COPY ") and "--from" not in line
    ]
    assert {name for names in copied for name in names} == context
    assert all(Path(MANIFESTS.parent / name).exists() for name in context)


def test_a_busy_second_fails_no_probe() -> None:
    """A review takes a second at most, and two may come before the probe."""
    for probe in ("readinessProbe", "livenessProbe"):
        found = CONTAINER[probe]
        assert found["timeoutSeconds"] > 2, probe
        assert found["failureThreshold"] >= 3, probe
        assert found["timeoutSeconds"] <= found["periodSeconds"], probe
