"""The GPU metrics of a node in one poll: units, split and shared GPUs, unknown numbers."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.objects import CLUSTER, call, snapshot, write
from webhook.cli.cluster.load import read_snapshot, write_snapshot
from webhook.errors import BadInput
from webhook.nodes.gpu_metrics import GpuMetricsSettings
from webhook.nodes.utilisation import Reading, Sample
from webhook.whatif.cluster.measured import Figures, Measured

SETTINGS = GpuMetricsSettings(source="dcgm")
UTIL, ENGINE, USED, FREE, HEAT, SICK = Reading


def gpu(name: str, *readings: float, instance: str = "", pod: str = "") -> list[Sample]:
    """Samples of node `n`: utilisation, engine, memory used and free, temperature, sick; -1 leaves one out."""
    pairs = zip(Reading, readings, strict=False)
    return [Sample("n", name, reading, value, instance, pod) for reading, value in pairs if value != -1]


def gpus(total: int, allocated: int) -> tuple[int, int]:
    return total, allocated


def busy(count: int) -> list[Sample]:
    return [sample for number in range(count) for sample in gpu(f"busy-{number}", 90)]


def idle(count: int) -> list[Sample]:
    return [sample for number in range(count) for sample in gpu(f"idle-{number}", 1)]


@pytest.mark.parametrize(
    ("samples", "amounts", "sharing", "known"),
    [
        pytest.param([], gpus(8, 4), 1, {}, id="nothing was measured"),
        pytest.param(gpu("0", -1, -1, -1, -1, 71), gpus(1, 0), 1, {"temperature": 71, "sick": 0}, id="only the heat"),
        pytest.param(
            gpu("0", 40, -1, 1024, 3072, 71, 1) + gpu("1", 20, -1, 0, 4096, 64),
            gpus(2, 2),
            1,
            {
                "measured": 2,
                "utilisation": 30,
                "idle": 1,
                "memory": {"used": 1024, "total": 8192},
                "temperature": 71,
                "sick": 1,
            },
            id="percent, MiB, degrees of the hottest",
        ),
        pytest.param(
            gpu("0", 100, -1, 900, 100)
            + gpu("0", -1, 0.2, 100, 300, instance="1")
            + gpu("0", -1, 0.4, 0, 600, instance="2"),
            gpus(2, 1),
            1,
            {"measured": 2, "utilisation": 30, "idle": 0, "memory": {"used": 100, "total": 1000}, "sick": 0},
            id="a split GPU is its instances",
        ),
        pytest.param(gpu("0", 2.0**47, -1, 1.0, 2.0**40, -300), gpus(1, 1), 1, {"sick": 0}, id="numbers that stand for «not known»"),
    ],
)  # fmt: skip
def test_the_keys_that_are_known(
    samples: list[Sample], amounts: tuple[int, int], sharing: float, known: dict[str, Any]
) -> None:
    assert Figures(Measured("dcgm", samples), SETTINGS).of("n", *amounts, sharing) == known


@pytest.mark.parametrize(
    ("samples", "amounts", "sharing", "count"),
    [
        pytest.param(idle(8), gpus(8, 0), 1, 0, id="free GPUs are idle as they should be"),
        pytest.param(idle(8), gpus(8, 6), 1, 6, id="six of eight allocated, and none works"),
        pytest.param(idle(3) + busy(5), gpus(8, 6), 1, 1, id="of three idle ones two are the free ones"),
        pytest.param(busy(8), gpus(8, 8), 1, 0, id="all work"),
        pytest.param(idle(2), gpus(8, 6), 1, 0, id="two were measured, which may be the free ones"),
        pytest.param(idle(2), gpus(8, 3), 4, 1, id="four pods share a GPU"),
        pytest.param(idle(8), gpus(0, 0), 1, 0, id="its device plugin offers none"),
    ],
)
def test_allocated_gpus_without_work_are_idle(
    samples: list[Sample], amounts: tuple[int, int], sharing: float, count: int
) -> None:
    assert Figures(Measured("dcgm", samples), SETTINGS).of("n", *amounts, sharing)["idle"] == count


def has(name: str, gpus: float, **more: Any) -> dict[str, Any]:
    return {"namespace": "t", "name": name, "gpus": {"nvidia.com/gpu": gpus}, **more}


NAMED = gpu("0", 1, pod="t/one") + gpu("1", 90, pod="t/one") + gpu("2", 1, pod="t/two") + gpu("3", 1)


@pytest.mark.parametrize(
    ("pods", "sharing", "known", "idle"),
    [
        pytest.param([has("other", 4)], 1, {}, 3, id="a pod that no label names"),
        pytest.param([has("one", 2) | {"namespace": "u"}, has("other", 2)], 1, {}, 3, id="a name of another namespace"),
        pytest.param([has("one", 1), has("other", 3)], 1, {}, 3, id="named for more than it has"),
        pytest.param([has("two", 0.5), has("other", 0.5), has("more", 3)], 1, {}, 3, id="a part of a GPU"),
        pytest.param([has("two", 1, shared={"t/claim": {"nvidia.com/gpu": 1}}), has("other", 3)], 1, {}, 3, id="a shared claim"),
        pytest.param([has("one", 2), has("other", 2)], 2, {}, 1, id="a GPU that several pods share"),
        pytest.param([has("one", 2), has("two", 1)], 1, {"one": (2, 1), "two": (1, 1)}, 2, id="all that have GPUs: the fourth is free"),
        pytest.param([has("one", 2), has("other", 2)], 1, {"one": (2, 1)}, 3, id="one of two: the rest is the other's"),
        pytest.param([has("one", 3)], 1, {"one": (2, 1)}, 2, id="a part of what it has: of the other two one is free"),
    ],
)  # fmt: skip
def test_the_idle_gpus_of_the_pods_that_labels_name(
    pods: list[dict[str, Any]], sharing: float, known: dict[str, tuple[int, int]], idle: int
) -> None:
    figures = Figures(Measured("dcgm", NAMED), SETTINGS)
    found = list(figures.with_pods("n", pods, sharing))
    assert {pod["name"]: (pod["measured"], pod["idle"]) for pod in found if "measured" in pod} == known
    assert [{key: pod[key] for key in pod if key not in ("measured", "idle")} for pod in found] == pods
    allocated = int(sum(pod["gpus"]["nvidia.com/gpu"] for pod in pods))
    assert figures.of("n", 4 * int(sharing), allocated, sharing, found)["idle"] == idle


def test_the_policy_has_the_limits_of_idle() -> None:
    strict = GpuMetricsSettings.model_validate({"source": "dcgm", "idle": {"utilisation": 1}})
    assert Figures(Measured("dcgm", idle(1)), strict).of("n", 1, 1, 1)["idle"] == 0


def test_a_snapshot_keeps_the_samples_also_without_names(tmp_path: Path) -> None:
    found = snapshot(tmp_path, *CLUSTER)
    samples = [
        *[sample._replace(node="gpu-a") for sample in gpu("GPU-3b5f0c1e", 40, -1, 1024, 3072, 71)],
        *[sample._replace(node="gpu-a") for sample in gpu("GPU-3b5f0c1f", 0, pod="team-a/train")],
    ]
    found.measured = Measured("prometheus", samples)
    write_snapshot(found, tmp_path / "kept.json")
    again = read_snapshot(tmp_path / "kept.json")
    assert again.measured == found.measured
    assert call("snapshot", "--anonymous", tmp_path / "none.json", "--from", tmp_path / "kept.json").exit_code == 0
    hashed = read_snapshot(tmp_path / "none.json").measured
    assert hashed is not None
    assert {(sample.gpu, sample.node in ("", "gpu-a")) for sample in hashed.samples} == {
        ("gpu-0", False),
        ("gpu-1", False),
    }
    assert ("team-a" in str(hashed), "train" in str(hashed), hashed.samples[-1].pod.count("/")) == (False, False, 1)
    assert [sample.value for sample in hashed.samples] == [sample.value for sample in samples]
    shown = call("top", "--from", tmp_path / "none.json").stdout
    assert "71 °C" in shown


@pytest.mark.parametrize("measured", [7, {}, {"source": "dcgm", "samples": [["n", "0", "no such reading", 1, ""]]}])
def test_numbers_of_another_form_are_refused(measured: Any) -> None:
    with pytest.raises(BadInput, match=r"^f: snapshot\.gpuMetrics: saw .*, wanted source and samples"):
        Measured.read(measured, "f")


def test_a_malformed_time_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path, *CLUSTER, taken="yesterday")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match=r'snapshot\.taken: saw "yesterday", wanted seconds since 1970'):
        read_snapshot(file)
