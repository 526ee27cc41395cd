"""From samples to the metrics of a node. There is no clock: `now` is an argument."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.nodes.samples import NAN, SETTINGS, START, changes, gpu, seen
from webhook.nodes import utilisation as utilisation_module
from webhook.nodes.gpu_metrics import GpuMetricsSettings
from webhook.nodes.utilisation import MAX_PER_NODE, UNKNOWN, NodeUse, PodUse, Reading, Sample, Utilisation

Samples = list[Sample]


def settings(**more: Any) -> GpuMetricsSettings:
    return GpuMetricsSettings.model_validate({"source": "dcgm", **more})


# --- What must be ignored ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reading", "value", "reason"),
    [
        pytest.param(Reading.UTILISATION, NAN, "not a number", id="a utilisation that is NaN"),
        pytest.param(Reading.UTILISATION, math.inf, "out of range", id="an infinite utilisation"),
        pytest.param(Reading.UTILISATION, -1.0, "out of range", id="a negative utilisation"),
        pytest.param(Reading.UTILISATION, 100.5, "out of range", id="more than 100 percent"),
        pytest.param(Reading.UTILISATION, 9223372036854775794, "out of range", id="what DCGM writes for a blank int64"),
        pytest.param(Reading.MEMORY_USED, 2147483632, "out of range", id="what DCGM writes for a blank int32"),
        pytest.param(Reading.TEMPERATURE, 140737488355328.0, "out of range", id="what DCGM writes for a blank double"),
        pytest.param(Reading.ENGINE, 55.0, "out of range", id="a ratio written as percent"),
        pytest.param(Reading.MEMORY_USED, 10**400, "out of range", id="an integer that no float can hold"),
    ],
)
def test_an_invalid_number_is_counted_and_changes_nothing(reading: Reading, value: float, reason: str) -> None:
    utilisation = seen([Sample("a", "0", reading, value)])
    assert (utilisation.ignored, utilisation.node("a"), utilisation.gpus) == ({reason: 1}, UNKNOWN, 0)


@pytest.mark.parametrize("looked_at", [True, False])
def test_a_round_that_is_discarded_leaves_no_trace(looked_at: bool) -> None:
    utilisation = Utilisation(SETTINGS)
    for now, percent in ((START, 0.0), (START + 30, 95.0)):
        utilisation.discard()
        for sample in gpu(utilisation=percent):
            utilisation.add(*sample)
        if percent:
            utilisation.discard()
        utilisation.commit(now)
        assert not looked_at or utilisation.node("a").idle == 1
    assert utilisation.node("a").idle == looked_at
    assert not utilisation.ignored


def test_gpus_beyond_the_limit_are_ignored_and_the_known_ones_are_updated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(utilisation_module, "MAX_GPUS", 2)
    samples = [Sample("a", str(n), Reading.UTILISATION, 0.0) for n in range(3)]
    utilisation = seen([*samples, Sample("a", "0", Reading.TEMPERATURE, 90.0)])
    assert (utilisation.gpus, utilisation.ignored["too many GPUs"], utilisation.node("a").hot) == (2, 1, 1)


def test_one_node_cannot_use_up_the_rows_of_all() -> None:
    utilisation = seen([Sample("a", str(n), Reading.UTILISATION, 0.0) for n in range(1000)], gpu("b"))
    assert (utilisation.node("a").measured, utilisation.node("b").measured) == (MAX_PER_NODE, 1)


# --- One round --------------------------------------------------------------------------------------------------------

SPLIT = [
    *gpu(utilisation=None, memory=None, temperature=88.0, engine=0.9),
    *gpu(instance="1", utilisation=0.0, temperature=None, engine=0.9),
    *gpu(instance="2", utilisation=0.0, temperature=None, engine=0.05),
    *gpu(name="1"),
]
SICK = [*gpu(utilisation=None, sick=1.0), *gpu(instance="1", engine=0.0), *gpu(instance="2", engine=0.0)]
LOST = gpu(utilisation=None, memory=None, temperature=None, sick=1.0)
TWICE = [*gpu(utilisation=80.0, memory=70.0), *gpu(utilisation=10.0, memory=20.0)]
"""With time-slicing, a GPU is reported once per pod. Of two Prometheus replicas, one lags behind."""


@pytest.mark.parametrize(
    ("samples", "wanted"),
    [
        pytest.param(gpu(utilisation=30.0), {"idle": 0}, id="utilisation at its limit"),
        pytest.param(gpu(memory=50.0), {"idle": 0}, id="memory at its limit"),
        pytest.param(gpu(memory=95.0), {"idle": 0}, id="a loaded model without requests"),
        pytest.param(gpu(utilisation=29.9, memory=49.9), {"idle": 1}, id="both just below"),
        pytest.param(gpu(memory=None), {"idle": 1, "full": 0}, id="memory not known: judged by utilisation"),
        pytest.param(gpu(utilisation=None), {"measured": 0, "known": 1}, id="utilisation not known"),
        pytest.param(gpu(utilisation=None, engine=0.75), {"measured": 1, "idle": 0, "utilisation": 0.75}, id="its engine"),
        pytest.param(gpu(instance="1"), {"measured": 0}, id="a MIG instance: old exporters report 0 (dcgm-exporter issue 216)"),
        pytest.param(SPLIT, {"measured": 3, "idle": 2, "hottest": 88.0, "hot": 2}, id="a split GPU is its instances"),
        pytest.param(SICK, {"measured": 2, "sick": 2, "avoid": 2}, id="the instances of a sick GPU are sick"),
        pytest.param(LOST, {"measured": 0, "idle": 0, "sick": 1, "avoid": 1}, id="a lost GPU, on which nothing is measured"),
        pytest.param(gpu(temperature=84.0, sick=0.0), {"avoid": 0}, id="warm and healthy"),
        pytest.param(gpu(temperature=None), {"avoid": 0}, id="of unknown temperature"),
        pytest.param(gpu(temperature=85.0), {"hot": 1, "avoid": 1}, id="hot"),
        pytest.param(gpu(sick=1.0), {"sick": 1, "avoid": 1}, id="sick"),
        pytest.param(gpu(temperature=99.0, sick=1.0), {"avoid": 1}, id="hot and sick, once"),
        pytest.param(gpu(utilisation=90.0, temperature=99.0), {"busy": 1, "hot": 1, "avoid": 0}, id="hot and busy, once"),
        pytest.param(gpu(memory=97.9), {"full": 0}, id="nearly full"),
        pytest.param(gpu(memory=98.0), {"full": 1}, id="full"),
        pytest.param(TWICE, {"idle": 0, "utilisation": 0.8}, id="of two numbers the busier one"),
        pytest.param(TWICE[::-1], {"idle": 0, "utilisation": 0.8}, id="in either order"),
        pytest.param(gpu(utilisation=90.0) + gpu("b"), {"measured": 1, "idle": 0}, id="the same name on another node"),
    ],
)  # fmt: skip
def test_the_metrics_of_a_node(samples: Samples, wanted: dict[str, float]) -> None:
    use = seen(samples).node("a")._asdict()
    assert {key: use[key] for key in wanted} == wanted


def test_limits_and_what_is_avoided_are_those_of_the_policy() -> None:
    low, forgiving = (
        settings(idle={"utilisation": 5, "memory": 10}),
        settings(hot={"avoid": False}, sick={"avoid": False}),
    )
    assert seen(gpu(utilisation=6.0), settings=low).node("a").idle == 0
    assert seen(gpu(utilisation=4.0, memory=9.0), settings=low).node("a").idle == 1
    use = seen(gpu(temperature=95.0, sick=1.0), settings=forgiving).node("a")
    assert (use.hot, use.sick, use.avoid, use.hottest) == (1, 1, 0, 95.0)


# --- Age --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "observed", "age", "reason"),
    [
        pytest.param("off", True, None, "GPU metrics are off", id="switched off"),
        pytest.param("dcgm", False, None, "no GPU metrics yet", id="just started"),
        pytest.param("dcgm", True, 181.0, "GPU metrics are stale", id="too old"),
        pytest.param("dcgm", True, 180.0, "", id="old enough to notice, not to refuse"),
    ],
)
def test_the_status_says_why_there_is_nothing_to_rank_by(
    source: str, observed: bool, age: float | None, reason: str
) -> None:
    utilisation = Utilisation(settings(source=source))
    utilisation.observe(gpu() if observed else gpu(utilisation=None), START)
    status = utilisation.status(START + (age or 0.0))
    assert (status.reason, status.age) == (reason, age)


def test_stale_samples_are_dropped_also_while_no_source_answers_or_none_has_a_gpu() -> None:
    utilisation = seen(gpu("a"), gpu("b"))
    changes(utilisation)
    utilisation.observe(gpu("b"), START + 100)
    utilisation.observe([], START + 181)
    assert changes(utilisation) == [("a", UNKNOWN)]
    assert (utilisation.gpus, utilisation.node("b").measured) == (1, 1)
    utilisation.observe([], START + 281)
    assert changes(utilisation) == [("b", UNKNOWN)]
    assert (utilisation.gpus, utilisation.nodes()) == (0, [])
    assert utilisation.status(START + 281).reason


def test_a_gpu_that_comes_back_starts_a_new_history() -> None:
    utilisation = seen(gpu(utilisation=95.0, temperature=99.0, sick=1.0))
    utilisation.observe([], START + 181)
    changes(utilisation)
    utilisation.observe(gpu(), START + 200)
    assert utilisation.node("a") == NodeUse(1, 1, 0.0, 40.0, 0, 0, 0, 0, 1)


# --- Changes ----------------------------------------------------------------------------------------------------------


def test_only_changed_nodes_are_reported() -> None:
    utilisation = seen(gpu("a"), gpu("b"))
    assert [name for name, _ in changes(utilisation)] == ["a", "b"]
    utilisation.observe([*gpu("a"), *gpu("b", utilisation=80.0)], START + 30)
    [(name, use)] = changes(utilisation)
    assert (name, use.idle) == ("b", 0)
    assert changes(utilisation) == []


@given(st.lists(st.lists(st.sampled_from("abcdef"), max_size=6), max_size=12), st.integers(0, 2**32))
def test_the_changes_add_up_to_the_metrics(rounds: list[list[str]], seed: int) -> None:
    """Nodes appear, vanish, and come back on rows and indices of others."""
    utilisation, told, random = Utilisation(SETTINGS), dict[str, NodeUse](), np.random.default_rng(seed)
    for step, nodes in enumerate(rounds):
        samples = [gpu(n, str(g), utilisation=float(random.integers(0, 100))) for n in nodes for g in range(2)]
        utilisation.observe([s for one in samples for s in one], START + 100 * step)
        told.update(changes(utilisation))
        known = {name: utilisation.node(name) for name in "abcdef"}
        assert {name: use for name, use in told.items() if use.measured} == {
            name: use for name, use in known.items() if use.measured
        }


def test_another_window_holds_at_once_and_other_limits_from_the_next_sample_on() -> None:
    utilisation = seen(gpu(utilisation=95.0))
    utilisation.configure(settings(idle={"utilisation": 99}))
    utilisation.observe(gpu(utilisation=95.0), START + 30)
    assert utilisation.node("a").idle == 0, "it was used five minutes ago or less, by the limit of that time"
    utilisation.configure(settings(window="20s"))
    utilisation.observe(gpu(), START + 60)
    assert utilisation.node("a").idle == 1


def test_another_source_starts_from_nothing_and_withdraws_the_metrics_of_the_old_one() -> None:
    utilisation = seen(gpu(utilisation=95.0))
    changes(utilisation)
    utilisation.configure(GpuMetricsSettings())
    assert changes(utilisation) == [("a", UNKNOWN)]
    assert (utilisation.gpus, utilisation.status(START).reason) == (0, "GPU metrics are off")


# --- Several rounds ---------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.floats(0.1, 120.0), st.floats(0, 100)), min_size=1, max_size=60))
def test_idle_means_below_the_limit_at_every_sample_of_the_window(steps: list[tuple[float, float]]) -> None:
    """So a pause between two batches does not look idle."""
    utilisation, now, history = Utilisation(SETTINGS), START, []
    for pause, percent in steps:
        now += pause
        history.append((now, percent))
        utilisation.observe(gpu(utilisation=percent), now)
        idle = utilisation.node("a").idle
        if any(at > now - 300 and p >= 30 for at, p in history):
            assert idle == 0
        if all(p < 30 for at, p in history if at > now - 320.001):  # the window and one stretch
            assert idle == 1


def test_recent_samples_weigh_more_in_the_mean_utilisation() -> None:
    utilisation = seen(gpu(utilisation=100.0), gpu(name="1"))
    assert utilisation.node("a").utilisation == 0.5
    utilisation.observe([*gpu(), *gpu(name="1")], START + 150)
    assert utilisation.node("a").utilisation == pytest.approx(0.5 * math.exp(-0.5), abs=0.006)


# --- Pods, and how long ------------------------------------------------------------------------------------------------

BOTH = gpu(pod="t/one") + gpu(name="1", utilisation=90.0, pod="t/one") + gpu(name="2", pod="t/two") + gpu(name="3")
INSTANCES = gpu(instance="1", engine=0.0, pod="t/one") + gpu(instance="2", engine=0.9, pod="t/two")


@pytest.mark.parametrize(
    ("samples", "pods"),
    [
        pytest.param(gpu(), {}, id="no pod is named"),
        pytest.param(gpu(pod="t/one") + gpu(pod="t/two"), {}, id="two pods share a GPU"),
        pytest.param(gpu(pod="t/one") + gpu(pod="t/two") + gpu(pod="t/one"), {}, id="in any order"),
        pytest.param(gpu(utilisation=None, pod="t/one"), {}, id="a GPU that is not measured"),
        pytest.param(BOTH, {"t/one": (2, 1), "t/two": (1, 1)}, id="two pods and a free GPU"),
        pytest.param(gpu() + gpu(utilisation=None, pod="t/one"), {"t/one": (1, 1)}, id="some of the numbers"),
        pytest.param(gpu(utilisation=None, pod="t/whole") + INSTANCES, {"t/one": (1, 1), "t/two": (1, 0)}, id="MIG instances"),
    ],
)  # fmt: skip
def test_the_idle_gpus_of_a_pod(samples: Samples, pods: dict[str, tuple[int, int]]) -> None:
    assert {each.pod: (each.gpus, each.idle) for each in seen(samples).node("a").pods} == pods


def test_a_gpu_is_of_the_pod_that_the_last_round_names_and_idle_since_then() -> None:
    utilisation = seen(gpu())
    for second in range(300, 7201, 300):
        utilisation.observe(gpu(pod="t/late" if second > 3600 else ""), START + second)
        node = utilisation.node("a")
        assert node.idle_for == (second == 3600, 0, 0), "since the first sample of this program, or since its pod came"
    utilisation.observe(gpu(pod="t/late"), START + 7500)
    node = utilisation.node("a")
    assert (node.idle_for, node.pods) == ((1, 0, 0), (PodUse("t/late", 1, 1, (1, 0, 0)),))
    utilisation.observe(gpu(), START + 7530)
    assert (utilisation.node("a").idle_for, utilisation.node("a").pods) == ((0, 0, 0), ())
    utilisation.observe(gpu(utilisation=60.0), START + 7560)
    for second in range(7800, 11_100, 300):
        utilisation.observe(gpu(), START + second)
        assert utilisation.node("a").idle_for == (0, 0, 0), "it was busy less than an hour ago"
