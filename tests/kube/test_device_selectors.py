"""Selectors of devices in CEL. The values are those of k8s.io/dynamic-resource-allocation/cel/compile_test.go.

Covers kube.device_selectors, kube.device_functions.
"""

import re
from typing import Any

import pytest

from webhook.kube.device_selectors import _PATH, MAX_EXPRESSION, Facts, Selector, facts_of, reads

DEVICE: dict[str, Any] = {
    "name": "gpu-0",
    "attributes": {
        "type": {"string": "gpu"},
        "productName": {"string": "NVIDIA H100 80GB HBM3"},
        "index": {"int": 1},
        "ecc": {"bool": True},
        "driverVersion": {"version": "550.54.15"},
        "links": {"strings": ["a", "b"]},
        "resource.kubernetes.io/pcieRoot": {"string": "pci0000:01"},
    },
    "capacity": {"memory": {"value": "80Gi"}, "dra.example.com/cores": {"value": "1500m"}},
}
OURS = 'device.attributes["gpu.nvidia.com"]'
MEMORY = 'device.capacity["gpu.nvidia.com"].memory'


def facts(**changes: Any) -> Facts:
    return facts_of("gpu.nvidia.com", {**DEVICE, **changes})


@pytest.mark.parametrize(
    "expression",
    [
        'device.driver == "gpu.nvidia.com"',
        f'{OURS}.type == "gpu" && {OURS}["type"] != "mig"',
        f'{OURS}.productName.startsWith("NVIDIA") && {OURS}.productName.lowerAscii().matches("^.*h100.*$")',
        f"{OURS}.index in [0, 1, 2] && {OURS}.index + 1 == 2",
        f'{OURS}.index != "1"',
        f"{OURS}.ecc",
        "!device.allowMultipleAllocations",
        'device.attributes["resource.kubernetes.io"].pcieRoot == "pci0000:01"',
        f'has({OURS}.type) && !has({OURS}.mig) && !has(device.attributes["no.such.domain"].mig)',
        '"no.such.domain" in device.attributes',
        f'{OURS}.?mig.orValue("none") == "none" && device.attributes[?"x"].?y.orValue(true)',
        f'"b" in {OURS}.links && {OURS}.links.exists(name, name == "a")',
        'cel.bind(gpu, device.attributes["gpu.nvidia.com"], gpu.type == "gpu" && gpu.index == 1)',
        f"{OURS}.missing == 1 || {OURS}.index == 1",
        f'{MEMORY}.compareTo(quantity("40Gi")) > 0 && {MEMORY}.isGreaterThan(quantity("79Gi"))',
        f'{MEMORY} == quantity("81920Mi") && {MEMORY}.asInteger() == 85899345920',
        f'{MEMORY}.sub(quantity("79Gi")).add(1024).isLessThan(quantity("2Gi"))',
        'device.capacity["dra.example.com"].cores == quantity("1.5") && !quantity("1.5").isInteger()',
        'isQuantity("1Gi") && !isQuantity("1GB") && quantity("-1").sign() == -1',
        f'{OURS}.driverVersion.isGreaterThan(semver("550.9.0")) && {OURS}.driverVersion.major() == 550',
        f'{OURS}.driverVersion.compareTo(semver("v550.54.15", true)) == 0',
        f'{OURS}.driverVersion == semver("550.54.15+build")',
        'semver("1.0.0-rc.2").isLessThan(semver("1.0.0-rc.10")) && semver("1.0.0-rc.1").isLessThan(semver("1.0.0"))',
        'semver("1.0.0-1").isLessThan(semver("1.0.0-a")) && !isSemver("v1.2") && isSemver("v1.2", true)',
    ],
)
def test_true(expression: str) -> None:
    assert Selector(expression).matches(facts()) is True
    assert Selector(f"!({expression})").matches(facts()) is False


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "device.driver ==",
        "1",
        f"{OURS}.type",
        f"{OURS}.missing == 1",
        'device.attributes["no.such.domain"].type == "gpu"',
        'quantity("1GB") == quantity("1GB")',
        'semver("1.2") == semver("1.2")',
        f'{MEMORY}.compareTo(semver("1.0.0")) > 0',
        f'{OURS}.type.isLessThan(quantity("1"))',
        'ip("10.0.0.1").family() == 4',
        "1 / 0 == 1",
        '"\ud800" == "a"',
    ],
)
def test_unknown(expression: str) -> None:
    """Kubernetes does not decide these either, or by a library that is not here."""
    assert Selector(expression).matches(facts()) is None


