"""The programs of a control plane: which sources, the cache of what was built, and what to do where none can be had."""

import re
from pathlib import Path

import pytest

from tests.controlplane.others import OTHERS
from tests.controlplane.programs import KUBERNETES, KWOK, MAIN, NAMES, SOURCES, Unavailable, find


class Builder:
    """Builds as build.py does, only at once: one file, and links to it."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, minor: str, folder: Path) -> None:
        self.calls += 1
        for name in ("controlplane", "kwok"):
            (folder / name).write_text("#!/bin/sh\n")
            (folder / name).chmod(0o755)
        for name in NAMES:
            if name != "kwok":
                (folder / name).symlink_to("controlplane")


@pytest.mark.parametrize("minor", KUBERNETES)
def test_the_go_modules_fix_the_release_that_the_table_names(minor: str) -> None:
    required = (SOURCES / minor / "go.mod").read_text()
    assert f"k8s.io/kubernetes v{KUBERNETES[minor]}\n" in required
    staging = set(re.findall(r"=> k8s\.io/\S+ (\S+)", required))
    assert staging == {f"v0.{KUBERNETES[minor].partition('.')[2]}"}, "every staging module is of the same release"


def test_the_go_module_of_kwok_fixes_its_version() -> None:
    assert re.search(rf"sigs\.k8s\.io/kwok v{re.escape(KWOK)}\s", (SOURCES / "kwok" / "go.mod").read_text())


@pytest.mark.parametrize("name", OTHERS)
def test_go_mod_names_the_program_of_another_controller(name: str) -> None:
    other = OTHERS[name]
    assert re.search(rf"^(tool)?\s+?{other.module}{other.package}$", other.of.files[0].read_text(), re.MULTILINE)
    assert re.fullmatch(r"v\d+\.\d+\.\d+", other.version)


def test_other_controllers_are_compiled_of_what_the_control_plane_is() -> None:
    """What both use is compiled once, if it is of one version."""
    shared = OTHERS["jobset"].of
    versions = {shared.version(f"k8s.io/{name}") for name in ("api", "apimachinery", "apiserver", "client-go")}
    assert versions == {f"v0.{KUBERNETES[MAIN].partition('.')[2]}"}


def test_a_broken_cache_is_noticed_and_built_again(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build = Builder()
    folder = find(build=build).folder
    (folder / "kwok").chmod(0o644)
    assert find(build=build).folder == folder
    assert build.calls == 2
    assert "broken" in capsys.readouterr().err
    find(build=build)
    assert build.calls == 2


def test_a_build_that_fails_leaves_nothing_behind(cache: Path) -> None:
    def fail(minor: str, folder: Path) -> None:
        (folder / "etcd").write_text("")
        raise Unavailable("no network", "get one")

    with pytest.raises(Unavailable):
        find(build=fail)
    assert [path.suffix for path in (cache / "controlplane").iterdir()] == [".lock"]
