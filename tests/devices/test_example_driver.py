"""Slices as a real driver published them: see `tests/data/README.md`.

Covers devices.slices.
"""

from typing import Any

import orjson
import pytest

from tests.devices import dra
from tests.placement.claiming import claiming, cluster, free, reserve
from tests.placement.placed import names, placed
from tests.reference import ROOT
from webhook.state.gpu_amounts import models_of
from webhook.state.state import ClusterState

RECORDED = orjson.loads((ROOT / "tests/data/dra-example-driver.json").read_bytes())
DRIVER = "gpu.example.com"
CLASS = {"metadata": {"name": DRIVER}, "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]}}
PARTITION = f"device.attributes['{DRIVER}'].?partition.hasValue()"
LARGE = f"device.capacity['{DRIVER}'].memory.compareTo(quantity('40Gi')) > 0"
Asked = list[tuple[dict[str, Any], int]]


def with_slices(kind: str, *asked: dict[str, Any]) -> ClusterState:
    templates = [dra.template(f"t{number}", each) for number, each in enumerate(asked)]
    return cluster(RECORDED[kind], templates, classes=[CLASS], nodes=["n"])


@pytest.mark.parametrize(
    ("kind", "asked"),
    [
        pytest.param("whole", [(dra.exactly(3, of=DRIVER), 1000), (dra.exactly(of=DRIVER), 0)], id="whole GPUs"),
        pytest.param(
            "partitions",
            [(dra.exactly(3, PARTITION, DRIVER), 1250), (dra.exactly(1, LARGE, DRIVER), 250)],
            id="partitions, then a whole one",
        ),
        pytest.param(
            "shared",
            [
                (dra.exactly(of=DRIVER, capacity={"requests": {"memory": "20Gi", "compute": "25"}}), 1750),
                (dra.exactly(of=DRIVER), 750),
            ],
            id="a quarter, then a whole one",
        ),
    ],
)
def test_what_is_left_after_each_pod(kind: str, asked: Asked) -> None:
    of = with_slices(kind, *[each for each, _ in asked])
    assert free(of, "n", DRIVER) == (4000 if kind == "whole" else 2000)
    for number, (_, left) in enumerate(asked):
        assert names(reserve(of, claiming(f"t{number}", name=f"p{number}"))) == ["n"]
        of.pod_seen(claiming(f"t{number}", name=f"p{number}", ranked=["n"]), 0)
        assert free(of, "n", DRIVER) == left
    again = claiming(f"t{len(asked) - 1}", name="late")
    assert placed(of, again).reason == "no node fits"


def test_the_model_is_what_the_driver_tells() -> None:
    found = models_of(with_slices("whole"))
    assert found.names[found.number[0]] == "LATEST-GPU-MODEL"
