"""Privileged containers."""

from typing import Any

import pytest

from tests.builders import case, container, sidecar
from tests.controlplane.objects import pod
from webhook.kube.pod import Pod
from webhook.rules.privileged import Privileged

RULE = Privileged()


def everywhere(**security: Any) -> Pod:
    """A pod with every kind of container, with and without a GPU; all but one have this security context."""
    return pod(
        containers=[container(securityContext=security), container("good")],
        init=[container("setup", gpu=None, securityContext=security), sidecar(securityContext=security)],
        ephemeral=[container("debug", gpu=None, securityContext=security)],
    )


PLACES = {
    "initContainers[0]": "setup",
    "initContainers[1]": "sidecar",
    "containers[0]": "main",
    "ephemeralContainers[0]": "debug",
}
ALLOWED = [
    pytest.param(case(pod()), id="no security context"),
    pytest.param(case(pod(containers=[container(securityContext={"privileged": False})])), id="false"),
    pytest.param(
        case(
            pod(
                containers=[
                    container(securityContext={"windowsOptions": {"hostProcess": False}, "procMount": "Default"})
                ],
                securityContext={"windowsOptions": {"runAsUserName": "x"}},
            )
        ),
        id="settings of Windows, and no hostProcess",
    ),
    pytest.param(
        case(pod(containers=[container(securityContext={"runAsUser": 0, "allowPrivilegeEscalation": True})])),
        id="other settings",
    ),
    pytest.param(
        case(
            everywhere(
                seLinuxOptions={"type": "container_t", "level": "s0:c1,c2"},
                seccompProfile={"type": "Localhost"},
                appArmorProfile={"type": "RuntimeDefault"},
            )
        ),
        id="other profiles",
    ),
    pytest.param(case(pod(securityContext={"seLinuxOptions": {"level": "s0"}})), id="a level of SELinux"),
]

_FIX = "Remove it; a GPU limit is all that a container needs to use a GPU."
_END = (
    "wanted false: a privileged container sees every GPU of the node. Remove it: for a GPU a limit is enough, for more "
    "add single capabilities, for example NET_ADMIN."
)
_NODE = f"wanted false: such a container runs on the node itself and sees every GPU of it. {_FIX}"
_PROCESS = {"windowsOptions": {"hostProcess": True}}
REFUSED = [
    pytest.param(
        case(everywhere(privileged=True)),
        [
            f'spec.{at}.securityContext.privileged: saw true in container "{name}", {_END}'
            for at, name in PLACES.items()
        ],
        id="every kind of container",
    ),
    pytest.param(
        case(everywhere(**_PROCESS)),
        [
            f'spec.{at}.securityContext.windowsOptions.hostProcess: saw true in container "{name}", {_NODE}'
            for at, name in PLACES.items()
        ],
        id="hostProcess of every kind of container",
    ),
    pytest.param(
        case(pod(securityContext=_PROCESS)),
        [f"spec.securityContext.windowsOptions.hostProcess: saw true in the pod, {_NODE}"],
        id="hostProcess of the pod",
    ),
]


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
    warned = case(pod(containers=[container(securityContext=security)], **of_pod))
    end = "wanted another value: this one confines a container less. Remove it."
    assert warned.messages(RULE) == [
        *([f'spec.securityContext.{field}: saw "{value}" in the pod, {end}'] if of_pod else []),
        f'spec.containers[0].securityContext.{field}: saw "{value}" in container "main", {end}',
    ]
    assert all(finding.only_warn for finding in warned.findings(RULE))
