"""What several of these tables have: nodes in domains, and checks of pods that belong together by a label."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from tests.controlplane.nodes import node
from tests.controlplane.objects import Json
from tests.e2e.behaviour.case import RACK, Check, Side
from tests.e2e.behaviour.play import Played
from tests.e2e.others.room import Room
from tests.installed import decision

WAITED = ("pod affinity", "no node fits")
"""Why no node is chosen for pods of exclusive placement. The first says what it is near; the others are refused until that one
is bound, and what is reserved for a refused pod counts for some seconds. All go to their domain by its selector."""


def racks(count: int, size: int, key: str = RACK) -> list[Json]:
    """So many domains of nodes of 8 GPUs, each side's own: JobSet keeps Jobs of all namespaces out of one that is taken."""
    names = [(f"{domain}-{number}", f"@domain-{domain}") for domain in range(count) for number in range(size)]
    return [node(name, 8, labels={key: domain}) for name, domain in names]


def each_in_one(label: str, key: str, apart: bool = False) -> Check:
    """Pods that have one value of `label` run in one domain; `apart`: no others run there."""

    def check(side: Side) -> str:
        found: dict[str, set[str]] = defaultdict(set)
        for pod in side.running:
            found[pod["metadata"]["labels"][label]].add(side.labels[side.node(pod)][key])
        taken = [domain for domains in found.values() for domain in domains]
        if len(taken) == len(found) and (len(set(taken)) == len(taken) or not apart):
            return ""
        return f"wanted each {label} in one {key}{' of its own' * apart}: {dict(found)}"

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


def assert_made_once(room: Room, played: Mapping[str, Played]) -> None:
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
