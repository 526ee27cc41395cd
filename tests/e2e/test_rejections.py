"""A node that rejects pods again and again, on the real scheduler: the next pod of the namespace is bound elsewhere."""

import pytest

from tests.controlplane.api import Api, wait_until
from tests.controlplane.fixtures import MakeNodes
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from tests.installed import MakeTeam, decision

pytestmark = pytest.mark.controlplane

NODES = [node("rejects", 4), node("takes", 8)]


async def test_a_node_that_rejects_pods_is_avoided_by_their_namespace_and_the_record_says_so(
    api: Api, team_of: MakeTeam, nodes: MakeNodes
) -> None:
    """The smaller node is first by the score. There is no kubelet here: the test says what one says when it rejects a pod."""
    await nodes(NODES)
    team, other = await team_of(), await team_of()
    for number in range(3):
        await api.create(pod(f"p{number}"), team)
        assert (await api.bound(team, f"p{number}"))["spec"]["nodeName"] == "rejects"
        failed = {"status": {"phase": "Failed", "reason": "UnexpectedAdmissionError"}}
        await api.patch("Pod", f"p{number}", failed, team, subresource="status")

    async def avoided() -> bool:
        record = decision(await api.create(pod("probe"), team, dryRun="All"))
        return [record["nodes"][0][0], record["decided"]] == ["takes", "rejections"]

    await wait_until(avoided, 120, "the node to be avoided")
    await api.create(pod("next"), team)
    found = await api.bound(team, "next")
    assert found["spec"]["nodeName"] == "takes"
    assert decision(found)["decided"] == "rejections"
    assert [entry[0] for entry in decision(found)["nodes"]] == ["takes", "rejects"], "last, and not excluded"
    await api.create(pod("theirs"), other)
    assert (await api.bound(other, "theirs"))["spec"]["nodeName"] == "rejects"
