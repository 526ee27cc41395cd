"""Privileged containers."""

from typing import Any

import pytest

from tests.builders import Case, case, container, pod, sidecar
from webhook.rules.privileged import Privileged

RULE = Privileged()
YES: dict[str, Any] = {"privileged": True}

ALLOWED: dict[str, Case] = {
    "no security context": case(pod()),
    "false": case(pod(container(securityContext={"privileged": False}))),
    "settings of Windows, and no hostProcess": case(
        pod(
            container(securityContext={"windowsOptions": {"hostProcess": False}, "procMount": "Default"}),
            securityContext={"windowsOptions": {"runAsUserName": "x"}},
        )
    ),
    "other settings": case(pod(container(securityContext={"runAsUser": 0, "allowPrivilegeEscalation": True}))),
}

_END = "wanted false: a privileged container sees every GPU of the node. Remove it; a GPU limit is all that a container needs to use a GPU."
_WINDOWS: dict[str, Any] = {"windowsOptions": {"hostProcess": True}}
_NODE = "wanted false: such a container runs on the node itself and sees every GPU of it. Remove it; a GPU limit is all that a container needs to use a GPU."
REFUSED: dict[str, tuple[Case, list[str]]] = {
    "hostProcess of the pod, and of every kind of container": (
        case(
            pod(
                container(securityContext=_WINDOWS),
                init=[container("setup", gpu=None, securityContext=_WINDOWS)],
                ephemeral=[container("debug", gpu=None, securityContext=_WINDOWS)],
                securityContext=_WINDOWS,
            )
        ),
        [f"spec.securityContext.windowsOptions.hostProcess: saw true in the pod, {_NODE}"]
        + [
            f'spec.{field}.securityContext.windowsOptions.hostProcess: saw true in container "{name}", {_NODE}'
            for field, name in (
                ("initContainers[0]", "setup"),
                ("containers[0]", "main"),
                ("ephemeralContainers[0]", "debug"),
            )
        ],
    ),
    "every kind of container, with and without a GPU": (
        case(
            pod(
                container(securityContext=YES),
                container("good"),
                init=[container("setup", gpu=None, securityContext=YES), sidecar(securityContext=YES)],
                ephemeral=[container("debug", gpu=None, securityContext=YES)],
            )
        ),
        [
            f'spec.{field}.securityContext.privileged: saw true in container "{name}", {_END}'
            for field, name in (
                ("initContainers[0]", "setup"),
                ("initContainers[1]", "sidecar"),
                ("containers[0]", "main"),
                ("ephemeralContainers[0]", "debug"),
            )
        ],
    ),
}


@pytest.mark.parametrize(
    ("security", "field", "value"),
    [
        ({"procMount": "Unmasked"}, "procMount", "Unmasked"),
        ({"seccompProfile": {"type": "Unconfined"}}, "seccompProfile.type", "Unconfined"),
        ({"appArmorProfile": {"type": "Unconfined"}}, "appArmorProfile.type", "Unconfined"),
        ({"seLinuxOptions": {"type": "spc_t", "level": "s0"}}, "seLinuxOptions.type", "spc_t"),
    ],
)
def test_a_setting_that_confines_a_container_less_gives_a_warning(
    security: dict[str, Any], field: str, value: str
) -> None:
    of_pod = {} if field == "procMount" else {"securityContext": security}
    warned = case(pod(container(securityContext=security), **of_pod))
    end = "wanted another value: this one confines a container less. Remove it."
    assert warned.messages(RULE) == [
        *([f'spec.securityContext.{field}: saw "{value}" in the pod, {end}'] if of_pod else []),
        f'spec.containers[0].securityContext.{field}: saw "{value}" in container "main", {end}',
    ]
    assert all(finding.only_warn for finding in warned.findings(RULE))


def test_other_settings_that_confine_a_container_are_allowed() -> None:
    options = {"seLinuxOptions": {"type": "container_t", "level": "s0:c1,c2"}}
    profiles = {"seccompProfile": {"type": "Localhost"}, "appArmorProfile": {"type": "RuntimeDefault"}}
    assert case(pod(container(securityContext=options | profiles), securityContext=options)).messages(RULE) == []
    assert case(pod(securityContext={"seLinuxOptions": {"level": "s0"}})).messages(RULE) == []
