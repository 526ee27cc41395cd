"""`gpu-admission replay`: recorded pods through another policy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.objects import call, write
from tests.controlplane.nodes import GPU_TAINT, node
from tests.controlplane.objects import pod
from tests.installed import ROOT

RECORDED = ROOT / "tests" / "data" / "reviews" / "1.37"
LAX = {"profiles": {"default": {"rules": {"hostNamespaces": {"action": "off"}}}}}
QUIET = {"profiles": {"default": {"injectors": {"tolerations": {"enabled": False}}}}}


def event(made: dict[str, Any], **more: Any) -> dict[str, Any]:
    about = {"resource": "pods", "namespace": "team", "name": made["metadata"]["name"]}
    head = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Event",
        "verb": "create",
        "objectRef": about,
        "user": {"username": "jane"},
    }
    return {**head, "requestObject": made, **more}


def log(folder: Path, *events: Any) -> Path:
    path = folder / "audit.log"
    path.write_text("\n".join(json.dumps(each) for each in events))
    return path


def policy(folder: Path, value: Any, name: str) -> Path:
    (folder / name).write_text(json.dumps(value))
    return folder / name


def replayed(folder: Path, file: Path, *more: Any) -> tuple[int, list[dict[str, Any]]]:
    result = call("replay", file, *more, "-o", "json")
    return result.exit_code, json.loads(result.stdout)


def test_the_same_policy_changes_nothing(tmp_path: Path) -> None:
    file = log(tmp_path, event(pod("one", 1)), event(pod("open", 1, hostPID=True)))
    assert replayed(tmp_path, file, "--policy", "default") == (0, [])


@pytest.mark.parametrize(
    ("before", "after", "differs", "status"),
    [
        pytest.param(LAX, {}, "refused", 1, id="a rule more"),
        pytest.param({}, LAX, "allowed", 0, id="a rule less"),
    ],
)
def test_who_is_refused_and_who_is_not_any_more(
    tmp_path: Path, before: Any, after: Any, differs: str, status: int
) -> None:
    file = log(tmp_path, event(pod("one", 1)), event(pod("open", 1, hostPID=True)))
    files = policy(tmp_path, after, "after.json"), policy(tmp_path, before, "before.json")
    found = replayed(tmp_path, file, "--policy", files[0], "--before", files[1])
    assert (found[0], [(each["name"], each["differs"]) for each in found[1]]) == (status, [("open", differs)])
    assert "spec.hostPID" in found[1][0]["message"]


def test_who_is_changed_or_placed_otherwise(tmp_path: Path) -> None:
    file = log(tmp_path, event(pod("one", 1)))
    quiet = policy(tmp_path, QUIET, "quiet.json")
    (changed,) = replayed(tmp_path, file, "--policy", quiet)[1]
    assert changed["differs"] == "changed"
    assert any("tolerations" in line for line in changed["diff"])
    cluster = write(tmp_path, node("gpu-a", taints=[GPU_TAINT]))
    (placed,) = replayed(tmp_path, file, "--policy", quiet, "--cluster", cluster)[1]
    assert (placed["differs"], placed["message"]) == ("placed", "gpu-a → none")


def test_what_the_api_server_really_asked_is_read(tmp_path: Path) -> None:
    files = sorted(RECORDED.glob("*-mutate.json")) or sorted(RECORDED.glob("*.json"))
    (tmp_path / "reviews.json").write_text("\n".join(path.read_text() for path in files))
    result = call("replay", tmp_path / "reviews.json", "--policy", "default")
    assert result.exit_code == 0
    assert result.stderr == f"{len(files)} pods, 0 of them otherwise\n"


def test_events_without_a_pod_are_counted_and_others_left_out(tmp_path: Path) -> None:
    silent, other = event(pod("two", 1)), event(pod("three", 1), verb="delete")
    del silent["requestObject"]
    result = call("replay", log(tmp_path, event(pod("one", 1)), silent, other), "--policy", "default")
    assert result.stderr == "1 pod, 0 of them otherwise; 1 event without the pod (audit level Metadata)\n"


def test_the_table(tmp_path: Path) -> None:
    result = call(
        "replay", log(tmp_path, event(pod("open", 1, hostPID=True))), "--policy", policy(tmp_path, LAX, "lax.json")
    )
    assert result.stdout.splitlines()[0].split() == ["POD", "NOW", "WHY"]
    assert result.stdout.splitlines()[1].startswith('team/open   allowed   pod "open": spec.hostPID: saw true')


@pytest.mark.parametrize("text", ["", "[]", "a: ["])
def test_a_record_that_is_none_is_status_2(tmp_path: Path, text: str) -> None:
    (tmp_path / "record").write_text(text)
    result = call("replay", tmp_path / "record", "--policy", "default")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
