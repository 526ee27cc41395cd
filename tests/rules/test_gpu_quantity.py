"""GPU quantities: which are valid, and the messages about the others."""

from dataclasses import replace

import pytest

from tests.builders import EMPTY, GPU, POOLS, UNKNOWN, case, container, sidecar
from tests.controlplane.objects import pod
from webhook.framework.interface import Template
from webhook.rules.gpu_quantity import GpuQuantity

RULE = GpuQuantity()


def only(**resources: dict[str, object]) -> dict[str, object]:
    """A container with these resources and no others."""
    return {"name": "main", "resources": resources}


ALLOWED = [
    pytest.param(case(pod()), id="one GPU, as the API server writes it"),
    pytest.param(
        case(pod(containers=[only(limits={GPU: "1000m", "amd.com/gpu": "0"})])), id="none of another vendor beside it"
    ),
    pytest.param(
        case(pod(containers=[only(limits={GPU: "1"})])), id="limits alone: the API server copies them into requests"
    ),
    pytest.param(case(pod(containers=[only(limits={GPU: "2000m"})])), id="a whole number in thousandths"),
    pytest.param(
        case(pod(containers=[only(limits={GPU: "1"}, requests={GPU: "1000m"})])),
        id="request and limit that only differ in spelling",
    ),
    pytest.param(case(pod(containers=[only(limits={GPU: 2}, requests={GPU: 2})])), id="a JSON number, as in a file"),
    pytest.param(case(pod(containers=[container(gpu=0)])), id="none at all, which is for another rule to judge"),
    pytest.param(case(pod(gpus=0, limits={"cpu": "500m"})), id="half a CPU"),
    pytest.param(case(pod(limits={"nvidia.com/gpumem": "0.5"})), id="half of something that only begins like a GPU"),
    pytest.param(case(pod(containers=[{"name": "main"}])), id="no resources"),
    pytest.param(case(pod(resources={"limits": {"cpu": "16"}})), id="CPU for the whole pod"),
    pytest.param(
        case(pod(containers=[only(claims=[{"name": "gpu"}])], resourceClaims=[{"name": "gpu"}])), id="devices by claim"
    ),
]


def message(
    seen: str, end: str, part: str = "limits", gpu: str = GPU, name: str = "main", field: str = "containers[0]"
) -> str:
    return f'spec.{field}.resources.{part}[{gpu}]: saw {seen} in container "{name}", wanted {end}.'


_HALF, _WHOLE = '"500m", the API server\'s spelling of 0.5,', "a whole number of GPUs. "
_OFFERED = "or for a part of a GPU that this cluster offers: nvidia.com/gpu.shared, nvidia.com/mig-1g.10gb, nvidia.com/mig-3g.40gb"
_NONE = "since this cluster offers no parts of GPUs: no MIG profiles and no shared GPUs"
_NO_UNIT = f"{_WHOLE}Write a number without a unit, for example 1"
_NEGATIVE = (
    "a whole number of GPUs, not below zero. Ask for the number of GPUs that the container needs, or remove the line"
)
_GONE = replace(POOLS, offers={"a": {"nvidia.com/gpu.shared": 0}})
REFUSED = [
    pytest.param(
        case(pod(gpus="500m"), cluster=POOLS),
        [message(_HALF, f"{_WHOLE}Ask for 1, {_OFFERED}")],
        id="half a GPU, where the cluster has parts of GPUs",
    ),
    pytest.param(
        case(pod(gpus="500m")),
        [message(_HALF, f"{_WHOLE}Ask for 1, {_NONE}")],
        id="half a GPU, where the cluster has none",
    ),
    pytest.param(
        case(pod(gpus="0.5"), cluster=UNKNOWN),
        [message('"0.5"', f"{_WHOLE}Ask for 1, or for a MIG profile or a shared GPU if the cluster offers them")],
        id="half a GPU as the user wrote it, with a cluster not yet known",
    ),
    pytest.param(
        case(pod(gpus="1500m"), cluster=EMPTY),
        [message('"1500m", the API server\'s spelling of 1.5,', f"{_WHOLE}Ask for 1 or 2, {_NONE}")],
        id="one and a half",
    ),
    pytest.param(
        case(pod(containers=[only(limits={"amd.com/gpu": "500m"})]), cluster=POOLS),
        [message(_HALF, f"{_WHOLE}Ask for 1, {_OFFERED}", gpu="amd.com/gpu")],
        id="half a GPU of another vendor, whose parts would come first",
    ),
    pytest.param(
        case(pod(gpus="500m"), cluster=_GONE),
        [message(_HALF, f"{_WHOLE}Ask for 1, {_NONE}")],
        id="half a GPU, where the parts of GPUs are gone for the moment",
    ),
    pytest.param(case(pod(gpus="\u0661")), [message('"\u0661"', _NO_UNIT)], id="a digit of another script"),
    pytest.param(case(pod(containers=[container(gpu=-1)])), [message('"-1"', _NEGATIVE)], id="a negative number"),
    pytest.param(
        case(pod(containers=[container("a\nb", gpu="one")])),
        [message('"one"', _NO_UNIT, name="a\\nb")],
        id="text that is no number",
    ),
    pytest.param(
        case(pod(containers=[only(limits={GPU: "2"}, requests={GPU: "1"})])),
        [
            message(
                'a request of "1" beside a limit of "2"',
                f"the same number in both. Keep only limits.{GPU}, with the number of GPUs the container needs",
                "requests",
            )
        ],
        id="a request that differs from its limit",
    ),
    pytest.param(
        case(pod(containers=[only(requests={GPU: "1"})]), template=Template(None)),
        [
            message(
                'a request of "1" without a limit',
                f"the same number as limit: GPUs cannot be overcommitted. Write it under limits; {GPU} needs no request",
                "requests",
            )
        ],
        id="a request without a limit, as in a template",
    ),
    pytest.param(
        case(pod(containers=[only(limits={GPU: "1"}, requests={GPU: "-1"})])),
        [message('"-1"', _NEGATIVE, "requests")],
        id="a bad request beside a good limit",
    ),
    pytest.param(
        case(
            pod(
                containers=[container("good"), container("bad", gpu=-2)],
                init=[container("setup", gpu=-1), sidecar(gpu=-3)],
            )
        ),
        [
            message(f'"{seen}"', _NEGATIVE, name=name, field=field)
            for field, seen, name in (
                ("initContainers[0]", -1, "setup"),
                ("initContainers[1]", -3, "sidecar"),
                ("containers[1]", -2, "bad"),
            )
        ],
        id="each container that is wrong, in field order, and no other",
    ),
    pytest.param(
        case(pod(resources={"limits": {GPU: "1", "cpu": "8"}})),
        [
            "spec.resources.limits[nvidia.com/gpu]: saw a GPU among the resources of the whole pod, wanted GPUs in the "
            "resources of a container. Move it to the container that uses the GPU."
        ],
        id="a GPU for the whole pod",
    ),
]


def test_the_mutating_hook_runs_it_too_since_the_api_server_checks_the_pod_before_the_validating_hook() -> None:
    assert RULE.early
