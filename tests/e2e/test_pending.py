"""`gpu-admission why` beside the real scheduler: both give the same reasons and numbers, and the first fix alone helps.

All cases are played at once on one control plane, before the first test. The pods of a case select its own nodes; those of all
others are nodes that are not for them.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import pytest

from tests.controlplane import clusters
from tests.controlplane.api import Api, ApiError, wait_until
from tests.controlplane.fixtures import remove_pods
from tests.controlplane.objects import pod
from tests.controlplane.plane import ControlPlane
from tests.e2e.pending.amounts import AMOUNTS
from tests.e2e.pending.claims import CLAIMS
from tests.e2e.pending.fixes import Open, apply
from tests.e2e.pending.kit import CASE, EVERYWHERE, Case, Json, Kit, kept, named
from tests.e2e.pending.nodes import NODES
from tests.e2e.pending.workloads import WORKLOADS
from webhook.cli.cluster.load import load
from webhook.whatif.answers import KINDS, Answer, answers
from webhook.whatif.cluster.snapshot import Snapshot
from webhook.whatif.offline import load_policy
from webhook.whatif.waiting.scheduler_message import reasons, unexplained

pytestmark = pytest.mark.controlplane

ALL = [*NODES, *AMOUNTS, *CLAIMS, *WORKLOADS]
LONGEST = 600
"""Seconds until a case that does not go on is given up."""
POLICY = load_policy()
Found = TypeVar("Found")
Played = dict[str, Exception | None]


@pytest.fixture(scope="module")
def played(request: pytest.FixtureRequest, control_plane: ControlPlane) -> Played:
    """What was wrong with each case that this run has, by its id."""
    of_this_run = [item.callspec.params["case"] for item in request.session.items if item.module is request.module]
    return {each.case.id: each.wrong for each in asyncio.run(play(of_this_run, control_plane))}


@pytest.mark.parametrize("case", ALL, ids=[case.id for case in ALL])
def test_it_agrees_with_the_scheduler_and_its_first_fix_helps(case: Case, played: Played) -> None:
    if (wrong := played[case.id]) is not None:
        raise wrong


class Play:
    """One case in its own nodes and its own namespace."""

    def __init__(self, api: Api, case: Case, number: int) -> None:
        self.tag = f"c{number:03}"
        self.case, self.namespace = case, f"{type(self).__name__.lower()}-{self.tag}"
        self.kit = Kit(api, self.tag, self.namespace, kept(named(case.pod, self.tag), self.tag))
        self.nodes = [_labelled(named(node, self.tag), self.tag) for node in case.nodes]
        self.answer: Answer | None = None
        self.wrong: Exception | None = None

    async def prepare(self) -> None:
        await self.kit.api.namespace(self.namespace, self.case.labels)
        await self.kit.make(*self.case.before)
        if any(obj["kind"] == "ValidatingAdmissionPolicy" for obj in self.case.before):
            await self._refused()

    async def _refused(self) -> None:
        """A new policy is in force a moment after it is stored."""
        while True:
            try:
                await self.kit.api.create(pod("probe", 0, labels={"refuse": "me"}), self.namespace, dryRun="All")
            except ApiError:
                return
            await asyncio.sleep(0.1)

    async def begin(self) -> None:
        if self.case.happens is not None:
            await self.case.happens(self.kit)
        await self.kit.make(self.case.pod)

    async def stays(self) -> None:
        """A pod on a node that is not there is made again: after 40 seconds it is collected (podgc/gc_controller.go)."""
        if self.case.pod["kind"] == "Pod" and self.case.pod["spec"].get("nodeName"):
            try:
                await self.kit.make(self.case.pod)
            except ApiError as error:
                if error.status != 409:
                    raise

    async def mend(self) -> None:
        assert self.answer is not None
        first = self.answer.causes[0]
        try:
            await apply(self.kit, first)
        except Open:
            if self.case.fix is None:
                raise
            await self.case.fix(self.kit)
        else:
            assert first.helps, first
            assert self.case.fix is None, "the test reads the fix from the answer"
        if self.case.pod["kind"] != "Pod":
            await wait_until(self._made, 100, "a pod to be made", 1)

    async def _made(self) -> bool:
        """Lets the controller look at its workload: nothing else wakes it, and after each failure it waits longer."""
        name, look = self.case.pod["metadata"]["name"], {"annotations": {"example.com/look": str(time.time())}}
        await self.kit.patch(self.case.pod["kind"], name, {"metadata": look})
        return any(each["metadata"]["name"].startswith(name) for each in await self.kit.api.pods(self.namespace))

    def is_settled(self, pods: Mapping[str, list[Json]]) -> None:
        """The pods that are there before are bound."""
        assert all(each["spec"].get("nodeName") for each in pods.get(self.namespace, ())), "not all pods are bound"

    def is_answered(self, found: Mapping[str, list[Answer]]) -> None:
        """The command says what is wanted, and the numbers of the scheduler."""
        case, wanted = self.case, self.case.about or self.case.pod["metadata"]["name"]
        answer = next((each for each in found.get(self.namespace, ()) if each.name.startswith(wanted)), None)
        assert answer is not None, found.get(self.namespace)
        assert case.says in self._plain(answer.says), (answer.says, _short(answer))
        first = answer.causes[0]
        text, fix = (self._plain(each) for each in (first.text, first.fix))
        assert (first.cause, text[: len(case.text)]) == (case.first, case.text), _short(answer)
        assert fix.startswith(case.advises), first
        assert case.notes in self._plain("\n".join(answer.notes)), answer.notes
        self.agrees(answer)

    def agrees(self, answer: Answer) -> None:
        """Reasons and numbers are the scheduler's."""
        for reason in reasons(answer.says):
            ours = {name for cause in answer.causes if cause.cause in reason.causes for name in cause.nodes}
            assert reason.nodes in (len(ours), 0) or not ours, (reason, len(ours), _short(answer))
        assert not unexplained(answer.pod, answer.says, answer.causes), _short(answer)
        self.answer = answer

    def is_bound(self, pods: Mapping[str, list[Json]]) -> None:
        ours = [each for each in pods.get(self.namespace, ()) if each["metadata"]["name"].startswith("waits")]
        after = self.answer and (self.answer.causes[0].text, self.answer.causes[0].fix)
        assert ours, f"no pod after {after}"
        why = [each["status"].get("conditions") for each in ours if not each["spec"].get("nodeName")]
        assert not why, (after, why)

    def _plain(self, text: str) -> str:
        """The text with the names of the table."""
        return text.replace(self.namespace, "NAMESPACE").replace(f"{self.tag}-", "")


