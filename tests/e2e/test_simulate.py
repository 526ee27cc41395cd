"""What `gpu-admission simulate` says of manifests is what the real scheduler then does, with the webhook and without."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.api import Api, wait_until
from tests.controlplane.fixtures import MakeNodes
from tests.controlplane.nodes import node
from tests.controlplane.objects import deployment, job
from tests.controlplane.plane import ControlPlane
from tests.installed import Installed
from webhook.cli.cluster.load import load
from webhook.cli.pending import KINDS
from webhook.cli.simulate import manifests
from webhook.cli.simulating.run import Outcome, simulate

pytestmark = pytest.mark.controlplane

Json = dict[str, Any]
SHARE = {"requests": {"cpu": "8", "memory": "32Gi"}, "limits": {"nvidia.com/gpu": "1"}}
WHOLE = {"requests": {"cpu": "64", "memory": "256Gi"}, "limits": {"nvidia.com/gpu": "8"}}
MADE = [
    deployment("notebook", 2, container={"resources": SHARE}, labels={"workload-type": "development"}),
    job("train", 4, container={"resources": WHOLE}),
]


async def test_as_many_start_as_was_said_and_where(
    control_plane: ControlPlane, installed: Installed, api: Api, nodes: MakeNodes, team: str, tmp_path: Path
) -> None:
    await nodes([node(f"sim-{letter}") for letter in "abc"])

    def said(made: Json) -> Outcome:
        file = tmp_path / "manifest.yaml"
        file.write_text(yaml.safe_dump(made))
        snapshot = load(control_plane.kubeconfig, None, KINDS)
        assert snapshot.policy is not None
        return simulate(snapshot, snapshot.policy, [manifests(file.read_bytes(), str(file), snapshot.policy, team)])

    for made in MADE:
        name, kind = made["metadata"]["name"], made["kind"]
        (told,) = (await asyncio.to_thread(said, made)).workloads
        await api.create(made, team)

        async def settled(name: str = name, wanted: int = told.pods) -> list[Json] | None:
            pods = [pod for pod in await api.pods(team) if pod["metadata"]["labels"].get("app") == name]
            tried = [p for p in pods if p["spec"].get("nodeName") or (p["status"].get("conditions") or ())]
            return pods if len(tried) == wanted else None

        pods = await wait_until(settled, 120, f"the pods of {kind} {name}")
        bound = Counter(pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName"))
        assert bound == told.sides["with"].bound
        assert len(pods) - bound.total() == len(told.sides["with"].waiting)
