"""Pods of a PodGroup, which the scheduler places as a whole: on a control plane with the gate GenericWorkload.

The scheduler takes no group whose pods have another priority than it has, and the priority of both is fixed when they are made.
So neither gets a class that the other may not have, and who asks for one by a label is told to name it in both.
"""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.controlplane import clusters
from tests.controlplane.api import Api, wait_until
from tests.controlplane.nodes import Json
from tests.controlplane.objects import made, pod
from tests.controlplane.plane import ControlPlane
from tests.controlplane.programs import find
from tests.controlplane.settings import Options
from tests.installed import Installed, opt_in

pytestmark = pytest.mark.controlplane

GROUPS = Options(apiserver=("--runtime-config=scheduling.k8s.io/v1beta1=true",), gates=("GenericWorkload",))
INFERENCE = "gpu-inference"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def grouping() -> AsyncIterator[ControlPlane]:
    with ControlPlane(find(), GROUPS) as plane, Installed(plane):
        async with Api.of(plane.kubeconfig) as api:
            await clusters.apply(api, clusters.cluster("two-node"))
            await api.namespace("team")
            await opt_in(api, "team")
        yield plane


@pytest.fixture
async def team(grouping: ControlPlane) -> AsyncIterator[Api]:
    async with Api.of(grouping.kubeconfig) as api:
        yield api


async def together(api: Api, name: str, group_class: str, **fields: object) -> tuple[list[Json], list[str]]:
    """Two pods of a group, once the scheduler has placed, or could not place, them; and what their author was told."""
    spec: Json = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    spec |= {"priorityClassName": group_class} if group_class else {}
    await api.create(made("PodGroup", name, spec=spec), "team")
    grouped = {"schedulingGroup": {"podGroupName": name}, "labels": {"workload-type": "inference"}, **fields}
    told = [(await api.create(pod(f"{name}-{n}", **grouped), "team")).warnings for n in range(2)]  # type: ignore[arg-type]
    found: list[Json] = []

    async def tried() -> bool:
        found[:] = [await api.get("Pod", f"{name}-{n}", "team") for n in range(2)]
        return all(any(c["type"] == "PodScheduled" for c in each["status"].get("conditions", ())) for each in found)

    await wait_until(tried, 120, f"the scheduler to look at the group {name}")
    return found, [text for texts in told for text in texts]


def bound(pods: list[Json]) -> bool:
    return all(each["spec"].get("nodeName") for each in pods)


async def test_pods_of_a_group_without_a_class_get_none_and_are_told(team: Api) -> None:
    pods, told = await together(team, "plain", "")
    assert [each["spec"].get("priorityClassName") for each in pods] == [None, None]
    assert bound(pods)
    assert any("priorityClass: " in text and INFERENCE in text and "PodGroup" in text for text in told), told


async def test_a_class_that_the_author_names_in_both_is_kept(team: Api) -> None:
    pods, told = await together(team, "named", INFERENCE, priorityClassName=INFERENCE)
    assert [each["spec"]["priority"] for each in pods] == [100000, 100000]
    assert bound(pods)
    assert not any("PodGroup" in text for text in told), told


async def test_the_scheduler_takes_no_group_with_another_priority_than_its_pods(team: Api) -> None:
    """Why we give neither a class: the other would lack it."""
    pods, _ = await together(team, "apart", INFERENCE)
    assert not bound(pods)
    said = [c["message"] for each in pods for c in each["status"]["conditions"] if c["type"] == "PodScheduled"]
    assert any("same priority as the pod group" in text for text in said), said
