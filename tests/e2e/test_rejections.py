"""What a kubelet says of pods on its node, on the real scheduler: that it rejects them, or cannot give what a resize asks for.

There is no kubelet here: the tests say what one says.
"""

import pytest

from tests.controlplane.api import Api, wait_until
from tests.controlplane.fixtures import MakeNodes
from tests.controlplane.nodes import node
from tests.controlplane.objects import Json, pod
from tests.installed import MakeTeam, decision, tried
from webhook.kube.pod import HOSTNAME

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


def said(name: str, condition: Json, cpu: str) -> Json:
    """The status of a pod by its kubelet, which has given the container so many CPUs."""
    container = {
        "name": name,
        "image": "i",
        "imageID": "",
        "restartCount": 0,
        "ready": True,
        "state": {"waiting": {"reason": "ContainerCreating"}},
        "allocatedResources": {"cpu": cpu},
        "resources": {"requests": {"cpu": cpu}},
    }
    return {"phase": "Running", "conditions": [condition | {"status": "True"}], "containerStatuses": [container]}


INFEASIBLE = {"type": "PodResizePending", "reason": "Infeasible"}
NOT_YET = {"type": "PodResizeInProgress", "reason": "Error"}
"""A limit of memory cannot be lowered below what is in use, for example."""


@pytest.mark.parametrize(
    ("there", "before", "asks", "condition", "goes"),
    [
        pytest.param(NODES[:1], "1", "127", INFEASIBLE, "rejects", id="more, which no kubelet can give"),
        pytest.param(NODES, "127", "1", NOT_YET, "takes", id="less, which its kubelet has not brought about"),
    ],
)
async def test_a_resize_counts_as_the_scheduler_counts_it(
    api: Api,
    team_of: MakeTeam,
    nodes: MakeNodes,
    there: list[Json],
    before: str,
    asks: str,
    condition: Json,
    goes: str,
) -> None:
    await nodes(there)
    team, other = await team_of(), await team_of()
    await api.create(pod("resized", requests={"cpu": before}, nodeSelector={HOSTNAME: "rejects"}), team)
    [running] = await api.running(team, 1)  # its kubelet has said so, and replaces no status of ours later
    name = running["spec"]["containers"][0]["name"]
    status = {"status": said(name, condition, before)}
    await api.patch("Pod", "resized", status, team, subresource="status")
    asked = {"spec": {"containers": [{"name": name, "resources": {"requests": {"cpu": asks}}}]}}
    await api.patch("Pod", "resized", asked, team, subresource="resize", strategy="strategic-merge")
    await api.patch("Pod", "resized", status, team, subresource="status")
    theirs = pod("theirs", requests={"cpu": "4"})

    async def counted() -> bool:
        return [each[0] for each in (await tried(api, theirs, other)).get("nodes", [])] == [goes]

    await wait_until(counted, 120, "the resize to count")
    await api.create(theirs, other)
    found = await api.bound(other, "theirs")
    assert (found["spec"]["nodeName"], [entry[0] for entry in decision(found)["nodes"]]) == (goes, [goes])
