"""From the version before to this one, while pods are created: by kubectl, and by Helm.

The version before is the last tag. As long as there is none, it is the oldest commit in this clone from which upgrades are
promised: that whose replicas take a policy of a later version.
"""

import asyncio
import re
import subprocess
import tarfile
from contextlib import closing
from io import BytesIO
from pathlib import Path

import pytest

from tests.controlplane.api import Api
from tests.controlplane.plane import ControlPlane
from tests.e2e.creating import creating
from tests.e2e.test_helm import Release
from tests.installed import ROOT, Installed, opt_in

pytestmark = pytest.mark.controlplane

PARTS = ("manifests", "webhook", "pyproject.toml")


def git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout


def before() -> tuple[str, str]:
    """The last tag before this commit and its version, or the oldest commit from which upgrades are promised as some version."""
    here = git("tag", "--points-at", "HEAD").decode().split()
    tags = git("tag", "--list", "v*", "--merged", "HEAD", "--sort=-version:refname").decode().split()
    if earlier := [tag for tag in tags if tag not in here]:
        return earlier[0], earlier[0].removeprefix("v")
    return git("log", "--format=%H", "--", "webhook/policy/written_for.py").decode().split()[-1], "0.0.1"


def _forget_a_rule(folder: Path) -> None:
    """So that today's policy has a rule that the version before does not know."""
    model = folder / "webhook" / "policy" / "model.py"
    text = model.read_text()
    model.write_text(re.sub(r"(?m)^    capabilities: .*\n", "", text))
    assert model.read_text() != text
    policy = folder / "manifests" / "policy.yaml"
    shipped, count = re.subn(r"(?m)^      capabilities:\n(        .*\n)+", "", policy.read_text())
    assert count == 1
    policy.write_text(shipped)


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the version before."""
    folder = tmp_path_factory.mktemp("before")
    commit, version = before()
    with tarfile.open(fileobj=BytesIO(git("archive", commit, *PARTS))) as archive:
        archive.extractall(folder, filter="tar")
    metadata = folder / f"gpu_admission-{version}.dist-info" / "METADATA"  # by it the program knows its version
    metadata.parent.mkdir()
    metadata.write_text(f"Metadata-Version: 2.4\nName: gpu-admission\nVersion: {version}\n")
    _forget_a_rule(folder)
    return folder


@pytest.mark.parametrize(
    "flags", [pytest.param((), id="in the client"), pytest.param(("--server-side",), id="on the server")]
)
async def test_by_kubectl_replica_after_replica(
    beside: ControlPlane, two_nodes: Api, old: Path, flags: tuple[str, ...]
) -> None:
    """On the server a field that something else has written would be a conflict."""
    api = two_nodes
    with Installed(beside, replicas=2, source=old, flags=flags) as webhook:
        await api.namespace("ours")
        await opt_in(api, "ours")
        async with creating(api, "ours") as created:
            await asyncio.to_thread(webhook.upgrade)
        assert (created.refused, created.unchanged) == ([], [])
        assert created.count > 20


async def test_by_helm_with_the_replicas_of_before(beside: ControlPlane, two_nodes: Api, old: Path) -> None:
    """So it is in the moment after the upgrade: today's objects, and nobody but old replicas to answer. By Helm 3, which merges
    what was and what is to be."""
    api = two_nodes
    release = Release(beside, "3", "gpu-system")
    await release.apply(chart=old / "manifests" / "chart")
    namespace = release.namespace
    installed = Installed(beside, replicas=2, reachable=True, routed=True, release=namespace, source=old)
    with closing(installed):
        await asyncio.to_thread(installed.__enter__)
        await api.namespace("ours")
        await opt_in(api, "ours")
        async with creating(api, "ours") as created:
            await release.apply()
        assert (created.refused, created.unchanged) == ([], [])
        assert created.count > 20
