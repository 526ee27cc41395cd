"""Of every pod that this run of the tests has had decided, the stored annotation, the replica's log and `why` say the same.

It runs last (conftest.py). Alone it has its own pods to compare.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pytest

from tests.controlplane.api import Api
from tests.controlplane.fixtures import MakeNodes
from tests.controlplane.nodes import GPU_TAINT, node
from tests.controlplane.objects import Json, deployment, job, pod
from tests.controlplane.plane import ControlPlane
from tests.controlplane.process import wait_for
from tests.trying import pod_of
from webhook.cli.cluster.load import load
from webhook.cli.decided import decision_of
from webhook.kube.pod import DECISION
from webhook.kube.record import record_of
from webhook.policy.model import Policy
from webhook.whatif.answers import KINDS
from webhook.whatif.cluster.snapshot import Snapshot

pytestmark = pytest.mark.controlplane

NODES = [node("said-a", taints=[GPU_TAINT]), node("said-b", 4, "NVIDIA-L4", taints=[GPU_TAINT])]
MADE = [
    pod("plain", 1),
    pod("serves", 1, labels={"workload-type": "inference"}),
    pod("gated", 1, schedulingGates=[{"name": "example.com/gate"}]),
    pod("elsewhere", 1, schedulerName="volcano"),
    pod("nowhere", 1, nodeSelector={"pool": "nobodys"}),
    deployment("chat", 3, 1, labels={"workload-type": "inference"}),
    job("train", 2, 1),
]


class Said(NamedTuple):
    """What each of the four says of a decision."""

    profile: str
    policy: str
    workload: str
    node: str | None
    why: str | None


def in_log(line: Json) -> Said:
    return Said(line["profile"], line["policy"], line.get("class", ""), line.get("node"), line.get("why"))


def in_record(record: Json) -> Said:
    nodes = record.get("nodes") or [[None]]
    return Said(record["profile"], record["policy"], record["class"], nodes[0][0], record.get("why"))


def in_explanation(told: Json) -> Said:
    node_of = told["nodes"][0]["name"] if told["nodes"] else None
    return Said(told["profile"], told["policy"], told["class"], node_of, told["why"].partition(": ")[0] or None)


def stored(plane: ControlPlane) -> Iterator[Json]:
    """Every pod that was stored with a decision that our webhook had written."""
    for event in plane.audit_events():
        made, said = event.get("responseObject") or {}, (event.get("annotations") or {}).values()
        ours = any('"webhook":"mutate.gpu-admission.io","mutated":true' in text for text in said)
        created = event["responseStatus"]["code"] == 201 and "dryRun" not in event["requestURI"]
        if ours and created and DECISION in (made["metadata"].get("annotations") or ()):
            yield made


def written(plane: ControlPlane) -> Iterator[Json]:
    """The lines of every webhook that has run on this control plane."""
    for log in plane.folder.glob("webhook-*.log"):
        yield from (json.loads(line) for line in log.read_text().splitlines() if line.startswith("{"))


def lines_of(lines: Iterable[Json]) -> dict[tuple[str, str], Counter[Said]]:
    """The log, by namespace and name, or the beginning of it that was known, with a `*`."""
    found: dict[tuple[str, str], Counter[Said]] = {}
    for line in lines:
        if line.get("hook") == "mutate" and "policy" in line and not line.get("dryRun"):
            found.setdefault((line["namespace"], line["pod"]), Counter())[in_log(line)] += 1
    return found


async def test_every_decision_is_told_in_the_same_words(
    control_plane: ControlPlane, api: Api, nodes: MakeNodes, team: str
) -> None:
    await nodes(NODES)
    for each in MADE:
        await api.create(each, team)
    await api.running(team, 3, app="chat")
    await api.running(team, 2, app="train")

    def all_ten() -> bool:
        return sum(each["metadata"]["namespace"] == team for each in stored(control_plane)) == 10

    await asyncio.to_thread(wait_for, all_ten, "the audit log")
    policy = await policy_of(api)
    lines, pods, wrong = lines_of(written(control_plane)), list(stored(control_plane)), []
    for each in pods:
        metadata = each["metadata"]
        namespace, name, said = metadata["namespace"], metadata["name"], in_record(record_of(each))
        logged = lines.get((namespace, name)) or lines.get((namespace, f"{metadata.get('generateName')}*")) or {}
        alone = Snapshot({"Pod": [{**each, "status": {"phase": "Succeeded"}}], "Node": []})
        told = in_explanation(decision_of(alone, policy, pod_of(alone, namespace, name)))
        if said not in logged or told != said:
            wrong.append((namespace, name, said, told, logged))
    assert wrong == [], f"{len(wrong)} of {len(pods)}"
    assert len(pods) >= 10

    snapshot = await asyncio.to_thread(load, control_plane.kubeconfig, None, KINDS)
    for name in [each["metadata"]["name"] for each in await api.pods(team)]:
        each = pod_of(snapshot, team, name)
        told = decision_of(snapshot, policy, each)
        assert in_explanation(told) == in_record(record_of(each))
        assert told["boundTo"] == each["spec"].get("nodeName")


async def policy_of(api: Api) -> Policy:
    return Policy.load((await api.get("ConfigMap", "gpu-admission-policy", "gpu-admission"))["data"]["policy.yaml"])
