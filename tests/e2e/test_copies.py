"""A pod that is copied, or restored from a backup, brings the record of another: what was chosen for that one does not hold."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.controlplane.api import Api, wait_until
from tests.controlplane.fixtures import MakeNodes
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from tests.installed import SHIPPED, Installed, MakeTeam, decision, tried

pytestmark = pytest.mark.controlplane


@pytest.fixture(scope="module", autouse=True)
def profiles(installed: Installed) -> Iterator[None]:
    with installed.policy(SHIPPED + "  pinned: {injectors: {nodeAffinity: {mode: required}}}\n"):
        yield


def copied(stored: dict[str, Any]) -> dict[str, Any]:
    """As `kubectl get -o yaml` prints it, without what a new object must not have."""
    metadata = {key: stored["metadata"][key] for key in ("name", "labels", "annotations") if key in stored["metadata"]}
    spec = {key: value for key, value in stored["spec"].items() if key != "nodeName"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize("profile", ["default", "pinned"])
async def test_a_restored_pod_goes_elsewhere_when_its_old_node_is_full(
    api: Api, team_of: MakeTeam, nodes: MakeNodes, profile: str
) -> None:
    await nodes([node("a", gpus=8), node("b", gpus=8)])
    team = await team_of(profile)
    await api.create(pod("one", 6), team)
    stored = await api.bound(team, "one")
    old = stored["spec"]["nodeName"]
    await api.delete("Pod", "one", team, grace=0)
    await api.create(pod("other", 6, nodeSelector={"kubernetes.io/hostname": old}), team)
    await api.bound(team, "other")

    async def full() -> bool:  # once the watch has brought it
        return old not in [each[0] for each in (await tried(api, copied(stored), team))["nodes"]]

    await wait_until(full, 120, "the webhook to know that the node is full")
    await api.create(copied(stored), team)
    restored = await api.bound(team, "one")
    assert restored["spec"]["nodeName"] != old
    assert decision(restored)["nodes"][0][0] == restored["spec"]["nodeName"]
    assert old not in [each[0] for each in decision(restored)["nodes"]]
