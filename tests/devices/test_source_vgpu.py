"""Shared GPUs by what HAMi, Volcano and Alibaba's extender write at nodes and pods: their own examples, then hostile ones.

Covers devices.source_vgpu, devices.source_aliyun, devices.types, devices.sources.
"""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from webhook.devices.source_aliyun import ALIYUN
from webhook.devices.source_vgpu import MAX_DEVICES, VGPUS
from webhook.devices.sources import PART_RESOURCES, DeviceSource, uses_of
from webhook.kube.pod import container_specs, requests_of

HAMI, VOLCANO = VGPUS

P4 = "GPU-ebe7c3f7-303d-558d-435e-99a160631fe4"
OTHER = "GPU-8dcd427f-483b-b48f-d7e5-75fb19a52b76"
REGISTERED, ALLOCATED = HAMI.said.registered, HAMI.said.assigned[0]
V_REGISTERED, V_ALLOCATED = VOLCANO.said.registered, VOLCANO.said.assigned[0]


def telling(notes: dict[str, str] | None = None, **capacity: str) -> dict[str, Any]:
    return node("a", 0, annotations=notes, resources=capacity)


def unplugged(made: dict[str, Any], resource: str) -> dict[str, Any]:
    """The node once the kubelet has not heard of its device plugin for some minutes: what was registered stays."""
    made["status"]["allocatable"] = {resource: "0"}
    return made


def asking(*limits: dict[str, str], notes: dict[str, str] | None = None) -> dict[str, Any]:
    return pod(containers=[{"name": "c", "resources": {"limits": each}} for each in limits], annotations=notes)


