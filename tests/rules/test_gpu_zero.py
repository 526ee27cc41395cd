"""Containers that ask for 0 GPUs."""

import pytest

from tests.builders import case, container
from tests.controlplane.objects import pod
from webhook.rules.gpu_zero import GpuZero

RULE = GpuZero()
VISIBLE = "NVIDIA_VISIBLE_DEVICES"

ALLOWED = [
    pytest.param(case(pod()), id="one GPU"),
    pytest.param(case(pod(gpus=0)), id="no GPU line"),
    pytest.param(case(pod(limits={"amd.com/gpu": "0"})), id="none of one vendor and one of another"),
    pytest.param(case(pod(gpus="zero")), id="a quantity that is none"),
    pytest.param(case(pod(gpus=0, limits={"cpu": "0"})), id="no CPU"),
]


def message(field: str = "containers[0]", name: str = "main") -> list[str]:
    return [
        f'spec.{field}.resources.limits[nvidia.com/gpu]: saw 0 GPUs in container "{name}", wanted at least 1, or no such line. '
        "Ask for 1 if the container needs a GPU, or remove the line."
    ]


REFUSED = [
    pytest.param(case(pod(containers=[container(gpu=0)])), message(), id="zero"),
    pytest.param(
        case(pod(init=[container("setup", gpu="0m")])),
        message("initContainers[0]", "setup"),
        id="zero in another spelling, in an init container",
    ),
    pytest.param(
        case(
            pod(
                containers=[
                    {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "0"}, "claims": [{"name": "gpu"}]}}
                ]
            )
        ),
        message(),
        id="zero beside a claim, which may be of any device",
    ),
    pytest.param(
        case(pod(containers=[container(gpu=0, env={VISIBLE: "void"})])),
        message(),
        id="zero, and the GPUs of the node are hidden",
    ),
]


def test_nobody_is_refused_for_what_no_line_at_all_would_not_be() -> None:
    assert RULE.action == "warn"
