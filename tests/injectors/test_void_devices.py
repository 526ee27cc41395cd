"""Containers without a GPU get no GPU by their image."""

from typing import Any

import pytest

from tests.builders import case, container
from tests.controlplane.objects import pod
from tests.injectors.applied import applied, unchanged
from tests.tables import table
from webhook.framework.interface import Outcome
from webhook.injectors.void_devices import VoidDevices
from webhook.kube.pod import Pod
from webhook.policy.model import Policy

OWN = r"/spec/(containers|initContainers)/\d+/env(/-)?"
VOID = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}
PLAIN = {"name": "main", "image": "cuda"}


@table(
    "before",
    {
        "a container with a GPU": pod(),
        "an ephemeral container": pod(ephemeral=[container("debug", gpu=None)]),
        "the user's own value": pod(gpus=0, env={"NVIDIA_VISIBLE_DEVICES": "all"}),
        "the user's own reference": pod(gpus=0, env={"NVIDIA_VISIBLE_DEVICES": {"fieldRef": {}}}),
    },
)
def test_left_alone(before: Pod) -> None:
    assert unchanged(VoidDevices(), case(before)) == Outcome("none")


@pytest.mark.parametrize(
    ("scheduler", "outcome"),
    [("kai-scheduler", Outcome("none")), ("default-scheduler", Outcome("added", 1)), (None, Outcome("added", 1))],
)
def test_nothing_is_set_only_for_a_scheduler_that_hands_out_parts_of_gpus(
    scheduler: str | None, outcome: Outcome
) -> None:
    unit = dict(Policy.load("{}").units["default"].injectors)["voidDevices"]
    fraction = pod(gpus=0, annotations={"gpu-fraction": "0.5"}, schedulerName=scheduler)
    assert applied(unit, case(fraction), own=OWN)[1] == outcome


@pytest.mark.parametrize(
    ("named", "gets"),
    [
        ({}, "first"),
        ({"gpu-fraction-container-name": "second"}, "second"),
        ({"gpu-fraction-container-name": "x"}, None),
    ],
)
def test_all_but_the_container_that_gets_the_part_of_a_gpu_see_none(named: dict[str, str], gets: str | None) -> None:
    unit = dict(Policy.load("{}").units["default"].injectors)["voidDevices"]
    made = pod(
        containers=[container("first", gpu=None), container("second", gpu=None)],
        annotations={"gpu-fraction": "0.5", **named},
        schedulerName="kai-scheduler",
    )
    after = applied(unit, case(made), own=OWN)[0]
    assert [each["name"] for each in after["spec"]["containers"] if "env" not in each] == [gets] * (gets is not None)


@table(
    ("fields", "env"),
    {
        "no environment": ({}, [VOID]),
        "an environment of null": ({"env": None}, [VOID]),
        "an empty environment": ({"env": []}, [VOID]),
        "other variables": ({"env": [{"name": "A", "value": "b"}]}, [{"name": "A", "value": "b"}, VOID]),
        "names are case sensitive": (
            {"env": [{"name": "nvidia_visible_devices", "value": "all"}]},
            [{"name": "nvidia_visible_devices", "value": "all"}, VOID],
        ),
        "envFrom loses against env": ({"envFrom": [{"configMapRef": {"name": "x"}}]}, [VOID]),
        "0 GPUs are none": ({"resources": {"limits": {"nvidia.com/gpu": 0}}}, [VOID]),
        "another device of the vendor": ({"resources": {"limits": {"nvidia.com/rdma-vf": 1}}}, [VOID]),
        "a claim, which CDI serves": ({"resources": {"claims": [{"name": "gpu"}]}}, [VOID]),
    },
)
def test_a_container_without_a_gpu_gets_void(fields: dict[str, Any], env: list[Any]) -> None:
    after, outcome = applied(VoidDevices(), case(pod(containers=[PLAIN | fields])), OWN)
    assert after["spec"]["containers"] == [PLAIN | fields | {"env": env}]
    assert outcome == Outcome("added", 1)


def test_init_containers_and_sidecars_beside_a_gpu_container_get_void() -> None:
    before = pod(init=[PLAIN | {"name": "i"}, PLAIN | {"name": "s", "restartPolicy": "Always"}])
    after, outcome = applied(VoidDevices(), case(before), OWN)
    assert [c["env"] for c in after["spec"]["initContainers"]] == [[VOID], [VOID]]
    assert "env" not in after["spec"]["containers"][0]
    assert outcome == Outcome("added", 2)


def test_variable_and_value_are_settings() -> None:
    injector = VoidDevices(variable="AMD_VISIBLE_DEVICES", value="none", all_pods=True)
    after, _ = applied(injector, case(pod(containers=[PLAIN])), OWN)
    assert after["spec"]["containers"][0]["env"] == [{"name": "AMD_VISIBLE_DEVICES", "value": "none"}]
    assert injector.every_pod
    assert not VoidDevices().every_pod
    assert VoidDevices().handles_claims