def told(source: DeviceSource, of: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Name and numbers of each device."""
    return [(device.name, *device.facts.capacity.values()) for device in source.devices(of).devices]


def card(**changed: Any) -> dict[str, Any]:
    return {"id": "GPU-0", "count": 5, "devmem": 8192, "devcore": 100, "type": "P4", "health": True} | changed


@pytest.mark.parametrize(
    ("source", "of", "devices"),
    [
        pytest.param(HAMI, telling({REGISTERED: f"{P4},10,7680,100,NVIDIA-Tesla P4,0,true:"}), [(P4, 7680, 100, 10)], id="HAMi to 2.4"),
        pytest.param(HAMI, telling({REGISTERED: f"{P4},10,7680,100,NVIDIA-Tesla P4,0,true,1,hami-core:"}), [(P4, 7680, 100, 10)], id="HAMi to 2.7"),
        pytest.param(HAMI, telling({REGISTERED: orjson.dumps([card(), card(id="GPU-1", count=7)]).decode()}),
                     [("GPU-0", 8192, 100, 5), ("GPU-1", 8192, 100, 7)], id="HAMi from 2.8"),
        pytest.param(HAMI, telling({REGISTERED: orjson.dumps([card(health=False), card(id="GPU-1")]).decode()}), [("GPU-1", 8192, 100, 5)], id="one is sick"),
        pytest.param(HAMI, telling({REGISTERED: orjson.dumps([card(), card(id="GPU-1")]).decode(), "hami.io/device-cordon": "GPU-0"}),
                     [("GPU-1", 8192, 100, 5)], id="one is cordoned"),
        pytest.param(HAMI, telling({REGISTERED: orjson.dumps([card()]).decode(), "hami.io/node-handshake": "Deleted_2026.11.25 05:00:00"}), [], id="withdrawn"),
        pytest.param(HAMI, unplugged(telling({REGISTERED: orjson.dumps([card()]).decode()}), "nvidia.com/gpu"), [], id="its plugin is gone, HAMi from 2.10"),
        pytest.param(VOLCANO, unplugged(telling({V_REGISTERED: f"{P4},10,32768,V100,true,hami-core:"}), "volcano.sh/vgpu-number"), [], id="Volcano: its plugin is gone"),
        pytest.param(HAMI, telling({REGISTERED: orjson.dumps([card(mode="mig")]).decode()}), [], id="it gives out MIG instances, of which it has profiles and places"),
        pytest.param(VOLCANO, telling({V_REGISTERED: f"{P4},10,32768,NVIDIA-Tesla V100,true,mig:"}), [], id="Volcano: so does it"),
        pytest.param(HAMI, telling({REGISTERED: "[]"}), [], id="no card"),
        pytest.param(HAMI, telling(None), [], id="no annotation"),
        pytest.param(VOLCANO, telling({V_REGISTERED: f"{P4},10,32768,NVIDIA-Tesla V100,true,hami-core:{OTHER},10,32768,V100,false,hami-core:"}),
                     [(P4, 32768, 100, 10)], id="Volcano, one is sick"),
        pytest.param(ALIYUN, telling(**{"aliyun.com/gpu-mem": "64", "aliyun.com/gpu-count": "2"}), [("0", 32), ("1", 32)], id="Alibaba: equal parts"),
        pytest.param(ALIYUN, telling(**{"aliyun.com/gpu-mem": "64"}), [], id="Alibaba: no number of GPUs"),
    ],
)  # fmt: skip
def test_the_devices_of_a_node(source: DeviceSource, of: dict[str, Any], devices: list[tuple[Any, ...]]) -> None:
    assert told(source, of) == devices


TWO = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "500", "nvidia.com/gpucores": "3"}
WRITTEN = f"{OTHER},NVIDIA,500,3:;{P4},NVIDIA,500,3:;"
PART = (("hami.io/gpu/memory", 500), ("hami.io/gpu/cores", 3), ("hami.io/gpu/slots", 1))
V_PART = {"volcano.sh/vgpu-number": "2", "volcano.sh/vgpu-memory": "1000"}


@pytest.mark.parametrize(
    ("source", "of", "uses"),
    [
        pytest.param(HAMI, asking(TWO, TWO, notes={ALLOCATED: WRITTEN}), [(OTHER, PART), (P4, PART)], id="HAMi"),
        pytest.param(HAMI, asking(TWO, notes={ALLOCATED: f"{P4}[0-1],NVIDIA,500,3:;"}), [(P4, PART)], id="HAMi, MIG"),
        pytest.param(HAMI, asking(TWO, notes={ALLOCATED: WRITTEN}), [(OTHER, PART)], id="no more than it asks for"),
        pytest.param(HAMI, asking(TWO, notes={ALLOCATED: f"{OTHER},NVIDIA,7680,100:;"}), [(OTHER, PART)], id="no larger part than it asks for"),
        pytest.param(HAMI, asking({"nvidia.com/gpu": "1", "nvidia.com/gpucores": "3"}, notes={ALLOCATED: f"{OTHER},NVIDIA,500,3:;"}),
                     [(OTHER, PART)], id="all memory, as its scheduler wrote it"),
        pytest.param(HAMI, asking({"cpu": "1"}, notes={ALLOCATED: WRITTEN}), [], id="it asks for nothing"),
        pytest.param(HAMI, asking(TWO, notes={ALLOCATED: "GPU-0,NVIDIA,-5,3:;"}), [], id="a negative amount"),
        pytest.param(HAMI, asking(TWO), [], id="not given yet"),
        pytest.param(VOLCANO, asking(V_PART, notes={V_ALLOCATED: f"{P4},NVIDIA,1000,0:{OTHER},NVIDIA,1000,0:"}),
                     [(uuid, (("volcano.sh/vgpu/memory", 1000), ("volcano.sh/vgpu/cores", 0), ("volcano.sh/vgpu/slots", 1))) for uuid in (P4, OTHER)],
                     id="Volcano, two cards for a container"),
        pytest.param(ALIYUN, asking({"aliyun.com/gpu-mem": "3"}, {"aliyun.com/gpu-mem": "2"}, notes={"ALIYUN_COM_GPU_MEM_IDX": "1"}),
                     [("1", (("aliyun.com/gpu-mem", 5),))], id="Alibaba"),
        pytest.param(ALIYUN, asking({"aliyun.com/gpu-mem": "3"}), [], id="Alibaba, not given yet"),
    ],
)  # fmt: skip
def test_what_a_pod_has(source: DeviceSource, of: dict[str, Any], uses: list[tuple[str, Any]]) -> None:
    assert [tuple(use) for use in source.uses(of)] == uses
    assert dict(uses_of(of))[source.name] == source.uses(of)


@pytest.mark.parametrize(
    ("source", "of", "asked"),
    [
        pytest.param(HAMI, asking({"nvidia.com/gpu": "1"}), None, id="whole GPUs are counted as ever"),
        pytest.param(HAMI, asking(TWO | {"nvidia.com/gpumem-percentage": "50"}), None, id="a percentage is HAMi's to judge"),
        pytest.param(HAMI, asking(TWO, notes={"nvidia.com/use-gputype": "A100"}), None, id="so is a choice of cards"),
        pytest.param(HAMI, asking({"nvidia.com/gpumem": "500"}), None, id="a part without a card"),
        pytest.param(HAMI, asking({"cpu": "1"}), None, id="none"),
        pytest.param(HAMI, asking(TWO, {"nvidia.com/gpu": "2", "nvidia.com/gpumem": "100"}),
                     [(1, PART), (2, (("hami.io/gpu/memory", 100), ("hami.io/gpu/cores", 0), ("hami.io/gpu/slots", 1)))], id="each container"),
        pytest.param(HAMI, asking({"nvidia.com/gpu": "1", "nvidia.com/gpucores": "100"}), [(1, (("hami.io/gpu/cores", 100),))], id="alone on its card"),
        pytest.param(VOLCANO, asking({"volcano.sh/vgpu-number": "1"}), [(1, (("volcano.sh/vgpu/cores", 0), ("volcano.sh/vgpu/slots", 1)))],
                     id="Volcano: all the memory"),
        pytest.param(ALIYUN, asking({"aliyun.com/gpu-mem": "3"}, {}), [(1, (("aliyun.com/gpu-mem", 3),))], id="Alibaba"),
    ],
)  # fmt: skip
def test_what_a_pod_asks_for(source: DeviceSource, of: dict[str, Any], asked: list[tuple[int, Any]] | None) -> None:
    claim = source.claim(of)
    found = None if claim is None else [(one.devices, one.amounts) for (one,) in claim.requests]
    assert found == asked
    assert claim is None or claim.source == source.name
    names = {name for each in container_specs(of) for name in requests_of(each)}
    assert asked is None or not PART_RESOURCES.isdisjoint(names)


HOSTILE = [
    *("[" * 10_000, "[" + "{}," * 9_999 + "{}]", '[{"id": 7, "count": "x", "health": true}]', "[1, null, []]", '{"id": "a"}', "[" + "9" * 60_000),
    *(",:" * 30_000, f"{P4},10:", f"{P4},1e99,7680,100,P4,0,true:", f"{P4},10,0x10,100,P4,0,true:", "x" * (256 << 10), ",,,,,,,,:"),
    orjson.dumps([card(id=f"GPU-{number}") for number in range(500)]).decode(),
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:24])
def test_an_annotation_that_is_made_to_harm_is_bounded(text: str) -> None:
    for source, registered, assigned in ((HAMI, REGISTERED, ALLOCATED), (VOLCANO, V_REGISTERED, V_ALLOCATED)):
        devices = source.devices(telling({registered: text})).devices
        assert len(devices) <= MAX_DEVICES
        assert len(source.uses(asking(TWO | V_PART, notes={assigned: text}))) <= 2


@given(st.text(alphabet='GPU-0,:;[]{}"e.1 tru', max_size=60), st.sampled_from([HAMI, VOLCANO]))
def test_no_text_is_an_error(text: str, source: Any) -> None:
    source.devices(telling({source.said.registered: text}))
    source.uses(asking(TWO | V_PART, notes={source.said.assigned[0]: text}))
