"""Three nodes, and reservations on them, for the tests of the ledger."""

from __future__ import annotations

from typing import Any

from tests.cluster.objects import admitted, free, node, state
from webhook.cluster.pods import reservation_request
from webhook.cluster.state import ClusterState
from webhook.framework.cluster_view import Placement, Ranked

A, B, C = "gpu-a", "gpu-b", "gpu-c"


def three(**settings: Any) -> ClusterState:
    return state([node(A), node(B), node(C)], ttl=30.0, unseen_ttl=10.0, **settings)


def chosen(*names: str) -> Placement:
    return Placement(tuple(Ranked(name, 8, 0, 1.0) for name in names), "pack")


def reserved(made: dict[str, Any], *names: str) -> ClusterState:
    """A state of three nodes in which the pod was admitted with these ranked nodes."""
    of = three()
    of.reserve(reservation_request(admitted(made)), chosen(*names), 0)
    return of


def free_cpu(of: ClusterState, name: str) -> int:
    return int(of.nodes.columns.free["cpu"][of.nodes.row_of[name]])


def gpus(of: ClusterState) -> tuple[int, int, int]:
    """The free GPUs of each node, as the tenant of the reservations sees them."""
    of.usage.seen_from("team-a")
    return free(of, A), free(of, B), free(of, C)