FORTY = f"[{'0,' * 39}0]"
TEN = f"[{', '.join('0123456789')}]"


@pytest.mark.parametrize(
    "expression",
    [
        f"true{' ' * MAX_EXPRESSION}",
        f"{'(' * 3000}true{')' * 3000}",
        f"{'[' * 1000}{']' * 1000} == []",
        f"{'1+' * 3000}1 > 0",
        f"{'!' * 9999}true",
        f'"{"a" * 4000}".replace("a", "{"b" * 4000}") == ""',
        '"a".replace("a", "bbbbbbbbbb").replace("b", "cccccccccc") == "a"',
        f"{TEN}.all(a, {TEN}.all(b, {TEN}.all(c, {TEN}.all(d, true))))",
        f"[{'0,' * 400}0].all(a, [{'0,' * 400}0].all(b, true))",
        f"{FORTY}.all(a, {FORTY}.all(b, {FORTY}.all(c, true)))",
        "cel.bind(a, [1, 1], cel.bind(b, [a, a], cel.bind(c, [b, b], cel.bind(d, [c, c], d == d))))",
        '"aaaaaaaaaaaaaaaaaaaa".matches("((a{100}){100}){100}")',
        '"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa".matches("^(a+)+$") == ("a" == "b")',
    ],
)
def test_work_is_bounded(expression: str) -> None:
    """Not one of these takes a second: it is refused, or ends."""
    assert Selector(expression).matches(facts()) in (None, True, False)


def test_spaces_are_read_once() -> None:
    """10 KiB of spaces took 1.6 s while each repetition could give back what it had taken."""
    assert re.findall(r"\\[sw][*+](?!\+)", _PATH.pattern) == []
    for spaces in (f"{OURS}.{' ' * 4800}exists{' ' * 4800}(k, true)", f"{OURS}[{' ' * 9900}1]"):
        assert reads(spaces) is None
    assert reads(f"{OURS} . type") == (("attributes", "gpu.nvidia.com", "type"),)


def test_results_are_cached_by_what_is_read_alone() -> None:
    selector = Selector(f'{OURS}.type == "gpu"')
    for number in range(5000):
        assert (
            selector.matches(facts(attributes={"type": {"string": "gpu"}, "uuid": {"string": f"GPU-{number}"}})) is True
        )
    assert len(selector._results) == 1
    every = Selector(f'{OURS}.exists(name, name == "uuid")')
    for number in range(5000):
        assert every.matches(facts(attributes={"uuid": {"string": f"GPU-{number}"}})) is True
    assert len(every._results) < 1100


def test_true_is_not_one() -> None:
    selector = Selector(f"{OURS}.flag == true")
    assert selector.matches(facts(attributes={"flag": {"bool": True}})) is True
    assert selector.matches(facts(attributes={"flag": {"int": 1}})) is False
    both = Selector('device.attributes["gpu.nvidia.com"].map(name, name) == ["flag"]')
    assert both.matches(facts(attributes={"flag": {"bool": True}})) is True


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"attributes": {"type": {"string": 1}}}, "attribute type: wanted one of int, bool, string, version"),
        ({"attributes": {"type": "gpu"}}, "attribute type"),
        ({"attributes": {"v": {"version": "1.2"}}}, "attribute v"),
        ({"attributes": {"v": {"versions": ["1.2.3", "1"]}}}, "attribute v"),
        ({"attributes": {"n": {"int": 2**63}}}, "attribute n"),
        ({"attributes": {"n": {"int": True}}}, "attribute n"),
        ({"capacity": {"memory": {"value": "80GB"}}}, "capacity memory: wanted a quantity"),
        ({"capacity": {"memory": "80Gi"}}, "capacity memory"),
        ({"capacity": {"memory": {"value": None}}}, "capacity memory"),
    ],
)
def test_malformed_values_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        facts(**changes)
