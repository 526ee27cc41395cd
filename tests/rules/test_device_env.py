"""Environment variables by which a container takes devices.

Covers framework.device_variables.
"""

from collections.abc import Iterable
from typing import Any

import pytest

from tests.builders import case, container, sidecar
from tests.controlplane.objects import pod
from webhook.kube.pod import Pod
from webhook.rules.device_env import DeviceEnv

RULE = DeviceEnv()
VISIBLE = "NVIDIA_VISIBLE_DEVICES"
_PROGRAMS = (
    *("HIP_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES", "MUSA_VISIBLE_DEVICES", "VISIBLE_DEVICES"),
    *("RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES", "HABANA_VISIBLE_MODULES", "VISIBLE_DEVICES_X"),
)


def claiming(name: str, value: str) -> dict[str, Any]:
    """A container with a claim and this variable."""
    return {"name": "main", "resources": {"claims": [{"name": "gpu"}]}, "env": [{"name": name, "value": value}]}


def sharing(configmap: str, **more: Any) -> Pod:
    """A pod with a part of a GPU by KAI, whose first container reads this ConfigMap."""
    part = container(gpu=None, env={VISIBLE: {"configMapKeyRef": {"name": configmap, "key": VISIBLE}}})
    notes = {"gpu-fraction": "0.5", "runai/shared-gpu-configmap": "p-abc-shared-gpu"}
    return pod(containers=[part], **({"annotations": notes, "schedulerName": "kai-scheduler"} | more))


ALLOWED = [
    pytest.param(case(pod(env={"HF_HOME": "/models", "CUDA_VISIBLE_DEVICES": "0"})), id="other variables"),
    *[
        pytest.param(case(pod(gpus=0, env={VISIBLE: value})), id=f"{value or 'nothing'} in a container without a GPU")
        for value in ("void", "none", "")
    ],
    pytest.param(case(pod(gpus=0, env={"HABANA_VISIBLE_DEVICES": "none"})), id="no Gaudi"),
    pytest.param(case(pod(env={VISIBLE.lower(): "all"})), id="another spelling, which no runtime reads"),
    pytest.param(case(pod(env={"NVIDIA_DISABLE_REQUIRE": "1"})), id="the check of the driver switched off"),
    pytest.param(case(pod(env={"NVIDIA_DRIVER_CAPABILITIES": "all"})), id="driver libraries, which are no devices"),
    pytest.param(case(pod(env={"CUDA_VERSION": "12.4"})), id="a CUDA version beside a GPU"),
    pytest.param(case(pod(gpus=0, env={"CUDA_VERSION": "12.4", VISIBLE: "void"})), id="a CUDA version beside void"),
    pytest.param(
        case(pod(env={"NVIDIA_NVSWITCH": "enabled"}), rule=DeviceEnv(names=("AMD_VISIBLE_DEVICES",))),
        id="a variable that the policy does not name",
    ),
    pytest.param(
        case(pod(gpus=0, env={"NVIDIA_GDS": "", "NVIDIA_MOFED": "void"})), id="devices for use with GPUs, switched off"
    ),
    pytest.param(case(pod(gpus=0, env=dict.fromkeys(_PROGRAMS, "0"))), id="variables that only programs read"),
    pytest.param(case(sharing("p-abc-shared-gpu-0")), id="a part of a GPU, as KAI writes it"),
    pytest.param(
        case(pod(containers=[claiming(VISIBLE, "void")], resourceClaims=[{"name": "gpu"}])),
        id="void beside a claim, as our injector writes it",
    ),
]

_PAST = (
    "wanted no such variable: it hands out devices past the GPU limit. "
    "Remove it: a container gets the GPUs that its limits ask for."
)
_NODE = "wanted no such variable: it hands out devices of the node that no limit counts."
_ALONE = (
    f"wanted no such variable: alone it stands for all GPUs of the node. Remove it, or set {VISIBLE} to void beside it."
)
_VARIABLES = (
    *("NVIDIA_MIG_CONFIG_DEVICES", "NVIDIA_IMEX_CHANNELS", "NVIDIA_NVSWITCH"),
    *("DOCKER_RESOURCE_GPU", "AMD_VISIBLE_DEVICES", "HCU_VISIBLE_DEVICES", "IX_VISIBLE_DEVICES"),
    *("RESOURCE_REGISTER_STRATEGY", "MOUNT_BY_RUNTIME_FOR_DP"),
    *("HABANA_VISIBLE_DEVICES", "ASCEND_VISIBLE_DEVICES", "ASCEND_RUNTIME_OPTIONS", "ASCEND_RUNTIME_MOUNTS"),
    *("ASCEND_VNPU_SPECS", "ASCEND_ALLOW_LINK", "MTHREADS_VISIBLE_DEVICES", "METHERDS_VISIBLE_DEVICES"),
    *("CAMBRICON_VISIBLE_DEVICES", "METAX_VISIBLE_DEVICES"),
    *("ILUVATAR_COREX_VISIBLE_DEVICES", "ILUVATAR_COREX_REPLICA_DEVICES"),
    *("ENFLAME_VISIBLE_DEVICES", "TENCENT_VISIBLE_DEVICES", "HYGON_VISIBLE_DEVICES", "DCU_VISIBLE_DEVICES"),
    *("DTK_VISIBLE_DEVICES", "AWS_NEURON_VISIBLE_DEVICES", "CXPU_VISIBLE_DEVICES", "NOBODY_KNOWS_IT_VISIBLE_DEVICES"),
)
_BESIDE = ("NVIDIA_GDS", "NVIDIA_MOFED", "NVIDIA_GDRCOPY", "HCU_MOFED")
_REFERENCE = {"secretKeyRef": {"name": "s", "key": "k"}}


