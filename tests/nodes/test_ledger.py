"""The arrows of the diagram in the ledger: what each story of reservations and pods leaves, on three nodes of 8 GPUs."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.builders import GPUS
from tests.controlplane.nodes import node
from tests.placement.placed import affinity, expression
from tests.state.objects import Object, admitted, free, state, stored
from webhook.framework.cluster_view import Placement, Ranked
from webhook.kube.asked import AskedPod
from webhook.nodes.ledger import Counts
from webhook.state.state import ClusterState

A, B, C = "gpu-a", "gpu-b", "gpu-c"
Step = Callable[[ClusterState], object]
NONE = (8, 8, 8)


def chosen(*names: str) -> Placement:
    return Placement(tuple(Ranked(name, 8, 0, 1.0) for name in names), "pack")


def asked(made: Object, *names: str) -> Step:
    """The pod is admitted with these ranked nodes."""
    return lambda of: of.reserve(AskedPod(admitted(made), GPUS), chosen(*names), 0)


def seen(made: Object, at: float = 1) -> Step:
    return lambda of: of.pod_seen(made, at)


def gone(made: Object) -> Step:
    return lambda of: of.pod_gone(made)


def time(now: float) -> Step:
    return lambda of: of.expire(now)


def after(*steps: Step) -> ClusterState:
    of = state([node(A), node(B), node(C)])
    for step in steps:
        step(of)
    return of


def gpus(of: ClusterState) -> tuple[int, ...]:
    """The free GPUs of each node, as the tenant of the reservations sees them."""
    of.usage.seen_from("team-a")
    return tuple(free(of, name) for name in (A, B, C))


def written(made: Object, **metadata: Any) -> Object:
    return made | {"metadata": made["metadata"] | metadata}


def noted(text: str) -> Object:
    """A pod with this text as its decision."""
    return written(stored("p", ranked=[A]), annotations={"gpu-admission.io/decision": text})


def preferring(term: Object) -> Object:
    """A pod for which A is ranked, with another preferred term."""
    made = stored("p", ranked=[A])
    made["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"][0]["preference"] = term
    return made


def of_owner(**more: Any) -> Object:
    return stored("p", owner="o", **more)


def moved(*to: str) -> Object:
    """A pod that had A by an earlier call of the hook."""
    made = stored("p", ranked=to)
    record = json.loads((made["metadata"].get("annotations") or {}).get("gpu-admission.io/decision", "{}"))
    return written(made, annotations={"gpu-admission.io/decision": json.dumps(record | {"left": A})})


WAITS = stored("p", ranked=[A])
"""A pod that is not bound yet."""
BOUND = stored("p", ranked=[A], on=A)
BY_FIELD = affinity(expression("metadata.name", "In", A, part="matchFields"))
BY_HOST = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [A]}]}
NOTHING = [
    pytest.param([asked(stored("p"))], id="no node fits"),
    pytest.param([seen(stored("p", ranked=[A], prefers=[]))], id="the spec prefers no node"),
    pytest.param([seen(stored("p", ranked=[A], prefers=[B, A]))], id="the spec prefers another node more"),
    pytest.param([seen(stored("p", ranked=[A], prefers=[B]))], id="the spec prefers another node only"),
    pytest.param([seen(stored("p", ranked=[A], schedulerName="mine"))], id="another scheduler's pod"),
    pytest.param([seen(stored("p", ranked=[A], schedulingGates=[{"name": "g"}]))], id="a gated pod"),
    pytest.param([seen(noted("{"))], id="a decision that is cut"),
    pytest.param([seen(noted('{"nodes":[[]]}'))], id="a decision without a name of a node"),
    pytest.param([seen(noted("x" * 100_000))], id="a decision that is too long"),
]


@pytest.mark.parametrize("steps", NOTHING)
def test_nothing_is_held(steps: list[Step]) -> None:
    of = after(*steps)
    assert (gpus(of), of.ledger.counts) == (NONE, Counts(0, 0))


OTHER_REPLICA = [seen(stored("p", 4, ranked=[B, A]))]
TWO = [asked(of_owner(), A), asked(of_owner(gpus=2), A), seen(of_owner(gpus=2, ranked=[A]))]
THREE = [*[asked(of_owner(), A)] * 3, *[seen(stored(name, owner="o", ranked=[A])) for name in ("p1", "p2", "p2")]]
REFUSED = [asked(stored("p"), A), asked(stored("refused"), B), seen(WAITS), time(10)]
NOWHERE = [asked(stored("p"), A), seen(stored("p", ranked=[A], unschedulable=True))]
LATE = [asked(stored("p"), A), seen(WAITS), time(31)]
PHASES = [seen(stored("p", ranked=[A], on=A, phase=phase)) for phase in ("", "Pending", "Running")]
ELSEWHERE = {A: ("first", (7, 8, 8)), B: ("ranked", (8, 7, 8)), C: ("other", (8, 8, 7))}
STORIES = [
    pytest.param([asked(stored("p", 2), A, B)], (6, 8, 8), (1, 0), {}, id="on the first of its nodes"),
    pytest.param([asked(stored("p"), A), time(9.9)], (7, 8, 8), (1, 0), {}, id="not seen for a while"),
    pytest.param([asked(stored("p"), A), time(10)], NONE, (0, 0), {"expired": 1}, id="not seen for too long"),
    pytest.param([asked(stored("p"), A), lambda of: of.view(31)], NONE, (0, 0), {"expired": 1}, id="a view ends it"),
    pytest.param([asked(stored("p"), A), time(10), seen(WAITS, 11)], (7, 8, 8), (0, 1), {"expired": 1}, id="seen after that"),
    pytest.param([asked(stored("p"), A), seen(WAITS)], (7, 8, 8), (0, 1), {}, id="seen, by its name"),
    pytest.param([asked(of_owner(), A), seen(of_owner(ranked=[A, B]))], (7, 8, 8), (0, 1), {}, id="seen, by its owner"),
    pytest.param([asked(written(stored("x"), generateName="p-"), A), seen(written(WAITS, generateName="p-"))],
                 (7, 8, 8), (0, 1), {}, id="seen, by its generated name"),
    pytest.param(REFUSED, (7, 8, 8), (0, 1), {"expired": 1}, id="one that is seen keeps no later one from expiring"),
    pytest.param(OTHER_REPLICA, (8, 4, 8), (0, 1), {}, id="admitted by another replica"),
    pytest.param([seen(stored("p", ranked=[A], prefers=[], affinity=BY_FIELD))], (7, 8, 8), (0, 1), {}, id="a required node"),
    pytest.param([seen(preferring(BY_HOST))], (7, 8, 8), (0, 1), {}, id="preferred by its host name"),
    pytest.param([asked(stored("p", owner="o1"), A), seen(stored("q", owner="o2", ranked=[A]))],
                 (6, 8, 8), (1, 1), {}, id="another pod is seen"),
    pytest.param([asked(of_owner(gpus=2), A), seen(of_owner(ranked=[A]))], (5, 8, 8), (1, 1), {}, id="for other GPUs"),
    pytest.param(TWO, (5, 8, 8), (1, 1), {}, id="of different requests of one owner its own"),
    pytest.param([*TWO, time(10)], (6, 8, 8), (0, 1), {"expired": 1}, id="the other one expires"),
    pytest.param(THREE, (5, 8, 8), (1, 2), {}, id="equal ones, one by one"),
    *[pytest.param([asked(of_owner(), A, B), *before, seen(of_owner(ranked=[A, B], on=on), 2)],
                   left, (0, 0), {where: 1, "bound": 1}, id=f"bound, {where}, {len(before)} before")
      for on, (where, left) in ELSEWHERE.items() for before in ([], [seen(of_owner(ranked=[A, B]))])],
    pytest.param([asked(stored("p"), A), asked(stored("p"), B), seen(moved(B))],
                 (8, 7, 8), (0, 1), {"left": 1}, id="another webhook changed it: moved"),
    pytest.param([asked(stored("p"), A), seen(moved())], NONE, (0, 0), {"left": 1}, id="moved, no node is chosen any more"),
    pytest.param([asked(stored("p", 2), A), seen(moved(B))], (6, 7, 8), (1, 1), {}, id="moved, nothing alike is reserved"),
    pytest.param([seen(BOUND)], (7, 8, 8), (0, 0), {}, id="bound before it was seen"),
    pytest.param([asked(stored("p"), A), *PHASES], (7, 8, 8), (0, 0), {"first": 1, "bound": 1}, id="bound, and seen again"),
    pytest.param([asked(stored("p"), A), seen(WAITS), gone(WAITS)], NONE, (0, 0), {"gone": 1}, id="deleted"),
    pytest.param([asked(stored("p"), A), seen(WAITS), seen(stored("p", ranked=[A], phase="Failed"))],
                 NONE, (0, 0), {"gone": 1}, id="failed"),
    pytest.param([seen(WAITS), lambda of: of.replace("pods", [], 2)], NONE, (0, 0), {"gone": 1}, id="missing in a list"),
    pytest.param([*NOWHERE, seen(WAITS), gone(WAITS)], NONE, (0, 0), {"unschedulable": 1}, id="fits nowhere"),
    pytest.param([*LATE[:2], time(30.9)], (7, 8, 8), (0, 1), {}, id="waits"),
    pytest.param([*LATE, seen(WAITS, 40)], NONE, (0, 0), {"expired": 1}, id="waits too long"),
    pytest.param([*LATE, seen(BOUND, 50)], (7, 8, 8), (0, 0), {"expired": 1, "first": 1, "bound": 1}, id="bound after that"),
]  # fmt: skip


@pytest.mark.parametrize(("steps", "left", "counts", "told"), STORIES)
def test_what_is_held(steps: list[Step], left: tuple[int, ...], counts: tuple[int, int], told: dict[str, int]) -> None:
    of = after(*steps)
    assert (gpus(of), of.ledger.counts) == (left, counts)
    assert {name: count for name, count in {**of.ledger.honoured, **of.ledger.ended}.items() if count} == told
    of.replace("pods", [], 100)
    of.expire(1000)
    assert (gpus(of), of.usage.peers, of.usage._kinds, of.ledger._reserved) == (NONE, {}, {}, {}), "no rest is kept"


@pytest.mark.parametrize(
    "before",
    [pytest.param([seen(of_owner(ranked=[A]))], id="seen, then bound"), pytest.param([], id="seen bound at once")],
)
def test_a_pod_that_is_bound_where_it_was_reserved_changes_nothing_there(before: list[Step]) -> None:
    of = after(asked(of_owner(), A))
    peers = {"team-a/o": {of.nodes.row_of[A]: 1}}
    assert of.usage.peers == peers, "a reservation is a peer of its owner"
    position = of.nodes.columns.changes.position
    for step in (*before, seen(of_owner(ranked=[A], on=A), 2)):
        step(of)
    assert (of.nodes.columns.changes.position, of.usage.peers, gpus(of)) == (position, peers, (7, 8, 8))


@pytest.mark.parametrize("last", [pytest.param({}, id="seen"), pytest.param({"on": A}, id="bound")])
def test_what_another_webhook_added_is_held_once_the_pod_is_seen(last: Any) -> None:
    of = after(asked(of_owner(), A), seen(of_owner(ranked=[A], limits={"cpu": "5"}, **last)))
    assert (free(of, A, "cpu"), gpus(of), of.ledger.counts.reserved) == (123_000, (7, 8, 8), 0)


def test_of_reservations_with_equal_gpus_a_pod_uses_up_the_one_of_its_requests() -> None:
    small, large = (of_owner(ranked=[A], limits={"cpu": cpu}) for cpu in ("4", "20"))
    of = after(asked(small, A), asked(large, A))
    gpus(of)
    held = free(of, A, "cpu")
    of.pod_seen(large, 1)
    assert (free(of, A, "cpu"), of.ledger.counts) == (held, Counts(1, 1))


def test_a_pod_without_a_gpu_that_has_ranked_nodes_is_held_there() -> None:
    """`placement.everyPod`. Its requests do not count as recent GPU requests."""
    made = stored("p", gpus=0, ranked=[A])
    for steps in (
        [asked(made, A), seen(made)],
        [asked(made, A), seen(made), seen(stored("p", gpus=0, on=A), 2)],
        [asked(made, A), seen(made), seen(stored("p", gpus=0, ranked=[A], on=A), 2)],
    ):
        of = after(*steps)
        assert free(of, A, "cpu") == 124_000, "once, also if its author took the record away"
    assert of.ledger.honoured["first"] == 1
    assert of.request_counts.popular({}, ("nvidia.com/gpu",)) == ()


def test_a_reservation_on_a_node_that_is_deleted_does_not_outlive_it() -> None:
    of = after(asked(stored("p"), A), lambda of: of.node_gone(A), time(30))
    assert A not in of.nodes.row_of


@pytest.mark.parametrize("namespace", ["team-a", "team-b"], ids=["of its own namespace", "seen from another"])
def test_what_is_reserved_for_a_pod_may_be_looked_past(namespace: str) -> None:
    """The second call for the pod: what the first one reserved is the pod's own. `seen_from` may change meanwhile."""
    made = stored("p", 3, ranked=[A])
    of = after(asked(made, A), asked(made, A))
    key = AskedPod(admitted(made), GPUS).identity.key
    of.usage.seen_from(namespace)
    before = free(of, A), of.ledger.counts
    with of.ledger.without(key, A) as reserved:
        assert reserved
        of.usage.seen_from("")
        of.usage.seen_from("team-a")
        assert gpus(of) == (5, 8, 8), "one of two"
    of.usage.seen_from(namespace)
    assert (free(of, A), of.ledger.counts) == before
    assert gpus(of) == (2, 8, 8)
    with of.ledger.without(key, B) as reserved:
        assert not reserved
    of.node_gone(A)
    with of.ledger.without(key, A) as reserved:
        assert not reserved
