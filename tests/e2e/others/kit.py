"""What several of these tables have: nodes in domains, checks of pods that belong together by a label, and tests."""

import asyncio
import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.cli.objects import document
from tests.controlplane import clusters
from tests.controlplane.api import Api, ApiError, wait_until
from tests.controlplane.fixtures import remove_namespace
from tests.controlplane.nodes import node
from tests.controlplane.objects import Json, made
from tests.e2e.behaviour.case import RACK, Case, Check, Side
from tests.e2e.behaviour.play import Played, judged
from tests.e2e.others.room import Room
from tests.installed import decision, opt_in

WAITED = ("pod affinity", "no node fits")
"""Why no node is chosen for pods of exclusive placement. The first says what it is near; the others are refused until that one
is bound, and what is reserved for a refused pod counts for some seconds. All go to their domain by its selector."""


def racks(count: int, size: int, key: str = RACK) -> list[Json]:
    """So many domains of nodes of 8 GPUs, each side's own: JobSet keeps Jobs of all namespaces out of one that is taken."""
    names = [(f"{domain}-{number}", f"@domain-{domain}") for domain in range(count) for number in range(size)]
    return [node(name, 8, labels={key: domain}) for name, domain in names]


def each_in_one(label: str, key: str, apart: bool = False) -> Check:
    """Pods that have one value of `label` run in one domain; `apart`: none with another value run there."""

    def check(side: Side) -> str:
        found: dict[str, set[str]] = defaultdict(set)
        for pod in [each for each in side.running if label in each["metadata"]["labels"]]:
            found[pod["metadata"]["labels"][label]].add(side.labels[side.node(pod)][key])
        taken = [domain for domains in found.values() for domain in domains]
        if len(taken) == len(found) and (len(set(taken)) == len(taken) or not apart):
            return ""
        return f"wanted each {label} in one {key}{' of its own' * apart}: {dict(found)}"

    return check


def of_gpus_in_one(key: str) -> Check:
    """Those with GPUs run in one domain."""

    def check(side: Side) -> str:
        found = {side.labels[side.node(each)][key] for each in side.running if has_gpus(each)}
        return "" if len(found) == 1 else f"wanted in one {key}: {found}"

    return check


def as_chosen_or(*reasons: str) -> Check:
    """They run where they were ranked first, or no node was chosen for them, and the record has one of these reasons."""

    def check(side: Side) -> str:
        records = [(pod, decision(pod)) for pod in side.pods]
        wrong = [
            (pod["metadata"]["name"], pod["spec"].get("nodeName"), found.get("nodes"), found.get("why"))
            for pod, found in records
            if found.get("why") not in reasons and found.get("nodes", [[None]])[0][0] != pod["spec"].get("nodeName")
        ]
        return f"wanted where it was ranked first, or none for {reasons}: {wrong}" if wrong else ""

    return check


def test_with_us_and_without(case: Case, played: dict[str, Played]) -> None:
    judged(case, played)


def test_no_pod_is_made_again(played: dict[str, Played], room: Room) -> None:
    """No controller took what we add for a change to undo: of all pods that were created until the last one, each is there."""
    room.check()
    made = [event["responseObject"]["metadata"] for event in room.plane.audit_events() if _stored(event)]
    for case, sides in played.items():
        for side in sides:
            there = {pod["metadata"]["uid"] for pod in side.pods}
            last = max(pod["metadata"]["creationTimestamp"] for pod in side.pods)
            earlier = [each for each in made if each["namespace"] == side.tag and each["creationTimestamp"] <= last]
            gone = [each["name"] for each in earlier if each["uid"] not in there]
            assert not gone, f"{case}: {side.tag}: {gone} are not there any more"


def _stored(event: Mapping[str, Any]) -> bool:
    return event["responseStatus"]["code"] == 201 and "dryRun" not in event["requestURI"]


async def said_of(room: Room, name: str, team: str) -> list[Json]:
    """What `why` says of a workload."""
    asked = ("why", name, "-n", team, "--kubeconfig", room.plane.kubeconfig)
    return list(await asyncio.to_thread(document, *asked))


async def follow(room: Room, kind: str, spec: Callable[[bool], Json], before: Sequence[Json] = ()) -> None:
    """What `why` says of an object of this kind, with workers that need two nodes: suspended, then beside one node, then two.

    `spec`: of the object, suspended or not. `before`: what has to be there before it.
    """
    nodes, name = [node(f"follow-{number}", 8) for number in range(2)], f"{kind.lower()}/fit"
    async with Api.of(room.plane.kubeconfig) as api:
        team = await api.namespace(f"team-{uuid.uuid4().hex[:6]}")

        async def why() -> list[Json]:
            return await said_of(room, name, team)

        async def created() -> bool:
            try:
                await api.create(made(kind, "fit", spec=spec(True)), team)
            except ApiError as error:  # its webhook has not heard of what was created before
                raise AssertionError(str(error)) from None
            return True

        async def suspended() -> bool:  # a list of Jobs may have what was made after the list of those that own them
            found = await why()
            assert [(each["name"], *[cause["cause"] for cause in each["causes"]]) for each in found] == [
                (name, "suspended")
            ], found
            assert {"patch", name} <= {*found[0]["causes"][0]["fixes"][0]["command"]}
            return True

        async def one_waits() -> bool:
            workers = [each for each in await api.pods(team) if has_gpus(each)]
            assert [bool(each["spec"].get("nodeName")) for each in workers].count(True) == 1, f"{len(workers)} workers"
            waiting = [[cause["cause"] for cause in each["causes"]][:1] for each in await why() if each["causes"]]
            assert waiting == [["gpusTaken"]], waiting
            return True

        async def all_run() -> bool:
            workers = [each for each in await api.pods(team) if has_gpus(each)]
            phases = [each["status"].get("phase") for each in workers]
            assert phases == ["Running"] * 2, f"phases {phases}"
            assert all(decision(each) for each in workers), "a worker without a decision"
            waiting = [(each["name"], each["causes"][0]["cause"]) for each in await why() if each["causes"]]
            assert not waiting, f"{waiting}"
            return True

        try:
            await opt_in(api, team)
            await clusters.apply(api, nodes[:1])
            for each in before:
                await api.create(each, team)
            await wait_until(created, 120, f"{name} created", 1)
            await wait_until(suspended, 120, f"{name} to be suspended, and nothing else to be said", 1)
            assert not await api.pods(team)
            await api.patch(kind, "fit", {"spec": spec(False)}, team)
            await wait_until(one_waits, 120, "a worker to wait for GPUs", 1)
            await clusters.apply(api, nodes[1:])
            await wait_until(all_run, 120, "both workers to run", 1)
        finally:
            await api.delete(kind, "fit", team, missing_ok=True)
            await remove_namespace(api, team)
            await clusters.remove(api, [each["metadata"]["name"] for each in nodes])
    room.check()


def has_gpus(pod: Json) -> bool:
    return any(
        "nvidia.com/gpu" in (each.get("resources") or {}).get("limits", {}) for each in pod["spec"]["containers"]
    )
