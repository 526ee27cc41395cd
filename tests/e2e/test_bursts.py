"""Bursts of pods: nearly all are bound to the node that was chosen for them, however late the webhook sees them; and what a
tenant leaves beside them makes no creation fail."""

import asyncio
from typing import Any

import pytest

from tests.controlplane.api import Api, wait_until
from tests.controlplane.clusters import IMAGE
from tests.controlplane.fixtures import MakeNodes
from tests.controlplane.objects import REQUIRED, deployment, job, pod
from tests.e2e.behaviour.case import HOST, ZONE
from tests.installed import Installed, decision

pytestmark = pytest.mark.controlplane


async def test_a_burst_keeps_its_first_choices_while_the_watch_of_pods_is_two_seconds_late(
    installed: Installed, api: Api, team: str, nodes: MakeNodes
) -> None:
    """Of twice as many, 381 of 464 were bound there when an owner of which no pod was seen had at most 16 reservations."""
    await nodes("29x8")
    with installed.running("from tests.e2e.late import delay_pods; delay_pods(2)"):
        await asyncio.gather(
            api.create(deployment("many", 200, container={"image": IMAGE}), team),
            api.create(job("some", 32, container={"image": IMAGE}), team),
        )
        found = await api.running(team, 232, within=180)
    chosen = [decision(one)["nodes"][0][0] for one in found]
    first = sum(one["spec"]["nodeName"] == node for one, node in zip(found, chosen, strict=True))
    assert first >= 230, f"{first} of 232"


def about_everybody(kind: str, key: str, but: str) -> dict[str, Any]:
    """The affinity of a pod: 8 terms about the pods of all namespaces, no two alike."""
    terms = []
    for number in range(8):
        selector = {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [f"{but}-{number}"]}]}
        terms.append({"topologyKey": key, "namespaceSelector": {}, "labelSelector": selector})
    return {kind: {REQUIRED: terms}}


async def test_no_creation_of_a_burst_fails_beside_pods_with_many_terms_about_others(
    api: Api, team: str, namespace: str, nodes: MakeNodes
) -> None:
    """Reviews took 35 to 102 ms beside these pods, and those at the end of a burst more than the 5 s of the shipped hook."""
    names = await nodes("100x8")
    waiting = [
        pod(f"waits-{number}", 9, affinity=about_everybody("podAffinity", ZONE, f"{number}")) for number in range(64)
    ]
    running = [
        pod(
            f"alone-{number}",
            0,
            affinity=about_everybody("podAntiAffinity", HOST, f"{number}"),
            nodeName=names[number],
        )
        for number in range(32)
    ]
    for made in (*running, *waiting):
        await api.create(made, namespace)

    async def there() -> bool:
        return len(await api.pods(namespace)) == 96

    await wait_until(there, 120, "what the tenant leaves")
    stored = await asyncio.gather(*[api.create(pod(f"burst-{number}", 1), team) for number in range(100)])
    assert [made["metadata"]["name"] for made in stored if not decision(made).get("nodes")] == []
    assert len(await api.pods(team)) == 100
