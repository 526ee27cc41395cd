"""Pods of a PodGroup, which the scheduler places as a whole: on a control plane with the gates GenericWorkload, WorkloadWithJob.

The scheduler takes no group whose pods have another priority than it has, and the priority of both is fixed when they are made.
So a class is given only where both have it from one place, the template of a Job. Otherwise neither gets one, and who asks for
one by a label is told to name it in both.

Why the webhook gives a group none, and its pods after it. Which order of events leaves a group that never runs, and would without
us:

- the call for a pod is lost: none, if the validating hook refuses each pod without the class of its group
- the call for the group is lost, or it is refused by a quota: none, since then neither gets one
- the pods come first, which may be: they have no class when the group gets one. It could be left without for the pods that are
  known, but a pod and its group that are created at once, at two replicas or at one, are not known to each other
- the group is deleted and made again with another class: the same, for the pods that are left
- the namespace opts out, or the webhook is removed, between the two or before a pod is made again: nobody is asked about the pod.
  The guard of manifests/70-guards.yaml then also refuses the class to who names it by hand
- the PriorityClass is made again with another value: no pod can have the priority of the group any more

With the component `pod-groups` the API server itself gives every group and every pod in one the same class, if they name none: no
call is lost, and the order does not matter. The last two are left, so it is for those who know of them. Labels count for nothing
there: a group that a controller makes has not those of its pods, and one whose pods alone have a label would wait.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence

import pytest
import pytest_asyncio

from tests.controlplane import clusters
from tests.controlplane.api import Api, wait_until
from tests.controlplane.nodes import Json, node
from tests.controlplane.objects import job, made, pod
from tests.controlplane.plane import ControlPlane
from tests.controlplane.programs import find
from tests.controlplane.settings import Options
from tests.installed import PROFILE_LABEL, Installed, opt_in
from tests.manifests.files import MANIFESTS, documents
from webhook.cli.cluster.load import load
from webhook.kube.other_gpus import KAI
from webhook.kube.schedulers import ORDERED_BY_OTHERS
from webhook.whatif.answers import KINDS, asked
from webhook.whatif.offline import load_policy
from webhook.whatif.waiting.causes import Cause

pytestmark = pytest.mark.controlplane

GROUPS = Options(
    apiserver=("--runtime-config=scheduling.k8s.io/v1beta1=true",), gates=("GenericWorkload", "WorkloadWithJob")
)
INFERENCE = "gpu-inference"
ASKS = {"workload-type": "inference"}
GANG: Json = {"gang": {"minCount": 2}}
OTHER_PRIORITY = "same priority as the pod group"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def grouping() -> AsyncIterator[ControlPlane]:
    with ControlPlane(find(), GROUPS) as plane, Installed(plane):
        async with Api.of(plane.kubeconfig) as api:
            apart = [
                node(f"gangs-{letter}", labels={"gangs": "only"}, taints=["gangs=only:NoSchedule"]) for letter in "ab"
            ]
            await clusters.apply(api, [*clusters.cluster("two-node"), *apart])
            await api.namespace("team")
            await api.namespace("plain")
            await opt_in(api, "team")
        yield plane


@pytest.fixture
async def team(grouping: ControlPlane) -> AsyncIterator[Api]:
    async with Api.of(grouping.kubeconfig) as api:
        yield api


def group_of(name: str, labels: Mapping[str, str] | None = None, named: str = "") -> Json:
    group = made("PodGroup", name, spec={"schedulingPolicy": GANG, "priorityClassName": named})
    group["metadata"]["labels"] = dict(labels or {})
    return group


def member(group: str, number: int = 0, gpus: int = 1, labels: Mapping[str, str] | None = None, **spec: str) -> Json:
    fields: Json = {"schedulingGroup": {"podGroupName": group}, **spec}
    return pod(f"{group}-{number}", gpus, labels=labels, **fields)


async def settled(api: Api, name: str, namespace: str = "team") -> list[Json]:
    """A group and its two pods, once the scheduler has bound these or refused their priority."""
    pods: list[Json] = []

    async def tried() -> bool:
        pods[:] = [await api.get("Pod", f"{name}-{n}", namespace) for n in range(2)]
        said = [c.get("message", "") for each in pods for c in each["status"].get("conditions", ())]
        return bound(pods) or any(OTHER_PRIORITY in text for text in said)

    await wait_until(tried, 120, f"the scheduler to bind, or to refuse, the group {name}")
    return [await api.get("PodGroup", name, namespace), *pods]


async def together(api: Api, name: str, group_class: str, of_pods: Sequence[str]) -> tuple[list[Json], list[str]]:
    """Two pods of a group, once they are settled; and what their author was told. They ask for inference by a label, and name
    these classes."""
    await api.create(group_of(name, named=group_class), "team")
    told: list[str] = []
    for number, chosen in enumerate(of_pods):
        grouped = member(name, number, labels=ASKS, priorityClassName=chosen)
        told += (await api.create(grouped, "team")).warnings
    return (await settled(api, name))[1:], told


def bound(pods: list[Json]) -> bool:
    return all(each["spec"].get("nodeName") for each in pods)


async def of_job(
    api: Api, name: str, scheduling: Json | None, namespace: str = "team", **fields: object
) -> tuple[Json, list[Json]]:
    """The PodGroup that a Job has made, and its two pods, once they are bound."""
    asked = job(name, pods=2, **fields)  # type: ignore[arg-type]
    if scheduling is not None:
        asked["spec"]["scheduling"] = {"schedulingPolicy": scheduling}
    await api.create(asked, namespace)
    groups: list[Json] = []
    pods: list[Json] = []

    async def tried() -> bool:
        groups[:] = [g for g in await api.list("PodGroup", namespace) if g["metadata"]["name"].startswith(f"{name}-")]
        pods[:] = await api.list("Pod", namespace, labelSelector=f"job-name={name}")
        return len(groups) == 1 and len(pods) == 2 and bound(pods)

    await wait_until(tried, 120, f"the pods of the Job {name} to be bound")
    assert all(each["spec"]["schedulingGroup"]["podGroupName"] == groups[0]["metadata"]["name"] for each in pods)
    return groups[0], pods


@pytest.mark.parametrize(
    ("name", "scheduling", "labels", "given"),
    [
        pytest.param("labelled", GANG, ASKS, INFERENCE, id="the class that a label asks for"),
        pytest.param("guessed", GANG, {}, "gpu-training", id="the class by a guess"),
        pytest.param("singly", {"basic": {}}, {}, "gpu-training", id="of a group that is no gang"),
        pytest.param("unsaid", None, {}, "", id="none in a Job that does not say that it is a group"),
    ],
)
async def test_a_job_that_makes_its_group_gives_both_the_same_class(
    team: Api, name: str, scheduling: Json | None, labels: dict[str, str], given: str
) -> None:
    group, pods = await of_job(team, name, scheduling, labels=labels)
    assert [each["spec"].get("priorityClassName", "") for each in (group, *pods)] == [given] * 3
    assert {each["spec"]["priority"] for each in (group, *pods)} == {group["spec"]["priority"]}


async def test_pods_of_a_group_without_a_class_get_none_and_are_told(team: Api) -> None:
    pods, told = await together(team, "plain", "", ["", ""])
    assert [each["spec"].get("priorityClassName") for each in pods] == [None, None]
    assert bound(pods)
    assert any("priorityClass: " in text and INFERENCE in text and "PodGroup" in text for text in told), told


async def test_a_class_that_the_author_names_in_both_is_kept(team: Api) -> None:
    pods, told = await together(team, "named", INFERENCE, [INFERENCE] * 2)
    assert [each["spec"]["priority"] for each in pods] == [100000, 100000]
    assert bound(pods)
    assert not any("PodGroup" in text for text in told), told


@pytest.mark.parametrize(
    ("name", "group_class", "of_pods"),
    [
        pytest.param("group-alone", INFERENCE, ["", ""], id="where the group alone has it"),
        pytest.param("pods-alone", "", [INFERENCE, INFERENCE], id="where its pods alone have it"),
        pytest.param("one-lost", INFERENCE, [INFERENCE, ""], id="where one pod alone has not: a single call was lost"),
    ],
)
async def test_the_scheduler_takes_no_group_with_another_priority_than_its_pods(
    team: Api, name: str, group_class: str, of_pods: list[str]
) -> None:
    """Why we give none to a group that is made by itself, whatever label it has: without a class all of these run."""
    pods, _ = await together(team, name, group_class, of_pods)
    assert not any(each["spec"].get("nodeName") for each in pods)


async def test_a_group_with_a_class_never_runs_a_later_pod_without_it(team: Api) -> None:
    """What would become of a group that has the class from us, once its namespace has opted out."""
    pods, _ = await together(team, "later", INFERENCE, [INFERENCE] * 2)
    assert bound(pods)
    await team.create(pod("later-2", 0, schedulingGroup={"podGroupName": "later"}), "team")

    async def refused() -> bool:
        later = await team.get("Pod", "later-2", "team")
        assert not bound([later])
        return any(OTHER_PRIORITY in c.get("message", "") for c in later["status"].get("conditions", ()))

    await wait_until(refused, 120, "the scheduler to refuse the later pod")


async def test_pods_may_come_before_their_group(team: Api) -> None:
    """It runs, so we may not refuse a pod whose group is not known, and cannot give it the class that the group will have."""
    for number in range(2):
        await team.create(pod(f"first-{number}", 0, schedulingGroup={"podGroupName": "first"}), "team")
    await team.create(made("PodGroup", "first", spec={"schedulingPolicy": GANG}), "team")

    async def run() -> bool:
        return bound([await team.get("Pod", f"first-{number}", "team") for number in range(2)])

    await wait_until(run, 120, "the pods that came first to be bound")


@pytest.mark.parametrize(
    ("name", "members", "text"),
    [
        ("alone", 1, 'gang "alone" wants 3 pods, and 1 pod of it exist'),
        ("large", 3, 'gang "large" starts 3 pods at once, and there is room for 2'),
    ],
)
async def test_why_a_group_of_at_least_three_waits(
    grouping: ControlPlane, team: Api, name: str, members: int, text: str
) -> None:
    """Nothing is marked as enough: each pod alone would fit."""
    policy = {"schedulingPolicy": {"gang": {"minCount": 3}}}
    tolerations = [{"key": "gangs", "operator": "Exists"}]
    await team.create(made("PodGroup", name, spec=policy), "plain")
    for number in range(members):
        fields = {
            "schedulingGroup": {"podGroupName": name},
            "tolerations": tolerations,
            "nodeSelector": {"gangs": "only"},
        }
        await team.create(pod(f"{name}-{number}", 8, **fields), "plain")
    found: list[Cause] = []

    async def said() -> bool:
        snapshot = await asyncio.to_thread(load, grouping.kubeconfig, None, KINDS)
        (answer,) = asked(snapshot, load_policy(), "plain", f"{name}-0").answers
        found[:] = answer.causes
        assert (found[0].cause, found[0].text[: len(text)]) == ("gangIncomplete", text), found
        return bool(answer.says) or members < 3  # of a group that is not there the scheduler says nothing

    await wait_until(said, 120, f"the cause of {name}")
    assert not any(fix.helps for cause in found for fix in cause.fixes), found
    assert not (await team.get("Pod", f"{name}-0", "plain"))["spec"].get("nodeName")


# --- With the component: one class for every group --------------------------------------------------------------------

TRAINING = "gpu-training"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def given(grouping: ControlPlane) -> AsyncIterator[ControlPlane]:
    """The component `pod-groups` is in force in two namespaces that opted in, and in no other."""
    objects, ours = documents(MANIFESTS / "components" / "pod-groups" / "class.yaml"), {"tests.example/groups": "given"}
    for each in objects:
        if each["kind"].endswith("Binding"):
            each["spec"]["matchResources"] = {"namespaceSelector": {"matchLabels": ours}}
    grouping.kubectl("apply", "-f", "-", input="\n---\n".join(map(json.dumps, objects)))
    async with Api.of(grouping.kubeconfig) as api:
        await clusters.apply(api, [node(f"given-{number}") for number in range(3)])
        for name in ("given", "leaving"):
            await api.namespace(name)
            await opt_in(api, name)
            await api.patch("Namespace", name, {"metadata": {"labels": ours}})

        async def in_force() -> bool:
            classes = [
                (await api.create(each, name, dryRun="All"))["spec"].get("priorityClassName")
                for name in ("given", "leaving")
                for each in (group_of("probe"), member("probe"))
            ]
            probe = await api.create(group_of("probe", named=INFERENCE), "given", dryRun="All")
            return set(classes) == {TRAINING} and bool(probe.warnings)

        await wait_until(in_force, 120, "the component to be in force")
    yield grouping


async def outcome(api: Api, name: str, namespace: str = "given") -> tuple[list[str], bool]:
    """The classes of a group and of its two pods, and whether these run."""
    found = await settled(api, name, namespace)
    assert len({each["spec"]["priority"] for each in found}) == (1 if bound(found[1:]) else 2)
    return [each["spec"].get("priorityClassName", "") for each in found], bound(found[1:])


@pytest.mark.parametrize("order", ["group first", "pods first", "at once"])
async def test_a_group_and_its_pods_get_one_class_whichever_comes_first(
    given: ControlPlane, team: Api, order: str
) -> None:
    """One of the pods has no GPU, as the launcher of an MPI job."""
    name = order.replace(" ", "-")
    objects = [group_of(name), member(name), member(name, 1, gpus=0)]
    if order == "at once":
        await asyncio.gather(*[team.create(each, "given") for each in objects])
    for each in {"group first": objects, "pods first": objects[::-1]}.get(order, []):
        await team.create(each, "given")
    assert await outcome(team, name) == ([TRAINING] * 3, True)


@pytest.mark.parametrize(
    ("name", "of_group", "of_pods"),
    [
        pytest.param("both", ASKS, ASKS, id="in both"),
        pytest.param("group", ASKS, {}, id="in the group alone"),
        pytest.param("pods", {}, ASKS, id="in its pods alone"),
    ],
)
async def test_a_label_asks_for_no_other_class_and_whoever_wrote_it_is_told(
    given: ControlPlane, team: Api, name: str, of_group: dict[str, str], of_pods: dict[str, str]
) -> None:
    """Nobody who decides about one of them knows the labels of the others."""
    name = f"label-{name}"
    told = [(await team.create(group_of(name, of_group), "given")).warnings]
    told += [(await team.create(member(name, number, labels=of_pods), "given")).warnings for number in range(2)]
    assert await outcome(team, name) == ([TRAINING] * 3, True)
    assert [any("priority class" in text or INFERENCE in text for text in each) for each in told] == [
        bool(of_group),
        *[bool(of_pods)] * 2,
    ], told


@pytest.mark.parametrize(
    ("name", "group_class", "pod_class", "runs"),
    [
        pytest.param("author-both", INFERENCE, INFERENCE, True, id="in both"),
        pytest.param("author-group", INFERENCE, "", False, id="in the group alone, which waits for ever"),
        pytest.param("author-pods", "", INFERENCE, False, id="in its pods alone, which wait for ever"),
    ],
)
async def test_a_class_that_the_author_names_is_kept(
    given: ControlPlane, team: Api, name: str, group_class: str, pod_class: str, runs: bool
) -> None:
    """As without us, he has to name it in both; he is told when he names it in the group."""
    told = (await team.create(group_of(name, named=group_class), "given")).warnings
    for number in range(2):
        await team.create(member(name, number, priorityClassName=pod_class), "given")
    wanted = [group_class or TRAINING, *[pod_class or TRAINING] * 2]
    assert await outcome(team, name) == (wanted, runs)
    assert any(f"name priority class {INFERENCE} in the pods" in text for text in told) == bool(group_class), told


async def test_a_group_that_a_job_makes_without_a_class_gets_it_too(given: ControlPlane, team: Api) -> None:
    group, pods = await of_job(team, "unsaid", None, "given")
    assert [each["spec"].get("priorityClassName") for each in (group, *pods)] == [TRAINING] * 3


async def test_a_group_that_a_job_makes_keeps_the_class_of_its_template(given: ControlPlane, team: Api) -> None:
    group, pods = await of_job(team, "asked", GANG, "given", labels=ASKS)
    assert [each["spec"].get("priorityClassName") for each in (group, *pods)] == [INFERENCE] * 3


async def test_pods_of_no_group_and_of_other_schedulers_get_none_by_it(given: ControlPlane, team: Api) -> None:
    condition = documents(MANIFESTS / "components" / "pod-groups" / "class.yaml")[0]["spec"]["matchConditions"][-1]
    assert all(f"'{name}'" in condition["expression"] for name in (*KAI, *ORDERED_BY_OTHERS))
    others = [member("other", schedulerName=name) for name in (*KAI, *ORDERED_BY_OTHERS)]
    for each in (pod("alone", 0), *others):
        assert not (await team.create(each, "given", dryRun="All"))["spec"].get("priorityClassName"), each


async def test_after_an_opt_out_new_pods_of_a_group_wait_for_ever(given: ControlPlane, team: Api) -> None:
    """So the component says what to do before."""
    for each in (group_of("left"), *[member("left", number) for number in range(2)]):
        await team.create(each, "leaving")
    assert await outcome(team, "left", "leaving") == ([TRAINING] * 3, True)
    await team.patch("Namespace", "leaving", {"metadata": {"labels": {PROFILE_LABEL: None}}})

    async def out() -> bool:
        again = await team.create(member("left", 2), "leaving", dryRun="All")
        return not again["spec"].get("priorityClassName")

    await wait_until(out, 120, "the API server to know that the namespace has left")
    await team.create(member("left", 2), "leaving")

    async def refused() -> bool:
        later = await team.get("Pod", "left-2", "leaving")
        assert not bound([later])
        return any(OTHER_PRIORITY in c.get("message", "") for c in later["status"].get("conditions", ()))

    await wait_until(refused, 120, "the scheduler to refuse the later pod")
