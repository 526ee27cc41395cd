"""Environment variables that come from ConfigMaps and Secrets."""

from typing import Any

import pytest

from tests.builders import case, container
from tests.controlplane.objects import pod
from webhook.policy.model import Policy
from webhook.rules.device_env_from import DeviceEnvFrom

RULE = DeviceEnvFrom(names=("NVIDIA_VISIBLE_DEVICES", "ASCEND_RUNTIME_*"))


def from_map(prefix: str = "", gpu: int | None = 1, name: str = "main") -> dict[str, Any]:
    source: dict[str, Any] = {"configMapRef": {"name": "settings"}}
    return container(name, gpu=gpu, envFrom=[source | ({"prefix": prefix} if prefix else {})])


ALLOWED = [
    pytest.param(case(pod()), id="no such source"),
    pytest.param(case(pod(containers=[from_map("APP_")])), id="a prefix that makes none of the variables"),
    pytest.param(
        case(pod(containers=[from_map(gpu=None)])),
        id="any variables in a container without a GPU, whose devices env decides",
    ),
    pytest.param(
        case(pod(containers=[from_map()]), rule=DeviceEnvFrom(unknown="off")),
        id="unknown variables where the policy does not mind",
    ),
    pytest.param(
        case(
            pod(
                containers=[from_map(gpu=None) | {"resources": {"claims": [{"name": "gpu"}]}}],
                resourceClaims=[{"name": "gpu"}],
            )
        ),
        id="any variables beside a claim, where void stands in env",
    ),
    pytest.param(case(pod(containers=[from_map("NVIDIA_VISIBLE_DEVICES_")])), id="a prefix longer than the variable"),
    pytest.param(
        case(pod(containers=[from_map("FOO_VISIBLE_NODES_"), from_map("IS_VISIBLE_TO_")])),
        id="a prefix that has part of it inside",
    ),
]


_MADE = {
    "NVIDIA_VIS": "NVIDIA_VISIBLE_DEVICES",
    "ASCEND_RUNTIME_OPT": "ASCEND_RUNTIME_*",
    **dict.fromkeys(("FOO_VISIBLE", "FOO_VISIBLE_", "FOO_VISIBLE_DEV", "FOO_VISIBLE_DEVICE"), "FOO_VISIBLE_DEVICES"),
}
ALLOWED += [
    pytest.param(
        case(pod(containers=[from_map(prefix, None)])),
        id=f"the prefix {prefix} in a container without a GPU, which is no worse than none",
    )
    for prefix in _MADE
]


def message(prefix: str, made: str, field: str = "containers", name: str = "main") -> str:
    return (
        f'spec.{field}[0].envFrom[0]: saw variables of unknown names that begin with "{prefix}" in container "{name}", which asks '
        f"for a GPU, wanted variables by name: one called {made} would hand out devices past the GPU limit. "
        "List the variables under env with valueFrom, or give the source another prefix."
    )


_UNKNOWN = (
    'spec.containers[0].envFrom[0]: saw variables of unknown names in container "main", which asks for a GPU, '
    "wanted variables by name: one called NVIDIA_VISIBLE_DEVICES would hand out devices past the GPU limit. "
    "List the variables under env with valueFrom, or give the source a prefix."
)
REFUSED = [
    pytest.param(
        case(pod(containers=[from_map(prefix)]), rule=DeviceEnvFrom(unknown="deny")),
        [said],
        id=f"{name} where the policy denies them",
    )
    for name, prefix, said in (
        ("unknown variables", "", _UNKNOWN),
        ("variables that begin as one of these", "N", message("N", "NVIDIA_VISIBLE_DEVICES")),
    )
]
WARNED = [
    pytest.param(case(pod(containers=[from_map()])), [_UNKNOWN], id="unknown variables in a container with a GPU"),
    *[
        pytest.param(
            case(pod(containers=[from_map(prefix)])),
            [message(prefix, made)],
            id=f"the prefix {prefix} in a container with a GPU",
        )
        for prefix, made in _MADE.items()
    ],
    pytest.param(
        case(
            pod(
                containers=[from_map("N")], init=[from_map("N", name="setup")], ephemeral=[from_map("N", None, "debug")]
            )
        ),
        [
            message("N", "NVIDIA_VISIBLE_DEVICES", field, name)
            for field, name in (("initContainers", "setup"), ("containers", "main"))
        ],
        id="a prefix in any kind of container with a GPU",
    ),
]


@pytest.mark.parametrize("prefix", ["NVIDIA_G", "NVIDIA_MOFE", "CXPU_", "NVIDIA_NVS", "AMD_", "AWS_", "DOCKER_"])
@pytest.mark.parametrize("gpu", [pytest.param(1, id="with a GPU"), pytest.param(None, id="without")])
def test_a_prefix_is_judged_as_none_by_the_default_policy(prefix: str, gpu: int | None) -> None:
    rule = dict(Policy.load("{}").units["default"].rules)["deviceEnvFrom"]
    with_prefix, without = (case(pod(containers=[from_map(each, gpu)])).findings(rule) for each in (prefix, ""))
    assert [finding.only_warn for finding in with_prefix] == [finding.only_warn for finding in without]
