"""LeaderWorkerSet: its webhook changes pods after ours, and each group is a gang."""

import pytest

from tests.controlplane.objects import Json, made, pod_spec
from tests.e2e.behaviour.case import RACK, ZONE, Case, Side, runs
from tests.e2e.others import kit
from tests.e2e.others.kit import WAITED, as_chosen_or, each_in_one, racks
from tests.e2e.others.room import manager
from tests.installed import decision

pytestmark = pytest.mark.others
test_with_us_and_without, test_no_pod_is_made_again = kit.test_with_us_and_without, kit.test_no_pod_is_made_again
OTHERS = {"lws": manager("config.lws.x-k8s.io/v1alpha1")}
_GROUP, _SUBGROUP = "leaderworkerset.sigs.k8s.io/group-index", "leaderworkerset.sigs.k8s.io/subgroup-index"
_EXCLUSIVE = "leaderworkerset.sigs.k8s.io/exclusive-topology"


def _set(
    groups: int, size: int, gpus: int = 8, leader: int | None = None, subgroup: int = 0, exclusive: str = ""
) -> Json:
    """`leader`: GPUs of each group's leader, if it has a template of its own."""
    group: Json = {"size": size, "workerTemplate": {"metadata": {"labels": {"app": "served"}}, "spec": pod_spec(gpus)}}
    if leader is not None:
        group["leaderTemplate"] = {"metadata": {"labels": {"app": "served"}}, "spec": pod_spec(leader)}
    if subgroup:
        group["subGroupPolicy"] = {"subGroupSize": subgroup}
    notes = {_EXCLUSIVE: exclusive} if exclusive else None
    return made(
        "LeaderWorkerSet", "served", annotations=notes, spec={"replicas": groups, "leaderWorkerTemplate": group}
    )


def chosen_alike(side: Side) -> str:
    """Their second call, when LeaderWorkerSet has labelled them, chose the node that the first one did."""
    left = [(pod["metadata"]["name"], found["left"]) for pod in side.pods if (found := decision(pod)).get("left")]
    return f"wanted one node in both calls: {left}" if left else ""


CASES = [
    Case(
        "each group runs in one zone, its leader too",
        racks(3, 2, ZONE),
        [_set(3, 2)],
        [runs(count=6), each_in_one(_GROUP, ZONE), chosen_alike],
    ),
    Case(
        "each group runs in one zone, with a leader that has a template of its own",
        racks(2, 3, ZONE),
        [_set(2, 3, leader=8)],
        [runs(count=6), each_in_one(_GROUP, ZONE), chosen_alike],
    ),
    Case(
        "each group of an exclusive set has a rack of its own, and its pods run where they were to",
        racks(3, 2),
        [_set(2, 2, exclusive=RACK)],
        [runs(count=4), each_in_one(_GROUP, RACK, apart=True), as_chosen_or(*WAITED)],
        without=[runs(count=4), each_in_one(_GROUP, RACK, apart=True)],
    ),
    Case(
        "the subgroups of a group that is larger than a rack run in one each",
        racks(2, 2),
        [_set(1, 4, subgroup=2)],
        [runs(count=4), each_in_one(_SUBGROUP, RACK), chosen_alike],
    ),
]
