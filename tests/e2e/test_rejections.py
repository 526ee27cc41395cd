"""What a kubelet says of pods on its node, on the real scheduler: that it rejects them, or cannot give what a resize asks for.

There is no kubelet here: the tests say what one says.
"""

import pytest

from tests.controlplane.api import Api, wait_until
from tests.controlplane.fixtures import MakeNodes
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from tests.installed import MakeTeam, decision, tried

pytestmark = pytest.mark.controlplane

NODES = [node("rejects", 4), node("takes", 8)]


async def test_a_node_that_rejects_pods_is_avoided_by_their_namespace_and_the_record_says_so(
    api: Api, team_of: MakeTeam, nodes: MakeNodes
) -> None:
    """The smaller node is first by the score."""
    await nodes(NODES)
    team, other = await team_of(), await team_of()
    for number in range(3):
        await api.create(pod(f"p{number}"), team)
        (found,) = await api.running(team, 1)  # its kubelet has said so, and replaces no status of ours later
        assert found["spec"]["nodeName"] == "rejects"
        failed = {"status": {"phase": "Failed", "reason": "UnexpectedAdmissionError"}}
        await api.patch("Pod", f"p{number}", failed, team, subresource="status")

    async def avoided() -> bool:
        record = await tried(api, pod("probe"), team)
        return [record["nodes"][0][0], record["decided"]] == ["takes", "rejections"]

    await wait_until(avoided, 120, "the node to be avoided")
    await api.create(pod("next"), team)
    found = await api.bound(team, "next")
    assert found["spec"]["nodeName"] == "takes"
    assert decision(found)["decided"] == "rejections"
    assert [entry[0] for entry in decision(found)["nodes"]] == ["takes", "rejects"], "last, and not excluded"
    await api.create(pod("theirs"), other)
    assert (await api.bound(other, "theirs"))["spec"]["nodeName"] == "rejects"


async def test_a_resize_that_no_kubelet_can_give_leaves_the_node_to_others(
    api: Api, team_of: MakeTeam, nodes: MakeNodes
) -> None:
    await nodes([node("rejects", 8)])
    team, other = await team_of(), await team_of()
    grown = pod("grows", 1)
    grown["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "1"}
    await api.create(grown, team)
    [running] = await api.running(team, 1)  # its kubelet has said so, and replaces no status of ours later
    name = running["spec"]["containers"][0]["name"]
    status = {
        "phase": "Running",
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}],
        "containerStatuses": [
            {
                "name": name,
                "image": "i",
                "imageID": "",
                "restartCount": 0,
                "ready": True,
                "state": {"waiting": {"reason": "ContainerCreating"}},
                "allocatedResources": {"cpu": "1"},
                "resources": {"requests": {"cpu": "1"}},
            }
        ],
    }
    await api.patch("Pod", "grows", {"status": status}, team, subresource="status")
    asked = {"spec": {"containers": [{"name": name, "resources": {"requests": {"cpu": "127"}}}]}}
    await api.patch("Pod", "grows", asked, team, subresource="resize", strategy="strategic-merge")
    await api.patch("Pod", "grows", {"status": status}, team, subresource="status")
    theirs = pod("theirs", 1)
    theirs["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "4"}
    await api.create(theirs, other)
    found = await api.bound(other, "theirs")
    assert found["spec"]["nodeName"] == "rejects"
    assert [entry[0] for entry in decision(found)["nodes"]] == ["rejects"], "the scheduler and we count the same"
