"""Karpenter 1.4, which makes no machine for a pod that prefers a node by its name."""

import asyncio

import pytest

from tests.cli.objects import document
from tests.controlplane.api import Api
from tests.e2e.others import test_karpenter
from tests.e2e.others.room import Room

pytestmark = pytest.mark.others
OTHERS = {"karpenter-1.4": test_karpenter.setup}
POLICY = test_karpenter.POLICY
CASES = [case for case in test_karpenter.CASES if case.values[2] is None]


@pytest.mark.parametrize(("objects", "machines", "_"), CASES)
def test_as_many_machines_as_without_us(objects: list[test_karpenter.Json], machines: int, _: None, room: Room) -> None:
    """No pod has a chosen node that waits for a machine."""
    test_karpenter.test_as_many_machines_as_without_us(objects, machines, None, room)


@pytest.mark.parametrize("profile", test_karpenter.PROFILES)
def test_a_pod_that_comes_too_late_for_its_machine_waits_and_why_says_the_version(profile: str, room: Room) -> None:
    """Until it is created again: then it prefers no node."""

    async def waits(api: Api, name: str, zone: str) -> None:
        elsewhere = next(each for each in ("zone-a", "zone-b") if each != zone)
        await api.create(test_karpenter.late(elsewhere, 8, "other"), name)  # for which Karpenter does make a machine
        await api.running(name, 3, within=300)
        assert not (await api.get("Pod", "late", name))["spec"].get("nodeName")
        asked = ("why", "late", "-n", name, "--kubeconfig", room.plane.kubeconfig)
        (found,) = await asyncio.to_thread(document, *asked)
        assert found["causes"][0]["cause"] == "gpusTaken"
        assert found["decision"]["karpenter"] == "Karpenter makes a node for this pod from version 1.5 on"
        await api.delete("Pod", "late", name, grace=0)
        again = await api.create(test_karpenter.late(zone), name)
        assert not again["spec"].get("affinity")
        await api.running(name, 4, within=300)

    asyncio.run(test_karpenter.outrun(room, profile, waits))
    room.check()
