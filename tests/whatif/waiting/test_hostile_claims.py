"""What a snapshot from somebody else may hold: `pending` ends, and says that it cannot tell.

Covers whatif.waiting.free_devices.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from bench.hostile_cel import EXPRESSIONS
from tests.controlplane.nodes import node
from tests.whatif.waiting.waits import DEVICE_CLASS, answer, claiming, obj

DEVICES = [{"name": f"d{n}", "attributes": {"model": {"string": f"A100 {n}"}}} for n in range(8)]
SLICE = obj(
    "ResourceSlice",
    "n",
    {
        "driver": "gpu.x",
        "nodeName": "n",
        "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
        "devices": DEVICES,
    },
    metadata={"namespace": ""},
)


def test_pending_ends_whatever_the_expressions_of_a_snapshot_are(tmp_path: Path) -> None:
    """An expression that copies took 11 s and 3 GiB, each time that it was looked at."""
    made = 0

    def count(_: Any, event: str, __: Any) -> None:
        nonlocal made
        made += event in ("call", "c_call")

    for name in (
        "optFlatMap of optFlatMap",
        "classes of Unicode, in rows",
        "a quantity of three million digits",
        "loops in loops",
    ):
        text = EXPRESSIONS[name].replace("gpu.nvidia.com", "gpu.x").replace("productName", "model")
        asked = {"deviceClassName": "dc", "selectors": [{"cel": {"expression": text}}]}
        claim = obj("ResourceClaim", "c", {"devices": {"requests": [{"name": "r", "exactly": asked}]}})
        sys.setprofile(count)
        try:
            said = answer(tmp_path, node("n", gpus=0), SLICE, DEVICE_CLASS, claim, claiming(resourceClaimName="c"))
        finally:
            sys.setprofile(None)
        assert "whether the devices of node n can be had is not known: a selector" in str(said.causes), name
    assert made < 2_000_000
