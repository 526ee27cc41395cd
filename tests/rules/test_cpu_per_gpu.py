"""CPU and memory beside GPUs."""

from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from tests.builders import GPU, ClusterFacts, case, sidecar
from tests.controlplane.objects import pod
from webhook.framework.resources_per_gpu import PerGpu
from webhook.policy.model import Policy
from webhook.rules.cpu_per_gpu import CpuPerGpu

RULE = CpuPerGpu()


def asking(gpu: int, **requests: str) -> dict[str, Any]:
    """A container with this many GPUs and only these requests."""
    return {"name": "main", "resources": {"limits": {GPU: str(gpu)}, "requests": requests}}


ENOUGH = {"cpu": "8", "memory": "32Gi"}
ALLOWED = [
    pytest.param(case(pod(containers=[asking(2, cpu="16", memory="64Gi")])), id="enough for two GPUs"),
    pytest.param(case(pod(containers=[asking(1, cpu="64", memory="1Ti")])), id="more than enough"),
    pytest.param(
        case(pod(containers=[asking(1, cpu="4", memory="8Gi")]), workload="inference"), id="less, for inference"
    ),
    pytest.param(
        case(pod(containers=[{"name": "main", "resources": {"limits": {GPU: "1", "cpu": "8", "memory": "32Gi"}}}])),
        id="a limit, which stands in for the request",
    ),
    pytest.param(
        case(pod(containers=[asking(1)]), workload="development"), id="nothing, in a class that has no numbers"
    ),
    pytest.param(
        case(pod(containers=[{"name": "m", "resources": {"limits": {"nvidia.com/mig-1g.10gb": "1"}}}])),
        id="nothing, beside a slice",
    ),
    pytest.param(case(pod(requests=ENOUGH, init=[asking(1)])), id="nothing in an init container, which runs alone"),
    pytest.param(
        case(pod(containers=[asking(1)], resources={"requests": ENOUGH})), id="CPU and memory of the whole pod"
    ),
    pytest.param(case(pod(containers=[asking(1, cpu="many")])), id="a quantity that is none"),
]


def message(seen: str, least: str, wanted: str = "8 to 16 CPUs and 32Gi to 64Gi per GPU for training") -> list[str]:
    cpu, memory = least.split()
    return [
        f"spec.containers[0].resources.requests: saw {seen}, wanted {wanted}. "
        f'Request at least cpu: "{cpu}" and memory: {memory}.'
    ]


REFUSED = [
    pytest.param(
        case(pod(containers=[asking(1)])),
        message('no CPU and no memory for 1 GPU in container "main"', "8 32Gi"),
        id="neither",
    ),
    pytest.param(
        case(pod(containers=[asking(4, cpu="1500m", memory="128Gi")])),
        message('1.5 CPUs and 128Gi for 4 GPUs in container "main"', "32 128Gi"),
        id="too little CPU",
    ),
    pytest.param(
        case(pod(containers=[asking(1, cpu="4", memory="512Mi")]), workload="inference"),
        message(
            '4 CPUs and 512Mi for 1 GPU in container "main"',
            "4 8Gi",
            "4 to 8 CPUs and 8Gi to 16Gi per GPU for inference",
        ),
        id="too little memory, for inference",
    ),
    pytest.param(
        case(pod(requests=ENOUGH, init=[sidecar("s") | {"resources": asking(1, cpu="1", memory="64Mi")["resources"]}])),
        [message('1 CPU and 64Mi for 1 GPU in container "s"', "8 32Gi")[0].replace("containers", "initContainers")],
        id="a sidecar with too little",
    ),
]


SPOT = ClusterFacts(offers={"spot": {GPU: 4, "cpu": 16, "memory": 64 << 30}})
"""Nodes with 4 CPUs and 16 GiB for each GPU, of which pods may have four fifths."""
SHARED = CpuPerGpu(node_share=80)
ALLOWED += [
    pytest.param(
        case(pod(containers=[asking(1, cpu="3200m", memory="12.5Gi")]), cluster=SPOT, rule=SHARED),
        id="all that a node can give",
    ),
    pytest.param(
        case(
            pod(
                containers=[
                    asking(1, cpu="1200m", memory="12.5Gi"),
                    {"name": "b", "resources": {"requests": {"cpu": "2"}}},
                ]
            ),
            cluster=SPOT,
            rule=SHARED,
        ),
        id="all that a node can give beside a container without GPUs",
    ),
]
REFUSED += [
    pytest.param(
        case(pod(containers=[asking(2, cpu="4", memory="8Gi")]), cluster=SPOT, rule=SHARED),
        message(
            '4 CPUs and 8Gi for 2 GPUs in container "main"',
            "6.4 25Gi",
            "3.2 CPUs and 12.5Gi per GPU, which every node with as many GPUs can give",
        ),
        id="less than a node can give",
    ),
    pytest.param(
        case(pod(containers=[asking(8, cpu="32", memory="256Gi")]), cluster=SPOT, rule=SHARED),
        message('32 CPUs and 256Gi for 8 GPUs in container "main"', "64 256Gi"),
        id="the usual where no node has as many GPUs",
    ),
    pytest.param(
        case(pod(containers=[asking(1, cpu="4", memory="32Gi")]), cluster=replace(SPOT, fresh=False), rule=SHARED),
        message('4 CPUs and 32Gi for 1 GPU in container "main"', "8 32Gi"),
        id="the usual while the nodes are not known",
    ),
]


def test_who_does_as_the_message_says_fits_and_is_told_nothing_more() -> None:
    rule = dict(Policy.load("{}").units["default"].rules)["cpuPerGpu"]
    assert isinstance(rule, CpuPerGpu)
    assert rule.node_share == 80
    assert case(pod(containers=[asking(2, cpu="6.4", memory="25Gi")]), cluster=SPOT, rule=rule).findings(rule) == []


@pytest.mark.parametrize(("cpu", "why"), [("8 cores", "is not a quantity"), ("0", "wanted a quantity above 0")])
def test_a_policy_with_numbers_that_are_no_quantities_is_refused(cpu: str, why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        PerGpu(cpu=(cpu, "16"), memory=("1Gi", "2Gi"))
