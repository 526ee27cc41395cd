"""What a snapshot from somebody else may hold: each command ends, and `why` says that it cannot tell.

Covers whatif.waiting.free_devices.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from bench.hostile_cel import EXPRESSIONS
from bench.tenant_world import forged
from tests.cli.objects import Json, call, write
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from tests.effort import counted
from tests.whatif.waiting.waits import DEVICE_CLASS, answer, claiming, obj
from webhook.whatif import offline

DEVICES = [{"name": f"d{n}", "attributes": {"model": {"string": f"A100 {n}"}}} for n in range(8)]


def slices(name: str) -> Json:
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.x", "nodeName": name, "pool": pool, "devices": DEVICES}
    return obj("ResourceSlice", name, spec, metadata={"namespace": ""})


def claim(name: str, text: str) -> Json:
    text = text.replace("gpu.nvidia.com", "gpu.x").replace("productName", "model")
    asked = {"deviceClassName": "dc", "selectors": [{"cel": {"expression": text}}]}
    return obj("ResourceClaim", name, {"devices": {"requests": [{"name": "r", "exactly": asked}]}})


def test_pending_ends_whatever_the_expressions_of_a_snapshot_are(tmp_path: Path) -> None:
    """An expression that copies took 11 s and 3 GiB, each time that it was looked at."""
    with counted() as calls:
        for name in (
            "optFlatMap of optFlatMap",
            "classes of Unicode, in rows",
            "a quantity of three million digits",
            "loops in loops",
        ):
            asked = claim("c", EXPRESSIONS[name])
            objects = (node("n", gpus=0), slices("n"), DEVICE_CLASS, asked, claiming(resourceClaimName="c"))
            said = answer(tmp_path, *objects)
            assert "whether the devices of node n can be had is not known: a selector" in str(said.causes), name
    assert calls.count < 2_000_000


def costly(pods: int) -> Iterator[Json]:
    """Pods that ask for devices by expressions which take nearly all the work that a decision may do, no two alike. Half of them
    say that they were given a node."""
    loop = f"{[*range(40)]}.all(a, {' && '.join(['a + 1 > 0'] * 40)} && device.attributes['gpu.x'].model != 'x')"
    for number in range(pods):
        yield claim(f"c{number}", f"{number} > -1 && {loop}")
        made = claiming(resourceClaimName=f"c{number}")
        made["metadata"] |= {"name": f"waits-{number}", "uid": f"u{number}"}
        yield forged(made, "n") if number % 2 else made


COMMANDS = {
    "why NAME": ("why", "waits-0", "-n", "team"),
    "why": ("why", "-A"),
    "top": ("top",),
    "ui": ("ui", "--html", "page.html"),
    "try": ("try", "-f", "pod.json"),
    "drain": ("drain",),
    "policy diff": ("policy", "diff"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_costly_claims_of_a_snapshot_take_some_work_and_not_each_as_much(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each check of each pod took 25 ms."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(offline, "_COSTLIEST", 2)
    (tmp_path / "pod.json").write_bytes(orjson.dumps(pod("more", 0)))
    found = []
    for pods in (5, 15):
        world = [node("n", gpus=0), node("m", gpus=0), slices("n"), slices("m"), DEVICE_CLASS, *costly(pods)]
        path = write(tmp_path, *world)
        with counted() as calls:
            result = call(*COMMANDS[command], "--from", path)
        assert result.exit_code < 2, result.output
        found.append(calls.count)
    assert found[1] - found[0] < 10 * 40_000, found
