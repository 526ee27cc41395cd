"""`gpu-admission pending` beside the real scheduler: both give the same reasons and numbers, and what it advises helps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.controlplane import clusters
from tests.controlplane.api import Api, ApiError, wait_until
from tests.controlplane.objects import pod
from tests.controlplane.plane import ControlPlane
from tests.e2e.pending_cases import CASES, EVERYWHERE, Case, Kit, make
from tests.e2e.pending_more_cases import MORE
from webhook.cli.cluster.load import load
from webhook.cli.offline import load_policy
from webhook.cli.pending import KINDS, Answer, answers
from webhook.cli.waiting.scheduler_message import reasons, unexplained

pytestmark = pytest.mark.controlplane


@pytest.fixture
async def tidy(api: Api) -> AsyncIterator[None]:
    """What has no namespace goes after each case."""
    before = {kind: {o["metadata"]["name"] for o in await api.list(kind)} for kind in EVERYWHERE}
    yield
    for kind in EVERYWHERE:
        for obj in await api.list(kind):
            if obj["metadata"]["name"] not in before[kind]:
                await api.patch(kind, obj["metadata"]["name"], {"metadata": {"finalizers": None}})
                await api.delete(kind, obj["metadata"]["name"], missing_ok=True)


@pytest.mark.parametrize("case", [*CASES, *MORE], ids=[case.id for case in [*CASES, *MORE]])
async def test_it_agrees_with_the_scheduler_and_its_fix_helps(
    case: Case, control_plane: ControlPlane, api: Api, namespace: str, tidy: None
) -> None:
    names = await clusters.apply(api, case.nodes)
    try:
        await _made(api, namespace, case)
        answer = await wait_until(
            lambda: _answered(control_plane, namespace, case), 30, f"{case.first} and {case.says!r}"
        )
        first = answer.causes[0]
        assert (first.cause, first.text.replace(namespace, "NAMESPACE")) == (case.first, case.text) or (
            first.cause == case.first
            and case.first in ("limitRange", "volumeClaimUnbound")
            and first.text.startswith(case.text)
        )
        assert first.fix
        for reason in reasons(answer.says):
            ours = {name for cause in answer.causes if cause.cause in reason.causes for name in cause.nodes}
            assert reason.nodes in (len(ours), 0) or not ours, (reason, answer.causes)
        assert unexplained(answer.says, answer.causes) == []
        await case.fix(Kit(api, namespace, case.pod))
        await wait_until(lambda: _bound(api, namespace), 60, "the pod bound")
    finally:
        await clusters.remove(api, names)


async def _made(api: Api, namespace: str, case: Case) -> None:
    for obj in case.before:
        await make(api, namespace, obj)

    async def settled() -> bool:
        return all(pod["spec"].get("nodeName") for pod in await api.pods(namespace))

    async def refusing() -> bool:
        """A new policy is in force a moment after it is stored."""
        try:
            await api.create(pod("probe", 0, labels={"refuse": "me"}), namespace, dryRun="All")
        except ApiError:
            return True
        return False

    await wait_until(settled, 30, "the other pods bound")
    if any(obj["kind"] == "ValidatingAdmissionPolicy" for obj in case.before):
        await wait_until(refusing, 30, "the policy in force")
    await make(api, namespace, case.pod)


async def _answered(plane: ControlPlane, namespace: str, case: Case) -> Answer:
    """What the command says, read as it does, once the scheduler has spoken."""
    snapshot = await asyncio.to_thread(load, plane.kubeconfig, None, KINDS)
    found = answers(snapshot, load_policy(), namespace)
    wanted = case.about or case.pod["metadata"]["name"]
    answer = next((each for each in found if each.name.startswith(wanted)), None)
    assert answer is not None, found
    assert case.says in answer.says, answer
    assert answer.causes[0].cause == case.first, answer
    return answer


async def _bound(api: Api, namespace: str) -> bool:
    pods = [pod for pod in await api.pods(namespace) if pod["metadata"]["name"].startswith("waits")]
    return bool(pods) and all(pod["spec"].get("nodeName") for pod in pods)
