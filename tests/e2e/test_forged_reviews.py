"""A stranger reaches the webhook's own port and sends made-up reviews."""

import asyncio
import copy
from contextlib import suppress
from typing import Any

import orjson
import pytest

from bench.load import anybody
from tests.builders import GPU, admission_review
from tests.controlplane.api import Api, wait_until
from tests.controlplane.fixtures import MakeNodes
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from tests.controlplane.plane import ControlPlane
from tests.e2e.conftest import Sides
from tests.edge import post
from tests.installed import Installed, decision
from tests.manifests.recorder import Recorder, allowed

pytestmark = pytest.mark.controlplane

MEANWHILE = "behaviour/meanwhile"
"""Label of a pod that another hook is asked about."""


async def send(installed: Installed, namespace: str, obj: dict[str, Any]) -> int:
    """Post a review to the mutating hook, as nobody checks it: the status of the answer."""
    body = orjson.dumps(admission_review(obj, namespace, userInfo={"username": "kubernetes-admin"}))
    reader, writer = await asyncio.open_connection("127.0.0.1", installed.ports[0], ssl=anybody())
    try:
        writer.write(post("/mutate", length=len(body)) + body)
        return int((await reader.readline()).split()[1])
    finally:
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


async def test_what_is_reserved_for_a_pod_outlives_a_forged_second_call(
    api: Api, control_plane: ControlPlane, installed: Installed, sides: Sides, nodes: MakeNodes
) -> None:
    """Between our answer and the stored pod, another hook has its turn: meanwhile a stranger says that the pod grew out of its
    node, and somebody else creates a pod."""
    labels = {"pool": "second"}
    await nodes([node(f"second-{letter}", 8, "NVIDIA-A100-SXM4-80GB", labels=labels) for letter in "ab"])
    first = pod("first", 4, labels={MEANWHILE: "true"}, nodeSelector=labels)
    then = pod("then", 5, nodeSelector=labels)
    statuses: list[int] = []

    def other_hook(_: str, body: bytes) -> bytes:
        request = orjson.loads(body)["request"]
        if request["name"] == "first":
            forged = copy.deepcopy(request["object"])
            forged["spec"]["containers"][0]["resources"] = {"limits": {GPU: "64"}, "requests": {GPU: "64"}}
            statuses.append(asyncio.run(send(installed, sides.ours, forged)))
            control_plane.kubectl("create", "-n", sides.ours, "-f", "-", input=orjson.dumps(then).decode())
        return allowed(body)

    with Recorder(other_hook) as other:
        async with api.having(other.of_new_pods(MEANWHILE)):

            async def called() -> bool:
                await api.create(pod("probe", labels={MEANWHILE: "true"}), sides.ours, dryRun="All")
                return bool(other.reviews)

            await wait_until(called, 120, "a call of the other hook")
            grown = await api.create(first, sides.ours)
    assert statuses == [200]
    stored = (grown, await api.get("Pod", "then", sides.ours))
    chosen = [decision(each)["nodes"][0][0] for each in stored]
    assert chosen == ["second-a", "second-b"], "four GPUs of second-a are reserved for the first pod"
