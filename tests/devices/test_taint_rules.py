"""DeviceTaintRules keep pods away from devices as the taints of their drivers do."""

from typing import Any

import pytest

from tests.devices import dra
from tests.placement.claiming import claiming, cluster
from tests.placement.placed import names, placed
from webhook.devices.slices import TaintRules
from webhook.state.state import ClusterState

Object = dict[str, Any]
TAINT = {"key": "gpu.example.com/xid", "value": "79", "effect": "NoSchedule"}
TOLERATES = dra.exactly(tolerations=[{"key": TAINT["key"], "operator": "Exists"}])
TEMPLATES = [dra.template("one", dra.exactly()), dra.template("tolerant", TOLERATES)]


def rule(name: str = "r", selector: Object | None = None, **taint: str) -> Object:
    spec: Object = {"taint": TAINT | taint}
    return {"metadata": {"name": name}, "spec": spec if selector is None else spec | {"deviceSelector": selector}}


def two(*rules: Object) -> ClusterState:
    """Two nodes with a GPU each."""
    of = cluster([dra.gpus_of("a", 1), dra.gpus_of("b", 1)], TEMPLATES)
    of.replace("devicetaintrules", list(rules), 0)
    return of


def nodes_of(of: ClusterState) -> list[str]:
    return sorted(names(placed(of, claiming("one"))))


@pytest.mark.parametrize(
    "harmless",
    [
        pytest.param(rule(), id="no selector selects nothing"),
        pytest.param(rule(selector={}, effect="None"), id="no effect"),
        pytest.param(rule(selector={"driver": "gpu.amd.com"}), id="another driver"),
        pytest.param(rule(selector={"pool": "c"}), id="another pool"),
        pytest.param(rule(selector={"pool": "a", "device": "gpu-1"}), id="another device"),
        pytest.param({"metadata": {"name": "r"}}, id="nothing in it"),
    ],
)
def test_a_rule_that_keeps_nothing_away(harmless: Object) -> None:
    assert nodes_of(two(harmless)) == ["a", "b"]


@pytest.mark.parametrize(
    ("selector", "left"),
    [
        pytest.param({"driver": dra.DRIVER, "pool": "a", "device": "gpu-0"}, ["b"], id="a device"),
        pytest.param({"pool": "a"}, ["b"], id="a pool"),
        pytest.param({"device": "gpu-0"}, [], id="a name of devices"),
        pytest.param({"driver": dra.DRIVER}, [], id="a driver"),
        pytest.param({}, [], id="all devices"),
    ],
)
def test_tainted_devices_are_out_unless_tolerated(selector: Object, left: list[str]) -> None:
    of = two(rule(selector=selector))
    assert nodes_of(of) == left
    assert len(names(placed(of, claiming("tolerant")))) == 2


def test_a_rule_ends_changes_and_comes_before_its_devices() -> None:
    of = two(rule(selector={"pool": "a"}))
    of.seen("devicetaintrules", rule(selector={"pool": "b"}, effect="NoExecute"), 0)
    assert nodes_of(of) == ["a"]
    of.seen("resourceslices", dra.gpus_of("b", 2), 0)
    assert nodes_of(of) == ["a"]
    of.seen("devicetaintrules", rule(selector={"pool": "b"}, effect="None"), 0)
    assert nodes_of(of) == ["a", "b"]
    of.seen("devicetaintrules", rule(selector={}), 0)
    of.withdraw("devicetaintrules")
    assert nodes_of(of) == ["a", "b"]


def test_a_change_of_the_status_lays_nothing_out_again() -> None:
    told: list[object] = []
    rules = TaintRules(told.append)
    made = rule(selector={"driver": dra.DRIVER})
    for _ in range(3):
        rules.seen(made | {"status": {"conditions": []}})
    assert told == [(dra.DRIVER, "", "")]


def test_a_device_gets_the_same_taints_whatever_the_order_of_the_rules_and_not_any_number() -> None:
    rules, again = TaintRules(), TaintRules()
    made = [rule(f"r{number}", {}, key=f"k{number:03d}") for number in range(100)]
    for of, order in ((rules, made), (again, made[::-1])):
        for each in order:
            of.seen(each)
    found = rules.of("d", "p", "x")
    assert [taint.key for taint in found] == [f"k{number:03d}" for number in range(16)]
    assert again.of("d", "p", "x") == found
