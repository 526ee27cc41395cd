"""What we refuse of a workload the API server refuses too, and in our words it is said before that."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.controlplane.api import Api, ApiError
from tests.controlplane.kinds import path
from tests.controlplane.plane import ControlPlane
from tests.e2e.conftest import Sides
from tests.rules.test_workload_form import ALLOWED, REFUSED, called, cron, expression, job, kept, told

pytestmark = pytest.mark.controlplane

Json = dict[str, Any]


async def words(api: Api, made: Json, namespace: str) -> str:
    """Why it is not stored; empty where it is. A dry run."""
    try:
        await api.request("POST", path(made["kind"], namespace), deepcopy(made), dryRun="All")
    except ApiError as error:
        return error.message
    return ""


@pytest.mark.parametrize("made", ALLOWED.values(), ids=ALLOWED)
async def test_with_us_as_without_us_it_is_stored_and_nothing_is_said_of_its_form(
    made: Json, api: Api, sides: Sides
) -> None:
    assert await words(api, made, sides.plain) == ""
    stored = await api.request("POST", path(made["kind"], sides.ours), deepcopy(made), dryRun="All")
    assert [text for text in stored.warnings if "workloadForm" in text] == []


@pytest.mark.parametrize(("made", "message"), REFUSED.values(), ids=REFUSED)
async def test_the_api_server_would_refuse_it_and_we_say_it_first(
    made: Json, message: str, api: Api, sides: Sides
) -> None:
    without, with_us = [await words(api, made, namespace) for namespace in sides]
    assert " is invalid: " in without
    assert "templates.mutate.gpu-admission.io" in with_us
    assert f"{message} [workloadForm]" in with_us


def test_a_change_of_labels_that_its_selector_does_not_take_is_refused_in_our_words_and_scaling_is_none_of_our_business(
    sides: Sides, control_plane: ControlPlane
) -> None:
    kubectl = control_plane.kubectl
    kubectl("-n", sides.ours, "apply", "-f", "-", input=json.dumps(kept()))
    labels = '{"spec":{"template":{"metadata":{"labels":{"app":"other"}}}}}'
    said = kubectl("-n", sides.ours, "patch", "deployment", "main", "-p", labels, check=False).stderr
    assert 'saw "other", wanted "main", by which spec.selector looks for the pods' in said
    assert kubectl("-n", sides.ours, "scale", "deployment", "main", "--replicas=0").stderr == ""


VALUES = st.sampled_from(["main", "a", "", "a b", "-", "x" * 64])
LABELS = st.dictionaries(st.sampled_from(["app", "team"]), VALUES, max_size=2)
SELECTORS = st.one_of(
    st.none(),
    st.builds(lambda found: {"matchLabels": found}, LABELS),
    st.builds(expression, st.sampled_from(["In", "NotIn", "Exists", "Is"]), VALUES),
)
NAMES = st.sampled_from(["main", "Main", "a.b", "a_b", "-a", "a" * 53, "a" * 254, "<name>", "1", "a..b"])
COUNTS = st.sampled_from([None, -1, 0, 1, 4])
PODS = st.fixed_dictionaries(
    {},
    optional={
        "restartPolicy": st.sampled_from(["Always", "Never", "OnFailure", "never"]),
        "activeDeadlineSeconds": st.just(9),
    },
)
KEPT = st.builds(
    kept,
    st.sampled_from(["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"]),
    labels=st.one_of(st.just({"app": "main"}), LABELS),
    selector=st.one_of(st.just({"matchLabels": {"app": "main"}}), SELECTORS),
    pod=PODS,
    minReadySeconds=COUNTS,
)
JOBS = {
    "parallelism": COUNTS,
    "completions": COUNTS,
    "backoffLimit": COUNTS,
    "completionMode": st.sampled_from([None, "Indexed"]),
    "selector": st.one_of(st.none(), SELECTORS),
    "pod": PODS,
}
SCHEDULES = st.sampled_from(["0 3 * * *", "@daily", "0 0 3 * * *", "", "x", "TZ=UTC 0 3 * * *", "@never", "9 99 * * *"])
WORKLOADS = st.one_of(KEPT, st.builds(job, **JOBS), st.builds(cron, SCHEDULES, **JOBS))


@given(made=WORKLOADS, name=st.one_of(st.just("main"), NAMES))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_we_never_refuse_what_the_api_server_would_store(made: Json, name: str, api: Api, sides: Sides) -> None:
    made = called(made, name=name)
    if said := told(made):
        assert await words(api, made, sides.plain) != "", said
