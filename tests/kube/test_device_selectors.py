"""Selectors of devices in CEL. Values of devices are those of k8s.io/dynamic-resource-allocation/cel/compile_test.go.

Covers kube.device_selectors, kube.device_functions.
"""

from typing import Any

import pytest

from webhook.kube.device_selectors import Selector, Work, facts_of
from webhook.kube.device_tokens import MAX_EXPRESSION, MAX_TEXT
from webhook.kube.device_tree import MAX_LIST, Facts

DEVICE: dict[str, Any] = {
    "name": "gpu-0",
    "attributes": {
        "type": {"string": "gpu"},
        "productName": {"string": "NVIDIA H100 80GB HBM3"},
        "index": {"int": 1},
        "ecc": {"bool": True},
        "driverVersion": {"version": "550.54.15"},
        "links": {"strings": ["a", "b"]},
        "numbers": {"ints": [1, 2]},
        "versions": {"versions": ["1.0.0", "2.0.0"]},
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
        f'{OURS}.productName.endsWith("HBM3") && {OURS}.type.upperAscii() == "GPU" && {OURS}.type.size() == 3',
        f'{OURS}.productName.matches("A100|H100") && !{OURS}.productName.matches("^H100")',
        f"{OURS}.index in [0, 1, 2] && {OURS}.index + 1 == 2 && {OURS}.index % 2 == 1",
        "-7 / 2 == -3 && -7 % 2 == -1 && 7 - 2 * 3 == 1 && -9223372036854775808 < 0",
        f'{OURS}.index != "1"',
        f"{OURS}.ecc",
        f"{OURS}.ecc ? {OURS}.index > 0 : {OURS}.missing",
        "!device.allowMultipleAllocations && device.allowMultipleAllocations == false",
        'device.attributes["resource.kubernetes.io"].pcieRoot == "pci0000:01"',
        f'has({OURS}.type) && !has({OURS}.mig) && !has(device.attributes["no.such.domain"].mig)',
        '!("no.such.domain" in device.attributes) && "gpu.nvidia.com" in device.attributes',
        f'"type" in {OURS} && !("mig" in {OURS}) && "memory" in device.capacity["gpu.nvidia.com"]',
        '!("name" in device.capacity["no.such.domain"]) && "dra.example.com" in device.capacity',
        f'{OURS}.?mig.orValue("none") == "none" && device.attributes[?"x"].?y.orValue(true)',
        f'{OURS}.?type.hasValue() && {OURS}.?type.value() == "gpu" && !{OURS}[?"mig"].hasValue()',
        f'"b" in {OURS}.links && {OURS}.links.exists(name, name == "a") && {OURS}.links.size() == 2',
        f'{OURS}.links.includes("a") && {OURS}.type.includes("gpu") && !{OURS}.numbers.includes(3)',
        f'{OURS}.numbers.all(x, x > 0) && {OURS}.versions.all(x, x.isGreaterThan(semver("0.0.1")))',
        'cel.bind(gpu, device.attributes["gpu.nvidia.com"], gpu.type == "gpu" && gpu.index == 1)',
        f"{OURS}.missing == 1 || {OURS}.index == 1",
        f"{OURS}.index == 1 || {OURS}.missing == 1 || {OURS}.type",
        f'{MEMORY}.compareTo(quantity("40Gi")) > 0 && {MEMORY}.isGreaterThan(quantity("79Gi"))',
        f'{MEMORY} == quantity("81920Mi") && {MEMORY}.asInteger() == 85899345920',
        f'{MEMORY}.sub(quantity("79Gi")).add(1024).isLessThan(quantity("2Gi"))',
        'device.capacity["dra.example.com"].cores == quantity("1.5") && !quantity("1.5").isInteger()',
        'isQuantity("1Gi") && !isQuantity("1GB") && quantity("-1").sign() == -1',
        f'{OURS}.driverVersion.isGreaterThan(semver("550.9.0")) && {OURS}.driverVersion.major() == 550',
        f'{OURS}.driverVersion.compareTo(semver("v550.54.15", true)) == 0 && {OURS}.driverVersion.minor() == 54',
        f'{OURS}.driverVersion == semver("550.54.15+build") && {OURS}.driverVersion.patch() == 15',
        'semver("1.0.0-rc.2").isLessThan(semver("1.0.0-rc.10")) && semver("1.0.0-rc.1").isLessThan(semver("1.0.0"))',
        'semver("1.0.0-1").isLessThan(semver("1.0.0-a")) && !isSemver("v1.2") && isSemver("v1.2", true)',
        f"{OURS}.type /* not a comment */ == 'gpu'".replace("/* not a comment */", "// a comment (\n"),
        r""" "a\"b" == 'a"b' && r"\d" == "\\d" && "é".lowerAscii() == "é" && "É".lowerAscii() == "É" """,
        f"(({OURS}.type)) in ['gpu', 'mig',] && !!true",
    ],
)
def test_true(expression: str) -> None:
    assert Selector(expression).matches(facts()) is True
    assert Selector(f"!({expression}\n)").matches(facts()) is False


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "device.driver ==",
        "1",
        f"{OURS}.type",
        f"{OURS}.missing == 1",
        f"{OURS}.index == 2 || {OURS}.missing == 1",
        'device.attributes["no.such.domain"].type == "gpu"',
        'quantity("1GB") == quantity("1GB")',
        'semver("1.2") == semver("1.2")',
        'semver("", true) == semver("0.0.0")',
        f'{MEMORY}.compareTo(semver("1.0.0")) > 0',
        f'{OURS}.type.isLessThan(quantity("1"))',
        f'{OURS}.driverVersion == "550.54.15"',
        'quantity("2") == quantity("1").add(quantity("1"))',
        f'{OURS}.type < 1 || {OURS}.index < "a" || {OURS}.links.startsWith("a") || {OURS}.type.exists(x, x == "g")',
        'ip("10.0.0.1").family() == 4',
        "1 / 0 == 1",
        "9223372036854775807 + 1 > 0",
        "9223372036854775808 > 0",
        '"\ud800" == "a"',
        '"\\\ud800" == "a"',
    ],
)
def test_unknown(expression: str) -> None:
    """Kubernetes does not decide these either, or by what is not evaluated here."""
    assert Selector(expression).matches(facts()) is None


