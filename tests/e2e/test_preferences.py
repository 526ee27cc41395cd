"""Pods land in the pool that the policy or they themselves prefer, elsewhere when it is full, and never wait for it."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.controlplane.api import Api, wait_until
from tests.controlplane.clusters import IMAGE
from tests.controlplane.fixtures import MakeNodes
from tests.controlplane.nodes import node
from tests.controlplane.objects import REQUIRED, Json, job, pod
from tests.controlplane.programs import MISSES_ANTI_AFFINITY
from tests.installed import SHIPPED, Installed, MakeTeam, decision, tried

pytestmark = pytest.mark.controlplane

CAPACITY = "karpenter.sh/capacity-type"
PREFERENCES = [
    {"classes": ["training"], "weight": 60, "nodes": [{"key": CAPACITY, "values": ["spot"]}]},
    {"classes": ["inference", "service"], "weight": 60, "nodes": [{"key": CAPACITY, "values": ["on-demand"]}]},
    {"weight": 10, "nodes": [{"key": "nvidia.com/gpu.memory", "operator": "Gt", "values": ["75000"]}]},
]
PROFILES = {
    "pools": {"placement": {"preferences": PREFERENCES}},
    "unranked": {"placement": {"preferences": PREFERENCES, "strategies": {}, "otherwise": "off"}},
    "kai": {"placement": {"requiredFor": ["kai-scheduler"]}},
    "pinned": {"injectors": {"nodeAffinity": {"mode": "required"}}},
}
FOUR = [
    node("a-on-demand", labels={CAPACITY: "on-demand"}, images={IMAGE: 20_000_000_000}),
    node("b-on-demand", labels={CAPACITY: "on-demand"}),
    node("c-spot", labels={CAPACITY: "spot"}),
    node("d-spot", product="NVIDIA-L4", labels={CAPACITY: "spot"}),
]
"""By its image the scheduler likes a-on-demand, which by its name comes first too."""
WITH_IMAGE = {"container": {"image": IMAGE}}


@pytest.fixture(scope="module", autouse=True)
def profiles(installed: Installed) -> Iterator[None]:
    with installed.policy(SHIPPED + "".join(f"  {name}: {json.dumps(of)}\n" for name, of in PROFILES.items())):
        yield


def placed(pods: list[Json]) -> dict[str, int]:
    return dict(Counter(found["spec"]["nodeName"] for found in pods))


def chosen(pods: list[Json]) -> dict[str, int]:
    """The first choices."""
    return dict(Counter(decision(found)["nodes"][0][0] for found in pods))


async def test_training_fills_the_spot_nodes_the_better_one_first_and_goes_elsewhere_when_they_are_full(
    api: Api, team_of: MakeTeam, nodes: MakeNodes
) -> None:
    await nodes(FOUR)
    name = await team_of("pools")
    await api.create(job("one", 8, **WITH_IMAGE), name)
    first = await api.running(name, 8)
    assert placed(first) == chosen(first) == {"c-spot": 8}
    await api.create(job("two", 8, **WITH_IMAGE), name)
    both = await api.running(name, 16)
    assert placed(both) == chosen(both) == {"c-spot": 8, "d-spot": 8}
    await api.create(job("three", 8, **WITH_IMAGE), name)
    found = await api.running(name, 24)
    assert placed(found) == chosen(found)
    assert sum(count for at, count in placed(found).items() if at.endswith("on-demand")) == 8


async def test_where_no_node_is_chosen_the_scheduler_keeps_to_the_pool(
    api: Api, team_of: MakeTeam, nodes: MakeNodes
) -> None:
    """Of pods without an owner: replicas would be spread by the scheduler, which weighs as much as a preference."""
    await nodes(FOUR)
    name = await team_of("unranked")
    labels = {"workload-type": "training"}
    await asyncio.gather(*[api.create(pod(f"p{i}", labels=labels, **WITH_IMAGE), name) for i in range(16)])
    found = await api.running(name, 16)
    assert placed(found) == {"c-spot": 8, "d-spot": 8}
    assert {decision(one)["units"]["nodeAffinity"][0] for one in found} == {"preferredPools"}


@pytest.mark.parametrize(
    ("annotation", "value", "lands"),
    [
        pytest.param("preferred-nodes", "b-on-demand", "b-on-demand", id="a node"),
        pytest.param("gpu-model", "l4", "d-spot", id="a model"),
    ],
)
async def test_a_pod_gets_what_it_wishes_for_before_what_the_policy_prefers(
    annotation: str, value: str, lands: str, api: Api, team_of: MakeTeam, nodes: MakeNodes
) -> None:
    await nodes(FOUR)
    name = await team_of("pools")
    wish = {f"gpu-admission.io/{annotation}": value}
    await api.create(job("wishing", 4, annotations=wish, **WITH_IMAGE), name)
    assert placed(await api.running(name, 4)) == {lands: 4}


async def test_a_pinned_pod_waits_while_its_node_is_taken_which_is_counted(
    installed: Installed, api: Api, team_of: MakeTeam, nodes: MakeNodes
) -> None:
    """By the ninth rule of a pod that is there: of each pod, eight rules about others are kept."""
    await nodes(FOUR[:2])
    name = await team_of("pinned")
    names = [*(f"nobody-{number}" for number in range(8)), "late"]
    terms = [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}} for app in names]
    alone = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    await api.create(pod("lonely", affinity=alone, nodeSelector={"kubernetes.io/hostname": "a-on-demand"}), name)
    await api.running(name, 1)
    waited = 'gpu_admission_reservations_ended_total{end="unschedulable"}'
    before = installed.metrics()[waited]
    stored = await api.create(pod("late"), name)
    assert decision(stored)["units"]["nodeAffinity"] == ["required", "a-on-demand"]

    async def counted() -> bool:
        return installed.metrics()[waited] == before + 1

    await wait_until(counted, 120, "a reservation that ended because the pod waits")
    await api.delete("Pod", "lonely", name, grace=0)
    if MISSES_ANTI_AFFINITY:
        await api.delete("Pod", "late", name, grace=0)
        await api.create(pod("late"), name)
    (found,) = await api.running(name, 1, app="late")
    assert found["spec"]["nodeName"] == "a-on-demand"


async def test_a_part_by_kai_has_the_node_required_on_which_a_shared_gpu_has_room(
    api: Api, team_of: MakeTeam, nodes: MakeNodes
) -> None:
    """KAI's reservation pod, which the node runs, tells of that GPU. Parts for which it has no room are left to KAI."""
    await nodes([node("a"), node("b"), node("c")])
    team, kais = await team_of("kai"), await api.namespace("kai-resource-reservation")
    half = pod("half", 0, annotations={"gpu-fraction": "0.5"}, schedulerName="kai-scheduler")

    async def shared() -> bool:
        return "nodes" in await tried(api, half, team)

    assert not await shared()
    held = pod("gpu-reservation-1", labels={"runai-gpu-group": "g"}, nodeName="b")
    async with api.having(held, namespace=kais):
        await wait_until(shared, 120, "a node for half a GPU")
        stored = await api.create(half, team)
        named = {"key": "metadata.name", "operator": "In", "values": ["b"]}
        assert stored["spec"]["affinity"]["nodeAffinity"] == {
            REQUIRED: {"nodeSelectorTerms": [{"matchFields": [named]}]}
        }
        more = pod("more", 0, annotations={"gpu-fraction": "0.6"}, schedulerName="kai-scheduler")
        assert (await tried(api, more, team))["why"] == "GPUs that another scheduler serves"
    await api.delete("Namespace", kais)


