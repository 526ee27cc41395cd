"""Requests of CPU and memory that are filled in: what the API server stores, what its plugins refuse, which pods run."""

import asyncio
import json
from collections.abc import Iterator

import pytest

from tests.controlplane.api import Api, ApiError, refusal, wait_until
from tests.controlplane.fixtures import MakeNodes
from tests.controlplane.nodes import node
from tests.controlplane.objects import Json, deployment, made, pod
from tests.installed import SHIPPED, Installed, MakeTeam

pytestmark = pytest.mark.controlplane

FED = {"injectors": {"cpuPerGpu": {"enabled": True}}}
TRAINING = {"workload-type": "training"}
NODE = node("fed-a", 8, cpu="128", memory="1Ti")


@pytest.fixture(scope="module", autouse=True)
def profile(installed: Installed) -> Iterator[None]:
    with installed.policy(f"{SHIPPED}  fed: {json.dumps(FED)}\n"):
        yield


@pytest.fixture
async def make_team(nodes: MakeNodes, team_of: MakeTeam) -> MakeTeam:
    """Puts nodes into the cluster and makes a namespace that lives under the profile."""

    async def make(*machines: Json) -> str:
        await nodes(list(machines or (NODE,)))
        return await team_of("fed")

    return make


def of_main(found: Json) -> Json:
    """What the first container requests, besides GPUs."""
    asked: Json = found["spec"]["containers"][0]["resources"]["requests"]
    return {name: asked[name] for name in asked if "/" not in name}


async def test_replicas_without_requests_get_those_of_their_class_and_run(api: Api, make_team: MakeTeam) -> None:
    fed = await make_team()
    await api.create(deployment("chat", 3), fed)
    for found in await api.running(fed, 3):
        assert of_main(found) == {"cpu": "4", "memory": "8Gi"}
        assert found["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "1"}
        assert found["status"]["qosClass"] == "Burstable"


async def test_no_more_is_asked_for_than_nodes_have_for_each_gpu(api: Api, make_team: MakeTeam) -> None:
    """Of five CPUs for each GPU four fifths. Training gets eight elsewhere, which would leave GPUs without a pod."""
    fed = await make_team(node("fed-small", 4, cpu="20", memory="80Gi"))
    await asyncio.gather(*[api.create(pod(f"p{number}", labels=TRAINING), fed) for number in range(4)])
    found = await api.running(fed, 4)
    assert {of_main(each)["cpu"] for each in found} == {"4"}


async def test_values_of_a_limit_range_are_kept(api: Api, make_team: MakeTeam) -> None:
    fed = await make_team()
    limits = {"type": "Container", "max": {"cpu": "2"}, "defaultRequest": {"cpu": "500m"}}
    await api.create(made("LimitRange", "rules", spec={"limits": [limits]}), fed)

    async def defaulted() -> bool:
        try:
            probe = await api.create(pod("probe", labels=TRAINING), fed, dryRun="All")
        except ApiError:  # in force between our call and the second turn of the API server's own plugins
            return False
        return of_main(probe).get("cpu") == "500m"

    await wait_until(defaulted, 120, "the LimitRange to be in force")
    found = await api.create(pod("one", labels=TRAINING), fed)
    assert of_main(found) == {"cpu": "500m", "memory": "32Gi"}
    await api.running(fed, 1)


async def until_refused(api: Api, body: Json, namespace: str, words: str) -> None:
    async def refused() -> bool:
        return words in await refusal(api.create(body, namespace, dryRun="All"))

    await wait_until(refused, 120, f"a refusal: {words}")


async def test_a_quota_of_cpu_takes_pods_in_that_it_refuses_without_us_and_counts_what_is_filled_in(
    api: Api, make_team: MakeTeam, namespace: str
) -> None:
    fed = await make_team()
    quota = made("ResourceQuota", "rules", spec={"hard": {"requests.cpu": "8"}})
    for name in (fed, namespace):
        await api.create(quota, name)
    await until_refused(api, pod("probe", labels=TRAINING), namespace, "must specify requests.cpu for: main")

    async def counted() -> bool:  # refused while the controller has not yet counted what is there
        return not await refusal(api.create(pod("one", labels=TRAINING), fed))

    await wait_until(counted, 120, "the quota to be counted")
    await api.running(fed, 1)
    await until_refused(api, pod("two", labels=TRAINING), fed, "exceeded quota")


async def test_a_limit_range_may_refuse_a_filled_in_pod(api: Api, make_team: MakeTeam, namespace: str) -> None:
    """As the documentation of the injector says: without us it is admitted."""
    fed = await make_team()
    body = pod("one", labels=TRAINING)
    body["spec"]["containers"].append({"name": "side", "image": "side", "resources": {"limits": {"cpu": "1"}}})
    limits = [{"type": "Pod", "max": {"cpu": "4"}}]
    for name in (fed, namespace):
        await api.create(made("LimitRange", "rules", spec={"limits": limits}), name)
    await until_refused(api, body, fed, "maximum cpu usage per Pod is 4, but request is")
    await api.create(body, namespace)
