"""Pod groups with claims, where the gates for them are on: the scheduler places a group as a whole, and we leave it alone."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bench import devices as load
from tests.controlplane import clusters, settings
from tests.controlplane.api import Api, wait_until
from tests.controlplane.nodes import node
from tests.controlplane.objects import made
from tests.controlplane.plane import ControlPlane
from tests.controlplane.programs import Programs
from tests.e2e.test_devices import claim_template, claiming_pod, where_served
from tests.installed import Installed, decision, opt_in

pytestmark = pytest.mark.controlplane
Json = dict[str, Any]
GATES = "--feature-gates=GenericWorkload=true,DRAWorkloadResourceClaims=true"
GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/team/podgroups"
ZONES = {"a-1": 4, "a-2": 4, "b-1": 8}


@pytest.fixture
async def api(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Api]:
    """A control plane of its own, with nodes of 4, 4 and 8 GPUs by DRA, and the webhook."""
    for name in ("controller_manager", "scheduler"):
        flags = getattr(settings, name)
        monkeypatch.setattr(settings, name, lambda *of, flags=flags: [*flags(*of), GATES])
    options = settings.Options(apiserver=(GATES, "--runtime-config=scheduling.k8s.io/v1beta1=true"))
    with ControlPlane(programs, options=options) as plane, Installed(plane):
        async with Api.of(plane.kubeconfig) as api:
            await clusters.apply(api, [node(name, 0, cpu="192", memory="2Ti") for name in ZONES], 120)
            slices = [load.slice_of(name, gpus, "templates") for name, gpus in ZONES.items()]
            await asyncio.gather(*[api.create(each) for each in (*slices, *load.classes("templates"))])
            await api.namespace("team")
            await opt_in(api, "team")
            yield api


async def grouped(api: Api, name: str, size: int, **spec: Any) -> None:
    policy = {"gang": {"minCount": size}}
    group = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": name}}
    await api.request("POST", GROUPS, group | {"spec": {"schedulingPolicy": policy, **spec}})


def member(group: str, number: int, pod: Json) -> Json:
    pod["metadata"] = {"name": f"{group}-{number}", "labels": {"group": group}}
    pod["spec"]["schedulingGroup"] = {"podGroupName": group}
    return pod


@where_served
async def test_a_group_is_placed_as_a_whole_or_not_at_all_and_none_of_its_pods_by_us(api: Api) -> None:
    await api.create(claim_template("three", load.DRIVER, 3), "team")
    claim = claim_template("shared", load.DRIVER, 4)
    await api.create(made("ResourceClaim", "shared", spec=claim["spec"]["spec"]), "team")
    shared = {"resourceClaims": [{"name": "n0", "resourceClaimName": "shared"}]}
    await asyncio.gather(grouped(api, "fits", 2), grouped(api, "large", 5), grouped(api, "sharing", 3, **shared))
    members = [member("fits", number, claiming_pod("three")) for number in range(2)]
    for each in members:
        await api.create(each, "team")
    fits = await api.running("team", 2, group="fits")
    for number in range(5):
        await api.create(member("large", number, claiming_pod("three")), "team")
    for number in range(3):
        pod = claiming_pod()
        pod["spec"]["resourceClaims"] = [{"name": "n0", "resourceClaimName": "shared"}]
        pod["spec"]["containers"][0]["resources"] = {"claims": [{"name": "n0"}], "requests": {"cpu": "1"}}
        await api.create(member("sharing", number, pod), "team")
    sharing = await api.running("team", 3, group="sharing")

    async def tried() -> list[Json] | None:
        found = await api.pods("team", group="large")
        return list(found) if all(each["status"].get("conditions") for each in found) else None

    large = await wait_until(tried, 120, "the scheduler to try the group that does not fit")
    assert not any(each["spec"].get("nodeName") for each in large)
    assert len({each["spec"]["nodeName"] for each in sharing}) == 1
    for pod in (*fits, *sharing, *large):
        assert "nodeAffinity" not in (pod["spec"].get("affinity") or {})
        assert "pod group" in str(decision(pod))
