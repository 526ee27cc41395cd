"""Capabilities with which a container can open devices."""

from typing import Any

import pytest

from tests.builders import case, container
from tests.controlplane.objects import pod
from webhook.rules.capabilities import Capabilities

RULE = Capabilities()


def adding(*names: str, container_name: str = "main") -> dict[str, Any]:
    return container(container_name, securityContext={"capabilities": {"add": list(names)}})


ALLOWED = [
    pytest.param(case(pod()), id="none"),
    pytest.param(
        case(pod(containers=[adding("IPC_LOCK", "SYS_PTRACE", "NET_BIND_SERVICE", "MKNOD", "NET_ADMIN", "SYS_NICE")])),
        id="what RDMA and debuggers need",
    ),
    pytest.param(
        case(pod(containers=[container(securityContext={"capabilities": {"drop": ["ALL"]}})])), id="all of them dropped"
    ),
    pytest.param(
        case(pod(containers=[container(securityContext={"capabilities": None})])), id="a security context without any"
    ),
    pytest.param(
        case(pod(containers=[adding("SYS_ADMIN")]), rule=Capabilities(denied=("ALL",))), id="one that the policy allows"
    ),
]

_END = "wanted no capability that opens devices past the GPU limit. Remove it: GPUs need none, RDMA needs IPC_LOCK, debuggers need SYS_PTRACE. GPU profilers read counters without any where the driver of the node has NVreg_RestrictProfilingToAdminUsers=0."
_DENIED = (
    *("SYS_ADMIN", "cap_sys_module", "All", "SYS_RAWIO", "CAP_SYS_RAWIO", "Dac_Read_Search", "cap_dac_read_search"),
    *("SYS_BOOT", "BPF", "CAP_PERFMON", "SYS_ADMİN"),
)
_TEN = ", ".join([f'"{name}"' for name in _DENIED[:10]])
REFUSED = [
    pytest.param(
        case(pod(containers=[adding("IPC_LOCK", *_DENIED)])),
        [
            f"spec.containers[0].securityContext.capabilities.add: saw {_TEN} and 1 more in container "
            f'"main", {_END.replace("Remove it", "Remove them")}'
        ],
        id="each of those that open devices, in any spelling, and what to do once",
    ),
    pytest.param(
        case(
            pod(
                containers=[adding("IPC_LOCK")],
                init=[adding("SYS_ADMIN", container_name="setup")],
                ephemeral=[adding("SYS_ADMIN", container_name="debug")],
            )
        ),
        [
            f'spec.{kind}[0].securityContext.capabilities.add[0]: saw "SYS_ADMIN" in container "{name}", {_END}'
            for kind, name in (("initContainers", "setup"), ("ephemeralContainers", "debug"))
        ],
        id="every kind of container",
    ),
]
