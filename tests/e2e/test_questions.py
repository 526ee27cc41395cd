"""What people ask about pods of theirs that do not run, on the real scheduler: `why` names the right cause, and each `!` that it
prints, applied to the letter, gets the pod bound. The page asks the same code.

All questions are played at once, as in `test_pending`.
"""

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest

from tests.controlplane.api import wait_until
from tests.controlplane.objects import made
from tests.controlplane.plane import ControlPlane
from tests.e2e.pending.kit import Json, named
from tests.e2e.questions import QUESTIONS, Question
from tests.e2e.test_pending import POLICY, Play, Played, play
from webhook.cli.cluster.load import load
from webhook.cli.why import cause_lines
from webhook.errors import BadInput
from webhook.whatif.answers import KINDS, Asked, asked, rows_of
from webhook.whatif.cluster.devices import PodGpus
from webhook.whatif.cluster.snapshot import Snapshot
from webhook.whatif.offline import as_submitted
from webhook.whatif.waiting.causes import Fix

pytestmark = pytest.mark.controlplane

OF_CONTROLLERS = ("pod-template-hash", "controller-revision-hash", "controller-uid", "job-name")
"""Labels by which a controller would take a pod for its own."""


class Asks(Play):
    """One question: asked, answered, and each marked fix tried."""

    case: Question
    plane: ControlPlane
    found: Asked | None = None

    async def prepare(self) -> None:
        await super().prepare()
        self.config = self.plane.kubeconfig
        if self.case.tenant:
            await self.kit.make(made("ServiceAccount", "asks"))
            reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
            subjects = [{"kind": "ServiceAccount", "name": "asks", "namespace": self.namespace}]
            await self.kit.make(made("RoleBinding", "asks", roleRef=reference, subjects=subjects))
            user = f"--as=system:serviceaccount:{self.namespace}:asks"
            await asyncio.to_thread(self.plane.await_right, "list", "pods", f"--namespace={self.namespace}", user)
            self.config = await asyncio.to_thread(self.plane.kubeconfig_for, self.namespace, "asks")

    async def begin(self) -> None:
        await self.kit.make(self.case.pod)
        if self.case.happens is not None:
            await wait_until(self._runs, 120, "the first version")
            await self.case.happens(self.kit)
        if self.case.later is not None:
            await wait_until(self._waits, 120, "a pod that waits")
            await self.case.later(self.kit)

    async def _runs(self) -> bool:
        return any(each["spec"].get("nodeName") for each in await self.kit.api.pods(self.namespace))

    async def _waits(self) -> bool:
        return any(each["status"].get("conditions") for each in await self.kit.api.pods(self.namespace))

    def is_answered(self, snapshot: Snapshot) -> None:
        case = self.case
        if case.tenant:
            with ThreadPoolExecutor(1) as beside:  # `load` has a loop of its own
                snapshot = beside.submit(load, self.config, None, KINDS, self.namespace, needed=("Pod",)).result()
        name = named(case.name, self.tag)
        found, said = None, ""
        try:
            found = asked(snapshot, POLICY, self.namespace, name)
        except BadInput as error:
            said = str(error)
        if found is None:
            assert not case.first, said
            assert all(part in said for part in case.told), said
            return
        rows = rows_of(found.answers, PodGpus(snapshot, POLICY))
        assert case.rows in (None, len(rows)), [(row.name, row.cause.text) for row in rows]
        answer = next(iter(found.answers), None)
        assert answer is not None, [each["metadata"]["name"] for each in found.pods]
        lines = "\n".join([line.plain for line in cause_lines(answer.causes, wide=False)] + answer.notes)
        words = [cause.cause for cause in answer.causes]  # a tenant hears of the nodes of all other questions too
        assert case.first in (words if case.tenant else words[:1]), lines
        plain = self._plain(lines)
        assert all(self._plain(part) in plain for part in case.told), (case.told, plain, answer.says)
        assert not any(part in plain for part in case.never), (case.never, plain)
        shown = [cause for cause in answer.causes if not cause.elsewhere]
        marked = [fix for cause in shown for fix in cause.fixes if fix.helps]
        assert case.enough in (None, bool(marked)), plain
        assert not (case.tenant and marked), plain
        if answer.pod is not None and not case.tenant:
            self.agrees(answer)
        self.found, self.marked, self.answered_by = found, marked, answer.pod
        self.lines, self.waiting = plain, {each.name for each in found.answers}
        self.before = [each for each in snapshot.of("Pod") if each["metadata"]["namespace"] == self.namespace]

    async def mend(self) -> None:
        """Try each fix with a mark: first those that change the pod, each on a pod of its own, then the one that is a command or
        ends others."""
        marked: list[Fix] = getattr(self, "marked", [])
        for number, fix in enumerate([each for each in marked if not each.command and not each.ends]):
            if fix.pod is not None:
                await self._bound(self._alone(fix.pod, f"fixed-{number}"), fix, stays=False)
        others = [each for each in marked if each.command or each.ends]
        assert len(others) < 2, "one question for each, please"
        for fix in others:
            for ended in fix.ends:
                await self.kit.api.delete("Pod", ended["metadata"]["name"], ended["metadata"]["namespace"], grace=0)
            if fix.command:
                await asyncio.to_thread(self.plane.kubectl, *fix.command[1:])
            room = re.search(r"room for (\d+) of", fix.words)
            if self.answered_by is None:
                await self._made(fix)
            else:
                await self._bound(self.answered_by, fix, stays=True, pods=int(room[1]) if room else 0)

    async def _made(self, fix: Fix) -> None:
        """A pod is made that was not, and bound. Its controller tries again after a while, or when its workload changes."""
        kind, name = self.case.pod["kind"], self.case.pod["metadata"]["name"]
        before = {each["metadata"]["name"] for each in self.before}

        async def is_bound() -> bool:
            await self.kit.api.patch(kind, name, {"metadata": {"annotations": {"seen": uuid4().hex}}}, self.namespace)
            pods = await self.kit.api.pods(self.namespace)
            return any(each["spec"].get("nodeName") and each["metadata"]["name"] not in before for each in pods)

        await wait_until(is_bound, 90, f"a pod made and bound after «{fix.line}», of {self.lines}", 1)

    def _alone(self, pod: Json, name: str) -> Json:
        """The pod of a fix as a person would create it, and no controller's."""
        found = as_submitted(pod)
        labels = found["metadata"].get("labels") or {}
        found["metadata"] = {
            "name": name,
            "labels": {key: value for key, value in labels.items() if key.rpartition("/")[2] not in OF_CONTROLLERS},
        }
        found["spec"]["volumes"] = [each for each in found["spec"].get("volumes") or () if "projected" not in each]
        for each in [*found["spec"]["containers"], *(found["spec"].get("initContainers") or ())]:
            each.pop("volumeMounts", None)
        return found

    async def _bound(self, pod: Json, fix: Fix, *, stays: bool, pods: int = 0) -> None:
        """`pods`: so many of those that wait, whichever; 0: this one."""
        name = pod["metadata"]["name"]
        if not stays:
            await self.kit.api.create(pod, self.namespace)

        async def is_bound() -> bool:
            if pods:
                now_bound = {
                    each["metadata"]["name"]
                    for each in await self.kit.api.pods(self.namespace)
                    if each["spec"].get("nodeName")
                }
                return len(now_bound & self.waiting) >= pods
            now: Any = await self.kit.api.get("Pod", name, self.namespace)
            return bool(now["spec"].get("nodeName"))

        await wait_until(is_bound, 90, f"a pod bound after «{fix.line}», of {self.lines}", 0.5)
        if not stays:
            await self.kit.api.delete("Pod", name, self.namespace, grace=0)

    def is_bound(self, pods: object) -> None:
        """Every fix was tried by `mend`."""


@pytest.fixture(scope="module")
def played(request: pytest.FixtureRequest, control_plane: ControlPlane) -> Played:
    """What was wrong with each question that this run has."""
    of_this_run = [item.callspec.params["question"] for item in request.session.items if item.module is request.module]
    Asks.plane = control_plane
    return {
        each.case.id: each.wrong
        for each in asyncio.run(play(of_this_run, control_plane, Asks, lambda snapshot: snapshot))
    }


@pytest.mark.parametrize("question", QUESTIONS, ids=[each.id for each in QUESTIONS])
def test_it_is_answered_and_each_mark_is_true(question: Question, played: Played) -> None:
    if (wrong := played[question.id]) is not None:
        raise wrong
