"""Another hook changes the pod after ours, and the API server calls us again (reinvocation, IfNeeded)."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from tests.controlplane.nodes import node
from tests.controlplane.objects import REQUIRED, job, pod, workload
from tests.controlplane.plane import ControlPlane
from tests.e2e.behaviour.case import RACK, Case, Json, Side, as_chosen, counts, on, recorded, runs, waits
from tests.e2e.behaviour.made import goes_to, goes_to_b, taken
from tests.manifests.recorder import Recorder, allowed

A, B, C = node("a"), node("b"), node("c")
RACKS = [node(name, labels={RACK: f"r{number}"}) for number, names in ((1, "ab"), (2, "cd")) for name in names]
ON_A = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["@a"]}]}
OTHER = "behaviour/other"
"""Label of a pod: what the other hook does to it."""
GPU, TWO, CPU = ({OTHER: name} for name in ("gpu", "two", "cpu"))
FOLLOWS, LEADS, GROUP, QUEUED = ({OTHER: name} for name in ("follows", "leads", "group", "queued"))
_ADDED: dict[str, Json] = {"gpu": {"nvidia.com/gpu": "1"}, "two": {"nvidia.com/gpu": "2"}, "cpu": {"cpu": "100"}}
_JOB, _GROUP, _QUEUE = (
    "jobset.sigs.k8s.io/job-key",
    "leaderworkerset.sigs.k8s.io/group-key",
    "kueue.x-k8s.io/queue-name",
)


def _other_hook(path: str, body: bytes) -> bytes:
    found = json.loads(body)["request"]["object"]
    labels, spec = found["metadata"].get("labels", {}), found["spec"]
    does = labels.get(OTHER, "")
    if added := _ADDED.get(does):
        if any(container["name"] == "added" for container in spec["containers"]):
            return allowed(body)
        container = {"name": "added", "image": "i", "resources": {"limits": added}}
        return allowed(body, [{"op": "add", "path": "/spec/containers/-", "value": container}])
    steps = {
        # JobSet, exclusive placement: a follower gets the domain of its leader, the leader affinity (pod_webhook.go)
        "follows": [("/spec/nodeSelector", {**spec.get("nodeSelector", {}), RACK: "r2"})],
        "leads": [
            ("/metadata/labels", {**labels, _JOB: "k"}),
            ("/spec/affinity", {**spec.get("affinity", {}), **_exclusive("k")}),
        ],
        # LeaderWorkerSet: only its webhook says which pods are a group (pod_webhook.go)
        "group": [("/metadata/labels", {**labels, _GROUP: "g"})],
        # Kueue, in a namespace with a default queue (pod_webhook.go)
        "queued": [
            ("/metadata/labels", {**labels, _QUEUE: "default"}),
            ("/spec/schedulingGates", [{"name": "kueue.x-k8s.io/admission"}]),
        ],
    }.get(does, [])
    return allowed(body, [{"op": "add", "path": path, "value": value} for path, value in steps])


def _exclusive(job: str) -> Json:
    def term(operator: str) -> list[Json]:
        expressions = [{"key": _JOB, "operator": operator, "values": [job]}]
        if operator == "NotIn":
            expressions.insert(0, {"key": _JOB, "operator": "Exists"})
        return [{"labelSelector": {"matchExpressions": expressions}, "topologyKey": RACK}]

    return {"podAffinity": {REQUIRED: term("In")}, "podAntiAffinity": {REQUIRED: term("NotIn")}}


@contextmanager
def another_hook(plane: ControlPlane) -> Iterator[None]:
    with Recorder(_other_hook) as other, plane.having(other.of_new_pods(OTHER)):
        yield


_GROUP_OF_TWO = workload(
    "StatefulSet",
    "one",
    8,
    # One by one: of two at once both may be decided before the other webhook has said of either that it is of the group.
    of={"replicas": 2, "selector": {"matchLabels": {"app": "one"}}},
    labels=GROUP | {"leaderworkerset.sigs.k8s.io/name": "one"},
    annotations={"leaderworkerset.sigs.k8s.io/size": "2"},
)


def bare(side: Side) -> str:
    """Nothing that we write for nodes is left on any pod: whoever changed it has other ideas."""
    left = [
        (found["metadata"]["name"], kind)
        for found in side.pods
        for kind, what in (
            ("nodeAffinity", (found["spec"].get("affinity") or {}).get("nodeAffinity")),
            ("spread", found["spec"].get("topologySpreadConstraints")),
        )
        if what
    ]
    return f"left over: {left}" if left else ""


# Of replicas that grow all at once it is not asked where each was chosen: until a larger pod is seen, what was reserved for the
# smaller one is not free, and who comes last may find no room.
CASES = [
    goes_to_b("a pod that grew out of its node is ranked anew", labels=GPU, also=[as_chosen()]),
    goes_to(
        "a",
        "a pod that grew and still fits its node keeps it",
        [A, B],
        labels=GPU,
        there=[taken("a", 6)],
        also=[as_chosen()],
    ),
    goes_to_b(
        "a pod that grew by CPU out of its node is ranked anew",
        [node("a", cpu="64"), B],
        labels=CPU,
        also=[as_chosen()],
    ),
    Case(
        "what a pod grew to is reserved",
        [A, B, C],
        [pod("one", 4, labels=TWO), pod("two", 8)],
        [runs(), as_chosen("two")],
        there=[taken("a", 4)],
    ),
    Case("pods of a Job that grow fill two nodes", [A, B], [job("train", 8, labels=GPU)], [counts(a=4, b=4)]),
    Case(
        "a pinned pod that grew out of its node is pinned to another",
        [A, B],
        [pod("one", labels=GPU)],
        [on("b"), as_chosen(), recorded("one", unit=("nodeAffinity", "required"))],
        there=[taken("a", 7)],
        profile="pinned",
    ),
    Case(
        "a pinned pod that grew and still fits its node stays pinned to it",
        [A, B],
        [pod("one", labels=GPU)],
        [on("a"), as_chosen()],
        there=[taken("a", 6)],
        profile="pinned",
    ),
    Case(
        "a pod that grew out of the node that it requires waits for that node",
        [A, B],
        [pod("one", labels=GPU, affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [ON_A]}}})],
        [waits("one")],
        there=[taken("a", 7)],
        without=[waits("one")],
    ),
    *[
        Case(
            f"a pod of a JobSet goes where its leader is{how}",
            RACKS,
            [pod("one", 8, labels=FOLLOWS)],
            [on("c d"), as_chosen()],
            profile=profile,
        )
        for profile, how in (("default", ""), ("pinned", ", also if it is pinned"))
    ],
    *[
        Case(
            f"the leader of a JobSet goes where no other job is{how}",
            RACKS,
            [pod("one", 1, labels=LEADS)],
            [on("c d"), bare],
            there=[taken("a", 1, labels={_JOB: "other"})],
            profile=profile,
        )
        for profile, how in (("default", ""), ("pinned", ", also where pods are pinned"))
    ],
    Case(
        "the pods of a group go where all have room, though only a webhook says that they are a group",
        [RACKS[0], node("b", 4, labels={RACK: "r1"}), *RACKS[2:]],
        [_GROUP_OF_TWO],
        [counts(c=1, d=1)],
    ),
    Case(
        "a pod that a queue holds keeps nothing that we chose",
        [A, B],
        [pod("one", labels=QUEUED)],
        [waits("one"), bare],
        without=[waits("one")],
    ),
    goes_to("a b", "a pod that had no GPU before runs: the API server does not call us for it", [A, B], 0, labels=GPU),
]
