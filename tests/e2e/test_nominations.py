"""GPUs that were freed for a pod which preempted others are that pod's, from its nomination until it is bound."""

import asyncio

import pytest

from tests.controlplane.api import Api, refusal, wait_until
from tests.controlplane.fixtures import MakeNodes
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from tests.controlplane.plane import ControlPlane
from tests.installed import Installed, decision, tried

pytestmark = pytest.mark.controlplane

FINALIZER = "tests.example/stays"


async def test_gpus_that_were_freed_for_a_preemptor_are_chosen_for_nobody_else(
    control_plane: ControlPlane, installed: Installed, api: Api, namespace: str, team: str, nodes: MakeNodes
) -> None:
    """There is no scheduler from the nomination on: so the pod stays nominated while nothing else holds the node."""
    await nodes([node("freed"), node("used")])
    there = pod("there", 1, nodeSelector={"kubernetes.io/hostname": "used"}, priorityClassName="system-node-critical")
    await api.create(there, namespace)
    victim = pod("victim", 8, labels={"workload-type": "training"})
    victim["metadata"]["finalizers"] = [FINALIZER]
    await api.create(victim, team)
    await api.running(team, 1)
    await api.running(namespace, 1)
    await api.create(pod("preemptor", 8, labels={"workload-type": "inference"}), team)

    async def nominated() -> bool:
        return (await api.get("Pod", "preemptor", team))["status"].get("nominatedNodeName") == "freed"

    async def gone() -> bool:
        return bool(await refusal(api.get("Pod", "victim", team)))

    async def heard() -> bool:
        allocated = [value for name, value in installed.metrics().items() if 'state="allocated"' in name]
        assert sum(allocated) == 1, allocated
        return True

    await wait_until(nominated, 120, "the nomination")
    await asyncio.to_thread(control_plane.stop, "kube-scheduler")
    try:
        await api.patch("Pod", "victim", {"metadata": {"finalizers": None}}, team)
        await wait_until(gone, 120, "the end of the victim")
        await wait_until(heard, 120, "the webhook to hear of it")
        other = await tried(api, pod("other", 8), team)
        assert (other.get("nodes"), other["why"]) == (None, "no node fits")
        assert [each[0] for each in (await tried(api, pod("small", 7), team))["nodes"]] == ["used"]
    finally:
        await asyncio.to_thread(control_plane.start, "kube-scheduler")
    found = await api.bound(team, "preemptor")
    assert found["spec"]["nodeName"] == "freed"
    assert decision(found)["why"] == "no node fits", "when it was created, the victim was there"
