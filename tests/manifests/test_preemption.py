"""The guard of the classes that preempt, on a real API server."""

import re
from collections.abc import Iterator

import pytest

from tests.controlplane.api import Api, refusal, wait_until
from tests.controlplane.objects import made, pod
from tests.controlplane.plane import ControlPlane
from tests.manifests.files import only, shipped
from webhook.kube.pod import PROFILE_LABEL

pytestmark = pytest.mark.controlplane

LABEL = "class.gpu-admission.io/inference-critical"
OUTSIDE, INSIDE, CRITICAL = "preempting-outside", "preempting-inside", "preempting-critical"
LABELS = {OUTSIDE: {LABEL: ""}, INSIDE: {PROFILE_LABEL: "default"}}
LABELS[CRITICAL] = LABELS[OUTSIDE] | LABELS[INSIDE]
CLASSES = {each["metadata"]["name"]: each for each in shipped("PriorityClass")}
PREEMPTING = {name for name, each in CLASSES.items() if each["preemptionPolicy"] != "Never"}


@pytest.fixture(scope="module")
def sides(applied: ControlPlane) -> Iterator[ControlPlane]:
    """A namespace that has not opted in, one that has, and one that is entitled too."""
    with applied.having(*(made("Namespace", name, labels=labels) for name, labels in LABELS.items())):
        for name in LABELS:
            applied.kubectl("-n", name, "wait", "--for=create", "serviceaccount/default", "--timeout=120s")
        yield applied


@pytest.fixture
async def guarded(sides: ControlPlane, api: Api) -> Api:
    # In some runs our webhook is there, and is asked too: its watch has to bring the labels of all three namespaces.
    async def in_force() -> bool:
        if not await refused(api, OUTSIDE, "gpu-inference"):
            return False
        return not any([await refused(api, where, name) for where, names in MAY_USE.items() for name in names])

    await wait_until(in_force, 120, "the guard of the classes that preempt")
    return api


async def refused(api: Api, where: str, name: str) -> str:
    """The message with which the API server refuses a pod of this PriorityClass; "" if it accepts it."""
    return await refusal(api.create(pod("p", 0, priorityClassName=name), where, dryRun="All"))


MAY_USE = {OUTSIDE: set(), INSIDE: {"gpu-inference"}, CRITICAL: {"gpu-inference", "gpu-inference-critical"}}
"""Those that preempt; all others are for every namespace."""
ADVICE = {
    OUTSIDE: ("has not opted in", "for the label gpu-admission.io/profile"),
    INSIDE: ("Use gpu-inference, or", LABEL),
}


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("where", MAY_USE)
async def test_a_class_that_preempts_is_for_namespaces_that_are_entitled(guarded: Api, where: str, name: str) -> None:
    """The namespace outside has the label of the class, and yet has not opted in."""
    message = await refused(guarded, where, name)
    assert bool(message) is (name in PREEMPTING - MAY_USE[where])
    if message:
        assert f"pods of priority class {name} preempt" in message
        assert all(part in message for part in (where, *ADVICE[where]))


async def test_a_pod_keeps_its_class_when_its_namespace_leaves(guarded: Api) -> None:
    """As after an upgrade: what is there can be changed as before."""
    await guarded.create(pod("kept", 0, priorityClassName="gpu-inference", schedulerName="nobody"), INSIDE)
    label = f"/metadata/labels/{PROFILE_LABEL.replace('/', '~1')}"
    await guarded.patch("Namespace", INSIDE, [{"op": "remove", "path": label}])
    try:

        async def left() -> bool:
            return bool(await refused(guarded, INSIDE, "gpu-inference"))

        await wait_until(left, 120, "the guard to see that the namespace has left")
        change = [{"op": "add", "path": "/metadata/annotations", "value": {"a": "b"}}]
        found = await guarded.patch("Pod", "kept", change, namespace=INSIDE)
        assert found["spec"]["priority"] == CLASSES["gpu-inference"]["value"]
    finally:
        await guarded.patch("Namespace", INSIDE, [{"op": "add", "path": label, "value": "default"}])
        await guarded.delete("Pod", "kept", INSIDE)


async def test_the_system_is_not_guarded(guarded: Api) -> None:
    assert await refused(guarded, "kube-system", "gpu-inference-critical") == ""


def test_every_class_that_preempts_is_guarded() -> None:
    (condition, _) = only("ValidatingAdmissionPolicy", "gpu-admission-preemption")["spec"]["matchConditions"]
    assert set(re.findall(r"'(gpu-[a-z-]+)'", condition["expression"])) == PREEMPTING
