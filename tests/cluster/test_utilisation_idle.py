"""When a GPU is idle, busy, or to be avoided."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cluster.samples import SETTINGS, START, gpu, seen
from webhook.cluster.gpu_metrics import GpuMetricsSettings
from webhook.cluster.utilisation import NodeUse, PodUse, Sample, Utilisation


@pytest.mark.parametrize(
    ("utilisation", "memory", "idle"),
    [
        pytest.param(30.0, 0.0, 0, id="utilisation at its limit"),
        pytest.param(0.0, 50.0, 0, id="memory at its limit"),
        pytest.param(95.0, 90.0, 0, id="both high"),
        pytest.param(0.0, 95.0, 0, id="a loaded model without requests"),
        pytest.param(29.9, 49.9, 1, id="both just below"),
        pytest.param(0.0, 0.0, 1, id="nothing at all"),
        pytest.param(0.0, None, 1, id="memory not known: judged by utilisation"),
    ],
)
def test_a_gpu_is_idle_below_both_limits(utilisation: float, memory: float | None, idle: int) -> None:
    assert seen(gpu(utilisation=utilisation, memory=memory)).node("a").idle == idle


def test_the_limits_are_those_of_the_policy() -> None:
    settings = GpuMetricsSettings.model_validate({"source": "dcgm", "idle": {"utilisation": 5, "memory": 10}})
    assert seen(gpu(utilisation=6.0), settings=settings).node("a").idle == 0
    assert seen(gpu(utilisation=4.0, memory=9.0), settings=settings).node("a").idle == 1


def test_a_pause_between_two_batches_does_not_look_idle() -> None:
    utilisation = seen(gpu(utilisation=95.0))
    for second in range(30, 301, 30):
        utilisation.observe(gpu(utilisation=0.0), START + second)
        assert utilisation.node("a").idle == 0, f"{second} s after it was busy"


def test_a_gpu_that_stays_quiet_for_the_window_becomes_idle() -> None:
    utilisation = seen(gpu(utilisation=95.0, memory=80.0))
    for second in range(30, 391, 30):
        utilisation.observe(gpu(utilisation=0.0), START + second)
    assert utilisation.node("a").idle == 1


def test_one_busy_sample_ends_the_idleness_at_once() -> None:
    utilisation = seen(gpu())
    utilisation.observe(gpu(utilisation=60.0), START + 30)
    assert utilisation.node("a").idle == 0


@given(
    st.lists(st.tuples(st.floats(0.1, 120.0), st.floats(0, 100)), min_size=1, max_size=60),
)
def test_idle_means_below_the_limit_at_every_sample_of_the_window(steps: list[tuple[float, float]]) -> None:
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
    utilisation = seen(gpu(utilisation=100.0), gpu(name="1", utilisation=0.0))
    assert utilisation.node("a").utilisation == 0.5
    utilisation.observe([*gpu(utilisation=0.0), *gpu(name="1", utilisation=0.0)], START + 150)
    assert utilisation.node("a").utilisation == pytest.approx(0.5 * math.exp(-0.5), abs=0.006)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=30))
def test_the_mean_utilisation_lies_between_the_lowest_and_the_highest(percents: list[float]) -> None:
    utilisation = Utilisation(SETTINGS)
    for step, percent in enumerate(percents):
        utilisation.observe(gpu(utilisation=percent), START + 30 * step)
    assert min(percents) / 100 - 0.0051 <= utilisation.node("a").utilisation <= max(percents) / 100 + 0.0051


def test_of_two_numbers_for_one_gpu_the_busier_counts_in_either_order() -> None:
    """With time-slicing, a GPU is reported once per pod. Of two Prometheus replicas, one lags behind."""
    for order in (1, -1):
        samples = [*gpu(utilisation=80.0, memory=70.0), *gpu(utilisation=10.0, memory=20.0)][::order]
        utilisation = seen(samples, gpu("b"))
        assert utilisation.node("a").idle == 0
        assert utilisation.node("a").utilisation == 0.8
        assert utilisation.ignored == {"duplicate": 4}


# --- MIG --------------------------------------------------------------------------------------------------------------


def test_a_split_gpu_is_counted_as_its_instances() -> None:
    use = seen(
        gpu(utilisation=None, memory=None, temperature=88.0, engine=0.9),
        gpu(instance="1", utilisation=0.0, temperature=None, engine=0.9),
        gpu(instance="2", utilisation=0.0, temperature=None, engine=0.05),
        gpu(name="1"),
    ).node("a")
    assert (use.measured, use.idle, use.hottest, use.hot) == (3, 2, 88.0, 2)


def test_the_instances_of_a_sick_gpu_are_sick() -> None:
    use = seen(gpu(utilisation=None, sick=1.0), gpu(instance="1", engine=0.0), gpu(instance="2", engine=0.0)).node("a")
    assert (use.measured, use.sick, use.avoid) == (2, 2, 2)


def test_a_split_gpu_inherits_nothing_from_a_gpu_that_had_its_row_before() -> None:
    utilisation = seen(gpu("gone", temperature=99.0, sick=1.0))
    utilisation.refresh(START + 181)
    utilisation.observe(gpu("a", instance="1", engine=0.0, temperature=None), START + 200)
    use = utilisation.node("a")
    assert (use._replace(hottest=0.0), math.isnan(use.hottest)) == (NodeUse(1, 1, 0.0, 0.0, 0, 0, 0, 0, 1), True)


def test_a_gpu_without_utilisation_is_measured_by_its_engine() -> None:
    use = seen(gpu(utilisation=None, engine=0.75)).node("a")
    assert (use.measured, use.idle, use.utilisation) == (1, 0, 0.75)


# --- Hot and sick -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("temperature", "sick", "avoided"),
    [
        pytest.param(84.0, None, 0, id="warm"),
        pytest.param(None, None, 0, id="of unknown temperature"),
        pytest.param(40.0, 0.0, 0, id="healthy"),
        pytest.param(85.0, None, 1, id="hot"),
        pytest.param(40.0, 1.0, 1, id="sick"),
        pytest.param(99.0, 1.0, 1, id="hot and sick, once"),
    ],
)
def test_hot_and_sick_gpus_are_to_be_avoided(temperature: float | None, sick: float | None, avoided: int) -> None:
    assert seen(gpu(temperature=temperature, sick=sick)).node("a").avoid == avoided


def test_a_lost_gpu_is_sick_although_nothing_more_is_measured_on_it() -> None:
    use = seen(gpu(utilisation=None, memory=None, temperature=None, sick=1.0)).node("a")
    assert (use.measured, use.idle, use.sick, use.avoid) == (0, 0, 1, 1)


def test_gpus_that_the_policy_does_not_avoid_are_still_reported() -> None:
    limits = {"source": "dcgm", "hot": {"avoid": False}, "sick": {"avoid": False}}
    use = seen(gpu(temperature=95.0, sick=1.0), settings=GpuMetricsSettings.model_validate(limits)).node("a")
    assert (use.hot, use.sick, use.avoid, use.hottest) == (1, 1, 0, 95.0)


def test_how_long_a_gpu_is_idle_begins_with_the_first_sample_of_this_program() -> None:
    utilisation = seen(gpu())
    for second in range(300, 3600, 300):
        utilisation.observe(gpu(), START + second)
        assert utilisation.node("a").idle_for == (0, 0, 0), f"{second} s after the first sample"
    utilisation.observe(gpu(), START + 3600)
    assert (utilisation.node("a").idle, utilisation.node("a").idle_for) == (1, (1, 0, 0))
    utilisation.observe(gpu(utilisation=60.0), START + 3630)
    for second in range(3900, 7200, 300):
        utilisation.observe(gpu(), START + second)
        assert utilisation.node("a").idle_for == (0, 0, 0), "it was busy less than an hour ago"


@pytest.mark.parametrize(("memory", "full"), [(97.9, 0), (98.0, 1), (100.0, 1), (None, 0)])
def test_a_gpu_is_full_with_nearly_no_memory_left(memory: float | None, full: int) -> None:
    assert seen(gpu(memory=memory)).node("a").full == full


# --- Pods -------------------------------------------------------------------------------------------------------------


def pods_of(utilisation: Utilisation) -> dict[str, tuple[int, int]]:
    """How many measured GPUs each pod has on node a, and how many of them are idle."""
    return {each.pod: (each.gpus, each.idle) for each in utilisation.node("a").pods}


@pytest.mark.parametrize(
    ("samples", "pods"),
    [
        pytest.param(gpu(), {}, id="no pod is named"),
        pytest.param(gpu(pod="t/one") + gpu(pod="t/two"), {}, id="two pods share a GPU"),
        pytest.param(gpu(pod="t/one") + gpu(pod="t/two") + gpu(pod="t/one"), {}, id="in any order"),
        pytest.param(gpu(utilisation=None, pod="t/one"), {}, id="a GPU that is not measured"),
        pytest.param(
            gpu(pod="t/one") + gpu(name="1", utilisation=90.0, pod="t/one") + gpu(name="2", pod="t/two") + gpu(name="3"),
            {"t/one": (2, 1), "t/two": (1, 1)},
            id="two pods and a free GPU",
        ),
        pytest.param(gpu() + gpu(utilisation=None, pod="t/one"), {"t/one": (1, 1)}, id="some of the numbers"),
        pytest.param(
            gpu(utilisation=None, pod="t/whole")
            + gpu(instance="1", engine=0.0, pod="t/one")
            + gpu(instance="2", engine=0.9, pod="t/two"),
            {"t/one": (1, 1), "t/two": (1, 0)},
            id="each MIG instance has its own",
        ),
    ],
)  # fmt: skip
def test_the_idle_gpus_of_a_pod(samples: list[Sample], pods: dict[str, tuple[int, int]]) -> None:
    assert pods_of(seen(samples)) == pods


def test_a_gpu_is_of_the_pod_that_the_last_round_names() -> None:
    utilisation = seen(gpu(pod="t/one"))
    utilisation.observe(gpu(pod="t/two"), START + 30)
    assert pods_of(utilisation) == {"t/two": (1, 1)}
    utilisation.observe(gpu(), START + 60)
    assert pods_of(utilisation) == {}


def test_how_long_a_gpu_is_idle_begins_with_its_pod() -> None:
    utilisation = seen(gpu())
    for second in range(300, 7201, 300):
        utilisation.observe(gpu(pod="t/late" if second > 3600 else ""), START + second)
        node = utilisation.node("a")
        assert node.idle_for[0] == (second == 3600), "a new pod is not idle since before it came"
    utilisation.observe(gpu(pod="t/late"), START + 7500)
    node = utilisation.node("a")
    assert (node.idle_for, node.pods) == ((1, 0, 0), (PodUse("t/late", 1, 1, (1, 0, 0)),))
