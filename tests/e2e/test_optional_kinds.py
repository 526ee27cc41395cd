"""Kinds that the webhook can do without: read with the rights of the installation, and seen in what an author is told."""

from typing import Any

import pytest

from tests.controlplane.api import Api, wait_until
from tests.controlplane.fixtures import MakeNodes
from tests.controlplane.objects import deployment, made
from tests.controlplane.process import wait_for
from tests.e2e.conftest import NODES
from tests.installed import SHIPPED, Installed, MakeTeam
from webhook.feeds.cluster import PATHS

pytestmark = pytest.mark.controlplane

PROFILE = "  no-spread: {injectors: {topologySpread: {enabled: false}}}\n"
METRIC = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}}
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat"}
SCALE = {"minReplicas": 1, "maxReplicas": 40, "scaleTargetRef": TARGET, "metrics": [METRIC]}
CASES = [
    pytest.param(
        made("HorizontalPodAutoscaler", "chat", spec=SCALE),
        'spreadMissing: up to 40 replicas by HorizontalPodAutoscaler "chat" without topology spread or pod anti-affini',
        True,
        id="an autoscaler",
    ),
]


@pytest.mark.parametrize(("obj", "text", "told_with_it"), CASES)
async def test_a_warning_follows_what_comes_and_goes(
    obj: dict[str, Any],
    text: str,
    told_with_it: bool,
    api: Api,
    installed: Installed,
    nodes: MakeNodes,
    team_of: MakeTeam,
) -> None:
    with installed.policy(SHIPPED + PROFILE):
        await nodes(NODES)
        team = await team_of("no-spread")

        async def settled(wanted: bool) -> None:
            async def seen() -> bool:
                said = (await api.create(deployment("chat", 2), team, dryRun="All")).warnings
                return any(text in each for each in said) is wanted

            await wait_until(seen, 120, f"{text}: {wanted}")

        await settled(not told_with_it)
        async with api.having(obj, namespace=team):
            await settled(told_with_it)
            other = (await api.create(deployment("search", 2), team, dryRun="All")).warnings
            assert any(text in each for each in other) is not told_with_it, "about another workload nothing has changed"
        await settled(not told_with_it)


def test_every_kind_is_listed_and_watched(installed: Installed) -> None:
    kinds = PATHS.keys() - {"devicetaintrules", "nodepools"}  # not served by all versions, or of Karpenter

    def heard() -> bool:  # only an open watch counts
        metrics = installed.metrics()
        return all(f'gpu_admission_feed_age_seconds{{feed="{kind}"}}' in metrics for kind in kinds)

    wait_for(heard, "a watch of each kind", installed.members, 120)
