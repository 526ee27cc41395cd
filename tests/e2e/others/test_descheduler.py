"""The descheduler: what docs/beside.md says to set keeps what we placed."""

import re
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
import yaml

from tests.controlplane import clusters
from tests.controlplane.api import Api, wait_until
from tests.controlplane.fixtures import remove_namespace, remove_pods
from tests.controlplane.nodes import node
from tests.controlplane.objects import PREFERRED, Json, job, made
from tests.controlplane.settings import HOST
from tests.e2e.others.room import Place, Room, Start, manager
from tests.installed import opt_in

pytestmark = pytest.mark.others
_PLUGINS: dict[str, Json] = {
    "RemoveDuplicates": {},
    "RemovePodsViolatingTopologySpreadConstraint": {},
    "RemovePodsViolatingNodeAffinity": {"nodeAffinityType": [PREFERRED]},
}


def _policy() -> Json:
    """The one of docs/beside.md, with plugins that evict what is together."""
    text = (Path(__file__).resolve().parents[3] / "docs" / "beside.md").read_text()
    (block,) = re.findall(r"```yaml\n(apiVersion: descheduler.*?)```", text, re.DOTALL)
    policy: Json = yaml.safe_load(block)
    (profile,) = policy["profiles"]
    *balance, deschedule = _PLUGINS
    profile["plugins"] = {"balance": {"enabled": balance}, "deschedule": {"enabled": [deschedule]}}
    profile["pluginConfig"] += [{"name": name, "args": args} for name, args in _PLUGINS.items()]
    return policy


def _setup(place: Place) -> Start:
    flags = {"kubeconfig": place.kubeconfig, "policy-config-file": place.file, "descheduling-interval": "5s"}
    flags |= {"secure-port": place.health, "cert-dir": place.folder, "v": 1}
    return Start(_policy(), flags, f"https://{HOST}:{place.health}/healthz")


OTHERS = {"jobset": manager("config.jobset.x-k8s.io/v1alpha1"), "descheduler": _setup}


@pytest_asyncio.fixture
async def api(room: Room) -> AsyncIterator[Api]:
    async with Api.of(room.plane.kubeconfig) as client, clusters.applied(client, [node("first", 8)]):
        yield client
    room.check()


def _jobset() -> Json:
    """Its author prefers nodes that come later."""
    term = {"weight": 1, "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["fast"]}]}}
    template = {"spec": job("trainer", 4, affinity={"nodeAffinity": {PREFERRED: [term]}})["spec"]}
    return made("JobSet", "trainer", spec={"replicatedJobs": [{"name": "all", "replicas": 1, "template": template}]})


@pytest.mark.parametrize(
    ("workload", "plugin"),
    [
        pytest.param(job("trainer", 4), "RemoveDuplicates", id="Job"),
        pytest.param(_jobset(), "RemovePodsViolatingNodeAffinity", id="JobSet whose first choice comes later"),
    ],
)
async def test_pods_that_were_packed_stay(api: Api, room: Room, workload: Json, plugin: str) -> None:
    """In the same cycles pods of a namespace that has not opted in are evicted."""
    plain, ours = [await api.namespace(f"{of}-{uuid.uuid4().hex[:6]}") for of in ("plain", "ours")]
    log = room.others["descheduler"].log
    try:
        await opt_in(api, ours)
        before = {}
        for team in (plain, ours):
            await api.create(workload, team)
            before[team] = {pod["metadata"]["uid"] for pod in await api.running(team, 4)}
        async with clusters.applied(api, [node(name, 8, labels={"disk": "fast"}) for name in ("second", "third")]):

            async def evicted() -> bool:
                lines = [each for each in log.read_text().splitlines() if "Evicted pod" in each and f"{plain}/" in each]
                assert any(plugin in each for each in lines), lines
                return True

            await wait_until(evicted, 120, f"{plugin} to evict pods without us", 1)
            cycles = log.read_text().count("Number of evict")

            async def again() -> bool:
                return log.read_text().count("Number of evict") >= cycles + 2

            await wait_until(again, 120, "two more cycles of the descheduler", 1)
            assert before[ours] == {pod["metadata"]["uid"] for pod in await api.running(ours, 4)}
            for team in (plain, ours):  # before their nodes
                await api.delete_all(workload["kind"], team, propagationPolicy="Background")
                await remove_pods(api, team)
    finally:
        for team in (plain, ours):
            await api.delete_all(workload["kind"], team, propagationPolicy="Background")
            await remove_namespace(api, team)
