"""From the page of a DCGM exporter through a real Prometheus to the node that a pod is bound to, by every strategy."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.api import Api, wait_until
from tests.controlplane.fixtures import MakeNodes, remove_pods
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from tests.feeds import prometheus_server
from tests.feeds.prometheus_server import Exporter, Prometheus
from tests.installed import SHIPPED, Installed, MakeTeam, decision
from webhook.placement.strategies import STRATEGIES

pytestmark = pytest.mark.controlplane

Json = dict[str, Any]
DATA = Path(__file__).parents[1] / "feeds" / "data"
BUSY, IDLE = ((DATA / f"dcgm-8-{kind}.txt").read_text() for kind in ("busy", "idle"))
NAMES = ("a-busy", "b-hot", "c-sick", "d-warm", "e-idle")
NODES = [node(name) for name in NAMES]
"""The best has the last name, so that no other reason puts it first."""


def page(name: str, text: str, **numbers: int) -> str:
    """What the exporter of a node says; `numbers`: other values of the first GPU, by metric."""
    text = text.replace("gpu-a-0", name).replace("GPU-3b5f0c1e", f"GPU-{name}")
    for metric, number in numbers.items():
        text = re.sub(rf'^({metric}\{{gpu="0".*\}}) \S+$', rf"\g<1> {number}", text, count=1, flags=re.M)
    return text


PAGE = "".join(
    [
        page("a-busy", BUSY),
        page("b-hot", IDLE, DCGM_FI_DEV_GPU_TEMP=91),
        page("c-sick", IDLE, DCGM_FI_DEV_XID_ERRORS=79),
        page("d-warm", IDLE, DCGM_FI_DEV_GPU_TEMP=70),
        page("e-idle", IDLE),
    ]
)


@pytest.fixture(scope="module")
def exporter() -> Iterator[Exporter]:
    try:
        prometheus_server.find()
    except prometheus_server.Unavailable as error:
        if os.environ.get("CI", "").lower() in ("true", "1"):
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))
    with Exporter(PAGE) as serving:
        yield serving
        serving.shutdown()


@pytest.fixture(scope="module", autouse=True)
def metrics(installed: Installed, exporter: Exporter) -> Iterator[None]:
    """A policy that asks a Prometheus that scrapes the exporter, with a profile for each strategy."""
    with Prometheus(f"127.0.0.1:{exporter.server_address[1]}") as prometheus:
        policy = yaml.safe_load(SHIPPED)
        policy["gpuMetrics"] |= {"source": "prometheus", "url": prometheus.url, "interval": "1s", "staleAfter": "4s"}
        for name in STRATEGIES:
            policy["profiles"][name] = {"placement": {"strategies": {}, "otherwise": name}}
        with installed.policy(yaml.safe_dump(policy)):
            yield


async def decided(api: Api, namespace: str, by: str, known: int) -> None:
    """Until nodes are ranked by this, and so many of them have metrics."""

    async def seen() -> bool:
        found = decision(await api.create(pod("probe", gpus=1), namespace, dryRun="All"))
        return found["by"][0] == by and sum(len(entry) > 4 for entry in found["nodes"]) == known

    await wait_until(seen, 120, f"ranked by {by}, {known} nodes with metrics")


async def test_what_an_exporter_says_decides_where_a_pod_is_bound_by_every_strategy_until_it_is_stale(
    api: Api, team_of: MakeTeam, nodes: MakeNodes, exporter: Exporter
) -> None:
    await nodes(NODES)
    teams = {name: await team_of(name) for name in STRATEGIES}
    for strategy, team in teams.items():
        await decided(api, team, "metrics", 5)
        await api.create(pod("p", gpus=1), team)
        found = await api.bound(team, "p")
        record = decision(found)
        assert (strategy, found["spec"]["nodeName"]) == (strategy, "e-idle")
        assert [entry[0] for entry in record["nodes"]][:2] == ["e-idle", "d-warm"]
        numbers = {entry[0]: entry[4:] for entry in record["nodes"]}
        assert numbers == {"a-busy": [0, 100], "b-hot": [7, 0], "c-sick": [7, 0], "d-warm": [8, 0], "e-idle": [8, 0]}
        assert record["by"][:2] == ["metrics", "prometheus"]
        assert 0 <= record["by"][2] <= 4
        await remove_pods(api, team)
    exporter.page = None
    for team in teams.values():
        await decided(api, team, "allocation", 0)
    found = await api.create(pod("p", gpus=1), teams["pack"], dryRun="All")
    assert decision(found)["by"] == ["allocation", "GPU metrics are stale"]
    assert decision(found)["nodes"][0][0] == "a-busy", "by name, as nothing else tells them apart"
    exporter.page = PAGE
