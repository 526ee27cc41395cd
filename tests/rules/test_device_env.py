"""Environment variables by which a container takes devices.

Covers framework.device_variables.
"""

from tests.builders import Case, case, container, pod, sidecar
from webhook.rules.device_env import DeviceEnv

RULE = DeviceEnv()

ALLOWED: dict[str, Case] = {
    "other variables": case(pod(container(env={"HF_HOME": "/models", "CUDA_VISIBLE_DEVICES": "0"}))),
    "void in a container without a GPU": case(pod(container(gpu=None, env={"NVIDIA_VISIBLE_DEVICES": "void"}))),
    "none in a container without a GPU": case(pod(container(gpu=None, env={"NVIDIA_VISIBLE_DEVICES": "none"}))),
    "nothing in a container without a GPU": case(pod(container(gpu=None, env={"NVIDIA_VISIBLE_DEVICES": ""}))),
    "another spelling, which no runtime reads": case(pod(container(env={"nvidia_visible_devices": "all"}))),
    "the check of the driver switched off": case(pod(container(env={"NVIDIA_DISABLE_REQUIRE": "1"}))),
    "driver libraries, which are no devices": case(pod(container(env={"NVIDIA_DRIVER_CAPABILITIES": "all"}))),
    "a CUDA version beside a GPU": case(pod(container(env={"CUDA_VERSION": "12.4"}))),
    "a CUDA version beside void": case(
        pod(container(gpu=None, env={"CUDA_VERSION": "12.4", "NVIDIA_VISIBLE_DEVICES": "void"}))
    ),
    "a variable that the policy does not name": case(
        pod(container(env={"NVIDIA_NVSWITCH": "enabled"})), rule=DeviceEnv(names=("AMD_VISIBLE_DEVICES",))
    ),
    "variables that only programs read": case(
        pod(
            container(
                gpu=None,
                env=dict.fromkeys(
                    (
                        "HIP_VISIBLE_DEVICES",
                        "ASCEND_RT_VISIBLE_DEVICES",
                        "MUSA_VISIBLE_DEVICES",
                        "VISIBLE_DEVICES",
                        "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES",
                        "HABANA_VISIBLE_MODULES",
                        "VISIBLE_DEVICES_X",
                    ),
                    "0",
                ),
            )
        )
    ),
    "void beside a claim, as our injector writes it": case(
        pod(
            {
                "name": "main",
                "resources": {"claims": [{"name": "gpu"}]},
                "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}],
            },
            resourceClaims=[{"name": "gpu"}],
        )
    ),
}

