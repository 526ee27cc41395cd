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
from tests.controlplane.objects import Json, job
from tests.controlplane.settings import HOST
from tests.e2e.others.room import Place, Room, Start
from tests.installed import opt_in

pytestmark = pytest.mark.others
_PLUGINS = ["RemoveDuplicates", "RemovePodsViolatingTopologySpreadConstraint"]


def _policy() -> Json:
    """The one of docs/beside.md, with plugins that evict what is together."""
    text = (Path(__file__).resolve().parents[3] / "docs" / "beside.md").read_text()
    (block,) = re.findall(r"```yaml\n(apiVersion: descheduler.*?)```", text, re.DOTALL)
    policy: Json = yaml.safe_load(block)
    (profile,) = policy["profiles"]
    profile["plugins"] = {"balance": {"enabled": _PLUGINS}}
    profile["pluginConfig"] += [{"name": name, "args": {}} for name in _PLUGINS]
    return policy


def _setup(place: Place) -> Start:
    flags = {"kubeconfig": place.kubeconfig, "policy-config-file": place.file, "descheduling-interval": "5s"}
    flags |= {"secure-port": place.health, "cert-dir": place.folder, "v": 1}
    return Start(_policy(), flags, f"https://{HOST}:{place.health}/healthz")


OTHERS = {"descheduler": _setup}


@pytest_asyncio.fixture
async def api(room: Room) -> AsyncIterator[Api]:
    async with Api.of(room.plane.kubeconfig) as client, clusters.applied(client, [node("first", 8)]):
        yield client
    room.check()


async def test_pods_that_were_packed_stay(api: Api, room: Room) -> None:
    """In the same cycles pods of a namespace that has not opted in are evicted."""
    plain, ours = [await api.namespace(f"{of}-{uuid.uuid4().hex[:6]}") for of in ("plain", "ours")]
    try:
        await opt_in(api, ours)
        before = {}
        for team in (plain, ours):
            await api.create(job("trainer", 4), team)
            before[team] = {pod["metadata"]["uid"] for pod in await api.running(team, 4)}
        async with clusters.applied(api, [node("second", 8), node("third", 8)]):

            async def evicted() -> bool:
                return before[plain] != {pod["metadata"]["uid"] for pod in await api.pods(plain)}

            await wait_until(evicted, 120, "pods without us to be evicted")
            cycles = room.others["descheduler"].log.read_text().count("Number of evict")

            async def again() -> bool:
                return room.others["descheduler"].log.read_text().count("Number of evict") >= cycles + 2

            await wait_until(again, 120, "two more cycles of the descheduler", 1)
            assert before[ours] == {pod["metadata"]["uid"] for pod in await api.running(ours, 4)}
            for team in (plain, ours):  # before their nodes
                await api.delete_all("Job", team, propagationPolicy="Background")
                await remove_pods(api, team)
    finally:
        for team in (plain, ours):
            await api.delete_all("Job", team, propagationPolicy="Background")
            await remove_namespace(api, team)