DRANET = 'device.attributes["dra.net"]'


@pytest.mark.parametrize(
    ("expression", "matches"),
    [
        ("device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'", True),
        ("device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig'", False),
        ("device.attributes['gpu.nvidia.com'].profile == '1g.5gb'", None),
        ("device.attributes['gpu.nvidia.com'].productName.lowerAscii().matches('^.*a100.*$')", False),
        ("device.attributes['gpu.nvidia.com'].productName.lowerAscii().matches('^.*h100.*$')", True),
        ("device.attributes['gpu.nvidia.com'].productName in ['NVIDIA H100 80GB HBM3', 'NVIDIA-H200']", True),
        ('device.attributes["gpu.nvidia.com"].productName.startsWith("A100") &&\n  device.capacity["gpu.nvidia.com"]'
         '.memory.isGreaterThan(quantity("40Gi"))', False),
        (f'{OURS}.index < 2', True),
        ('device.attributes["gpu.nvidia.com"].architecture == "Hopper"', None),
        ('device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("80Gi")) >= 0', True),
        ('device.attributes["driver.example.com"].type == "gpu" && device.capacity["driver.example.com"].memory == '
         'quantity("64Gi")', None),
        (f'has({DRANET}.ifName) && {DRANET}.ifName == "rdma15"', False),
        (f'has({DRANET}.cloudNetwork) ', False),
        (f'{DRANET}.rdma == true && (({DRANET}.ifName.startsWith("gpu") && {DRANET}.ifName.endsWith("rdma0")) || '
         f'({DRANET}.ifName.startsWith("gpu") && {DRANET}.ifName.endsWith("rdma1")))', None),
        ('device.driver == "dra.cpu" && device.attributes["dra.cpu"].numaNodeID in [0, 1]', False),
        ('device.attributes["gpu.nvidia.com"].driverVersion.compareTo(semver("550.0.0")) >= 0', True),
        ('device.attributes["gpu.nvidia.com"].cudaComputeCapability.isGreaterThan(semver("8.0.0"))', None),
        ('cel.bind(dra, device.attributes["dra.example.com"], dra.someBool && dra.anotherBool)', None),
        ("device.attributes['gpu.example.com'].?partition.hasValue()", False),
        ("device.allowMultipleAllocations == true", False),
        ("true", True),
    ],
)  # fmt: skip
def test_expressions_that_drivers_document_are_told(expression: str, matches: bool | None) -> None:
    """None: the device has no such attribute, which is an error in Kubernetes too."""
    assert Selector(expression).read() is not None
    assert Selector(expression).matches(facts()) is matches


def test_what_it_reads_is_known() -> None:
    selector = Selector(f'cel.bind(gpu, {OURS}, gpu . type == "a") && "x" in device.attributes && {MEMORY}.sign() > 0')
    told = selector.read()
    assert told is not None
    assert [each[:3] for each in told.paths] == [
        ("attributes", "gpu.nvidia.com", "type"),
        ("attributes", "x", None),
        ("capacity", "gpu.nvidia.com", "memory"),
    ]
    assert [
        selector.may_read(name) for name in ("gpu.nvidia.com/type", "x/any", "gpu.nvidia.com/memory", "y/type")
    ] == [True, True, False, False]


def test_work_is_taken_before_it_is_done() -> None:
    text = " && ".join([f"{OURS}.index != {number}" for number in range(50, 90)])
    selector, reading = Selector(text), Work(100)
    assert selector.matches(facts(), reading) is None
    assert reading.left < 0
    assert selector.matches(facts(), Work(10_000)) is True
    evaluating = Work(100)
    assert selector.matches(facts(), evaluating) is None
    assert evaluating.left < 0


def test_what_no_api_server_stores_is_not_read() -> None:
    long = facts(attributes={"type": {"string": "g" * (MAX_TEXT + 1)}, "links": {"ints": [1] * (MAX_LIST + 1)}})
    assert Selector(f'{OURS}.type.startsWith("g")').matches(long) is None
    assert Selector(f"1 in {OURS}.links").matches(long) is None
    assert Selector(f"true{' ' * MAX_EXPRESSION}").matches(facts()) is None


def test_true_is_not_one() -> None:
    selector = Selector(f"{OURS}.flag == true")
    assert selector.matches(facts(attributes={"flag": {"bool": True}})) is True
    assert selector.matches(facts(attributes={"flag": {"int": 1}})) is False


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
    ],
)
def test_malformed_values_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        facts(**changes)
