"""GPU requests and limits are made equal."""

from typing import Any

import pytest

from tests.builders import GPU, case, container
from tests.controlplane.objects import pod
from tests.injectors.applied import applied, unchanged
from webhook.framework.interface import Outcome
from webhook.injectors.gpu_resources import GpuResources
from webhook.kube.pod import Pod

OWN = r"/spec/(containers|initContainers)/\d+/resources/(limits|requests)(/[^/]+)?"
MIG = "nvidia.com/mig-1g.10gb"


def asks(name: str = "main", **resources: Any) -> dict[str, Any]:
    return {"name": name, "image": "app", "somethingNew": {"deep": [1]}, "resources": {**resources, "claims": None}}


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(pod(gpus=0), id="no GPU"),
        pytest.param(pod(requests={GPU: "1"}), id="equal already"),
        pytest.param(pod(limits={GPU: "0"}, requests={GPU: "0"}), id="0 in both"),
        pytest.param(pod(containers=[asks(limits={GPU: "1000m"}, requests={GPU: 1})]), id="equal in two spellings"),
        pytest.param(
            pod(containers=[asks(limits={GPU: "2"}, requests={GPU: "1"})]), id="a conflict, which a rule reports"
        ),
        pytest.param(
            pod(containers=[asks(limits={"cpu": "4"}, requests={"memory": "1Gi"})]), id="CPU and memory are the user's"
        ),
        pytest.param(pod(containers=[asks(limits={"nvidia.com/gpumem": "4000"})]), id="GPU memory is no GPU"),
        pytest.param(pod(containers=[asks(limits=None, requests=None)]), id="limits and requests of null"),
        pytest.param(pod(containers=[{"name": "a", "resources": None}]), id="resources of null"),
        pytest.param(pod(containers=[{"name": "a"}]), id="no resources"),
        pytest.param(pod(gpus=0, ephemeral=[asks(limits={GPU: 1})]), id="an ephemeral container"),
        pytest.param(pod(requests={GPU: "1"}, resources={"limits": {GPU: 1}}), id="pod-level resources"),
    ],
)
def test_left_alone(before: Pod) -> None:
    assert unchanged(GpuResources(), case(before)) == Outcome("equal")


@pytest.mark.parametrize(
    ("resources", "want"),
    [
        pytest.param({"limits": {GPU: "1"}}, {"limits": {GPU: "1"}, "requests": {GPU: "1"}}, id="only a limit"),
        pytest.param({"requests": {GPU: "2"}}, {"limits": {GPU: "2"}, "requests": {GPU: "2"}}, id="only a request"),
        pytest.param(
            {"limits": {GPU: 1}, "requests": None}, {"limits": {GPU: 1}, "requests": {GPU: 1}}, id="requests of null"
        ),
        pytest.param(
            {"limits": None, "requests": {GPU: 1}}, {"limits": {GPU: 1}, "requests": {GPU: 1}}, id="limits of null"
        ),
        pytest.param(
            {"limits": {}, "requests": {MIG: 1}}, {"limits": {MIG: 1}, "requests": {MIG: 1}}, id="a MIG slice"
        ),
        pytest.param(
            {"limits": {"cpu": "4", GPU: 1}, "requests": {"memory": "1Gi"}},
            {"limits": {"cpu": "4", GPU: 1}, "requests": {"memory": "1Gi", GPU: 1}},
            id="CPU and memory stay as they are",
        ),
        pytest.param(
            {"limits": {GPU: 1, "amd.com/gpu": 2}, "requests": {MIG: 3}},
            {"limits": {GPU: 1, "amd.com/gpu": 2, MIG: 3}, "requests": {MIG: 3, GPU: 1, "amd.com/gpu": 2}},
            id="several GPU resources",
        ),
        pytest.param(
            {"limits": {"nvidia.com/mig-a~b/c": 1}},
            {"limits": {"nvidia.com/mig-a~b/c": 1}, "requests": {"nvidia.com/mig-a~b/c": 1}},
            id="a name that has to be escaped in a patch",
        ),
        pytest.param({"limits": {GPU: "0.5"}}, {"limits": {GPU: "0.5"}, "requests": {GPU: "0.5"}}, id="half a GPU"),
        pytest.param({"limits": {GPU: "0"}}, {"limits": {GPU: "0"}, "requests": {GPU: "0"}}, id="0 GPUs"),
    ],
)
@pytest.mark.parametrize(
    "kind", [pytest.param("containers", id="a container"), pytest.param("init", id="an init container")]
)
def test_made_equal(resources: dict[str, Any], want: dict[str, Any], kind: str) -> None:
    asking = asks(**resources)
    before = pod(containers=[asking]) if kind == "containers" else pod(gpus=0, init=[container("i", gpu=None), asking])
    after, outcome = applied(GpuResources(), case(before), OWN)
    changed = after["spec"]["containers"][0] if kind == "containers" else after["spec"]["initContainers"][1]
    assert changed == asks(**want)
    filled = sum(map(len, want.values())) - sum(len(v or ()) for v in resources.values())
    limits = set(want["limits"]) - set(resources.get("limits") or ())
    assert outcome == Outcome("limitsFilled" if limits else "filled", filled)
