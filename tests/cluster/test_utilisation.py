"""From samples to what is known of a node. Times are made up: `now` is an argument.

Covers cluster.gpu_metrics, cluster.gpu_rows.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from webhook.cluster import gpu_rows
from webhook.cluster.utilisation import (
    UNKNOWN,
    GpuMetricsSettings,
    NodeUse,
    Reading,
    Sample,
    Utilisation,
)

SETTINGS = GpuMetricsSettings(source="dcgm")
"""Window 300 s, stale after 180 s, idle below 30 % and 50 %, hot from 85 °C."""
NAN = float("nan")
START = 1000.0


def gpu(
    node: str = "a",
    name: str = "0",
    *,
    utilisation: float | None = 0.0,
    memory: float | None = 0.0,
    temperature: float | None = 40.0,
    sick: float | None = None,
    engine: float | None = None,
    instance: str = "",
) -> list[Sample]:
    """What a source reads about one GPU; memory in percent of 80,000 MiB."""
    readings = {
        Reading.UTILISATION: utilisation,
        Reading.ENGINE: engine,
        Reading.MEMORY_USED: None if memory is None else 800.0 * memory,
        Reading.MEMORY_FREE: None if memory is None else 800.0 * (100 - memory),
        Reading.TEMPERATURE: temperature,
        Reading.SICK: sick,
    }
    return [Sample(node, name, reading, value, instance) for reading, value in readings.items() if value is not None]


def seen(*samples: list[Sample], settings: GpuMetricsSettings = SETTINGS, now: float = START) -> Utilisation:
    utilisation = Utilisation(settings)
    utilisation.observe([sample for one in samples for sample in one], now)
    return utilisation


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
def test_a_number_that_is_no_measurement_is_counted_and_changes_nothing(
    reading: Reading, value: float, reason: str
) -> None:
    utilisation = seen([Sample("a", "0", reading, value)])
    assert utilisation.ignored == {reason: 1}
    assert utilisation.node("a") == UNKNOWN
    assert utilisation.gpus == 0


def test_a_gpu_whose_utilisation_is_not_known_is_not_counted_at_all() -> None:
    utilisation = seen(gpu(utilisation=None))
    assert utilisation.node("a").measured == 0
    assert utilisation.status(START).reason


def test_the_utilisation_of_a_mig_instance_is_not_believed() -> None:
    """Old exporters say 0 there (dcgm-exporter issue 216)."""
    assert seen(gpu(utilisation=0.0, instance="1")).node("a").measured == 0


def test_a_round_that_is_discarded_leaves_no_trace() -> None:
    utilisation = seen(gpu(utilisation=0.0))
    for sample in gpu(utilisation=95.0):
        utilisation.add(*sample)
    utilisation.discard()
    utilisation.commit(START + 30)
    assert utilisation.node("a").idle == 1


def test_more_gpus_than_there_may_be_are_ignored_and_the_known_ones_go_on() -> None:
    utilisation = Utilisation(SETTINGS, most=2)
    samples = [Sample("a", str(n), Reading.UTILISATION, 0.0) for n in range(3)]
    utilisation.observe([*samples, Sample("a", "0", Reading.TEMPERATURE, 90.0)], START)
    assert (utilisation.gpus, utilisation.ignored["too many GPUs"], utilisation.node("a").hot) == (2, 1, 1)


def test_one_node_cannot_use_up_the_rows_of_all() -> None:
    utilisation = seen([Sample("a", str(n), Reading.UTILISATION, 0.0) for n in range(1000)], gpu("b"))
    assert (utilisation.node("a").measured, utilisation.node("b").measured) == (gpu_rows.MOST_PER_NODE, 1)


def test_gpus_of_the_same_name_on_two_nodes_are_two_gpus() -> None:
    utilisation = seen(gpu("a", utilisation=90.0), gpu("b", utilisation=0.0))
    assert (utilisation.node("a").idle, utilisation.node("b").idle) == (0, 1)


# --- Idle -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("utilisation", "memory", "idle"),
    [
        pytest.param(30.0, 0.0, 0, id="utilisation at its limit"),
        pytest.param(0.0, 50.0, 0, id="memory at its limit"),
        pytest.param(95.0, 90.0, 0, id="both high"),
        pytest.param(0.0, 95.0, 0, id="a loaded model that nobody asks"),
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


def test_the_mean_utilisation_leans_towards_what_was_seen_lately() -> None:
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
    """Time-slicing: the same GPU once per pod. Two replicas of a Prometheus: one lags behind."""
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


def test_the_sickness_of_a_split_gpu_is_that_of_its_instances() -> None:
    use = seen(gpu(utilisation=None, sick=1.0), gpu(instance="1", engine=0.0), gpu(instance="2", engine=0.0)).node("a")
    assert (use.measured, use.sick, use.avoid) == (2, 2, 2)


def test_a_split_gpu_inherits_nothing_from_a_gpu_that_had_its_row_before() -> None:
    utilisation = seen(gpu("gone", temperature=99.0, sick=1.0))
    utilisation.refresh(START + 181)
    utilisation.observe(gpu("a", instance="1", engine=0.0, temperature=None), START + 200)
    assert utilisation.node("a") == pytest.approx(NodeUse(1, 1, 0.0, NAN, 0, 0, 0, 0, 1), nan_ok=True)


def test_a_gpu_without_utilisation_is_judged_by_its_engine() -> None:
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


def test_what_the_policy_does_not_avoid_is_still_told() -> None:
    limits = {"source": "dcgm", "hot": {"avoid": False}, "sick": {"avoid": False}}
    use = seen(gpu(temperature=95.0, sick=1.0), settings=GpuMetricsSettings.model_validate(limits)).node("a")
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
    utilisation = Utilisation(GpuMetricsSettings.model_validate({"source": source}))
    if observed:
        utilisation.observe(gpu(), START)
    status = utilisation.status(START + (age or 0.0))
    assert (status.reason, status.age) == (reason, age)


def test_answers_without_a_gpu_do_not_keep_old_samples_fresh() -> None:
    utilisation = seen(gpu())
    utilisation.observe([], START + 181)
    assert utilisation.status(START + 181).reason
    assert utilisation.node("a") == UNKNOWN


def test_stale_samples_are_taken_back_also_while_nothing_answers() -> None:
    utilisation = seen(gpu("a"), gpu("b"))
    utilisation.changes()
    utilisation.observe(gpu("b"), START + 100)
    utilisation.refresh(START + 181)
    assert utilisation.changes() == [("a", UNKNOWN)]
    assert (utilisation.gpus, utilisation.node("b").measured) == (1, 1)


def test_a_gpu_that_comes_back_starts_a_new_history() -> None:
    utilisation = seen(gpu(utilisation=95.0))
    utilisation.refresh(START + 181)
    utilisation.observe(gpu(utilisation=0.0), START + 200)
    assert utilisation.node("a") == NodeUse(1, 1, 0.0, 40.0, 0, 0, 0, 0, 1)


def test_nodes_that_come_and_go_do_not_fill_the_memory() -> None:
    utilisation = Utilisation(SETTINGS)
    for day in range(50):
        utilisation.observe([s for n in range(10) for s in gpu(f"node-{day}-{n}")], START + 200 * day)
    assert utilisation.gpus == 10
    assert len(utilisation._rows.table) == gpu_rows._FIRST_SIZE
    assert len(utilisation._rows.node_names) <= 20


# --- Changes ----------------------------------------------------------------------------------------------------------


def test_only_what_changed_is_told() -> None:
    utilisation = seen(gpu("a"), gpu("b"))
    assert [name for name, _ in utilisation.changes()] == ["a", "b"]
    utilisation.observe([*gpu("a"), *gpu("b", utilisation=80.0)], START + 30)
    [(name, use)] = utilisation.changes()
    assert (name, use.idle) == ("b", 0)
    assert utilisation.changes() == []


@given(st.lists(st.lists(st.sampled_from("abcdef"), max_size=6), max_size=12), st.integers(0, 2**32))
def test_who_follows_the_changes_knows_what_is_known(rounds: list[list[str]], seed: int) -> None:
    """Nodes appear, vanish and come back on the rows and indices of others."""
    utilisation, told, random = Utilisation(SETTINGS), dict[str, NodeUse](), np.random.default_rng(seed)
    for step, nodes in enumerate(rounds):
        samples = [gpu(n, str(g), utilisation=float(random.integers(0, 100))) for n in nodes for g in range(2)]
        utilisation.observe([s for one in samples for s in one], START + 100 * step)
        told.update(utilisation.changes())
        known = {name: utilisation.node(name) for name in "abcdef"}
        assert {name: use for name, use in told.items() if use.measured} == {
            name: use for name, use in known.items() if use.measured
        }


def test_another_window_forgets_the_history_and_other_limits_do_not() -> None:
    utilisation = seen(gpu(utilisation=95.0))
    utilisation.configure(GpuMetricsSettings.model_validate({"source": "dcgm", "idle": {"utilisation": 99}}))
    utilisation.observe(gpu(utilisation=0.0), START + 30)
    assert utilisation.node("a").idle == 1
    utilisation.configure(GpuMetricsSettings.model_validate({"source": "dcgm", "window": "2m"}))
    utilisation.observe(gpu(utilisation=0.0), START + 60)
    assert utilisation.node("a").idle == 1
    utilisation.configure(GpuMetricsSettings.model_validate({"source": "dcgm", "window": "2m", "idle": {"memory": 60}}))
    utilisation.observe(gpu(utilisation=50.0), START + 90)
    utilisation.observe(gpu(utilisation=0.0), START + 120)
    assert utilisation.node("a").idle == 0


def test_another_source_starts_from_nothing_and_takes_back_what_was_told() -> None:
    utilisation = seen(gpu(utilisation=95.0))
    utilisation.changes()
    utilisation.configure(GpuMetricsSettings())
    assert utilisation.changes() == [("a", UNKNOWN)]
    assert (utilisation.gpus, utilisation.status(START).reason) == (0, "GPU metrics are off")


# --- Settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        pytest.param({"source": "zabbix"}, "'off', 'prometheus' or 'dcgm'", id="a source that is none"),
        pytest.param({"source": "prometheus"}, "http://prometheus.monitoring:9090", id="Prometheus without its URL"),
        pytest.param({"source": "prometheus", "url": "file:///etc/passwd"}, "wanted the base", id="a URL of a file"),
        pytest.param({"source": "prometheus", "url": "http://u:p@h"}, "webhook's own", id="a password in the policy"),
        pytest.param(
            {"source": "dcgm", "queries": {"memoryUsed": "sum(x)"}}, "queries.memoryUsed", id="PromQL for an exporter"
        ),
        pytest.param({"queries": {"utilisation": "", "engine": ""}}, "nothing would say", id="no utilisation at all"),
        pytest.param({"interval": "10 parsecs"}, '"30s", "5m" or "1h"', id="a duration that is none"),
        pytest.param({"interval": "2m"}, "Raise staleAfter", id="polled more rarely than samples grow stale"),
        pytest.param({"idle": {"utilisation": 0}}, "greater than or equal to 1", id="a limit that nothing is below"),
        pytest.param({"idle": {"utilisation": "30 %"}}, "integer", id="a percent sign"),
        pytest.param({"dcgm": {"selector": {}}}, "at least 1", id="a selector that takes every pod"),
        pytest.param({"dcgm": {"namespace": "../nodes"}}, "pattern", id="a namespace that is none"),
        pytest.param({"nodeLabel": "node"}, "Extra inputs", id="a misspelt key"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(settings: dict[str, object], says: str) -> None:
    with pytest.raises(ValidationError) as error:
        GpuMetricsSettings.model_validate(settings)
    assert says in str(error.value)


def test_durations_are_written_as_in_kubernetes() -> None:
    settings = GpuMetricsSettings.model_validate(
        {"interval": "1m", "staleAfter": "0.5h", "window": 120, "timeout": "1500ms"}
    )
    assert (settings.interval, settings.stale_after, settings.window, settings.timeout) == (60, 1800, 120, 1.5)
