"""For any cluster and pods: the chosen nodes can take the pod, the order is right, and the same input gives the same
result."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.builders import GPUS
from tests.controlplane.nodes import node
from tests.effort import elsewhere, times
from tests.placement.oracle import feasible, matches, penalty
from tests.placement.placed import UPGRADE, affinity, names, placed
from tests.state.objects import GPU, placer, state, stored
from webhook.framework.cluster_view import Placement
from webhook.kube.asked import AskedPod
from webhook.placement.settings import Health, PlacementSettings
from webhook.state.state import ClusterState

_KEYS = ["zone", "size", UPGRADE]
_VALUES = ["a", "b", "3", "upgrade-failed"]


@st.composite
def _expressions(draw: st.DrawFn) -> dict[str, Any]:
    operator = draw(st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]))
    key = draw(st.sampled_from(_KEYS))
    if operator in ("In", "NotIn"):
        return {"key": key, "operator": operator, "values": draw(st.lists(st.sampled_from(_VALUES), min_size=1))}
    if operator in ("Gt", "Lt"):
        return {"key": key, "operator": operator, "values": [str(draw(st.integers(0, 5)))]}
    return {"key": key, "operator": operator}


_FIELDS = st.builds(
    lambda operator, name: {"key": "metadata.name", "operator": operator, "values": [name]},
    st.sampled_from(["In", "NotIn"]),
    st.sampled_from(["n0", "n1", "n7"]),
)
_TERMS = st.fixed_dictionaries(
    {},
    optional={"matchExpressions": st.lists(_expressions(), max_size=2), "matchFields": st.lists(_FIELDS, max_size=2)},
)
_TAINTS = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(["k", "l"]),
            "value": st.sampled_from(["", "x"]),
            "effect": st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"]),
        }
    ),
    max_size=2,
)
_TOLERATIONS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "key": st.sampled_from(["k", "l", ""]),
            "operator": st.sampled_from(["Equal", "Exists"]),
            "value": st.sampled_from(["", "x"]),
            "effect": st.sampled_from(["", "NoSchedule", "NoExecute"]),
        },
    ),
    max_size=3,
)


@st.composite
def _nodes(draw: st.DrawFn, name: str) -> dict[str, Any]:
    gpus = draw(st.sampled_from([{}, {GPU: "0"}, {GPU: "2"}, {GPU: "8"}, {GPU: "8"}, {GPU: "8"}]))
    return node(
        name,
        int(gpus.get(GPU, 0)),
        cpu=draw(st.sampled_from(["3", "8", "96"])),
        pods=draw(st.sampled_from(["1", "110", "110"])),
        labels=draw(st.dictionaries(st.sampled_from(_KEYS), st.sampled_from(_VALUES))),
        taints=draw(_TAINTS),
        conditions=draw(st.dictionaries(st.sampled_from(["GpuUnhealthy"]), st.sampled_from(["True", "False"]))),
        cordoned=draw(st.sampled_from([False, False, False, True])),
        resources=gpus,
    )


@st.composite
def _pods(draw: st.DrawFn) -> dict[str, Any]:
    spec: dict[str, Any] = {}
    if draw(st.booleans()):
        spec["nodeSelector"] = draw(st.dictionaries(st.sampled_from(_KEYS), st.sampled_from(_VALUES), max_size=1))
    preferred = draw(st.lists(st.tuples(st.integers(1, 3), _TERMS), max_size=2))
    required = draw(st.lists(_TERMS, min_size=1, max_size=2)) if draw(st.booleans()) else []
    if preferred or required:
        spec["affinity"] = affinity(*required, preferred=preferred)
    return stored(
        "p",
        draw(st.integers(1, 4)),
        owner=draw(st.sampled_from([None, "o1", "o2"])),
        tolerations=draw(_TOLERATIONS),
        **spec,
    )


_POLICY = PlacementSettings(health=Health(labels={UPGRADE: ("upgrade-failed", "drain-required")}))


@given(st.data(), st.sampled_from(["spread", "pack"]))
@times(0.6)
def test_the_chosen_nodes_are_those_that_fit_and_the_order_is_kept(data: st.DataObject, strategy: str) -> None:
    of = state()
    nodes: dict[str, dict[str, Any]] = {}
    bound: dict[str, dict[str, Any]] = {}
    for step in range(data.draw(st.integers(1, 12))):
        what = data.draw(st.sampled_from(["node", "node", "gone", "bind", "unbind", "place"]))
        name = f"n{data.draw(st.integers(0, 7))}"
        if what == "node":
            nodes[name] = data.draw(_nodes(name))
            of.node_seen(nodes[name])
        elif what == "gone" and name in nodes:
            del nodes[name]
            of.node_gone(name)
        elif what == "bind":
            made = stored(f"b{step}", data.draw(st.integers(0, 2)), on=name, owner="o1")
            bound[made["metadata"]["name"]] = made
            of.pod_seen(made, 0)
        elif what == "unbind" and bound:
            of.pod_gone(bound.pop(sorted(bound)[0]))
        made = data.draw(_pods())
        placement = placed(of, made, strategy, _POLICY)
        assert set(names(placement)) == feasible(made, nodes.values(), bound.values())
        assert sum(count for _, count in placement.rejected) == (len(nodes) if not placement.nodes else 0)
        fresh = state(nodes.values(), bound.values())
        fresh.request_counts = of.request_counts
        assert placement == _seeing_alike(fresh, of, made, strategy)
        _in_order(placement, made, nodes, bound, strategy)


def _seeing_alike(fresh: ClusterState, of: ClusterState, made: dict[str, Any], strategy: str) -> Placement:
    """The placement in `fresh` with the view of `of`: prices are as old as their view."""
    placement = placed(fresh, made, strategy, _POLICY)
    if not placement.nodes:
        return placement
    mine, other = (next(iter(placer(cluster)._rankers.values())) for cluster in (fresh, of))
    mine._view = other._view
    mine._scores.clear()
    return placed(fresh, made, strategy, _POLICY)


def _in_order(
    placement: Placement, made: dict[str, Any], nodes: dict[str, Any], bound: dict[str, Any], strategy: str
) -> None:
    wishes = ((made["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(
        "preferredDuringSchedulingIgnoredDuringExecution"
    ) or []
    owner = made["metadata"].get("ownerReferences")
    keys = []
    for ranked in placement.nodes:
        wish = sum(t["weight"] for t in wishes if matches(nodes[ranked.node], t["preference"]))
        peers = [
            b for b in bound.values()
            if owner and b["spec"]["nodeName"] == ranked.node and b["metadata"]["ownerReferences"] == owner
            and GPU in b["spec"]["containers"][0]["resources"]["limits"]
        ]  # fmt: skip
        assert ranked.peers == len(peers)
        late = penalty(made, nodes[ranked.node])
        keys.append((late, -wish, len(peers) if strategy == "spread" else 0, -ranked.score, ranked.node))
    assert keys == sorted(keys)


def chosen() -> str:
    of, found = state([node(f"gpu-{i % 7}-{i}", labels={"zone": str(i % 3)}) for i in range(40)]), []
    for i in range(60):
        made = stored(f"p{i}", 1 + i % 4, owner=f"o{i % 5}", nodeSelector={"zone": str(i % 3)})
        found.append(placed(of, made, "spread" if i % 2 else "pack"))
        of.reserve(AskedPod(made, GPUS), found[-1], 0)
    return str(found)


def test_the_answer_does_not_depend_on_the_hash_seed() -> None:
    assert elsewhere("tests.placement.test_place_properties", "chosen") == chosen()
