"""Containers that ask for 0 GPUs."""

from tests.builders import Case, case, container
from tests.controlplane.objects import pod
from webhook.rules.gpu_zero import GpuZero

RULE = GpuZero()
VISIBLE = "NVIDIA_VISIBLE_DEVICES"

ALLOWED: dict[str, Case] = {
    "one GPU": case(pod()),
    "no GPU line": case(pod(gpus=0)),
    "none of one vendor and one of another": case(pod(limits={"amd.com/gpu": "0"})),
    "a quantity that is none": case(pod(gpus="zero")),
    "no CPU": case(pod(gpus=0, limits={"cpu": "0"})),
}


def message(field: str = "containers[0]", name: str = "main") -> list[str]:
    return [
        f'spec.{field}.resources.limits[nvidia.com/gpu]: saw 0 GPUs in container "{name}", wanted at least 1, or no such line. '
        "Ask for 1 if the container needs a GPU, or remove the line."
    ]


REFUSED: dict[str, tuple[Case, list[str]]] = {
    "zero": (case(pod(containers=[container(gpu=0)])), message()),
    "zero in another spelling, in an init container": (
        case(pod(init=[container("setup", gpu="0m")])),
        message("initContainers[0]", "setup"),
    ),
    "zero beside a claim, which may be of any device": (
        case(
            pod(
                containers=[
                    {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "0"}, "claims": [{"name": "gpu"}]}}
                ]
            )
        ),
        message(),
    ),
    "zero, and the GPUs of the node are hidden": (
        case(pod(containers=[container(gpu=0, env={VISIBLE: "void"})])),
        message(),
    ),
}


def test_nobody_is_refused_for_what_no_line_at_all_would_not_be() -> None:
    assert RULE.action == "warn"
