"""Events on workloads and pods, written by two replicas with the rights of the component `events`, and without them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
import pytest_asyncio
import yaml

from tests.controlplane.api import Api, wait_until
from tests.controlplane.clusters import apply
from tests.controlplane.nodes import GPU_TAINT, node
from tests.controlplane.objects import Json, deployment, pod
from tests.controlplane.plane import ControlPlane
from tests.e2e.bare import bare
from tests.installed import ROOT, SHIPPED, Installed, decision, opt_in
from tests.trying import pod_of
from webhook.cli.cluster.load import load
from webhook.cli.decided import decision_of
from webhook.policy.model import Policy
from webhook.whatif.answers import KINDS

pytestmark = pytest.mark.controlplane

COMPONENT = ROOT / "manifests" / "components" / "events"
TEAM = "team"
POLICY = Policy.load(SHIPPED.encode())
WRITTEN = 'gpu_admission_events_total{result="written"}'
NODES = [node(f"ev-{letter}", 4, taints=[GPU_TAINT]) for letter in "abc"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def events(beside: ControlPlane) -> AsyncIterator[Installed]:
    """The webhook as the component sets it up, in two replicas."""
    (component,) = yaml.safe_load_all((COMPONENT / "kustomization.yaml").read_text())
    (added,) = yaml.safe_load(component["patches"][0]["patch"])
    settings = {added["value"]["name"]: added["value"]["value"]}
    async with bare(beside) as client:
        with Installed(beside, replicas=2, settings=settings) as installed:
            await apply(client, NODES)
            await client.namespace(TEAM)
            await opt_in(client, TEAM)
            yield installed


@pytest.fixture
async def api(events: Installed) -> AsyncIterator[Api]:
    async with Api.of(events.plane.kubeconfig) as client:
        yield client


@pytest.fixture
def rights(events: Installed) -> Iterator[None]:
    events.plane.kubectl("apply", "-f", str(COMPONENT / "access.yaml"))
    yield
    events.plane.kubectl("delete", "-f", str(COMPONENT / "access.yaml"))


def counted(events: Installed, result: str) -> float:
    return sum(by_replica(events, f'gpu_admission_events_total{{result="{result}"}}'))


def by_replica(events: Installed, name: str, part: str = "") -> list[float]:
    """The sum of the samples whose names begin so and have this part, as each replica tells it."""
    told = [events.metrics(number) for number in (0, 1)]
    return [sum(value for key, value in each.items() if key.startswith(name) and part in key) for each in told]


async def ours(api: Api, reason: str, name: str = "") -> list[Json]:
    found = await api.list("Event", TEAM, fieldSelector=f"reason={reason}")
    return [each for each in found if each["involvedObject"]["name"].startswith(name)]


@pytest.fixture
def waits_for_the_scheduler(events: Installed) -> Iterator[Callable[[], None]]:
    """There is no scheduler until this is called, or the test ends."""
    events.plane.stop("kube-scheduler")
    stopped = [True]

    def start() -> None:
        if stopped:
            stopped.clear()
            events.plane.start("kube-scheduler")

    yield start
    start()


async def test_a_pod_that_is_bound_elsewhere_says_so_once(
    api: Api, rights: None, waits_for_the_scheduler: Callable[[], None], events: Installed
) -> None:
    name, made = "late", pod("late", 4)

    async def ranked(**query: str) -> list[str]:
        stored = await api.create(made, TEAM, **query)
        return [entry[0] for entry in decision(stored).get("nodes", ())]

    async def all_free() -> bool:
        return len(await ranked(dryRun="All")) == len(NODES)

    await wait_until(all_free, 120, "three free nodes")
    first = (await ranked())[0]
    await api.patch("Node", first, {"spec": {"unschedulable": True}})

    async def heard() -> bool:
        return await asyncio.to_thread(by_replica, events, "gpu_admission_gpus{", 'state="unusable"') == [4, 4]

    await wait_until(heard, 120, "both replicas to hear of it")
    written = await asyncio.to_thread(by_replica, events, WRITTEN)
    await asyncio.to_thread(waits_for_the_scheduler)
    (bound,) = await api.running(TEAM, 1, app=name)

    async def told() -> list[Json]:
        return await ours(api, "BoundElsewhere", name)

    async def tried() -> bool:
        return all(now > before for now, before in zip(by_replica(events, WRITTEN), written, strict=True))

    await wait_until(told, 120, "the Event")
    await wait_until(tried, 120, "both replicas to have written it")
    (event,) = await told()
    assert event["involvedObject"]["uid"] == bound["metadata"]["uid"]
    assert event["count"] == 1
    assert event["message"].startswith(f"bound to {bound['spec']['nodeName']}, ")
    assert event["message"].endswith(f" not to {first}: that node is cordoned (spec.unschedulable)")
    snapshot = await asyncio.to_thread(load, events.plane.kubeconfig, None, KINDS)
    assert decision_of(snapshot, POLICY, pod_of(snapshot, TEAM, name))["text"] == event["message"], (
        "explain says the same"
    )
    await api.delete("Pod", name, TEAM)
    await api.patch("Node", first, {"spec": {"unschedulable": None}})


async def test_without_the_rights_it_is_counted_and_logged_once_and_nothing_else_happens(
    events: Installed, api: Api
) -> None:
    names = ["silent", "as-silent", "no-less-silent"]
    for name in names:
        await api.create(deployment(name, 1, 1, hostPID=True), TEAM)

    async def failed() -> bool:
        return await asyncio.to_thread(counted, events, "failed") >= len(names)

    await wait_until(failed, 120, "Events that cannot be written")
    lines = [line for line in events.decisions() if line.get("event") == "event not written"]
    assert 1 <= len(lines) <= len(events.members)
    assert "403" in lines[0]["why"]
    assert "events is forbidden" in lines[0]["why"]
    assert await ours(api, "PodRefused") == []
    assert decision(await api.create(pod("still-fine"), TEAM))
    for name in names:
        await api.delete("Deployment", name, TEAM)
    await api.delete("Pod", "still-fine", TEAM)


MADE = [pytest.param(deployment("web", 3, 1, hostPID=True), "ReplicaSet", id="a Deployment")]


@pytest.mark.parametrize(("made", "kind"), MADE)
async def test_the_controller_of_refused_pods_has_one_event_with_the_first_finding_and_a_count(
    made: Json, kind: str, events: Installed, api: Api, rights: None
) -> None:
    await api.create(made, TEAM)
    name = made["metadata"]["name"]

    async def repeated() -> Json | None:
        found = await ours(api, "PodRefused", name)
        return found[0] if found and found[0]["count"] > 3 else None

    event = await wait_until(repeated, 120, "an Event that is counted up")
    assert event["involvedObject"]["kind"] == kind
    assert event["message"].startswith("its pods are refused: spec.hostPID: saw true")
    assert event["message"].endswith(f"[hostNamespaces] (policy {POLICY.hash})")
    assert len(await ours(api, "PodRefused", name)) == 1
    described = events.plane.kubectl("describe", kind, event["involvedObject"]["name"], "-n", TEAM).stdout
    (line,) = [line for line in described.splitlines() if "PodRefused" in line]
    assert "gpu-admission" in line
    assert "(x" in line
    assert "[hostNamespaces]" in line
    await api.delete(made["kind"], name, TEAM)


# --- A profile in dry run ----------------------------------------------------------------------------------------------
