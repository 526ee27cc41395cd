"""`gpu-admission pending` beside the real scheduler: both give the same reasons and numbers, and what it advises helps.

The answers are about all nodes of a cluster, and most of the time a case waits. So the cases are played before the first test, on
three control planes side by side.
"""

import asyncio
import uuid

import pytest

from tests.controlplane import clusters
from tests.controlplane.api import Api, ApiError, wait_until
from tests.controlplane.fixtures import remove_namespace
from tests.controlplane.objects import pod
from tests.controlplane.plane import ControlPlane
from tests.controlplane.programs import Programs
from tests.e2e.pending_cases import CASES, EVERYWHERE, Case, Kit, make
from tests.e2e.pending_more_cases import MORE
from webhook.cli.cluster.load import load
from webhook.cli.offline import load_policy
from webhook.cli.pending import KINDS, Answer, answers
from webhook.cli.waiting.scheduler_message import reasons, unexplained

pytestmark = pytest.mark.controlplane

PLANES = 3
POLICY = load_policy()
Played = dict[str, Exception | None]


@pytest.fixture(scope="module")
def played(request: pytest.FixtureRequest, programs: Programs, control_plane: ControlPlane) -> Played:
    """What was wrong with each case that this run has, by its id."""
    of_this_run = [item.callspec.params["case"] for item in request.session.items if item.module is request.module]
    return asyncio.run(play(of_this_run, programs, control_plane))


@pytest.mark.parametrize("case", [*CASES, *MORE], ids=[case.id for case in [*CASES, *MORE]])
def test_it_agrees_with_the_scheduler_and_its_fix_helps(case: Case, played: Played) -> None:
    if (wrong := played[case.id]) is not None:
        raise wrong


async def play(cases: list[Case], programs: Programs, control_plane: ControlPlane) -> Played:
    """Each control plane takes the next case when it has done one."""
    left, found = iter(cases), Played()

    async def on_another() -> None:
        plane = ControlPlane(programs)
        await asyncio.to_thread(plane.__enter__)
        try:
            await on(plane)
        finally:
            await asyncio.to_thread(plane.close)

    async def on(plane: ControlPlane) -> None:
        async with Api.of(plane.kubeconfig) as api:
            for case in left:
                try:
                    await _played(plane, api, case)
                    found[case.id] = None
                except Exception as error:
                    found[case.id] = error

    others = min(PLANES, len(cases)) - 1
    await asyncio.gather(on(control_plane), *(on_another() for _ in range(others)))
    return found


async def _played(plane: ControlPlane, api: Api, case: Case) -> None:
    before = {kind: {o["metadata"]["name"] for o in await api.list(kind)} for kind in EVERYWHERE}
    namespace = await api.namespace(f"pending-{uuid.uuid4().hex[:6]}")
    names = await clusters.apply(api, case.nodes)
    try:
        await _made(api, namespace, case)
        answer = await wait_until(
            lambda: _answered(plane, namespace, case), 120, f"{case.first} and {case.says!r}", every=0.5
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
        await wait_until(lambda: _bound(api, namespace), 120, "the pod bound")
    finally:
        await clusters.remove(api, names)
        await _tidy(api, before)
        await remove_namespace(api, namespace)


async def _tidy(api: Api, before: dict[str, set[str]]) -> None:
    """What has no namespace goes after each case."""
    for kind in EVERYWHERE:
        for obj in await api.list(kind):
            if obj["metadata"]["name"] not in before[kind]:
                await api.patch(kind, obj["metadata"]["name"], {"metadata": {"finalizers": None}})
                await api.delete(kind, obj["metadata"]["name"], missing_ok=True)


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

    await wait_until(settled, 120, "the other pods bound")
    if any(obj["kind"] == "ValidatingAdmissionPolicy" for obj in case.before):
        await wait_until(refusing, 120, "the policy in force")
    await make(api, namespace, case.pod)


async def _answered(plane: ControlPlane, namespace: str, case: Case) -> Answer:
    """What the command says, read as it does, once the scheduler has spoken."""
    snapshot = await asyncio.to_thread(load, plane.kubeconfig, None, KINDS)
    found = answers(snapshot, POLICY, namespace)
    wanted = case.about or case.pod["metadata"]["name"]
    answer = next((each for each in found if each.name.startswith(wanted)), None)
    assert answer is not None, found
    assert case.says in answer.says, answer
    assert answer.causes[0].cause == case.first, answer
    return answer


async def _bound(api: Api, namespace: str) -> bool:
    pods = [pod for pod in await api.pods(namespace) if pod["metadata"]["name"].startswith("waits")]
    return bool(pods) and all(pod["spec"].get("nodeName") for pod in pods)
