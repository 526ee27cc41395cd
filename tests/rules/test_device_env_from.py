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


def message(prefix: str, made: str = "NVIDIA_VISIBLE_DEVICES", field: str = "containers", name: str = "main") -> str:
    return (
        f'spec.{field}[0].envFrom[0]: saw prefix "{prefix}" in container "{name}", wanted a prefix that cannot make {made}: '
        "it hands out devices past the GPU limit. Choose another prefix."
    )


_UNKNOWN = (
    'spec.containers[0].envFrom[0]: saw variables of unknown names in container "main", which asks for a GPU, '
    "wanted variables by name: NVIDIA_VISIBLE_DEVICES among them would hand out devices past the limit. "
    "List the variables under env with valueFrom, or give the source a prefix."
)
_MADE = {
    "NVIDIA_VIS": "NVIDIA_VISIBLE_DEVICES",
    "ASCEND_RUNTIME_OPT": "ASCEND_RUNTIME_*",
    **dict.fromkeys(("FOO_VISIBLE", "FOO_VISIBLE_", "FOO_VISIBLE_DEV", "FOO_VISIBLE_DEVICE"), "FOO_VISIBLE_DEVICES"),
}
REFUSED: dict[str, tuple[Case, list[str]]] = {
    **{
        f"the prefix {prefix}": (case(pod(from_map(prefix, gpu=None))), [message(prefix, made)])
        for prefix, made in _MADE.items()
    },
    "a prefix in any kind of container, with or without a GPU": (
        case(
            pod(
                from_map("N", gpu=None),
                init=[from_map("N", name="setup")],
                ephemeral=[from_map("N", gpu=None, name="debug")],
            )
        ),
        [
            message("N", field=field, name=name)
            for field, name in (("initContainers", "setup"), ("containers", "main"), ("ephemeralContainers", "debug"))
        ],
    ),
    "unknown variables where the policy denies them": (
        case(pod(from_map()), rule=DeviceEnvFrom(unknown="deny")),
        [_UNKNOWN],
    ),
}
WARNED: dict[str, tuple[Case, list[str]]] = {
    "unknown variables in a container with a GPU": (case(pod(from_map())), [_UNKNOWN])
}


@pytest.mark.parametrize("prefix", ["NVIDIA_G", "NVIDIA_MOFE", "CXPU_", "NVIDIA_NVS", "AMD_"])
def test_a_prefix_that_can_make_a_variable_of_the_default_policy_is_refused(prefix: str) -> None:
    rule = dict(Policy.load("{}").units["default"].rules)["deviceEnvFrom"]
    (finding,) = case(pod(from_map(prefix, gpu=None))).findings(rule)
    assert not finding.only_warn