_WANTED = "wanted no such variable: it hands out devices past the GPU limit."
_FIX = "Remove it: the device plugin sets it to the GPUs that the limits ask for."
_VARIABLES = (
    *("NVIDIA_MIG_CONFIG_DEVICES", "NVIDIA_IMEX_CHANNELS", "NVIDIA_NVSWITCH"),
    *("DOCKER_RESOURCE_GPU", "AMD_VISIBLE_DEVICES"),
    *("HABANA_VISIBLE_DEVICES", "ASCEND_VISIBLE_DEVICES", "ASCEND_RUNTIME_OPTIONS", "ASCEND_RUNTIME_MOUNTS"),
    *("ASCEND_VNPU_SPECS", "ASCEND_ALLOW_LINK", "MTHREADS_VISIBLE_DEVICES", "METHERDS_VISIBLE_DEVICES"),
    *("CAMBRICON_VISIBLE_DEVICES", "METAX_VISIBLE_DEVICES"),
    *("ILUVATAR_COREX_VISIBLE_DEVICES", "ILUVATAR_COREX_REPLICA_DEVICES"),
    *("ENFLAME_VISIBLE_DEVICES", "TENCENT_VISIBLE_DEVICES", "HYGON_VISIBLE_DEVICES", "DCU_VISIBLE_DEVICES"),
    *("DTK_VISIBLE_DEVICES", "AWS_NEURON_VISIBLE_DEVICES", "CXPU_VISIBLE_DEVICES", "NOBODY_KNOWS_IT_VISIBLE_DEVICES"),
)
_BESIDE = ("NVIDIA_GDS", "NVIDIA_MOFED", "NVIDIA_GDRCOPY")
_NODE = "wanted no such variable: it hands out devices of the node that no limit counts."
_REFERENCE = {"secretKeyRef": {"name": "s", "key": "k"}}
REFUSED: dict[str, tuple[Case, list[str]]] = {
    "all GPUs beside a limit of one": (
        case(pod(container(env={"A": "1", "NVIDIA_VISIBLE_DEVICES": "all"}))),
        [f'spec.containers[0].env[1]: saw NVIDIA_VISIBLE_DEVICES="all" in container "main", {_WANTED} {_FIX}'],
    ),
    "all GPUs without a limit": (
        case(pod(container(gpu=None, env={"NVIDIA_VISIBLE_DEVICES": "all"}))),
        [f'spec.containers[0].env[0]: saw NVIDIA_VISIBLE_DEVICES="all" in container "main", {_WANTED} {_FIX}'],
    ),
    "a value that refers to another variable": (
        case(pod(container(gpu=None, env={"NVIDIA_VISIBLE_DEVICES": "$(X)void"}))),
        [f'spec.containers[0].env[0]: saw NVIDIA_VISIBLE_DEVICES="$(X)void" in container "main", {_WANTED} {_FIX}'],
    ),
    "a reference, in every kind of container": (
        case(
            pod(
                container(env={"NVIDIA_VISIBLE_DEVICES": _REFERENCE}),
                init=[container("setup", env={"NVIDIA_VISIBLE_DEVICES": _REFERENCE}), sidecar(env={"A": "b"})],
                ephemeral=[container("debug", gpu=None, env={"NVIDIA_VISIBLE_DEVICES": {"configMapKeyRef": {}}})],
            )
        ),
        [
            f'spec.{field}.env[0]: saw NVIDIA_VISIBLE_DEVICES=(from a {source}) in container "{name}", {_WANTED} {_FIX}'
            for field, source, name in (
                ("initContainers[0]", "secretKeyRef", "setup"),
                ("containers[0]", "secretKeyRef", "main"),
                ("ephemeralContainers[0]", "configMapKeyRef", "debug"),
            )
        ],
    ),
    "the variables of other vendors": (
        case(pod(container(env={"AMD_VISIBLE_DEVICES": "all", "HABANA_VISIBLE_DEVICES": "all"}))),
        [
            f'spec.containers[0].env[0]: saw AMD_VISIBLE_DEVICES="all" in container "main", {_WANTED} {_FIX}',
            f'spec.containers[0].env[1]: saw HABANA_VISIBLE_DEVICES="all" in container "main", {_WANTED} {_FIX}',
        ],
    ),
    "every way that a container runtime knows": (
        case(pod(container(gpu=None, env=dict.fromkeys(_VARIABLES, "all")))),
        [
            f'spec.containers[0].env[{index}]: saw {name}="all" in container "main", {_WANTED} {_FIX}'
            for index, name in enumerate(_VARIABLES)
        ],
    ),
    "devices beside GPUs, in a container without one": (
        case(pod(container(gpu=None, env=dict.fromkeys(_BESIDE, "enabled")), resourceClaims=[{"name": "any"}])),
        [
            f'spec.containers[0].env[{index}]: saw {name}="enabled" in container "main", which asks for no GPU, {_NODE} Remove it, or ask for a GPU.'
            for index, name in enumerate(_BESIDE)
        ],
    ),
    "a CUDA version beside a claim": (
        case(
            pod(
                {
                    "name": "main",
                    "resources": {"claims": [{"name": "gpu"}]},
                    "env": [{"name": "CUDA_VERSION", "value": "12.4"}],
                }
            )
        ),
        [
            'spec.containers[0].env[0]: saw CUDA_VERSION="12.4" in container "main", which asks for no GPU, wanted no such '
            "variable: alone it stands for all GPUs of the node. "
            "Remove it, or set NVIDIA_VISIBLE_DEVICES to void beside it."
        ],
    ),
    "a CUDA version beside a variable that takes a device": (
        case(pod(container(gpu=None, env={"CUDA_VERSION": "12.4", "NVIDIA_MIG_CONFIG_DEVICES": ""}))),
        [
            'spec.containers[0].env[0]: saw CUDA_VERSION="12.4" in container "main", which asks for no GPU, wanted no such variable: alone it stands for all GPUs of the node. '
            "Remove it, or set NVIDIA_VISIBLE_DEVICES to void beside it."
        ],
    ),
    "a CUDA version without a GPU": (
        case(pod(container(gpu=None, env={"CUDA_VERSION": "12.4"}))),
        [
            'spec.containers[0].env[0]: saw CUDA_VERSION="12.4" in container "main", which asks for no GPU, wanted no such '
            "variable: alone it stands for all GPUs of the node. "
            "Remove it, or set NVIDIA_VISIBLE_DEVICES to void beside it."
        ],
    ),
}
WARNED: dict[str, tuple[Case, list[str]]] = {
    "devices beside a GPU": (
        case(pod(container(env=dict.fromkeys(_BESIDE, "enabled")))),
        [
            f'spec.containers[0].env[{index}]: saw {name}="enabled" in container "main", {_NODE} Remove it where the program does not need it.'
            for index, name in enumerate(_BESIDE)
        ],
    ),
    "void beside a limit hides the GPU": (
        case(pod(container(env={"NVIDIA_VISIBLE_DEVICES": "void"}))),
        [
            'spec.containers[0].env[0]: saw NVIDIA_VISIBLE_DEVICES="void" in container "main", which asks for a GPU, wanted '
            f"no such variable: it hides that GPU from the container. {_FIX}"
        ],
    ),
}
