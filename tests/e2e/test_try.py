"""What `try` says of manifests is what the webhook and the real scheduler then do."""

import asyncio
from collections import Counter

import pytest

from tests.controlplane.api import Api
from tests.controlplane.fixtures import MakeNodes
from tests.controlplane.nodes import node
from tests.controlplane.objects import Json, deployment, job
from tests.controlplane.plane import ControlPlane
from tests.installed import Installed, decision
from tests.trying import tried
from webhook.cli.cluster.load import load
from webhook.cli.trying import document_of
from webhook.whatif.answers import KINDS
from webhook.whatif.tried import Outcome

pytestmark = pytest.mark.controlplane

SHARE = {"requests": {"cpu": "8", "memory": "32Gi"}, "limits": {"nvidia.com/gpu": "1"}}
WHOLE = {"requests": {"cpu": "64", "memory": "256Gi"}, "limits": {"nvidia.com/gpu": "8"}}
MADE = [
    deployment("notebook", 2, container={"resources": SHARE}, labels={"workload-type": "development"}),
    job("train", 4, container={"resources": WHOLE}),
]


async def test_as_many_start_as_was_said_and_where(
    control_plane: ControlPlane, installed: Installed, api: Api, nodes: MakeNodes, team: str
) -> None:
    await nodes([node(f"sim-{letter}") for letter in "abc"])

    def said(made: Json) -> tuple[Outcome, Json]:
        snapshot = load(control_plane.kubeconfig, None, KINDS)
        assert snapshot.policy is not None, "the policy is the cluster's own"
        outcome = tried(snapshot, snapshot.policy, [made], team)
        return outcome, document_of(outcome, snapshot)["items"][0]["decision"]

    for made in MADE:
        name = made["metadata"]["name"]
        outcome, explained = await asyncio.to_thread(said, made)
        (told,) = outcome.tried
        await api.create(made, team)

        pods = await api.tried(team, told.pods, told.bound.total(), app=name)
        bound = Counter(pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName"))
        assert bound == told.bound
        assert len(pods) - bound.total() == len(told.waiting)
        records = [decision(pod) for pod in pods]
        assert explained["nodes"][0]["name"] in [record["nodes"][0][0] for record in records if record.get("nodes")]
        for key in ("class", "profile", "policy", "strategy"):
            assert {record.get(key) for record in records if record.get("nodes")} == {explained[key]}, key
