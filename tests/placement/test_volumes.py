"""Pods go where their volumes are, if claims and volumes are known; if not, the scheduler alone decides."""

from collections.abc import Iterable
from typing import Any

import pytest

from tests.builders import GPUS
from tests.controlplane.nodes import node
from tests.placement.placed import names, placed
from tests.state.objects import state, stored
from webhook.kube.asked import AskedPod
from webhook.placement.placer import FOLLOWS
from webhook.state.state import ClusterState

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def claim(name: str, volume: str = "", namespace: str = "team-a") -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"volumeName": volume} if volume else {}}


def volume(name: str, labels: Any = None, **where: list[str]) -> dict[str, Any]:
    """A PersistentVolume. `where`: values of node labels; each is a term, and only nodes that match one can use the volume."""
    keys = {"host": HOST, "zone": ZONE}
    terms = [{"matchExpressions": [{"key": keys[k], "operator": "In", "values": v}]} for k, v in where.items()]
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}} if terms else {}
    return {"metadata": {"name": name, "labels": labels}, "spec": affinity}


def cluster(claims: Iterable[Any], volumes: Iterable[Any], *, known: bool = True) -> ClusterState:
    """Nodes a and b in zone x, c in zone y; `a` is the fullest."""
    zones = {"a": "x", "b": "x", "c": "y"}
    of = state([node(name, labels={ZONE: zone}) for name, zone in zones.items()], [stored("there", 7, on="a")])
    if known:
        of.replace("persistentvolumeclaims", claims, 0)
        of.replace("persistentvolumes", volumes, 0)
    return of


def using(*claims: str, owner: str | None = "chat", kind: str = "ReplicaSet", **made: Any) -> dict[str, Any]:
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
    found = stored("p", owner=owner, volumes=[*volumes, {"name": "tmp", "emptyDir": {}}], **made)
    for reference in found["metadata"].get("ownerReferences", ()):
        reference["kind"] = kind
    return found


def nodes(of: ClusterState, made: dict[str, Any]) -> set[str]:
    return set(names(placed(of, made)))


@pytest.mark.parametrize(
    ("volumes", "named"),
    [
        pytest.param([volume("v")], "abc", id="every node can use it"),
        pytest.param([volume("v", host=["b"])], "b", id="a disk of a node"),
        pytest.param([volume("v", zone=["x"])], "ab", id="a zone"),
        pytest.param([volume("v", zone=["y"], host=["a"])], "ac", id="one of two terms"),
        pytest.param([volume("v", labels={ZONE: "y"})], "c", id="a zone by its label"),
        pytest.param([volume("v", labels={ZONE: "x__y"})], "abc", id="two zones by its label"),
        pytest.param([volume("v", labels={"app": "x"})], "abc", id="another label"),
        pytest.param([], "abc", id="a volume that is not known"),
    ],
)
def test_a_pod_is_ranked_where_its_volume_is(volumes: list[Any], named: str) -> None:
    assert nodes(cluster([claim("data", "v")], volumes), using("data")) == set(named)


def test_all_volumes_of_a_pod_count() -> None:
    of = cluster([claim("one", "v"), claim("two", "w")], [volume("v", zone=["x"]), volume("w", host=["b", "c"])])
    assert nodes(of, using("one", "two")) == {"b"}


def test_a_claim_of_another_namespace_is_another_claim() -> None:
    of = cluster([claim("data", "v", "team-b")], [volume("v", host=["b"])])
    assert nodes(of, using("data", owner=None)) == {"a", "b", "c"}


def test_a_volume_that_no_node_can_use_is_the_reason_in_the_record() -> None:
    found = placed(cluster([claim("data", "v")], [volume("v", host=["gone"])]), using("data"))
    assert (found.reason, found.rejected) == ("no node fits", (("its volume is elsewhere", 3),))


def test_the_first_pod_with_an_unbound_claim_gets_the_emptiest_node_and_its_replicas_follow_it() -> None:
    """The claim is bound where the first of them goes: a packed node may have no room for the others."""
    of, first = cluster([claim("data")], []), using("data")
    found = placed(of, first)
    assert found.nodes[0].node == "b"
    of.reserve(AskedPod(first, GPUS), found, 0)
    second = placed(of, using("data"))
    assert (second.nodes, second.reason) == ((), FOLLOWS)


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(using("data", kind="StatefulSet"), id="each pod of a StatefulSet has its own"),
        pytest.param(using("data", owner=None), id="a pod without an owner"),
        pytest.param(using(), id="no claim"),
    ],
)
def test_claims_that_no_other_pod_shares_do_not_change_packing(made: dict[str, Any]) -> None:
    of = cluster([claim("data")], [])
    assert placed(of, made).nodes[0].node == "a"


def test_claims_that_we_may_not_read_do_not_count() -> None:
    of = cluster([claim("data", "v")], [volume("v", host=["b"])], known=False)
    assert placed(of, using("data")).nodes[0].node == "a"


def test_a_claim_that_is_bound_later_counts_from_then_on() -> None:
    of = cluster([claim("data")], [volume("v", host=["c"])])
    assert nodes(of, using("data")) == {"a", "b", "c"}
    of.seen("persistentvolumeclaims", claim("data", "v"), 0)
    assert nodes(of, using("data")) == {"c"}
    of.forget("persistentvolumeclaims", "team-a/data")
    assert nodes(of, using("data")) == {"a", "b", "c"}
