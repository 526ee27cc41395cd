"""On the real scheduler: a constraint with DoNotSchedule counts zones without GPUs, as `lint` and `doctor` say; nodes without a
zone get their share, and those that cannot take the pods take no zone spread from them."""

import json

import pytest

from tests.controlplane.api import Api, wait_until
from tests.controlplane.fixtures import MakeNodes
from tests.controlplane.nodes import node
from tests.controlplane.objects import deployment
from tests.installed import SHIPPED, Installed, MakeTeam
from webhook.kube.pod import ZONE

pytestmark = pytest.mark.controlplane

HARD = {"injectors": {"topologySpread": {"constraints": [{"key": ZONE, "whenUnsatisfiable": "DoNotSchedule"}]}}}
GPU_NODE = {"for": "gpus"}


@pytest.mark.parametrize(
    ("selector", "start"),
    [
        pytest.param({}, 2, id="a zone without GPUs counts"),
        pytest.param(GPU_NODE, 4, id="it does not, where the pods exclude its nodes"),
    ],
)
async def test_replicas_start(
    api: Api, installed: Installed, nodes: MakeNodes, team_of: MakeTeam, selector: dict[str, str], start: int
) -> None:
    with installed.policy(f"{SHIPPED}  hard: {json.dumps(HARD)}\n"):
        with_gpus = [node(f"hard-{zone}", zone=zone, labels=GPU_NODE) for zone in ("zone-a", "zone-b")]
        await nodes([*with_gpus, node("hard-c", 0, zone="zone-c")])
        team = await team_of("hard")
        made = deployment("chat", 4, labels={"workload-type": "inference"}, nodeSelector=selector)
        await api.create(made, team)
        found = await api.running(team, start)
        assert all(ZONE in [each["topologyKey"] for each in p["spec"]["topologySpreadConstraints"]] for p in found)

        async def rest_waits() -> bool:
            pods = await api.pods(team)
            waiting = [p for p in pods if not p["spec"].get("nodeName")]
            said = [c.get("message", "") for p in waiting for c in p["status"].get("conditions") or ()]
            return (
                len(waiting) == 4 - start and sum("topology spread constraints" in text for text in said) == 4 - start
            )

        await wait_until(rest_waits, 120, "the scheduler to say why the rest waits")


async def test_a_node_without_a_zone_gets_its_share(
    api: Api, installed: Installed, nodes: MakeNodes, team_of: MakeTeam
) -> None:
    """A constraint over zones would put it last (podtopologyspread/scoring.go), so the pods have none."""
    bare = [node(f"share-{letter}", labels={ZONE: None}) for letter in "cd"]
    await nodes([node("share-a"), node("share-b", zone="zone-b"), *bare])
    team = await team_of("default")
    await api.create(deployment("chat", 4), team)
    found = await api.running(team, 4)
    assert sorted(pod["spec"]["nodeName"] for pod in found) == [f"share-{letter}" for letter in "abcd"]


async def test_a_node_without_a_zone_that_is_not_for_the_pods_is_no_matter(
    api: Api, installed: Installed, nodes: MakeNodes, team_of: MakeTeam
) -> None:
    machines = [
        node(f"keep-{zone}{number}", zone=f"zone-{zone}", labels=GPU_NODE) for zone in "ab" for number in (1, 2)
    ]
    await nodes([*machines, node("keep-bare", labels={ZONE: None}, taints=["team=x:NoSchedule"])])
    team = await team_of("default")
    await api.create(deployment("chat", 4, nodeSelector=GPU_NODE), team)
    found = await api.running(team, 4)
    assert sorted(pod["spec"]["nodeName"][: len("keep-a")] for pod in found) == ["keep-a", "keep-a", "keep-b", "keep-b"]
    for pod in found:
        assert ZONE in [each["topologyKey"] for each in pod["spec"]["topologySpreadConstraints"]]
