"""What `gpu-admission explain -f` says of a file is what happens when it is applied."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.api import Api, refusal, wait_until
from tests.controlplane.fixtures import MakeNodes
from tests.controlplane.nodes import GPU_TAINT, node
from tests.controlplane.objects import deployment, job, pod
from tests.controlplane.plane import ControlPlane
from tests.installed import Installed, decision
from webhook.cli.cluster.load import load
from webhook.cli.explain import KINDS, explained, of_files

pytestmark = pytest.mark.controlplane

Json = dict[str, Any]
NODES = [node("ex-a", taints=[GPU_TAINT]), node("ex-b", 4, taints=[GPU_TAINT])]
BIG = node("ex-big", 64, taints=[GPU_TAINT])
"""So that only the policy's limit refuses: which nodes the installed webhook has ever seen, this test cannot know."""
CASES = [
    pytest.param(pod("one", 1), id="a pod"),
    pytest.param(pod("big", 32), id="more GPUs than the policy allows"),
    pytest.param(pod("open", 1, hostPID=True), id="what a rule refuses"),
    pytest.param(deployment("chat", 2, 1, labels={"workload-type": "inference"}), id="a Deployment"),
    pytest.param(job("train", 1, 8), id="a Job"),
]


@pytest.mark.parametrize("made", CASES)
async def test_it_happens_as_it_was_said(
    made: Json, control_plane: ControlPlane, installed: Installed, api: Api, nodes: MakeNodes, team: str, tmp_path: Path
) -> None:
    await nodes([*NODES, BIG] if made["metadata"]["name"] == "big" else NODES)
    file = tmp_path / "manifest.yaml"
    file.write_text(yaml.safe_dump(made))

    async def said() -> Json:
        snapshot = await asyncio.to_thread(load, control_plane.kubeconfig, None, KINDS)
        assert snapshot.policy is not None, "the policy is the cluster's own"
        (found,) = of_files(snapshot, snapshot.policy, team, [str(file)])
        return found

    told = await said()
    if told["refused"]:
        assert told["message"] in await refusal(api.create(made, team))
        return
    await api.create(made, team)

    async def first() -> Json | None:
        found = [p for p in await api.pods(team) if p["spec"].get("nodeName")]
        return min(found, key=lambda p: str(p["metadata"]["creationTimestamp"]), default=None)

    stored = await wait_until(first, 120, "a pod")
    pods = await api.pods(team)
    chosen = {decision(p)["nodes"][0][0] for p in pods}
    assert told["nodes"][0]["name"] in chosen
    snapshot = await asyncio.to_thread(load, control_plane.kubeconfig, None, KINDS)
    assert snapshot.policy is not None
    found = explained(snapshot, snapshot.policy, snapshot.pod(team, stored["metadata"]["name"]))[0]
    for key in ("class", "profile", "policy", "strategy", "units"):
        assert found[key] == told[key]
    added = [line[1:].strip() for line in told["diff"] if line.startswith("+") and "topologyKey" in line]
    assert all(key.partition(": ")[2] in json.dumps(stored["spec"]) for key in added)
    assert found["boundTo"] == stored["spec"]["nodeName"]
