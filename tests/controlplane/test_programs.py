"""The programs of a control plane: which sources, the cache of what was built, and what to do where none can be had."""

import re
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.controlplane import modules, programs
from tests.controlplane.build import ldflags
from tests.controlplane.programs import KUBERNETES, KWOK, MAIN, NAMES, SOURCES, Unavailable, find


class Builder:
    """Builds as build.py does, only at once: one file, and links to it."""

    def __init__(self, release: str = KUBERNETES[MAIN]) -> None:
        self.calls = 0
        self.release = release

    def __call__(self, minor: str, folder: Path) -> None:
        self.calls += 1
        for name in ("controlplane", "kwok"):
            (folder / name).write_text(f"#!/bin/sh\necho Kubernetes v{self.release}\n")
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


def test_the_modules_of_a_new_release_follow_those_of_kubernetes() -> None:
    upstream = """module k8s.io/kubernetes
go 1.30.0
require (
	go.etcd.io/etcd/api/v3 v3.8.0
	go.etcd.io/etcd/server/v3 v3.8.1 // indirect
)
replace (
	k8s.io/api => ./staging/src/k8s.io/api
	k8s.io/kube-openapi => example.com/fork v1.0.0
)
"""
    found = modules.go_mod("1.40.2", upstream)
    assert "\ngo 1.30.0\n" in found
    assert "\tgo.etcd.io/etcd/server/v3 v3.8.1\n\tk8s.io/kubernetes v1.40.2\n" in found
    assert found.endswith("replace (\n\tk8s.io/api => k8s.io/api v0.40.2\n)\n")


def test_the_build_says_which_release_it_is() -> None:
    assert "-X k8s.io/component-base/version.gitVersion=v1.34.2" in ldflags("1.34.2")
    assert "-X k8s.io/component-base/version.gitMinor=34" in ldflags("1.34.2")


def test_an_unknown_version_is_refused_with_the_ones_there_are() -> None:
    with pytest.raises(ValueError, match=r"'1\.12'.*1\.37, 1\.34"):
        find("1.12")


def test_a_whole_cache_is_not_built_again(cache: Path) -> None:
    build = Builder()
    first = find(build=build)
    assert find(f"v{KUBERNETES[MAIN]}", build=build) == first
    assert build.calls == 1
    assert first.folder.is_relative_to(cache)


BROKEN: dict[str, Callable[[Path], object]] = {
    "a program is gone": lambda folder: (folder / "kwok").unlink(),
    "a link is gone": lambda folder: (folder / "etcd").unlink(),
    "a program may not be run": lambda folder: (folder / "kwok").chmod(0o644),
}


@pytest.mark.parametrize("harm", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_cache_is_noticed_and_built_again(
    cache: Path, harm: Callable[[Path], object], capsys: pytest.CaptureFixture[str]
) -> None:
    build = Builder()
    folder = find(build=build).folder
    harm(folder)
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


def test_a_build_that_forgets_a_program_is_refused(cache: Path) -> None:
    def forget(minor: str, folder: Path) -> None:
        Builder()(minor, folder)
        (folder / "kubectl").unlink()

    with pytest.raises(RuntimeError, match="made no kubectl"):
        find(build=forget)


def test_what_a_killed_build_left_is_removed_by_the_next(cache: Path) -> None:
    left = cache / "controlplane" / f".{programs.key(MAIN)}.12345"
    left.mkdir(parents=True)
    find(build=Builder())
    assert not left.exists()


def test_two_runs_at_once_build_once(cache: Path) -> None:
    both = threading.Barrier(2)
    build = Builder()

    def slow(minor: str, folder: Path) -> None:
        time.sleep(0.2)
        build(minor, folder)

    def run() -> None:
        both.wait()
        find(build=slow)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert build.calls == 1


def test_another_source_gives_another_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = programs.key(MAIN)
    assert before != programs.key("1.34")
    changed = tmp_path / "main.go"
    changed.write_text("package main")
    monkeypatch.setattr(programs, "sources", lambda minor: {"main.go": changed})
    assert programs.key(MAIN) != before


@pytest.fixture
def assets(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "assets"
    folder.mkdir()
    Builder("1.37.9")(MAIN, folder)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(folder))
    return folder


def test_the_folder_of_kubebuilder_assets_comes_first(assets: Path) -> None:
    build = Builder()
    assert find(build=build) == programs.Programs(assets, "1.37.9")
    assert build.calls == 0


def test_assets_that_lack_a_program_are_not_used_and_it_is_said(
    assets: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (assets / "kwok").unlink()
    assert find(build=Builder()).folder != assets
    assert "it has no kwok" in capsys.readouterr().err


def test_assets_of_another_version_are_not_used_and_it_is_said(
    assets: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert find("1.34", build=Builder()).folder != assets
    assert "is 1.37.9, wanted 1.34" in capsys.readouterr().err