async def test_a_part_of_a_gpu_by_volcano_goes_to_the_card_that_is_fullest(
    api: Api, team: str, nodes: MakeNodes
) -> None:
    """Its device plugin tells the cards, and its scheduler which one a pod has. The stock scheduler takes the emptiest node."""
    parts = {
        f"volcano.sh/vgpu-{what}": amount for what, amount in (("number", "10"), ("memory", "16000"), ("cores", "100"))
    }
    made = [node(name, 0, resources=parts) for name in ("a", "b", "c")]
    for each in made:
        card = f"GPU-{each['metadata']['name']},10,16000,V100,true,hami-core:"
        each["metadata"]["annotations"] = {"volcano.sh/node-vgpu-register": card}
    await nodes(made)
    part = {"resources": {"limits": {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "5000"}}}
    given = {"volcano.sh/vgpu-ids-new": "GPU-c,NVIDIA,5000,0:;"}
    there = {"kubernetes.io/hostname": "c"}
    await api.create(pod("first", 0, container=part, annotations=given, nodeSelector=there), team)
    await api.running(team, 1)

    async def known() -> bool:
        return bool((await tried(api, pod("second", 0, container=part), team)).get("nodes", [[""]])[0][0] == "c")

    await wait_until(known, 120, "a node for a part of a GPU")
    stored = await api.create(pod("second", 0, container=part), team)
    assert decision(stored)["nodes"][0][0] == "c"
    assert (await api.bound(team, "second"))["spec"]["nodeName"] == "c"
