"""HorizontalPodAutoscalers on a real API server: whoever applies a workload that is scaled and not spread gets a warning."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import yaml

from tests.controlplane.fixtures import MakeNodes
from tests.controlplane.objects import deployment, made
from tests.controlplane.plane import ControlPlane
from tests.controlplane.process import wait_for
from tests.e2e.conftest import NODES
from tests.installed import SHIPPED, Installed, MakeTeam

pytestmark = pytest.mark.controlplane

Json = dict[str, Any]
PROFILE = "  no-spread: {injectors: {topologySpread: {enabled: false}}}\n"
TOLD = 'Warning: spreadMissing: up to 40 replicas by HorizontalPodAutoscaler "chat" without topology spread or pod anti-affini'
SPREAD: Json = {
    "maxSkew": 1,
    "topologyKey": "kubernetes.io/hostname",
    "whenUnsatisfiable": "ScheduleAnyway",
    "labelSelector": {"matchLabels": {"app": "chat"}},
}
METRIC = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}}
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat"}
SCALE = {"minReplicas": 1, "maxReplicas": 40, "scaleTargetRef": TARGET, "metrics": [METRIC]}
AUTOSCALER = made("HorizontalPodAutoscaler", "chat", spec=SCALE)


class Team:
    """A namespace whose profile adds no topology spread."""

    def __init__(self, plane: ControlPlane, installed: Installed, name: str) -> None:
        self.plane, self.installed, self.name = plane, installed, name

    def kubectl(self, *arguments: str, obj: Json | None = None) -> str:
        """What it printed as warnings."""
        text = None if obj is None else yaml.safe_dump(obj)
        return self.plane.kubectl("-n", self.name, *arguments, input=text).stderr

    def applied(self, obj: Json, *flags: str) -> str:
        return self.kubectl("apply", "-f", "-", *flags, obj=obj)

    def settled(self, true: Callable[[], object], what: str) -> None:
        wait_for(lambda: bool(true()), what, self.installed.members, 120)

    def findings(self) -> float:
        found = self.installed.metrics()
        return sum(value for name, value in found.items() if "findings_total" in name and '"spreadMissing"' in name)


@pytest.fixture
async def team(
    control_plane: ControlPlane, installed: Installed, nodes: MakeNodes, team_of: MakeTeam
) -> AsyncIterator[Team]:
    with installed.policy(SHIPPED + PROFILE):
        await nodes(NODES)
        yield Team(control_plane, installed, await team_of("no-spread"))


def test_the_warning_about_a_scaled_workload_ends_when_it_is_spread_or_not_scaled(team: Team) -> None:
    one = deployment("chat")
    assert "spreadMissing" not in team.applied(one, "--dry-run=server")
    team.applied(AUTOSCALER)
    team.settled(lambda: TOLD in team.applied(one, "--dry-run=server"), "a warning once it is scaled")
    assert "spreadMissing" not in team.applied(deployment("search"), "--dry-run=server"), "another workload"
    assert "spreadMissing" not in team.applied(
        deployment("chat", topologySpreadConstraints=[SPREAD]), "--dry-run=server"
    )
    assert TOLD in team.applied(one)
    other = deployment("chat", priorityClassName="gpu-inference")
    assert TOLD in team.applied(other, "--dry-run=server")
    team.kubectl("delete", "hpa", "chat")
    team.settled(lambda: "spreadMissing" not in team.applied(other, "--dry-run=server"), "no warning any more")


def test_an_autoscaler_that_comes_after_its_workload_is_counted_with_each_new_pod_and_told_at_the_next_change(
    team: Team,
) -> None:
    team.applied(deployment("chat"))
    assert "spreadMissing" not in team.applied(AUTOSCALER)
    changed = deployment("chat", priorityClassName="gpu-inference")
    team.settled(lambda: TOLD in team.applied(changed, "--dry-run=server"), "a warning at the next change")
    before = team.findings()
    team.kubectl("scale", "deployment/chat", "--replicas=3")
    team.settled(lambda: team.findings() >= before + 2, "two new pods to be counted")
    there = team.plane.kubectl("-n", team.name, "get", "pods", "-l", "app=chat", "-o", "name").stdout
    assert len(there.split()) == 3, "none was refused"
