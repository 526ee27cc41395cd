"""Which devices claims can have: the cases of k8s.io/dynamic-resource-allocation/structured that are easily missed.

What the real scheduler does with each of them: tests/e2e/test_allocator.py.
"""

from typing import Any

import pytest

from tests.devices import dra
from tests.placement.claiming import claiming, cluster
from tests.placement.placed import names, placed

Object = dict[str, Any]
TAINT = {"key": "sick", "effect": "NoSchedule"}
SMALL = {"capacity": {"memory": {"value": "20Gi"}}}
ALL = {"deviceClassName": dra.DRIVER, "allocationMode": "All"}


def asking(memory: str, **more: Any) -> Object:
    return dra.exactly(**more) | {"capacity": {"requests": {"memory": memory}}}


CASES = [
    pytest.param([dra.gpu(0), dra.gpu(1)], [ALL], True, id="all devices"),
    pytest.param([dra.gpu(0), dra.gpu(1, taints=[TAINT])], [ALL], False, id="all devices, one of them tainted"),
    pytest.param(
        [dra.gpu(0), dra.gpu(1, taints=[TAINT])],
        [ALL | {"tolerations": [{"operator": "Exists"}]}],
        True,
        id="all devices, the taint is tolerated",
    ),
    pytest.param(
        [dra.gpu(0), dra.gpu(1, **SMALL)],
        [ALL | {"capacity": {"requests": {"memory": "40Gi"}}}, asking("10Gi")],
        True,
        id="all devices that are large enough: the small one is left",
    ),
    pytest.param([dra.gpu(i) for i in range(33)], [dra.exactly(33)], False, id="more than a claim may have"),
    pytest.param([dra.gpu(i) for i in range(33)], [ALL], False, id="all devices, more than a claim may have"),
    pytest.param([dra.gpu(i) for i in range(33)], [dra.exactly(20), dra.exactly(13)], False, id="of two requests"),
    pytest.param(
        [dra.gpu(i) for i in range(33)],
        [{"firstAvailable": [{"name": "a", **dra.exactly(33)}, {"name": "b", **dra.exactly(32)}]}],
        True,
        id="the alternative that a claim may have",
    ),
    pytest.param(
        [dra.gpu(i) for i in range(33)],
        [
            dra.exactly(20, f'device.attributes["{dra.DRIVER}"].index < 20'),
            {
                "firstAvailable": [
                    {"name": "a", **dra.exactly(13)},
                    {"name": "b", **dra.exactly(1, 'device.driver == "x"')},
                ]
            },
        ],
        False,
        id="an alternative that is too many with the other request",
    ),
]


@pytest.mark.parametrize(("devices", "requests", "fits"), CASES)
def test_what_a_node_can_give(devices: list[Object], requests: list[Object], fits: bool) -> None:
    of = cluster([dra.device_slice("a", devices)], [dra.template("t", *requests)], nodes=["a"])
    found = placed(of, claiming("t"))
    assert (names(found), found.reason) == ((["a"], "") if fits else ([], "no node fits"))


def test_a_capacity_that_is_asked_for_by_another_name_than_drivers_write_is_left_to_the_scheduler() -> None:
    """It compares names as they are written: `memory` of a driver is not `gpu.nvidia.com/memory`."""
    request = dra.exactly() | {"capacity": {"requests": {f"{dra.DRIVER}/memory": "10Gi"}}}
    of = cluster([dra.gpus_of("a", 1)], [dra.template("t", request)], nodes=["a"])
    assert placed(of, claiming("t")).reason == "which devices it would get cannot be decided"
