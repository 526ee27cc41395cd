"""A vendor is one file: the toy in `tests/toys/` is known to every rule, injector and command, and nothing else names it."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import pytest

from tests.cli.objects import OPTED_IN, Json, namespace, placed, unschedulable, write
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod

GPU = "acme.example/gpu"
MODEL = {"acme.example/model": "Anvil-9", "acme.example/fleet": "desert"}
TAINT = "acme.example/gpu=yes:NoSchedule"


def a_node(name: str, gpus: int, **labels: str) -> Json:
    return node(name, 0, resources={GPU: str(gpus)}, labels=MODEL | labels, taints=[TAINT])


SHARED = a_node("shared", 32, **{"acme.example/clients": "4"})
SICK = a_node("sick", 8)
SICK["status"]["conditions"] = [*SICK["status"]["conditions"], {"type": "AcmeFault", "status": "True"}]
NODES = [a_node("whole", 8), SHARED, SICK]
WAITING = pod("waits", 9, resource=GPU, namespace="team") | {"status": unschedulable("0/3 nodes are available")}


Ask = Callable[..., str]


@pytest.fixture(scope="module")
def with_toy() -> Iterator[Ask]:
    """Asks one process that knows the toy. `policy`: where to write one that has the defaults of the settings. The shipped file
    was written without the toy."""
    command, environment = [sys.executable, "-m", "tests.vendors.with_toy"], os.environ | {"COLUMNS": "400"}
    with Popen(command, stdin=PIPE, stdout=PIPE, text=True, env=environment) as asked:
        assert asked.stdin is not None
        assert asked.stdout is not None
        requests, answers = asked.stdin, asked.stdout

        def answer(*words: object, policy: Path | None = None) -> str:
            if policy is not None:
                (policy / "policy.yaml").write_text("{}")
                words = (*words, "--policy", policy / "policy.yaml")
            requests.write(json.dumps([*map(str, words)]) + "\n")
            requests.flush()
            status, out, error = json.loads(answers.readline())
            assert status in (0, 1), error
            return str(out)

        yield answer


def tried(with_toy: Ask, tmp_path: Path, made: Json) -> Json:
    cluster = write(tmp_path, OPTED_IN, *NODES)
    manifest = tmp_path / "pod.json"
    manifest.write_text(json.dumps(made))
    (item,) = json.loads(with_toy("try", "-f", manifest, "--from", cluster, "-o", "json", policy=tmp_path))["items"]
    return dict(item)


@pytest.mark.parametrize(
    ("rule", "spec"),
    [
        pytest.param("deviceEnv", {"env": {"ACME_DEVICES": "all"}}, id="a variable"),
        pytest.param("deviceAnnotations", {"annotations": {"acme.example/devices.main": "0"}}, id="an annotation"),
        pytest.param("runtimeClass", {"runtimeClassName": "acme"}, id="a runtime class"),
    ],
)
def test_a_way_to_its_devices_is_closed(with_toy: Ask, tmp_path: Path, rule: str, spec: dict[str, Any]) -> None:
    assert rule in json.dumps(tried(with_toy, tmp_path, pod("thief", 0, namespace="team", **spec)))


def test_a_pod_with_its_gpus_tolerates_its_taint_and_goes_to_whole_healthy_ones(with_toy: Ask, tmp_path: Path) -> None:
    item = tried(with_toy, tmp_path, pod("p", 2, resource=GPU, namespace="team"))
    assert item["bound"] == {"whole": 1}
    assert TAINT.partition("=")[0] in json.dumps(item)


def test_the_commands_know_it(with_toy: Ask, tmp_path: Path) -> None:
    running = placed(pod("runs", 1, resource=GPU, namespace="team"), "whole")
    file = write(tmp_path, namespace("team"), *NODES, running, WAITING)
    nodes = {
        each["name"]: each
        for each in json.loads(with_toy("top", "--from", file, "-o", "json", policy=tmp_path))["items"]
    }
    assert {name: each.get("one") for name, each in nodes.items()} == {"whole": None, "shared": "share", "sick": None}
    assert (nodes["whole"]["model"], nodes["whole"]["pool"]) == ("Anvil-9", "desert")
    assert nodes["whole"]["gpus"][GPU]["allocated"] == 1
    assert nodes["sick"]["health"] == "unhealthy"
    assert GPU in with_toy("why", "--from", file, "-o", "wide", policy=tmp_path)
    assert f"{GPU} is a share of a GPU on shared and a whole GPU on" in with_toy(
        "doctor", "--from", file, policy=tmp_path
    )


def test_exported_policies_and_the_page_have_it(with_toy: Ask, tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("{}")
    exported = with_toy("policy", "export", tmp_path / "policy.yaml")
    assert [word for word in (GPU, "ACME_DEVICES", "acme-devices", "/opt/acme/lib/") if word not in exported] == []
    page = with_toy("page")
    assert "## Acme" in page
    assert "acme.example/ring" in page


def test_the_shipped_program_does_not_know_it() -> None:
    root = Path(__file__).resolve().parents[2]
    assert [path for path in (root / "webhook").rglob("*.py") if "acme" in path.read_text().lower()] == []
