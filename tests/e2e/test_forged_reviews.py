"""A stranger reaches the webhook's own port and sends made-up reviews: what the API server asks afterwards is answered as if
nobody had."""

import asyncio
import copy
from contextlib import suppress
from typing import Any

import orjson
import pytest

from tests.builders import GPU, admission_review
from tests.controlplane.api import Api, ApiError, wait_until
from tests.controlplane.fixtures import MakeNodes
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from tests.controlplane.plane import ControlPlane
from tests.e2e.conftest import Sides
from tests.edge import post
from tests.installed import Installed, decision
from tests.manifests.recorder import Recorder, allowed
from tests.strangers import anybody

pytestmark = pytest.mark.controlplane

MEANWHILE = "behaviour/meanwhile"
"""Label of a pod that another hook is asked about."""


async def send(installed: Installed, hook: str, namespace: str, obj: dict[str, Any], **request: Any) -> int:
    """Post a review as nobody checks it: the status of the answer."""
    user = {"username": "kubernetes-admin"}
    body = orjson.dumps(admission_review(obj, namespace, **{"userInfo": user} | request))
    reader, writer = await asyncio.open_connection("127.0.0.1", installed.ports[0], ssl=anybody())
    try:
        writer.write(post(f"/{hook}", length=len(body)) + body)
        return int((await reader.readline()).split()[1])
    finally:
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


async def asker(api: Api) -> dict[str, Any]:
    """Who we are to the API server, as it says in the reviews of what we create."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = await api.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
    user: dict[str, Any] = answer["status"]["userInfo"]
    return user


async def test_a_pod_that_a_forged_review_had_allowed_is_refused(api: Api, installed: Installed, sides: Sides) -> None:
    """The forged review is as the API server's own but for one thing: it has an old object, or another operation."""
    thief = pod("thief", gpus=0, hostPID=True)
    stored = await api.create(thief, sides.plain, dryRun="All")
    stored["metadata"]["namespace"] = sides.ours
    forgeries: list[dict[str, Any]] = [
        {"oldObject": stored},
        {"operation": "UPDATE", "oldObject": stored},
        {"userInfo": {"username": "system:serviceaccount:gpu-operator:x", "groups": ["system:masters"]}},
        {"operation": "DELETE", "oldObject": stored},
        {"subResource": "status", "operation": "UPDATE", "oldObject": stored},
    ]
    user = await asker(api)
    for forged in forgeries:
        for hook in ("mutate", "validate", "validate"):
            asked = {"name": "thief", "userInfo": user} | forged
            assert await send(installed, hook, sides.ours, stored, **asked) in (200, 400)
        with pytest.raises(ApiError, match=r"\[hostNamespaces\]"):
            await api.create(thief, sides.ours, dryRun="All")


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
            statuses.append(asyncio.run(send(installed, "mutate", sides.ours, forged)))
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