def _short(answer: Answer) -> list[tuple[Any, ...]]:
    return [(cause.cause, cause.text, cause.fix, cause.helps) for cause in answer.causes[:3]]


def _labelled(node: Json, tag: str) -> Json:
    node["metadata"]["labels"][CASE] = tag
    return node


def _each_answer(snapshot: Snapshot) -> dict[str, list[Answer]]:
    return _by_namespace(answers(snapshot, POLICY, None), lambda answer: answer.namespace)


async def play(
    cases: Sequence[Case],
    plane: ControlPlane,
    kind: type[Play] = Play,
    found: Callable[[Snapshot], Any] = _each_answer,
) -> list[Play]:
    """`found`: what `kind.is_answered` takes."""
    async with Api.of(plane.kubeconfig) as api:
        plays = [kind(api, case, number) for number, case in enumerate(cases)]
        before = {kind: {o["metadata"]["name"] for o in await api.list(kind)} for kind in EVERYWHERE}
        names = await clusters.apply(api, [node for each in plays for node in each.nodes])
        try:

            async def pods() -> dict[str, list[Json]]:
                return _by_namespace(await api.list("Pod"), lambda pod: str(pod["metadata"]["namespace"]))

            async def answered() -> Any:
                await _each(plays, kind.stays)
                return found(await asyncio.to_thread(load, plane.kubeconfig, None, KINDS))

            await _each(plays, kind.prepare)
            await _until(plays, pods, kind.is_settled)
            await _each(plays, kind.begin)
            await _until(plays, answered, kind.is_answered)
            await _each(plays, kind.mend)
            await _until(plays, pods, kind.is_bound)
        finally:
            await clusters.remove(api, names)
            await _tidy(api, before)
            await asyncio.gather(*(_ended(api, each.namespace) for each in plays))
    return plays


async def _each(plays: Iterable[Play], step: Callable[[Play], Awaitable[None]]) -> None:
    """Take the next step in all cases that go on."""

    async def taken(each: Play) -> None:
        try:
            async with asyncio.timeout(LONGEST):
                await step(each)
        except Exception as error:
            each.wrong = error

    await asyncio.gather(*(taken(each) for each in plays if each.wrong is None))


async def _until(plays: Iterable[Play], look: Callable[[], Awaitable[Any]], check: Callable[[Play, Any], None]) -> None:
    """Look at all cases until each is as it is to be."""
    left, end = [each for each in plays if each.wrong is None], time.monotonic() + LONGEST
    while left:
        began, seen = time.monotonic(), await look()
        for each in left:
            each.wrong = None
            try:
                check(each, seen)
            except AssertionError as error:
                each.wrong = error
        left = [each for each in left if each.wrong]
        if (now := time.monotonic()) > end:
            return
        # To read the whole cluster costs more than what happens in it.
        await asyncio.sleep(max(1, now - began) if left else 0)


def _by_namespace(found: Iterable[Found], namespace: Callable[[Found], str]) -> dict[str, list[Found]]:
    grouped: dict[str, list[Found]] = {}
    for each in found:
        grouped.setdefault(namespace(each), []).append(each)
    return grouped


async def _ended(api: Api, namespace: str) -> None:
    """Remove all that makes pods, is one, or is held by one. The namespace stays: to remove one takes a hundred requests. What a
    controller makes of its old cache fits no node any more."""
    for each in await api.pods(namespace):
        if each["metadata"].get("finalizers"):
            await api.patch("Pod", each["metadata"]["name"], {"metadata": {"finalizers": None}}, namespace)
    for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job"):
        await api.delete_all(kind, namespace, propagationPolicy="Background")
    await remove_pods(api, namespace)
    for kind in ("PersistentVolumeClaim", "ResourceClaim"):
        await api.delete_all(kind, namespace)


async def _tidy(api: Api, before: Mapping[str, set[str]]) -> None:
    """What has no namespace goes."""
    for kind in EVERYWHERE:
        for obj in await api.list(kind):
            if (name := obj["metadata"]["name"]) not in before[kind]:
                await api.patch(kind, name, {"metadata": {"finalizers": None}})
                await api.delete(kind, name, missing_ok=True)
