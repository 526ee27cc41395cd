"""GPU requests and limits are made equal."""

from typing import Any

import pytest

from tests.builders import GPU, case, container
from tests.controlplane.objects import pod
from tests.injectors.applied import applied, unchanged
from tests.tables import table
from webhook.framework.interface import Outcome
from webhook.injectors.gpu_resources import GpuResources
from webhook.kube.pod import Pod

OWN = r"/spec/(containers|initContainers)/\d+/resources/(limits|requests)(/[^/]+)?"
MIG = "nvidia.com/mig-1g.10gb"


def asks(name: str = "main", **resources: Any) -> dict[str, Any]:
    return {"name": name, "image": "app", "somethingNew": {"deep": [1]}, "resources": {**resources, "claims": None}}


@table(
    "before",
    {
        "no GPU": pod(gpus=0),
        "equal already": pod(requests={GPU: "1"}),
        "0 in both": pod(limits={GPU: "0"}, requests={GPU: "0"}),
        "equal in two spellings": pod(containers=[asks(limits={GPU: "1000m"}, requests={GPU: 1})]),
        "a conflict, which a rule reports": pod(containers=[asks(limits={GPU: "2"}, requests={GPU: "1"})]),
        "CPU and memory are the user's": pod(containers=[asks(limits={"cpu": "4"}, requests={"memory": "1Gi"})]),
        "GPU memory is no GPU": pod(containers=[asks(limits={"nvidia.com/gpumem": "4000"})]),
        "limits and requests of null": pod(containers=[asks(limits=None, requests=None)]),
        "resources of null": pod(containers=[{"name": "a", "resources": None}]),
        "no resources": pod(containers=[{"name": "a"}]),
        "an ephemeral container": pod(gpus=0, ephemeral=[asks(limits={GPU: 1})]),
        "pod-level resources": pod(requests={GPU: "1"}, resources={"limits": {GPU: 1}}),
    },
)
def test_left_alone(before: Pod) -> None:
    assert unchanged(GpuResources(), case(before)) == Outcome("equal")


@table(
    ("resources", "want"),
    {
        "only a limit": ({"limits": {GPU: "1"}}, {"limits": {GPU: "1"}, "requests": {GPU: "1"}}),
        "only a request": ({"requests": {GPU: "2"}}, {"limits": {GPU: "2"}, "requests": {GPU: "2"}}),
        "requests of null": ({"limits": {GPU: 1}, "requests": None}, {"limits": {GPU: 1}, "requests": {GPU: 1}}),
        "limits of null": ({"limits": None, "requests": {GPU: 1}}, {"limits": {GPU: 1}, "requests": {GPU: 1}}),
        "a MIG slice": ({"limits": {}, "requests": {MIG: 1}}, {"limits": {MIG: 1}, "requests": {MIG: 1}}),
        "CPU and memory stay as they are": (
            {"limits": {"cpu": "4", GPU: 1}, "requests": {"memory": "1Gi"}},
            {"limits": {"cpu": "4", GPU: 1}, "requests": {"memory": "1Gi", GPU: 1}},
        ),
        "several GPU resources": (
            {"limits": {GPU: 1, "amd.com/gpu": 2}, "requests": {MIG: 3}},
            {"limits": {GPU: 1, "amd.com/gpu": 2, MIG: 3}, "requests": {MIG: 3, GPU: 1, "amd.com/gpu": 2}},
        ),
        "a name that has to be escaped in a patch": (
            {"limits": {"nvidia.com/mig-a~b/c": 1}},
            {"limits": {"nvidia.com/mig-a~b/c": 1}, "requests": {"nvidia.com/mig-a~b/c": 1}},
        ),
        "half a GPU": ({"limits": {GPU: "0.5"}}, {"limits": {GPU: "0.5"}, "requests": {GPU: "0.5"}}),
        "0 GPUs": ({"limits": {GPU: "0"}}, {"limits": {GPU: "0"}, "requests": {GPU: "0"}}),
    },
)
@pytest.mark.parametrize("kind", ["containers", "init"], ids=["a container", "an init container"])
def test_made_equal(resources: dict[str, Any], want: dict[str, Any], kind: str) -> None:
    asking = asks(**resources)
    before = pod(containers=[asking]) if kind == "containers" else pod(gpus=0, init=[container("i", gpu=None), asking])
    after, outcome = applied(GpuResources(), case(before), OWN)
    changed = after["spec"]["containers"][0] if kind == "containers" else after["spec"]["initContainers"][1]
    assert changed == asks(**want)
    filled = sum(map(len, want.values())) - sum(len(v or ()) for v in resources.values())
    limits = set(want["limits"]) - set(resources.get("limits") or ())
    assert outcome == Outcome("limitsFilled" if limits else "filled", filled)
