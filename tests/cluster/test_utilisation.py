"""From samples to the metrics of a node. There is no clock: `now` is an argument."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cluster.samples import NAN, SETTINGS, START, changes, gpu, seen
from webhook.cluster.gpu_metrics import GpuMetricsSettings
from webhook.cluster.utilisation import MAX_PER_NODE, UNKNOWN, NodeUse, Reading, Sample, Utilisation

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
    assert utilisation.ignored == {reason: 1}
    assert utilisation.node("a") == UNKNOWN
    assert utilisation.gpus == 0


def test_a_gpu_whose_utilisation_is_not_known_is_not_counted_at_all() -> None:
    utilisation = seen(gpu(utilisation=None))
    assert utilisation.node("a").measured == 0
    assert utilisation.status(START).reason


def test_the_utilisation_of_a_mig_instance_is_ignored() -> None:
    """Old exporters report 0 for it (dcgm-exporter issue 216)."""
    assert seen(gpu(utilisation=0.0, instance="1")).node("a").measured == 0


def test_a_round_that_is_discarded_leaves_no_trace() -> None:
    utilisation = seen(gpu(utilisation=0.0))
    for sample in gpu(utilisation=95.0):
        utilisation.add(*sample)
    utilisation.discard()
    utilisation.commit(START + 30)
    assert utilisation.node("a").idle == 1


def test_a_round_that_nobody_has_looked_at_is_replaced_by_the_next_one() -> None:
    utilisation = Utilisation(SETTINGS)
    for now in (START, START + 30):
        utilisation.discard()
        for sample in gpu():
            utilisation.add(*sample)
        utilisation.commit(now)
    assert utilisation.node("a").idle == 1
    assert not utilisation.ignored


def test_gpus_beyond_the_limit_are_ignored_and_the_known_ones_are_updated() -> None:
    utilisation = Utilisation(SETTINGS, max_gpus=2)
    samples = [Sample("a", str(n), Reading.UTILISATION, 0.0) for n in range(3)]
    utilisation.observe([*samples, Sample("a", "0", Reading.TEMPERATURE, 90.0)], START)
    assert (utilisation.gpus, utilisation.ignored["too many GPUs"], utilisation.node("a").hot) == (2, 1, 1)


def test_one_node_cannot_use_up_the_rows_of_all() -> None:
    utilisation = seen([Sample("a", str(n), Reading.UTILISATION, 0.0) for n in range(1000)], gpu("b"))
    assert (utilisation.node("a").measured, utilisation.node("b").measured) == (MAX_PER_NODE, 1)


def test_gpus_of_the_same_name_on_two_nodes_are_two_gpus() -> None:
    utilisation = seen(gpu("a", utilisation=90.0), gpu("b", utilisation=0.0))
    assert (utilisation.node("a").idle, utilisation.node("b").idle) == (0, 1)


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


def test_stale_samples_are_dropped_also_while_no_source_answers() -> None:
    utilisation = seen(gpu("a"), gpu("b"))
    changes(utilisation)
    utilisation.observe(gpu("b"), START + 100)
    utilisation.refresh(START + 181)
    assert changes(utilisation) == [("a", UNKNOWN)]
    assert (utilisation.gpus, utilisation.node("b").measured) == (1, 1)


def test_a_gpu_that_comes_back_starts_a_new_history() -> None:
    utilisation = seen(gpu(utilisation=95.0))
    utilisation.refresh(START + 181)
    changes(utilisation)
    utilisation.observe(gpu(utilisation=0.0), START + 200)
    assert utilisation.node("a") == NodeUse(1, 1, 0.0, 40.0, 0, 0, 0, 0, 1)


def test_nodes_that_come_and_go_do_not_fill_the_memory() -> None:
    utilisation = Utilisation(SETTINGS)
    for day in range(50):
        utilisation.observe([s for n in range(10) for s in gpu(f"node-{day}-{n}")], START + 200 * day)
        changes(utilisation)
    assert utilisation.gpus == len(utilisation.nodes()) == 10


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
    utilisation.configure(GpuMetricsSettings.model_validate({"source": "dcgm", "idle": {"utilisation": 99}}))
    utilisation.observe(gpu(utilisation=95.0), START + 30)
    assert utilisation.node("a").idle == 0, "it was used five minutes ago or less, by the limit of that time"
    utilisation.configure(GpuMetricsSettings.model_validate({"source": "dcgm", "window": "20s"}))
    utilisation.observe(gpu(utilisation=0.0), START + 60)
    assert utilisation.node("a").idle == 1


def test_another_source_starts_from_nothing_and_withdraws_the_metrics_of_the_old_one() -> None:
    utilisation = seen(gpu(utilisation=95.0))
    changes(utilisation)
    utilisation.configure(GpuMetricsSettings())
    assert changes(utilisation) == [("a", UNKNOWN)]
    assert (utilisation.gpus, utilisation.status(START).reason) == (0, "GPU metrics are off")
