"""Another hook changes the pod after ours, and the API server calls us again (reinvocation, IfNeeded)."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from tests.controlplane.nodes import node
from tests.controlplane.objects import REQUIRED, job, pod
from tests.controlplane.plane import ControlPlane
from tests.e2e.behaviour.case import Case, Json, as_chosen, counts, on, recorded, runs, waits
from tests.e2e.behaviour.made import goes_to, goes_to_b, taken
from tests.manifests.recorder import Recorder, allowed

A, B, C = node("a"), node("b"), node("c")
ON_A = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["@a"]}]}
SIDECAR = "behaviour/sidecar"
"""Label of a pod: the requests of the container that the other hook adds, as JSON in a label's letters."""
GPU, TWO, CPU = ({SIDECAR: name} for name in ("gpu", "two", "cpu"))
_ADDED: dict[str, Json] = {
    "gpu": {"nvidia.com/gpu": "1"},
    "two": {"nvidia.com/gpu": "2"},
    "cpu": {"cpu": "100"},
}


def _other_hook(path: str, body: bytes) -> bytes:
    found = json.loads(body)["request"]["object"]
    added = _ADDED.get(found["metadata"].get("labels", {}).get(SIDECAR, ""))
    if not added or any(container["name"] == "added" for container in found["spec"]["containers"]):
        return allowed(body)
    container = {"name": "added", "image": "i", "resources": {"limits": added}}
    return allowed(body, [{"op": "add", "path": "/spec/containers/-", "value": container}])


@contextmanager
def another_hook(plane: ControlPlane) -> Iterator[None]:
    with Recorder(_other_hook) as other, plane.having(other.of_new_pods(SIDECAR)):
        yield


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
    goes_to("a b", "a pod that had no GPU before runs: the API server does not call us for it", [A, B], 0, labels=GPU),
]
