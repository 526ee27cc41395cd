"""Environment variables that come from ConfigMaps and Secrets."""

from typing import Any

import pytest

from tests.builders import Case, case, container, pod
from webhook.policy.model import Policy
from webhook.rules.device_env_from import DeviceEnvFrom

RULE = DeviceEnvFrom(names=("NVIDIA_VISIBLE_DEVICES", "ASCEND_RUNTIME_*"))


def from_map(prefix: str = "", gpu: int | None = 1, name: str = "main") -> dict[str, Any]:
    source: dict[str, Any] = {"configMapRef": {"name": "settings"}}
    return container(name, gpu=gpu, envFrom=[source | ({"prefix": prefix} if prefix else {})])


ALLOWED: dict[str, Case] = {
    "no such source": case(pod()),
    "a prefix that makes none of the variables": case(pod(from_map("APP_"))),
    "any variables in a container without a GPU, whose devices env decides": case(pod(from_map(gpu=None))),
    "unknown variables where the policy does not mind": case(pod(from_map()), rule=DeviceEnvFrom(unknown="off")),
    "any variables beside a claim, where void stands in env": case(
        pod(from_map(gpu=None) | {"resources": {"claims": [{"name": "gpu"}]}}, resourceClaims=[{"name": "gpu"}])
    ),
    "a prefix longer than the variable": case(pod(from_map("NVIDIA_VISIBLE_DEVICES_"))),
    "a prefix that has part of it inside": case(pod(from_map("FOO_VISIBLE_NODES_"), from_map("IS_VISIBLE_TO_"))),
}

_WANTED = "wanted a prefix that cannot make NVIDIA_VISIBLE_DEVICES: it hands out devices past the GPU limit. Choose another prefix."
_UNKNOWN = (
    "wanted variables by name: NVIDIA_VISIBLE_DEVICES among them would hand out devices past the limit. "
    "List the variables under env with valueFrom, or give the source a prefix."
)
REFUSED: dict[str, tuple[Case, list[str]]] = {
    "a prefix that begins one of the variables": (
        case(pod(from_map("NVIDIA_VIS"))),
        [f'spec.containers[0].envFrom[0]: saw prefix "NVIDIA_VIS" in container "main", {_WANTED}'],
    ),
    "such a prefix in any kind of container, with or without a GPU": (
        case(
            pod(
                from_map("N", gpu=None),
                init=[from_map("N", name="setup")],
                ephemeral=[from_map("N", gpu=None, name="debug")],
            )
        ),
        [
            f'spec.initContainers[0].envFrom[0]: saw prefix "N" in container "setup", {_WANTED}',
            f'spec.containers[0].envFrom[0]: saw prefix "N" in container "main", {_WANTED}',
            f'spec.ephemeralContainers[0].envFrom[0]: saw prefix "N" in container "debug", {_WANTED}',
        ],
    ),
    "a prefix that makes a variable of a pattern": (
        case(pod(from_map("ASCEND_RUNTIME_OPT"))),
        [
            f'spec.containers[0].envFrom[0]: saw prefix "ASCEND_RUNTIME_OPT" in container "main", '
            f"{_WANTED.replace('NVIDIA_VISIBLE_DEVICES', 'ASCEND_RUNTIME_*')}"
        ],
    ),
    **{
        f"the prefix {prefix} of a vendor nobody knows": (
            case(pod(from_map(prefix, gpu=None))),
            [
                f'spec.containers[0].envFrom[0]: saw prefix "{prefix}" in container "main", '
                f"{_WANTED.replace('NVIDIA_VISIBLE_DEVICES', 'FOO_VISIBLE_DEVICES')}"
            ],
        )
        for prefix in ("FOO_VISIBLE", "FOO_VISIBLE_", "FOO_VISIBLE_DEV", "FOO_VISIBLE_DEVICE")
    },
    "unknown variables where the policy denies them": (
        case(pod(from_map()), rule=DeviceEnvFrom(unknown="deny")),
        [
            f'spec.containers[0].envFrom[0]: saw variables of unknown names in container "main", which asks for a GPU, {_UNKNOWN}'
        ],
    ),
}
WARNED: dict[str, tuple[Case, list[str]]] = {
    "unknown variables in a container with a GPU": (
        case(pod(from_map())),
        [
            f'spec.containers[0].envFrom[0]: saw variables of unknown names in container "main", which asks for a GPU, {_UNKNOWN}'
        ],
    )
}


@pytest.mark.parametrize("prefix", ["NVIDIA_G", "NVIDIA_MOFE", "CXPU_", "NVIDIA_NVS", "AMD_"])
def test_a_prefix_that_can_make_a_variable_of_the_default_policy_is_refused(prefix: str) -> None:
    rule = dict(Policy.load("{}").units["default"].rules)["deviceEnvFrom"]
    (finding,) = case(pod(from_map(prefix, gpu=None))).findings(rule)
    assert not finding.only_warn
