"""Kinds that the webhook can do without: read with the rights of the installation; PodDisruptionBudgets are used."""

from typing import Any

import pytest
import yaml

from tests.controlplane.objects import deployment, made
from tests.controlplane.plane import ControlPlane
from tests.controlplane.process import wait_for
from tests.e2e.conftest import Sides
from tests.installed import Installed

pytestmark = pytest.mark.controlplane

WORKLOAD = yaml.safe_dump(deployment("chat", 2))
BUDGET = made("PodDisruptionBudget", "chat", spec={"maxUnavailable": 1, "selector": {"matchLabels": {"app": "chat"}}})


def warned(plane: ControlPlane, namespace: str) -> bool:
    answer = plane.kubectl("-n", namespace, "apply", "--dry-run=server", "-f", "-", input=WORKLOAD)
    return "pdbMissing: 2 replicas without a PodDisruptionBudget" in answer.stderr


def test_a_deployment_is_warned_of_until_a_budget_takes_its_pods(
    control_plane: ControlPlane, installed: Installed, sides: Sides
) -> None:
    def settled(wanted: bool) -> None:
        wait_for(lambda: warned(control_plane, sides.ours) is wanted, f"warning: {wanted}", installed.members, 120)

    settled(True)
    control_plane.kubectl("-n", sides.ours, "create", "-f", "-", input=yaml.safe_dump(BUDGET))
    settled(False)
    control_plane.kubectl("-n", sides.ours, "delete", "pdb", "chat")
    settled(True)


@pytest.mark.parametrize("kind", ["resourceslices", "poddisruptionbudgets", "horizontalpodautoscalers"])
def test_the_optional_kinds_are_watched_without_an_error(installed: Installed, kind: str) -> None:
    def heard() -> bool:
        return f'gpu_admission_feed_age_seconds{{feed="{kind}"}}' in installed.metrics()

    wait_for(heard, f"a word of {kind}", installed.members, 120)
    failed: list[Any] = [line for line in installed.decisions() if line.get("feed") == kind]
    assert failed == []