def messages(end: str, names: Iterable[str] = (VISIBLE,), value: str = '"all"', more: str = "") -> list[str]:
    return [
        f'spec.containers[0].env[{index}]: saw {name}={value} in container "main"{more}, {end}'
        for index, name in enumerate(names)
    ]


_OF_CUDA = messages(_ALONE, ["CUDA_VERSION"], '"12.4"', ", which asks for no GPU")
REFUSED = [
    *[
        pytest.param(case(made), messages(_PAST, value="(from a configMapKeyRef)"), id=f"a part of a GPU, {why}")
        for why, made in {
            "from another ConfigMap": sharing("mine"),
            "of another scheduler": sharing("p-abc-shared-gpu-0", schedulerName="default-scheduler"),
            "of no scheduler": sharing("p-abc-shared-gpu-0", nodeName="n"),
            "that is not asked for": sharing(
                "p-abc-shared-gpu-0", annotations={"runai/shared-gpu-configmap": "p-abc-shared-gpu"}
            ),
            "of a ConfigMap that KAI does not name": sharing("p", annotations={"gpu-fraction": "0.5"}),
        }.items()
    ],
    pytest.param(case(pod(env={VISIBLE: "all"})), messages(_PAST), id="all GPUs beside a limit of one"),
    pytest.param(case(pod(gpus=0, env={VISIBLE: "all"})), messages(_PAST), id="all GPUs without a limit"),
    pytest.param(
        case(pod(gpus=0, env={VISIBLE: "$(X)void"})),
        messages(_PAST, value='"$(X)void"'),
        id="a value that refers to another variable",
    ),
    pytest.param(
        case(
            pod(
                env={"A": "1", VISIBLE: _REFERENCE},
                init=[container("setup", env={VISIBLE: _REFERENCE}), sidecar(env={"A": "b"})],
                ephemeral=[container("debug", gpu=None, env={VISIBLE: {"configMapKeyRef": {}}})],
            )
        ),
        [
            f'spec.{field}: saw {VISIBLE}=(from a {source}) in container "{name}", {_PAST}'
            for field, source, name in (
                ("initContainers[0].env[0]", "secretKeyRef", "setup"),
                ("containers[0].env[1]", "secretKeyRef", "main"),
                ("ephemeralContainers[0].env[0]", "configMapKeyRef", "debug"),
            )
        ],
        id="a reference, in every kind of container",
    ),
    pytest.param(
        case(pod(gpus=0, env=dict.fromkeys(_VARIABLES, "all"))),
        messages(_PAST, _VARIABLES),
        id="every way that a container runtime knows",
    ),
    pytest.param(
        case(pod(gpus=0, env=dict.fromkeys(_BESIDE, "enabled"), resourceClaims=[{"name": "any"}])),
        messages(f"{_NODE} Remove it, or ask for a GPU.", _BESIDE, '"enabled"', ", which asks for no GPU"),
        id="devices beside GPUs, in a container without one",
    ),
    pytest.param(
        case(pod(containers=[claiming("CUDA_VERSION", "12.4")])), _OF_CUDA, id="a CUDA version beside a claim"
    ),
    pytest.param(
        case(pod(gpus=0, env={"CUDA_VERSION": "12.4", "NVIDIA_MIG_CONFIG_DEVICES": ""})),
        _OF_CUDA,
        id="a CUDA version beside a variable that takes a device",
    ),
    pytest.param(
        case(pod(gpus=0, env={"HABANA_VISIBLE_DEVICES": "void", "HABANA_VISIBLE_DEVICES_2": "none"})),
        [
            *messages(_PAST, ["HABANA_VISIBLE_DEVICES"], '"void"'),
            messages(_PAST, ["", "HABANA_VISIBLE_DEVICES_2"], '"none"')[1],
        ],
        id="what Gaudi's runtime takes for all of them",
    ),
    pytest.param(
        case(pod(gpus=0, env={"MOUNT_BY_RUNTIME_FOR_DP": ""})),
        messages(_PAST, ["MOUNT_BY_RUNTIME_FOR_DP"], '""'),
        id="the sockets of the node's container runtimes, under Ascend's",
    ),
    pytest.param(
        case(pod(gpus=0, env={"HABANA_VISIBLE_DEVICES": ""})),
        messages(_PAST, ["HABANA_VISIBLE_DEVICES"], '""'),
        id="Gaudi's variable without a value",
    ),
    pytest.param(
        case(pod(gpus=0, env={"ROCM_VERSION": "6.1"})),
        messages(_ALONE, ["ROCM_VERSION"], '"6.1"', ", which asks for no GPU"),
        id="a ROCm version, which Hygon's runtime takes for all of them",
    ),
    pytest.param(case(pod(gpus=0, env={"CUDA_VERSION": "12.4"})), _OF_CUDA, id="a CUDA version without a GPU"),
]
WARNED = [
    pytest.param(
        case(pod(env=dict.fromkeys(_BESIDE, "enabled"))),
        messages(f"{_NODE} Remove it where the program does not need it.", _BESIDE, '"enabled"'),
        id="devices beside a GPU",
    ),
    pytest.param(
        case(pod(env={VISIBLE: "void"})),
        messages(
            _PAST.replace("hands out devices past the GPU limit", "hides that GPU from the container"),
            value='"void"',
            more=", which asks for a GPU",
        ),
        id="void beside a limit hides the GPU",
    ),
]
