"""Containers without a GPU get no GPU by their image."""

from typing import Any

import pytest

from tests.builders import case, container
from tests.controlplane.objects import pod
from tests.injectors.applied import applied, unchanged
from webhook.framework.interface import Outcome
from webhook.injectors.void_devices import VoidDevices
from webhook.kube.asked import AskedPod
from webhook.kube.pod import Pod
from webhook.policy.model import Policy

OWN = r"/spec/(containers|initContainers)/\d+/env(/-)?"
VOID = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}
PLAIN = {"name": "main", "image": "cuda"}


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(pod(), id="a container with a GPU"),
        pytest.param(pod(ephemeral=[container("debug", gpu=None)]), id="an ephemeral container"),
        pytest.param(pod(gpus=0, env={"NVIDIA_VISIBLE_DEVICES": "all"}), id="the user's own value"),
        pytest.param(pod(gpus=0, env={"NVIDIA_VISIBLE_DEVICES": {"fieldRef": {}}}), id="the user's own reference"),
    ],
)
def test_left_alone(before: Pod) -> None:
    assert unchanged(VoidDevices(), case(before)) == Outcome("none")


@pytest.mark.parametrize(
    ("scheduler", "outcome"),
    [
        ("kai-scheduler", Outcome("none")),
        ("default-scheduler", Outcome("added", ["main"])),
        (None, Outcome("added", ["main"])),
    ],
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
        ({"nvidia.com/container.second.gpu-compute.mode": "sm-sharing"}, "second"),
        ({"nvidia.com/container.second.gpu-memory.request": "8Gi"}, "second"),
        ({"nvidia.com/container.second.gpu-memory.request": "8Gi", "gpu-fraction-container-name": "first"}, "second"),
        ({f"nvidia.com/container.{name}.gpu-memory.limit": "8Gi" for name in ("first", "second")}, None),
        ({"nvidia.com/container.second.x.gpu-memory.limit": "8Gi"}, None),
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


@pytest.mark.parametrize(
    ("fields", "env"),
    [
        pytest.param({}, [VOID], id="no environment"),
        pytest.param({"env": None}, [VOID], id="an environment of null"),
        pytest.param({"env": []}, [VOID], id="an empty environment"),
        pytest.param({"env": [{"name": "A", "value": "b"}]}, [{"name": "A", "value": "b"}, VOID], id="other variables"),
        pytest.param(
            {"env": [{"name": "nvidia_visible_devices", "value": "all"}]},
            [{"name": "nvidia_visible_devices", "value": "all"}, VOID],
            id="names are case sensitive",
        ),
        pytest.param({"envFrom": [{"configMapRef": {"name": "x"}}]}, [VOID], id="envFrom loses against env"),
        pytest.param({"resources": {"limits": {"nvidia.com/gpu": 0}}}, [VOID], id="0 GPUs are none"),
        pytest.param({"resources": {"limits": {"nvidia.com/rdma-vf": 1}}}, [VOID], id="another device of the vendor"),
        pytest.param({"resources": {"claims": [{"name": "gpu"}]}}, [VOID], id="a claim, which CDI serves"),
    ],
)
def test_a_container_without_a_gpu_gets_void(fields: dict[str, Any], env: list[Any]) -> None:
    after, outcome = applied(VoidDevices(), case(pod(containers=[PLAIN | fields])), OWN)
    assert after["spec"]["containers"] == [PLAIN | fields | {"env": env}]
    assert outcome == Outcome("added", ["main"])


@pytest.mark.parametrize(
    ("resource", "hidden"),
    [
        ("amd.com/gpu", [{"name": "AMD_VISIBLE_DEVICES", "value": "void"}]),
        ("habana.ai/gaudi", [{"name": "HABANA_VISIBLE_DEVICES", "value": "none"}]),
        ("huawei.com/Ascend910", [{"name": "ASCEND_VISIBLE_DEVICES", "value": ""}]),
        ("iluvatar.com/gpu", [{"name": "IX_VISIBLE_DEVICES", "value": "void"}]),
        ("kunlunxin.com/xpu", [{"name": "CXPU_VISIBLE_DEVICES", "value": "void"}]),
        ("hygon.com/hcu", [{"name": "HCU_VISIBLE_DEVICES", "value": "void"}]),
        ("mthreads.com/gpu", []),
        ("nvidia.com/gpu", []),
    ],
)
def test_the_variable_of_the_vendor_whose_gpus_the_pod_asks_for_is_set_too(resource: str, hidden: list[Any]) -> None:
    before = pod(containers=[container("main", gpu=None, limits={resource: "1"}), PLAIN | {"name": "beside"}])
    claiming = PLAIN | {"name": "claiming", "resources": {"claims": [{"name": "gpu"}]}}
    before["spec"]["containers"].append(claiming)
    gpus = Policy.load("{}").gpus
    made = case(before)
    made = made._replace(context=made.context._replace(gpus=gpus, pod=AskedPod(before, gpus)))
    after, outcome = applied(VoidDevices(), made, OWN)
    gpu, beside, claims = after["spec"]["containers"]
    assert "env" not in gpu
    assert beside["env"] == [VOID, *hidden]
    assert claims["env"] == [VOID], "what a driver of DRA sets there is not known"
    assert outcome == Outcome("added", ["beside", "claiming"])


def test_init_containers_and_sidecars_beside_a_gpu_container_get_void() -> None:
    before = pod(init=[PLAIN | {"name": "i"}, PLAIN | {"name": "s", "restartPolicy": "Always"}])
    after, outcome = applied(VoidDevices(), case(before), OWN)
    assert [c["env"] for c in after["spec"]["initContainers"]] == [[VOID], [VOID]]
    assert "env" not in after["spec"]["containers"][0]
    assert outcome == Outcome("added", ["i", "s"])


ANYWHERE = [{"name": "ASCEND_VISIBLE_DEVICES", "value": ""}, {"name": "IX_VISIBLE_DEVICES", "value": "void"}]
"""Of runtimes that do with this value what they do without GPUs in the image: such a pod may go to any node."""


@pytest.mark.parametrize(
    ("before", "hidden"),
    [
        pytest.param(pod(gpus=0), ANYWHERE, id="a pod without GPUs"),
        pytest.param(pod(containers=[PLAIN], env=None), ANYWHERE, id="a pod without resources"),
        pytest.param(pod(containers=[container("gpu"), PLAIN]), [], id="a pod for nodes of one vendor"),
    ],
)
def test_every_pod_hides_what_is_safe_to_hide_on_any_node(before: Pod, hidden: list[Any]) -> None:
    after, _ = applied(VoidDevices(all_pods=True), case(before), OWN)
    assert after["spec"]["containers"][-1]["env"] == [VOID, *hidden]


def test_variable_and_value_are_settings() -> None:
    injector = VoidDevices(variable="AMD_VISIBLE_DEVICES", value="none", all_pods=True, in_every_pod=())
    after, _ = applied(injector, case(pod(containers=[PLAIN])), OWN)
    assert after["spec"]["containers"][0]["env"] == [{"name": "AMD_VISIBLE_DEVICES", "value": "none"}]
    assert injector.every_pod
    assert not VoidDevices().every_pod
    assert VoidDevices().handles_claims
